package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	_ "net/http/pprof" // served only with --pprof
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/local"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// localFlags are the flags of `causalstore local`.
type localFlags struct {
	log           logFlags
	topology      string
	storage       string
	dataDir       string
	scope         string
	reads         string
	binding       string
	cache, wan    bool
	host          string
	port          int
	adminPort     int
	endpointsFile string
	duration      time.Duration
	pprof         bool
	without       []string
}

// NewLocalCommand returns `causalstore local`.
func NewLocalCommand() *cobra.Command {
	var f localFlags
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run a whole deployment of many data centres on this machine",
		Long: `Runs every part of a deployment in this process, with the delays of a real WAN between the data centres, and one
Redis port per data centre. It is the real thing: the same protocol, durable logs and storage; only the network between
the parts is emulated.

While it runs, its admin address takes faults and shows the state:
  curl -d '{"kind":"cut","from":"eu-west-1","to":"*"}' http://127.0.0.1:7000/fault
  curl -d '{"kind":"congest","dc":"eu-west-1","addMs":600}' http://127.0.0.1:7000/fault
  curl -d '{"kind":"crash","dc":"eu-west-1","part":"coordinator"}' http://127.0.0.1:7000/fault
  curl -d '{"kind":"heal"}' http://127.0.0.1:7000/fault
  curl http://127.0.0.1:7000/state
  curl http://127.0.0.1:7000/metrics      # for Prometheus, labelled by data centre`,
		Example: `  causalstore local
  causalstore local --storage redis --data-dir ./data
  causalstore local --binding static --cache=false      # COPS-PR, for comparison`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.topology, "topology", "", "topology file; default: eight AWS regions in three rings")
	fs.StringVar(&f.storage, "storage", "embedded", "storage of each shard: embedded, or redis (starts one stock redis-server per shard)")
	fs.StringVar(&f.dataDir, "data-dir", "", "folder that keeps everything; starting again with it continues; default: a temporary one")
	fs.StringVar(&f.scope, "session-scope", "pod", "what one session is: pod (all connections to a port) or connection")
	fs.StringVar(&f.reads, "reads", "latest", "latest, or snapshot: complete versions rather than newer ones that would bind the session")
	fs.StringVar(&f.binding, "binding", "dynamic", "dynamic (Karma), or static: every session stays with its data centre's ring (COPS-PR)")
	fs.StringSliceVar(&f.without, "without", nil, "for comparison, do without what goes beyond Karma: ring-sets, sv-lifting, pipelining")
	fs.BoolVar(&f.cache, "cache", true, "use the caches of the data centres")
	fs.BoolVar(&f.wan, "wan", true, "emulate the delays between the data centres")
	fs.StringVar(&f.host, "host", "127.0.0.1", "address to listen on")
	fs.IntVar(&f.port, "port", 7001, "Redis port of the first data centre, the others follow; 0: any free ports")
	fs.IntVar(&f.adminPort, "admin-port", 7000, "port of the admin address; 0: any free port")
	fs.StringVar(&f.endpointsFile, "endpoints-file", "", "file to write the addresses to, as JSON, when clients can be served")
	fs.DurationVar(&f.duration, "duration", 0, "stop after this time; 0: when interrupted")
	fs.BoolVar(&f.pprof, "pprof", false, "serve /debug/pprof at the admin address")
	f.log.register(fs, "warn")
	return cmd
}

// options checks the flags.
func (f *localFlags) options() (local.Options, error) {
	o := local.Options{Engine: f.storage, DataDir: f.dataDir, Cache: f.cache, WAN: f.wan, Host: f.host, Port: f.port, Topology: topology.Default()}
	var err error
	if f.topology != "" {
		if o.Topology, err = topology.Load(f.topology); err != nil {
			return o, err
		}
	}
	if o.Scope, err = scopeOf(f.scope); err != nil {
		return o, err
	}
	switch f.reads {
	case "latest":
	case "snapshot":
		o.Snapshot = true
	default:
		return o, fmt.Errorf("--reads %q: give latest or snapshot", f.reads)
	}
	switch f.binding {
	case "dynamic":
	case "static":
		o.Static = true
	default:
		return o, fmt.Errorf("--binding %q: give dynamic or static", f.binding)
	}
	if o.Tune, err = tuneWithout(f.without); err != nil {
		return o, err
	}
	o.Logger, err = f.log.logger(os.Stderr)
	return o, err
}

// tuneWithout switches improvements over Karma off, by name.
func tuneWithout(names []string) (local.Tune, error) {
	var oneRing, askEach, byID bool
	for _, n := range names {
		switch n {
		case "ring-sets":
			oneRing = true
		case "sv-lifting":
			askEach = true
		case "pipelining":
			byID = true
		default:
			return local.Tune{}, fmt.Errorf("--without %q: give ring-sets, sv-lifting, pipelining, or several with commas", n)
		}
	}
	return local.Tune{
		Coordinator: func(c *causal.CoordinatorConfig) { c.DepsByID = byID },
		Sidecar:     func(c *causal.SidecarConfig) { c.OneRing, c.AskEach = oneRing, askEach },
	}, nil
}

func scopeOf(s string) (node.Scope, error) {
	switch strings.ToLower(s) {
	case "pod":
		return node.ScopePod, nil
	case "connection":
		return node.ScopeConnection, nil
	}
	return "", fmt.Errorf("--session-scope %q: give pod or connection", s)
}

func (f *localFlags) run(ctx context.Context, out io.Writer) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	started := time.Now()
	d, err := local.Start(ctx, o)
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", net.JoinHostPort(f.host, fmt.Sprint(f.adminPort)))
	if err != nil {
		return errors.Join(fmt.Errorf("listen for admin requests: %w", err), d.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/", d.Admin())
	if f.pprof {
		mux.Handle("/debug/pprof/", http.DefaultServeMux)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(admin) }() // ends with Close
	ends := local.Endpoints{Admin: admin.Addr().String(), DataCenters: d.Endpoints()}
	if f.endpointsFile != "" {
		if err := writeEndpoints(f.endpointsFile, ends); err != nil {
			return errors.Join(err, server.Close(), d.Close())
		}
	}
	printEndpoints(out, ends, time.Since(started))
	<-ctx.Done()
	fmt.Fprintln(out, "stopping")
	return errors.Join(server.Close(), d.Close())
}

// writeEndpoints writes the file in one step, so that whoever waits for it never reads half of it.
func writeEndpoints(path string, ends local.Endpoints) error {
	b, err := json.MarshalIndent(ends, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".endpoints-*")
	if err != nil {
		return fmt.Errorf("write endpoints: %w", err)
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write endpoints: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

func printEndpoints(out io.Writer, ends local.Endpoints, took time.Duration) {
	fmt.Fprintf(out, "ready in %s; admin at http://%s\n\n", took.Round(time.Millisecond), ends.Admin)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DATA CENTRE\tRING\tREDIS")
	for _, e := range ends.DataCenters {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Ring, e.RESP)
	}
	_ = w.Flush() // to a terminal
	if len(ends.DataCenters) > 0 {
		host, port, _ := net.SplitHostPort(ends.DataCenters[0].RESP)
		fmt.Fprintf(out, "\nconnect with any Redis client, for example: redis-cli -h %s -p %s\n", host, port)
	}
}
