// Command causalstore is the one binary of CausalStore: each part of the data plane is a subcommand, and so is the operator.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	controllers "github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/sidecar/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Execute(ctx, controllers.NewOperatorCommand())
	stop()
	os.Exit(code)
}
