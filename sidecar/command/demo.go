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

	"github.com/causalstore/causalstore/sidecar/demo"
	"github.com/causalstore/causalstore/sidecar/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// demoFlags are the flags of `causalstore demo`.
type demoFlags struct {
	port      int
	adminPort int
	noWait    bool
	speed     string
}

// speeds are how long the reader of the tour is given for a letter.
var speeds = map[string]time.Duration{"slow": 30 * time.Millisecond, "normal": 12 * time.Millisecond, "fast": 0}

// NewDemoCommand returns `causalstore demo`.
func NewDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Take a guided tour of a deployment on this machine, about a minute",
		Long: `Starts what ` + "`causalstore local`" + ` starts, eight regions in three rings with the delays of a real WAN, and shows on it
what causal consistency is and what it costs, also while data centres are cut off and shards die. All times and values
are measured as they are shown. If something is not as it should be, the tour says so and the exit code is not 0.

Afterwards the deployment stays up for any Redis client, until it is interrupted.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.port, "port", 7001, "Redis port of the first data centre, the others follow; 0: any free ports")
	fs.IntVar(&f.adminPort, "admin-port", 7000, "port of the admin address; 0: any free port")
	fs.BoolVar(&f.noWait, "no-wait", false, "stop after the tour")
	fs.StringVar(&f.speed, "speed", "normal", "time to read: slow, normal or fast")
	return cmd
}

func (f *demoFlags) run(ctx context.Context, out io.Writer) error {
	perLetter, ok := speeds[f.speed]
	if !ok {
		return fmt.Errorf("--speed %q: give slow, normal or fast", f.speed)
	}
	const host = "127.0.0.1"
	topo := topology.Default()
	d, err := local.Start(ctx, local.Options{Topology: topo, Engine: "embedded", Scope: node.ScopePod, Cache: true, WAN: true, Host: host, Port: f.port})
	if err != nil {
		return fmt.Errorf("%w (if the ports are taken, give --port 0 --admin-port 0)", err)
	}
	admin, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(f.adminPort)))
	if err != nil {
		return errors.Join(fmt.Errorf("listen for admin requests: %w (if the port is taken, give --admin-port 0)", err), d.Close())
	}
	server := &http.Server{Handler: d.Admin(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(admin) }() // ends with Close
	outcome, err := demo.Run(ctx, d, topo, demo.Options{Out: out, Colour: coloured(out), PerLetter: perLetter})
	if err == nil && !f.noWait {
		inviteClients(out, d.Endpoints(), admin.Addr().String())
		<-ctx.Done()
	}
	if err != nil {
		fmt.Fprintln(out, "\nstopped before the end")
	}
	if closeErr := errors.Join(server.Close(), d.Close()); closeErr != nil {
		return closeErr
	}
	if err != nil || outcome.Unexpected > 0 {
		return errSilent
	}
	return nil
}

// inviteClients says how to go on.
func inviteClients(out io.Writer, ends []local.Endpoint, admin string) {
	fmt.Fprint(out, "\nIt stays up for you, until Ctrl-C. Any Redis client will do:\n\n")
	for _, e := range ends {
		host, port, _ := net.SplitHostPort(e.RESP)
		fmt.Fprintf(out, "  redis-cli -h %s -p %-6s  # %s, %s\n", host, port, e.Name, e.Ring)
	}
	fmt.Fprintf(out, "\n  curl http://%s/state\n", admin)
	fmt.Fprintf(out, "  curl -d '{\"kind\":\"cut\",\"from\":\"eu-west-1\",\"to\":\"*\"}' http://%s/fault\n", admin)
	fmt.Fprintf(out, "  curl -d '{\"kind\":\"heal\"}' http://%s/fault\n", admin)
}

// coloured reports whether to use colours: on a terminal that has them, unless the user does not want any
// (https://no-color.org).
func coloured(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
