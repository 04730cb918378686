package process

import (
	"github.com/causalstore/causalstore/sidecar/topology"
)

// Config is the configuration file of a process. Several processes may share one file and be told apart by flags; what a
// part does not use is ignored. Relative paths are relative to the working directory.
type Config struct {
	// DataCenter and Index are the place of this process in the topology. Sidecars have no index.
	DataCenter string `json:"dataCenter,omitempty"`
	Index      int    `json:"index,omitempty"`
	// Topology is the deployment; TopologyFile is where it is written instead.
	Topology     *topology.File `json:"topology,omitempty"`
	TopologyFile string         `json:"topologyFile,omitempty"`
	// Addresses say where the parts of each data centre are reached. They may change while the process runs.
	Addresses map[string]Addresses `json:"addresses,omitempty"`
	Listen    Listen               `json:"listen,omitzero"`
	// Storage is what a middleman stands in front of.
	Storage Storage `json:"storage,omitzero"`
	// DataDir is the folder of a coordinator's write buffer log.
	DataDir string  `json:"dataDir,omitempty"`
	Limits  Limits  `json:"limits,omitzero"`
	Session Session `json:"session,omitzero"`
	// Binding is Dynamic (Karma), or Static: sessions and caches stay with the ring of their data centre (COPS-PR).
	Binding string `json:"binding,omitempty"`
	// Cache says whether sidecars use the caches of their data centre. Default true.
	Cache *bool `json:"cache,omitempty"`
	// TokenKeyFile holds the key that authenticates session tokens, the same for all sidecars.
	TokenKeyFile string `json:"tokenKeyFile,omitempty"`
	// Auth is what Redis clients of a sidecar must give. Left out, every client is let in.
	Auth *Auth `json:"auth,omitempty"`
	// TLS turns on mutual TLS between the parts.
	TLS *TLS `json:"tls,omitempty"`
	// EmulateWAN delays what goes to other data centres by half of the topology's round-trip times, for tests and
	// demonstrations on one machine.
	EmulateWAN bool `json:"emulateWAN,omitempty"`
	Log        Log  `json:"log,omitzero"`
}

// Addresses are the addresses (host:port) of one data centre's parts, in the order of their indices.
type Addresses struct {
	Coordinators []string `json:"coordinators,omitempty"`
	Middlemen    []string `json:"middlemen,omitempty"`
	Caches       []string `json:"caches,omitempty"`
}

// Listen says where to listen, as host:port; an empty host is all addresses.
type Listen struct {
	// GRPC is for the other parts. Default: the port of the own address. Sidecars do not listen, they dial.
	GRPC string `json:"grpc,omitempty"`
	// Redis is for the clients of a sidecar. Default 127.0.0.1:6379.
	Redis string `json:"redis,omitempty"`
	// HTTP serves /healthz, /readyz and /metrics. Default :7480.
	HTTP string `json:"http,omitempty"`
}

// Storage says what holds a shard's data.
type Storage struct {
	// Engine is embedded or redis.
	Engine   string          `json:"engine,omitempty"`
	Embedded EmbeddedStorage `json:"embedded,omitzero"`
	Redis    RedisStorage    `json:"redis,omitzero"`
}

// EmbeddedStorage keeps the data in a folder of this process.
type EmbeddedStorage struct {
	Dir string `json:"dir,omitempty"`
	// CacheBytes is for blocks of the data in memory.
	CacheBytes Bytes `json:"cacheBytes,omitempty"`
}

// RedisStorage keeps the data in a stock Redis server.
type RedisStorage struct {
	// Address is host:port; Socket is the path of a unix socket instead.
	Address  string `json:"address,omitempty"`
	Socket   string `json:"socket,omitempty"`
	Username string `json:"username,omitempty"`
	// Password, or the file that holds it.
	Password     string `json:"password,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	Database     int    `json:"database,omitempty"`
	// TLS is for the connections to the server; Cert and Key may be left out.
	TLS *TLS `json:"tls,omitempty"`
	// WaitReplicas is how many replicas must have each write before it counts as written.
	WaitReplicas int `json:"waitReplicas,omitempty"`
	// AllowUnsafe takes a server whose settings may lose what it acknowledged. Causal consistency then ends with its first crash.
	AllowUnsafe bool `json:"allowUnsafe,omitempty"`
}

// Limits bound memory and disk. What is left out has a default.
type Limits struct {
	// WriteBufferBytes bounds a coordinator's writes that are not in every ring yet; beyond it writes are refused. Default 256Mi.
	WriteBufferBytes Bytes `json:"writeBufferBytes,omitempty"`
	// LogBytes bounds a coordinator's log on disk. Default 1Gi.
	LogBytes Bytes `json:"logBytes,omitempty"`
	// CacheBytes bounds a cache. Default 256Mi.
	CacheBytes Bytes `json:"cacheBytes,omitempty"`
	// OwnBytes bounds the values of incomplete own writes that a session keeps in memory. Default 16Mi.
	OwnBytes Bytes `json:"ownBytes,omitempty"`
	// HistoryBytes bounds the old versions that a middleman keeps for reads at a cut. Default 64Mi.
	HistoryBytes Bytes `json:"historyBytes,omitempty"`
	// QueueBytes bounds what waits to be sent to one process. Default 32Mi.
	QueueBytes Bytes       `json:"queueBytes,omitempty"`
	Redis      RedisLimits `json:"redis,omitzero"`
}

// RedisLimits bound what one client can make a sidecar hold. The defaults are those of resp.Limits.
type RedisLimits struct {
	KeyBytes      Bytes    `json:"keyBytes,omitempty"`
	ValueBytes    Bytes    `json:"valueBytes,omitempty"`
	Arguments     int      `json:"arguments,omitempty"`
	CommandBytes  Bytes    `json:"commandBytes,omitempty"`
	InlineBytes   Bytes    `json:"inlineBytes,omitempty"`
	PipelineBytes Bytes    `json:"pipelineBytes,omitempty"`
	Clients       int      `json:"clients,omitempty"`
	WriteTimeout  Duration `json:"writeTimeout,omitempty"`
}

// Session is what a session is and how it reads.
type Session struct {
	// Scope is Pod (all connections to a sidecar are one session, the default) or Connection.
	Scope string `json:"scope,omitempty"`
	// Reads is Latest (the default) or Snapshot: complete versions rather than newer ones that would bind the session.
	Reads string `json:"reads,omitempty"`
	// ReadTimeout and WriteTimeout bound an operation. Default 5s.
	ReadTimeout  Duration `json:"readTimeout,omitempty"`
	WriteTimeout Duration `json:"writeTimeout,omitempty"`
}

// Auth is a user of the Redis front.
type Auth struct {
	// Username is "default" if left out.
	Username string `json:"username,omitempty"`
	// Password, or the file that holds it.
	Password     string `json:"password,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
}

// TLS names files in PEM. They are read again for every new connection, so that a rotation needs no restart.
type TLS struct {
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	CA   string `json:"ca,omitempty"`
	// ServerName is what the certificates of dialed peers must be for. Default: the host that is dialed.
	ServerName string `json:"serverName,omitempty"`
}

// Log says what is logged. The level may change while the process runs.
type Log struct {
	// Level is debug, info (the default), warn or error.
	Level string `json:"level,omitempty"`
	// Format is text (the default) or json.
	Format string `json:"format,omitempty"`
}
