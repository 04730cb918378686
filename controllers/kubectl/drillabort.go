package kubectl

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/controllers/drill"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

func (c *cluster) drillAbortCommand(f *drillFlags) *cobra.Command {
	return &cobra.Command{
		Use: "abort", Short: "End the run that is under way: delete its experiments, heal, report", Args: cobra.NoArgs,
		Long: `Deletes the experiments of the run that is under way, and asks the command that
runs it to heal and report. It works as well if that command has died: two minutes later, abort the
run again, and it is kept as aborted.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			runs, err := k.drillRuns(cmd.Context(), s)
			if err != nil {
				return err
			}
			aborted := 0
			for _, r := range runs {
				if r.Outcome != record.Running {
					continue
				}
				known, err := drill.Abort(cmd.Context(), k, r, "kubectl causal drill abort")
				if err != nil {
					return err
				}
				aborted++
				what := "the command that ran it has died; it is kept as aborted"
				if !known.IsZero() {
					what = fmt.Sprintf(
						"the command that runs it heals and reports; if that was killed, abort it again after %s",
						known.Format(time.RFC3339))
				}
				fmt.Fprintf(cmd.OutOrStdout(), "run %s of drill %s: its experiments are deleted; %s\n", r.ID,
					r.Drill, what)
			}
			if aborted == 0 {
				return fmt.Errorf("no drill of %s is under way", s.Name)
			}
			return nil
		},
	}
}
