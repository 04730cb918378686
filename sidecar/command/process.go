package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/topology"
)

// processFlags are the flags of the commands that run a part.
type processFlags struct {
	config       string
	dataCenter   string
	index        int
	member       int
	grpc         string
	plaintext    bool
	dropFuture   bool
	redis        string
	redisTLS     string
	tlsCert      string
	tlsKey       string
	tlsClientCA  string
	usersFile    string
	http         string
	dataDir      string
	storageDir   string
	logLevel     string
	logFormat    string
	drainDelay   time.Duration
	drainTimeout time.Duration
	pprof        bool
}

const configHelp = `

The configuration file is YAML or JSON. All parts of a deployment may share one file; --data-center and --index then
identify the part, which ignores the settings of other parts:

  topology:
    epoch: 1                     # increase it with every change
    dataCenters: [{name: us-east-1}, {name: eu-west-1}]
    rings:
    - {name: america, dataCenters: [us-east-1]}
    - {name: europe, dataCenters: [eu-west-1]}
  addresses:                     # of all parts, in the order of their indices, of coordinators and middlemen all
                                 # members; may change at run time
    us-east-1: {coordinators: ["10.1.0.1:7400"], middlemen: ["10.1.0.2:7400"], caches: ["10.1.0.3:7400"]}
    eu-west-1: {coordinators: ["10.2.0.1:7400"], middlemen: ["10.2.0.2:7400"], caches: ["10.2.0.3:7400"]}
  storage: {engine: redis, redis: {address: "127.0.0.1:6379", passwordFile: /secrets/redis}}
  dataDir: /var/lib/causalstore  # the log of a coordinator, and of a shard with several members
  session: {scope: Pod, reads: Latest}
  listen: {redis: none, redisTLS: ":6380"}                        # Redis clients with TLS only
  redisTLS: {cert: /redis-tls/tls.crt, key: /redis-tls/tls.key}   # clientCA: also ask clients for certificates
  auth: {usersFile: /secrets/users.acl}                           # lines such as: user app on >PASSWORD ~* &* +@all
  tls: {cert: /tls/$INDEX.crt, key: /tls/$INDEX.key, trust: /tls/trust.yaml}   # required unless listen.grpc is loopback

The process reloads the file when it changes. Some changes, such as addresses, the log level and the
numbers of parts in the topology, apply at once. Others need a restart, which the
log, /readyz and causalstore_config_restart_needed report.

listen.http serves /healthz, /readyz and /metrics. SIGTERM shuts the process down gracefully.`

// newSidecarCommand returns `causalstore sidecar`.
func newSidecarCommand(o Options) *cobra.Command {
	return newProcessCommand(o, topology.Sidecar, &cobra.Command{
		Use:   "sidecar",
		Short: "Serve Redis clients with causally consistent sessions",
		Long: `Runs a sidecar, which serves the Redis protocol to an app and holds its sessions.
It dials the parts of its own data center, and the middlemen of shards in other data centers. Only
the app needs to reach it.

On SIGTERM /readyz fails at once, and clients are served for --drain-delay as before. Then the sidecar accepts no more
connections, answers the commands under way, closes each connection between two commands, and exits with 0.

At most limits.redis.clients clients (10000) are served; further ones get "-ERR max number of
clients reached". All together take at most limits.redis.clientBytes of memory: two fifths of
GOMEMLIMIT, which is nine tenths of the limit of the container unless it is set, or 512 MiB without
either. Beyond that, the client that takes most is disconnected.` + configHelp,
		Example: `  causalstore sidecar --config causalstore.yaml --data-center us-east-1
  redis-cli -p 6379 causal status`,
	})
}

// newCoordinatorCommand returns `causalstore coordinator`.
func newCoordinatorCommand(o Options) *cobra.Command {
	return newProcessCommand(o, topology.Coordinator, &cobra.Command{
		Use:   "coordinator",
		Short: "Accept writes, store them in a durable log and propagate them to every ring",
		Long: `Runs a client coordinator. It acknowledges a write once its log has stored it,
propagates it to every ring, and publishes when the write is in all of them. Put the log (dataDir)
on a durable volume: it holds the only safe copy of writes that are not in every ring yet.

On SIGTERM it refuses new writes, waits up to --drain-timeout until its writes are in every ring,
and exits with 0. After the next start it continues with the writes that are left.` + configHelp,
		Example: `  causalstore coordinator --config causalstore.yaml --data-center us-east-1 --index 0 --data-dir /var/lib/causalstore`,
	})
}

