package kubectl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/controllers/drill"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

func (c *cluster) drillCleanupCommand(f *drillFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "cleanup",
		Short: "List what runs whose command died have left behind: canaries, experiments, the lock; remove it " +
			"with --yes", Args: cobra.NoArgs,
		Long: `Lists canaries and experiments of runs that are not under way, and a lock that
has expired, and removes them with --yes. A run removes what it creates, also if it is aborted. If
its command is killed, experiments and canaries end by themselves after their time, and this removes
their objects. Keys of canaries expire.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, s, err := c.drillStore(cmd.Context(), f)
			if err != nil {
				return err
			}
			all, held, err := drill.FindRemainders(cmd.Context(), k, s.Namespace, s.Name)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if held != nil {
				fmt.Fprintf(out,
					"run %s is under way, or its command was killed: drill abort ends its faults; what it leaves can "+
						"be removed after %s\n", held.Labels[record.LabelRun],
					held.Annotations[record.AnnotationExpires])
			}
			for _, r := range all {
				fmt.Fprintln(out, r)
			}
			switch {
			case len(all) == 0:
				fmt.Fprintf(out, "runs of %s that have ended have left nothing behind\n", s.Name)
			case !f.yes:
				fmt.Fprintf(out, "%d objects; kubectl causal drill cleanup --store %s -n %s --yes removes them\n",
					len(all), s.Name, s.Namespace)
			default:
				if err := drill.RemoveRemainders(cmd.Context(), k, all); err != nil {
					return err
				}
				fmt.Fprintf(out, "%d objects removed\n", len(all))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.yes, "yes", false, "remove what was found")
	return cmd
}
