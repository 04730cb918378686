// Command causalstore is the one binary of CausalStore: each part of the data plane is a subcommand.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/causalstore/causalstore/sidecar/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Execute(ctx)
	stop()
	os.Exit(code)
}
