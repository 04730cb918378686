// Package command implements the subcommands of causalstore that measure, check and demonstrate deployments.
package command

import "github.com/spf13/cobra"

// NewCommands returns the subcommands that measure, check and demonstrate.
func NewCommands() []*cobra.Command {
	return []*cobra.Command{
		NewDemoCommand(), NewLocalCommand(), NewBenchCommand(), NewLoadCommand(), NewCheckCommand(), NewSimCommand(),
		NewPlanCommand(), NewCostCommand(), NewCanaryCommand(),
	}
}
