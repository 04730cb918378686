package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/lab/demo"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/command"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// demoFlags are the flags of `causalstore demo`.
type demoFlags struct {
	port      int
	adminPort int
	noWait    bool
	speed     string
}

// speeds are the times that the reader gets per letter.
var speeds = map[string]time.Duration{"slow": 30 * time.Millisecond, "normal": 12 * time.Millisecond, "fast": 0}

// NewDemoCommand returns `causalstore demo`.
func NewDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a guided tour of a deployment on this machine, in about a minute",
		Long: `Starts the same deployment as ` + "`causalstore local`" +
			`, eight regions in three rings with the delays of a real WAN, and uses it to show what
causal consistency means and what it costs, including when a data center is cut off and a shard
dies. All times and values are measured while they are shown. If a statement does not hold, the tour
says so and the exit code is 1.

Afterwards the deployment keeps running for any Redis client until it is interrupted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.port, "port", 7001,
		"Redis port of the first data center; the others use the next ports; 0 chooses free ports")
	fs.IntVar(&f.adminPort, "admin-port", 7000, "port of the admin address; 0 chooses a free port")
	fs.BoolVar(&f.noWait, "no-wait", false, "stop after the tour")
	fs.StringVar(&f.speed, "speed", "normal", "how long to pause for reading: slow, normal or fast")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, out io.Writer) error {
	perLetter, ok := speeds[f.speed]
	if !ok {
		return fmt.Errorf("--speed %q: use slow, normal or fast", f.speed)
	}
	const host = "127.0.0.1"
	topo := topology.Default()
	d, err := local.Start(ctx, local.Options{Topology: topo, Engine: "embedded", Scope: node.ScopePod, Cache: true,
		WAN: true, Host: host, Port: f.port})
	if err != nil {
		return fmt.Errorf("%w (if the ports are in use, add --port 0 --admin-port 0)", err)
	}
	admin, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(f.adminPort)))
	if err != nil {
		return errors.Join(fmt.Errorf("listen for admin requests: %w (if the port is in use, add --admin-port 0)", err),
			d.Close())
	}
	server := &http.Server{Handler: d.Admin(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(admin) }() // ends with Close
	fmt.Fprintf(out, "While the tour runs, http://%s/ shows the deployment in a browser.\n\n", admin.Addr())
	outcome, err := demo.Run(ctx, d, topo, demo.Options{Out: out, Color: useColors(out), PerLetter: perLetter})
	if err == nil && !f.noWait {
		inviteClients(out, d.Endpoints(), admin.Addr().String())
		<-ctx.Done()
	}
	if err != nil {
		fmt.Fprintln(out, "\ninterrupted before the end of the tour")
	}
	if closeErr := errors.Join(server.Close(), d.Close()); closeErr != nil {
		return closeErr
	}
	if err != nil || outcome.Unexpected > 0 {
		return command.ErrSilent
	}
	return nil
}

// inviteClients tells how to continue with other clients.
func inviteClients(out io.Writer, ends []local.Endpoint, admin string) {
	fmt.Fprint(out, "\nThe deployment keeps running until Ctrl-C. Connect with any Redis client:\n\n")
	for _, e := range ends {
		host, port, _ := net.SplitHostPort(e.RESP)
		fmt.Fprintf(out, "  redis-cli -h %s -p %-6s  # %s, %s\n", host, port, e.Name, e.Ring)
	}
	fmt.Fprintf(out, "\nThe state, and faults:\n\n  curl http://%s/state\n", admin)
	fmt.Fprintf(out, "  curl --json '{\"kind\":\"cut\",\"from\":\"eu-west-1\",\"to\":\"*\"}' http://%s/fault\n", admin)
	fmt.Fprintf(out, "  curl --json '{\"kind\":\"heal\"}' http://%s/fault\n", admin)
	fmt.Fprintf(out, "\nOr see it, and break it, in a browser: http://%s/\n", admin)
}

// useColors reports whether to use colors: on a terminal that supports them, unless the user has disabled them
// (https://no-color.org).
func useColors(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
