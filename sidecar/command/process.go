package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// processFlags are the flags of the commands that run one part.
type processFlags struct {
	config       string
	dataCenter   string
	index        int
	grpc         string
	redis        string
	http         string
	dataDir      string
	storageDir   string
	logLevel     string
	logFormat    string
	drainTimeout time.Duration
	pprof        bool
}

const configHelp = `

The configuration file is YAML or JSON. All parts of a deployment may share one, and be told apart by --data-center and
--index; each uses what concerns it:

  topology:
    epoch: 1                     # grows with every change
    dataCenters: [{name: us-east-1}, {name: eu-west-1}]
    rings:
    - {name: america, dataCenters: [us-east-1]}
    - {name: europe, dataCenters: [eu-west-1]}
  addresses:                     # of every part, in the order of their indices; may change at run time
    us-east-1: {coordinators: ["10.1.0.1:7400"], middlemen: ["10.1.0.2:7400"], caches: ["10.1.0.3:7400"]}
    eu-west-1: {coordinators: ["10.2.0.1:7400"], middlemen: ["10.2.0.2:7400"], caches: ["10.2.0.3:7400"]}
  storage: {engine: redis, redis: {address: "127.0.0.1:6379", passwordFile: /secrets/redis}}
  dataDir: /var/lib/causalstore  # a coordinator's log
  session: {scope: Pod, reads: Latest}
  tokenKeyFile: /secrets/token   # the same for all sidecars
  tls: {cert: /tls/tls.crt, key: /tls/tls.key, ca: /tls/ca.crt}

It is read again when it changes: addresses and the log level are taken over at once, other changes are reported as waiting
for a restart (log, /readyz, causalstore_config_restart_needed).

/healthz, /readyz and /metrics are served at listen.http. SIGTERM ends the process in good order.`

// NewSidecarCommand returns `causalstore sidecar`.
func NewSidecarCommand() *cobra.Command {
	return newProcessCommand(topology.Sidecar, &cobra.Command{
		Use:   "sidecar",
		Short: "Serve Redis clients with causally consistent sessions",
		Long: `Runs a sidecar: the Redis port beside an app, with its sessions. It dials the parts of its data centre and, for shards
that are elsewhere, those of others; nobody needs to reach it but the app.` + configHelp,
		Example: `  causalstore sidecar --config causalstore.yaml --data-center us-east-1
  redis-cli -p 6379 causal status`,
	})
}

// NewCoordinatorCommand returns `causalstore coordinator`.
func NewCoordinatorCommand() *cobra.Command {
	return newProcessCommand(topology.Coordinator, &cobra.Command{
		Use:   "coordinator",
		Short: "Take writes, keep them in a durable log and bring them to every ring",
		Long: `Runs a client coordinator: it acknowledges writes once its log holds them, brings them to every ring, and tells when they
are there. The log (dataDir) must be on a durable volume: writes that are not in every ring yet are only there.

At SIGTERM it takes no further write, waits up to --drain-timeout until what it has is in every ring, and exits with 0; what
is left goes on at the next start.` + configHelp,
		Example: `  causalstore coordinator --config causalstore.yaml --data-center us-east-1 --index 0 --data-dir /var/lib/causalstore`,
	})
}

// NewMiddlemanCommand returns `causalstore middleman`.
func NewMiddlemanCommand() *cobra.Command {
	return newProcessCommand(topology.Middleman, &cobra.Command{
		Use:   "middleman",
		Short: "Stand in front of the storage of one shard",
		Long: `Runs a middle man: it alone writes to the storage of its shard, in causal order, and answers reads and caches. Its index is
that of the shard within the data centre.` + configHelp,
		Example: `  causalstore middleman --config causalstore.yaml --data-center us-east-1 --index 0`,
	})
}

// NewCacheCommand returns `causalstore cache`.
func NewCacheCommand() *cobra.Command {
	return newProcessCommand(topology.Cache, &cobra.Command{
		Use:   "cache",
		Short: "Cache what is in every ring, for the sidecars of a data centre",
		Long: `Runs a cache of a data centre. It holds only what is in every ring, and lets go of what has been overwritten before the
overwriting is complete. It keeps nothing on disk.` + configHelp,
		Example: `  causalstore cache --config causalstore.yaml --data-center us-east-1 --index 0`,
	})
}

func newProcessCommand(part topology.Part, cmd *cobra.Command) *cobra.Command {
	var f processFlags
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file (required)")
	fs.StringVar(&f.dataCenter, "data-center", "", "data centre of this process; overrides dataCenter")
	fs.StringVar(&f.http, "listen-http", "", "host:port for /healthz, /readyz and /metrics; overrides listen.http")
	fs.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error; overrides log.level")
	fs.StringVar(&f.logFormat, "log-format", "", "text or json; overrides log.format")
	fs.BoolVar(&f.pprof, "pprof", false, "serve /debug/pprof at listen.http")
	fs.DurationVar(&f.drainTimeout, "drain-timeout", 5*time.Second, "how long to wait at the end for clients and for writes that are not in every ring yet")
	if part == topology.Sidecar {
		fs.StringVar(&f.redis, "listen-redis", "", "host:port for Redis clients; overrides listen.redis")
	} else {
		fs.IntVar(&f.index, "index", 0, "index of this process among its kind in the data centre; overrides index")
		fs.StringVar(&f.grpc, "listen-grpc", "", "host:port for the other parts; overrides listen.grpc")
	}
	switch part {
	case topology.Coordinator:
		fs.StringVar(&f.dataDir, "data-dir", "", "folder of the write buffer log; overrides dataDir")
	case topology.Middleman:
		fs.StringVar(&f.storageDir, "storage-dir", "", "folder of the embedded storage; overrides storage.embedded.dir")
	}
	_ = cmd.MarkFlagRequired("config") // it exists
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.run(cmd.Context(), part, cmd.Flags().Changed("index"))
	}
	return cmd
}

// override lets flags that were given win over the file.
func (f *processFlags) override(c *process.Config, indexGiven bool) {
	for _, o := range []struct {
		flag  string
		field *string
	}{
		{f.dataCenter, &c.DataCenter}, {f.grpc, &c.Listen.GRPC}, {f.redis, &c.Listen.Redis}, {f.http, &c.Listen.HTTP}, {f.dataDir, &c.DataDir},
		{f.storageDir, &c.Storage.Embedded.Dir}, {f.logLevel, &c.Log.Level}, {f.logFormat, &c.Log.Format},
	} {
		if o.flag != "" {
			*o.field = o.flag
		}
	}
	if indexGiven {
		c.Index = f.index
	}
}

func (f *processFlags) run(ctx context.Context, part topology.Part, indexGiven bool) error {
	if f.drainTimeout < 0 {
		return fmt.Errorf("--drain-timeout %s: give a time span that is not negative", f.drainTimeout)
	}
	source := process.Source{Path: f.config, Override: func(c *process.Config) { f.override(c, indexGiven) }}
	set, err := source.Load(part)
	if err != nil {
		return err
	}
	level := &slog.LevelVar{}
	level.Set(set.LogLevel)
	return process.Run(ctx, process.Options{
		Settings: set, Source: source, Logger: newLogger(os.Stderr, set.Config.Log.Format, level), Level: level,
		DrainTimeout: f.drainTimeout, Pprof: f.pprof,
	})
}
