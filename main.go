// Command causalstore is the one binary of CausalStore: each part of the data plane is a subcommand, and so is the
// operator.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	operator "github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/kubectl"
	lab "github.com/causalstore/causalstore/lab/command"
	"github.com/causalstore/causalstore/sidecar/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // whoever is asked a second time to end, ends at once
	switch filepath.Base(os.Args[0]) {
	case kubectl.PluginName:
		os.Args = append([]string{os.Args[0], "kubectl"}, os.Args[1:]...)
	case kubectl.CompletionName:
		os.Args = append([]string{os.Args[0], cobra.ShellCompRequestCmd, "kubectl"}, os.Args[1:]...)
	}
	commands := append(lab.NewCommands(), operator.NewOperatorCommand(), operator.NewRedirectCommand(),
		operator.NewEtcdMemberCommand(), kubectl.NewCommand())
	code := command.Execute(ctx, commands...)
	stop()
	os.Exit(code)
}