// newMiddlemanCommand returns `causalstore middleman`.
func newMiddlemanCommand(o Options) *cobra.Command {
	return newProcessCommand(o, topology.Middleman, &cobra.Command{
		Use:   "middleman",
		Short: "Apply writes to the storage of one shard in causal order and serve reads",
		Long: `Runs a middleman, the only writer to the storage of its shard. It applies writes
in causal order, and serves reads of sidecars and caches. Its index is that of the shard within the
data center.

If the topology gives shards several members (shardMembers), each of them is a process of its own
with a storage and a log (dataDir) of its own. They agree in an etcd (register.etcd) who of them
serves; the others take over when it is lost. On SIGTERM the member that serves makes another one
serve first.` + configHelp,
		Example: `  causalstore middleman --config causalstore.yaml --data-center us-east-1 --index 0
  causalstore middleman --config causalstore.yaml --data-center us-east-1 --index 0 --member 2 --data-dir /var/lib/causalstore`,
	})
}

// newCacheCommand returns `causalstore cache`.
func newCacheCommand(o Options) *cobra.Command {
	return newProcessCommand(o, topology.Cache, &cobra.Command{
		Use:   "cache",
		Short: "Cache values that are in every ring, for the sidecars of a data center",
		Long: `Runs a cache of a data center. It holds only values that are in every ring, and
drops a value before the write that replaces it is complete. It stores nothing on disk.` + configHelp,
		Example: `  causalstore cache --config causalstore.yaml --data-center us-east-1 --index 0`,
	})
}

func newProcessCommand(o Options, part topology.Part, cmd *cobra.Command) *cobra.Command {
	var f processFlags
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file (required)")
	fs.StringVar(&f.dataCenter, "data-center", "", "data center of this process; overrides dataCenter")
	fs.StringVar(&f.http, "listen-http", "", "host:port for /healthz, /readyz and /metrics; overrides listen.http")
	fs.StringVar(&f.logLevel, "log-level", "", "debug, info, warn or error; overrides log.level")
	fs.StringVar(&f.logFormat, "log-format", "", "text or json; overrides log.format")
	fs.BoolVar(&f.pprof, "pprof", false, "serve /debug/pprof at listen.http")
	fs.DurationVar(&f.drainTimeout, "drain-timeout", 5*time.Second,
		"how long to wait on shutdown for clients, and for writes that are not in every ring yet")
	if part == topology.Sidecar {
		fs.DurationVar(&f.drainDelay, "drain-delay", defaultDrainDelay,
			"how long to keep serving on shutdown while /readyz says not ready, so that load balancers notice; "+
				"without the flag, 0 if listen.redis is a loopback address")
		fs.StringVar(&f.redis, "listen-redis", "", "host:port for Redis clients, or none; overrides listen.redis")
		fs.StringVar(&f.redisTLS, "listen-redis-tls", "",
			"host:port for Redis clients with TLS; overrides listen.redisTLS")
		fs.StringVar(&f.tlsCert, "redis-tls-cert", "", "certificate for these clients; overrides redisTLS.cert")
		fs.StringVar(&f.tlsKey, "redis-tls-key", "", "its key; overrides redisTLS.key")
		fs.StringVar(&f.tlsClientCA, "redis-tls-client-ca", "",
			"authorities whose certificates these clients need; overrides redisTLS.clientCA")
		fs.StringVar(&f.usersFile, "users-file", "", "file of the users of Redis clients; overrides auth.usersFile")
	} else {
		fs.IntVar(&f.index, "index", 0,
			"index of this process among the same parts of the data center; overrides index")
		fs.StringVar(&f.grpc, "listen-grpc", "", "host:port for the other parts; overrides listen.grpc")
		fs.BoolVar(&f.plaintext, "allow-plaintext", false,
			"let other machines reach listen.grpc without tls: whoever does can read and write everything; sets "+
				"allowPlaintext")
	}
	switch part {
	case topology.Coordinator:
		fs.IntVar(&f.member, "member", 1, "which member of its group this coordinator is, from 1; overrides member")
		fs.StringVar(&f.dataDir, "data-dir", "", "folder of the write buffer log; overrides dataDir")
	case topology.Middleman:
		fs.IntVar(&f.member, "member", 1, "which member of its group this middleman is, from 1; overrides member")
		fs.StringVar(&f.dataDir, "data-dir", "",
			"folder of the log of a shard with several members, and of what tells whether its Redis has lost data; "+
				"overrides dataDir")
		fs.StringVar(&f.storageDir, "storage-dir", "", "folder of the embedded storage; overrides storage.embedded.dir")
		fs.BoolVar(&f.dropFuture, "drop-future-versions", false,
			"repair: remove values from the storage that are dated more than 60s ahead of this machine's clock, "+
				"before serving; check the clock first")
	}
	_ = cmd.MarkFlagRequired("config") // fails only for an unknown flag
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.run(cmd.Context(), o, part, cmd.Flags().Changed)
	}
	return cmd
}

