package command

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/bench"
)

// NewBenchCommand returns `causalstore bench`, with a subcommand for each experiment.
func NewBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench",
		Short: "Measure the overhead, the gains, the memory, the idle cost, the availability and pairs of regions " +
			"on this machine",
		Long: `Measures deployments on this machine and prints the goals beside the results.
Systems that are compared take turns within one run. Missing a goal is not an error.`,
	}
	for _, e := range bench.Experiments() {
		sub := &cobra.Command{
			Use: strings.TrimSpace(e.Name + " " + e.Args), Short: e.Short, Long: e.Long, Example: e.Example,
			RunE: func(cmd *cobra.Command, args []string) error {
				return e.Run(cmd.Context(), cmd.CommandPath(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			},
		}
		if e.Args == "" {
			sub.Args = cobra.NoArgs
		}
		e.Declare(sub.Flags())
		cmd.AddCommand(sub)
	}
	return cmd
}
