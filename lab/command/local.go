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
	"github.com/spf13/pflag"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/command"
	"github.com/causalstore/causalstore/sidecar/metrics"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/topology"
)

// localFlags are the flags of `causalstore local`.
type localFlags struct {
	log           command.LogFlags
	topology      string
	storage       string
	dataDir       string
	scope         string
	reads         string
	binding       string
	cache, wan    bool
	nearBytes     int
	near          *pflag.Flag // --near-copies
	members       int
	sidecars      int
	etcd          []string
	host          string
	port          int
	adminPort     int
	endpointsFile string
	duration      time.Duration
	pprof         bool
	without       []string
}

// NewLocalCommand returns `causalstore local`.
func NewLocalCommand() *cobra.Command { return new(localFlags).command() }

// command returns the command that sets the flags and runs with them.
func (f *localFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run a whole deployment of many data centers on this machine",
		Long: `Runs all parts of a deployment in this process, with the delays of a real WAN
between the data centers, and a Redis port for each sidecar, of which each data center has one. The
protocol, durable logs and storage are those of production; only the network between the parts is emulated.

While it runs, its admin address serves a page for browsers, accepts faults and shows the state:
  curl --json '{"kind":"cut","from":"eu-west-1","to":"*"}' http://127.0.0.1:7000/fault
  curl --json '{"kind":"congest","dc":"eu-west-1","addMs":600}' http://127.0.0.1:7000/fault
  curl --json '{"kind":"crash","dc":"eu-west-1","part":"coordinator"}' http://127.0.0.1:7000/fault
  curl --json '{"kind":"crash","dc":"eu-west-1","part":"coordinator","index":0,"member":1}' http://127.0.0.1:7000/fault
  curl --json '{"kind":"heal"}' http://127.0.0.1:7000/fault
  curl http://127.0.0.1:7000/state
  curl http://127.0.0.1:7000/metrics      # for Prometheus, labeled by data center`,
		Example: `  causalstore local
  causalstore local --storage redis --data-dir ./data
  causalstore local --members 2                         # each coordinator's log and each shard on two disks
  causalstore local --sidecars 2                        # two Redis ports in each data center
  causalstore local --session-scope pod --binding static --cache=false   # COPS-PR, for comparison`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	fs := cmd.Flags()
	fs.StringVar(&f.topology, "topology", "", "topology file (default eight AWS regions in three rings)")
	fs.StringVar(&f.storage, "storage", "embedded",
		"storage of each shard: embedded, or redis (starts a stock redis-server per shard)")
	fs.StringVar(&f.dataDir, "data-dir", "",
		"directory for all data; a later start with it continues there (default a temporary directory)")
	fs.StringVar(&f.scope, "session-scope", "datacenter",
		"scope of a session: pod (all connections to a port), connection, or datacenter "+
			"(as pod, and all ports of a data center see at once what one has written)")
	fs.StringVar(&f.reads, "reads", "",
		"latest, or snapshot: prefer complete versions to newer ones that would bind the session (default snapshot, "+
			"and nothing else, with --session-scope datacenter, else latest)")
	fs.StringVar(&f.binding, "binding", "dynamic",
		"dynamic (Karma), or static: every session stays in the ring of its data center (COPS-PR)")
	fs.StringSliceVar(&f.without, "without", nil,
		"for comparison, disable improvements over Karma: ring-sets, sv-lifting, pipelining")
	fs.BoolVar(&f.cache, "cache", true, "use the caches of the data centers")
	fs.IntVar(&f.nearBytes, "near-copies", 0, fmt.Sprintf(
		"bytes of copies of hot keys that each sidecar keeps; 0 is none (default %d with --session-scope datacenter "+
			"and caches, and else none)", contract.DefaultNearBytes))
	f.near = fs.Lookup("near-copies")
	fs.IntVar(&f.members, "members", 0,
		"members of each coordinator and of each shard, 1 to 3, each with folders of its own (default as the "+
			"topology says, or 1)")
	fs.IntVar(&f.sidecars, "sidecars", 1, fmt.Sprintf(
		"sidecars of each data center, 1 to %d, each with a Redis port of its own", local.MaxSidecars))
	fs.StringSliceVar(&f.etcd, "etcd", nil,
		"host:port of the servers of an etcd for the configurations of groups with several members (default a file "+
			"in the data directory)")
	fs.BoolVar(&f.wan, "wan", true, "emulate the delays between the data centers")
	fs.StringVar(&f.host, "host", "127.0.0.1", "address to listen on")
	fs.IntVar(&f.port, "port", 7001,
		"Redis port of the first data center; the others use the next ports, then their second sidecars do, and so "+
			"on; 0 chooses free ports")
	fs.IntVar(&f.adminPort, "admin-port", 7000, "port of the admin address; 0 chooses a free port")
	fs.StringVar(&f.endpointsFile, "endpoints-file", "",
		"file to write the addresses to, as JSON, once the deployment is ready for clients")
	fs.DurationVar(&f.duration, "duration", 0, "stop after this time; 0 runs until interrupted")
	fs.BoolVar(&f.pprof, "pprof", false, "serve /debug/pprof at the admin address")
	f.log.Register(fs, "warn")
	return cmd
}