// override replaces settings of the file by the flags that are set.
func (f *processFlags) override(c *contract.Config, isGiven func(flag string) bool) {
	for _, o := range []struct {
		flag  string
		field *string
	}{
		{f.dataCenter, &c.DataCenter}, {f.grpc, &c.Listen.GRPC}, {f.redis, &c.Listen.Redis},
		{f.redisTLS, &c.Listen.RedisTLS}, {f.http, &c.Listen.HTTP}, {f.dataDir, &c.DataDir},
		{f.storageDir, &c.Storage.Embedded.Dir}, {f.logLevel, &c.Log.Level}, {f.logFormat, &c.Log.Format},
	} {
		if o.flag != "" {
			*o.field = o.flag
		}
	}
	if f.tlsCert != "" || f.tlsKey != "" || f.tlsClientCA != "" {
		files := contract.RedisTLS{}
		if c.RedisTLS != nil {
			files = *c.RedisTLS
		}
		c.RedisTLS = &contract.RedisTLS{Cert: cmp.Or(f.tlsCert, files.Cert), Key: cmp.Or(f.tlsKey, files.Key),
			ClientCA: cmp.Or(f.tlsClientCA, files.ClientCA)}
	}
	if f.usersFile != "" {
		c.Auth = &contract.Auth{UsersFile: f.usersFile}
	}
	if isGiven("index") {
		c.Index = f.index
	}
	if isGiven("member") {
		c.Member = f.member
	}
	c.AllowPlaintext = c.AllowPlaintext || f.plaintext
}

// defaultDrainDelay is longer than endpoints of Kubernetes usually take to disappear from all nodes.
const defaultDrainDelay = 5 * time.Second

func (f *processFlags) run(ctx context.Context, o Options, part topology.Part, isGiven func(flag string) bool) error {
	if f.drainTimeout < 0 {
		return fmt.Errorf("invalid --drain-timeout %s: use a duration of at least 0", f.drainTimeout)
	}
	if f.drainDelay < 0 {
		return fmt.Errorf("invalid --drain-delay %s: use a duration of at least 0", f.drainDelay)
	}
	source := process.Source{Path: f.config, Override: func(c *contract.Config) { f.override(c, isGiven) }}
	set, err := source.Load(part)
	if err != nil {
		return err
	}
	if !isGiven("drain-delay") && set.ServesThisMachineOnly() {
		f.drainDelay = 0 // nothing balances connections to it: its only clients are beside it, and stop by themselves
	}
	level := &slog.LevelVar{}
	level.Set(set.LogLevel)
	return process.Run(ctx, process.Options{
		Settings: set, Source: source, Logger: NewLogger(os.Stderr, set.Config.Log.Format, level), Level: level,
		DrainDelay: f.drainDelay, DrainTimeout: f.drainTimeout, DropFutureVersions: f.dropFuture, Pprof: f.pprof,
		EmulateWAN: o.EmulateWAN,
	})
}
