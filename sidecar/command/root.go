// Package command implements the root command of causalstore, and the subcommands that run one part of the data plane
// each.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/version"
)

// ErrSilent is returned by a command that has already printed what went wrong.
var ErrSilent = errors.New("failed")

// Options are what a program adds to the commands of the parts.
type Options struct {
	// EmulateWAN delays what goes to other data centers. It is for tests that run a deployment on one machine.
	EmulateWAN bool
	// Commands are the subcommands beside those of the parts.
	Commands []*cobra.Command
}

// NewRoot returns the root command with the subcommands of the parts, and those in more.
func NewRoot(more ...*cobra.Command) *cobra.Command { return newRoot(Options{Commands: more}) }

func newRoot(o Options) *cobra.Command {
	root := &cobra.Command{
		Use:   "causalstore",
		Short: "Causal consistency across regions for the Redis clients you already have",
		Long: `CausalStore gives unmodified Redis clients causal consistency across regions. It
keeps one copy of the data per ring of data centers, reads mostly locally, writes locally, and stays
available when a zone fails.

Try it:   causalstore local      eight regions in three rings on this machine, with emulated WAN delays
          redis-cli -p 7001      connects to us-east-1; 7002 is us-west-1, and so on`,
		Version:       version.Describe(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	for _, newCommand := range []func(Options) *cobra.Command{newSidecarCommand, newCoordinatorCommand,
		newMiddlemanCommand, newCacheCommand, newIdentityCommand, newRecoverCommand} {
		root.AddCommand(newCommand(o))
	}
	root.AddCommand(newVersionCommand())
	root.AddCommand(o.Commands...)
	checkArguments(root)
	return root
}

// newVersionCommand prints what --version does.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Show the version and the revision of this program",
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "causalstore version "+version.Describe())
		}}
}

// Execute runs the command line with the subcommands of the parts and those in more, and returns the exit code.
func Execute(ctx context.Context, more ...*cobra.Command) int {
	return ExecuteWith(ctx, Options{Commands: more})
}

// ExecuteWith runs the command line with options, and returns the exit code.
func ExecuteWith(ctx context.Context, o Options) int {
	limitMemory(memlimit.FromCgroup)
	err := newRoot(o).ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if !errors.Is(err, ErrSilent) {
		fmt.Fprintln(os.Stderr, "causalstore:", err)
	}
	if own := (interface{ ExitCode() int })(nil); errors.As(err, &own) {
		return own.ExitCode()
	}
	return 1
}