// options validates the flags and converts them.
func (f *localFlags) options() (local.Options, error) {
	o := local.Options{Engine: f.storage, DataDir: f.dataDir, Cache: f.cache, NearBytes: f.nearBytes, WAN: f.wan,
		Host: f.host, Port: f.port, Sidecars: f.sidecars, Topology: topology.Default()}
	if f.sidecars < 1 || f.sidecars > local.MaxSidecars {
		return o, fmt.Errorf("--sidecars %d: use 1 to %d", f.sidecars, local.MaxSidecars)
	}
	var err error
	if f.topology != "" {
		if o.Topology, err = topology.Load(f.topology); err != nil {
			return o, err
		}
	}
	if o.Scope, err = scopeOf(f.scope); err != nil {
		return o, err
	}
	if f.reads == "" {
		if f.reads = causal.SessionLevels()[0].String(); o.Scope == node.ScopeDataCenter {
			f.reads = causal.Snapshot.String()
		}
	}
	if o.Level, err = parseFlag("reads", f.reads, causal.SessionLevels()); err != nil {
		return o, err
	}
	if o.Scope == node.ScopeDataCenter && o.Level != causal.Snapshot {
		return o, fmt.Errorf("--reads %s with --session-scope datacenter: leave --reads out, or give --session-scope "+
			"pod or connection", f.reads)
	}
	if !f.near.Changed {
		o.NearBytes = int(contract.Scope(o.Scope).NearBytes(o.Cache))
	}
	if f.nearBytes != 0 && f.nearBytes < contract.MinNearBytes {
		return o, fmt.Errorf("--near-copies %d: give at least %d bytes, or 0 for no near copies", f.nearBytes,
			contract.MinNearBytes)
	}
	if o.Binding, err = parseFlag("binding", f.binding, causal.Bindings()); err != nil {
		return o, err
	}
	if o.Tune, err = tuneWithout(f.without); err != nil {
		return o, err
	}
	if o.Logger, err = f.log.Logger(os.Stderr); err != nil {
		return o, err
	}
	return o, f.setGroups(&o)
}

// setGroups sets what concerns the groups of coordinators.
func (f *localFlags) setGroups(o *local.Options) (err error) {
	if f.members < 0 || f.members > topology.MaxMembers {
		return fmt.Errorf("--members %d: use 1 to %d", f.members, topology.MaxMembers)
	}
	if o.Members = f.members; len(f.etcd) == 0 {
		return nil
	}
	for _, addr := range f.etcd {
		if !process.IsLoopback(addr) {
			return fmt.Errorf("--etcd %s: give addresses of this machine, such as 127.0.0.1:2379; there is no TLS",
				addr)
		}
	}
	if o.DataDir == "" {
		return errors.New("--etcd: give --data-dir too; an etcd that outlives the data knows members that are gone")
	}
	o.Register, err = register.Open(
		register.Options{Etcd: contract.EtcdRegister{Endpoints: f.etcd, Prefix: "causalstore-local"},
			DataCenter: "local",
			Metrics:    metrics.NewRegister(), Log: o.Logger})
	return err
}

// tuneWithout disables improvements over Karma by name.
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
			return local.Tune{},
				fmt.Errorf("--without %q: use ring-sets, sv-lifting or pipelining, or several separated by commas", n)
		}
	}
	return local.Tune{
		Coordinator: func(c *coordinator.Config) { c.Comparison.DepsByID = byID },
		Sidecar: func(c *session.Config) {
			c.Comparison = session.Comparison{WithoutRingSets: oneRing, WithoutSVLifting: askEach}
		},
	}, nil
}

// parseFlag returns the value of which a flag gives the name, in any case of letters.
func parseFlag[T fmt.Stringer](flag, given string, values []T) (T, error) {
	v, ok := causal.ParseName(given, values)
	if !ok {
		return v, fmt.Errorf("--%s %q: use %s", flag, given, causal.JoinNames(values))
	}
	return v, nil
}

func scopeOf(s string) (node.Scope, error) {
	switch strings.ToLower(s) {
	case "pod":
		return node.ScopePod, nil
	case "connection":
		return node.ScopeConnection, nil
	case "datacenter":
		return node.ScopeDataCenter, nil
	}
	return "", fmt.Errorf("--session-scope %q: use pod, connection or datacenter", s)
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
		mux.Handle("/debug/pprof/", console.RefuseWebPages(http.DefaultServeMux))
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

// writeEndpoints replaces the file atomically, so that nobody reads an incomplete file.
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
	fmt.Fprintf(out, "ready in %s; page for browsers and admin address at http://%s/\n\n", took.Round(time.Millisecond),
		ends.Admin)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DATA CENTER\tRING\tREDIS")
	for _, e := range ends.DataCenters {
		fmt.Fprintf(w, "%s\t%s\t%s\n", e.Name, e.Ring, strings.Join(e.Sidecars, "  "))
	}
	_ = w.Flush() // to a terminal
	if len(ends.DataCenters) > 0 {
		host, port, _ := net.SplitHostPort(ends.DataCenters[0].RESP)
		fmt.Fprintf(out, "\nconnect with any Redis client, for example: redis-cli -h %s -p %s\n", host, port)
	}
}
