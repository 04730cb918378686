// Package command is the command line of causalstore: one constructor per subcommand.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// errSilent ends a command whose output has said already what was wrong.
var errSilent = errors.New("failed")

// NewRoot returns the whole command tree, with more commands than those of this package.
func NewRoot(more ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "causalstore",
		Short: "Causal consistency across regions for the Redis clients you already have",
		Long: `CausalStore makes unmodified Redis clients causally consistent across regions, with one copy of the data
per ring of data centres, mostly local reads, local writes, and no availability lost when a zone goes.

Try it:   causalstore local      eight regions in three rings on this machine, with real WAN delays
          redis-cli -p 7001      us-east-1; 7002 is us-west-1, and so on`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(NewSidecarCommand(), NewCoordinatorCommand(), NewMiddlemanCommand(), NewCacheCommand())
	root.AddCommand(NewDemoCommand(), NewLocalCommand(), NewBenchCommand(), NewLoadCommand(), NewCheckCommand(), NewSimCommand())
	root.AddCommand(NewPlanCommand(), NewCostCommand())
	root.AddCommand(more...)
	return root
}

// Execute runs the command line, with more commands, and returns the exit code.
func Execute(ctx context.Context, more ...*cobra.Command) int {
	err := NewRoot(more...).ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, errSilent) {
		fmt.Fprintln(os.Stderr, "causalstore:", err)
	}
	return 1
}
