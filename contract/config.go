// Package contract states what the operator and the running parts must agree on: the configuration file that the
// operator writes and the parts read, the readiness report that the parts serve and the operator reads, and which
// changes of the topology running parts apply without a restart. Both sides import it; it imports nothing of this
// module but the topology.
//
// Parts and operator may be of different versions while an upgrade is under way. A field that one side does not know is
// refused in the configuration file and ignored in the readiness report, so a new field of the file needs parts that
// know it first.
package contract

import (
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/topology"
)

// Config is the configuration file of a part. Several processes may share one file and be told apart by flags; a part
// ignores the fields that it does not use. Relative paths are relative to the working directory.
type Config struct {
	// DataCenter and Index identify this process in the topology. Sidecars have no index.
	DataCenter string `json:"dataCenter,omitempty"`
	Index      int    `json:"index,omitempty"`
	// Member says which member of its group a coordinator or middleman is, from 1. Default 1; the topology says how
	// many there are (coordinatorMembers, shardMembers).
	Member int `json:"member,omitempty"`
	// Topology describes the deployment. TopologyFile is the path of a file that does, to be given instead.
	Topology     *topology.File `json:"topology,omitempty"`
	TopologyFile string         `json:"topologyFile,omitempty"`
	// Addresses are the addresses of the parts of each data center. They may change while the process runs.
	Addresses map[string]Addresses `json:"addresses,omitempty"`
	Listen    Listen               `json:"listen,omitzero"`
	// Storage holds the data of a middleman.
	Storage Storage `json:"storage,omitzero"`
	// DataDir is the folder of a coordinator's write buffer log, of the log of a middleman with a register, and of what
	// a middleman with a Redis keeps to tell whether that has lost data.
	DataDir string `json:"dataDir,omitempty"`
	// Register holds the configurations of the groups of coordinators and middlemen. Groups of one member need none.
	Register *Register `json:"register,omitempty"`
	Limits   Limits    `json:"limits,omitzero"`
	Session  Session   `json:"session,omitzero"`
	// Binding decides which rings sessions and caches read: Dynamic (the default) or Static.
	Binding string `json:"binding,omitempty"`
	// Cache says whether sidecars use the caches of their data center. Default true.
	Cache *bool `json:"cache,omitempty"`
	// NearCopies lets a sidecar keep copies of hot keys.
	NearCopies NearCopies `json:"nearCopies,omitzero"`
	// TokenKeyFile holds the key that authenticates session tokens, the same for all sidecars, if there is no TLS: with
	// TLS, the certificates do, and it is ignored.
	TokenKeyFile string `json:"tokenKeyFile,omitempty"`
	// Auth names the users of whom Redis clients of a sidecar must be one. Without it, every client is accepted.
	Auth *Auth `json:"auth,omitempty"`
	// RedisTLS names the certificate of a sidecar for its clients, for listen.redisTLS.
	RedisTLS *RedisTLS `json:"redisTLS,omitempty"`
	// TLS enables mutual TLS between the parts.
	TLS *LinkTLS `json:"tls,omitempty"`
	// AllowPlaintext lets a part listen for other machines without TLS. Whoever reaches it can then read and write
	// everything.
	AllowPlaintext bool `json:"allowPlaintext,omitempty"`
	Log            Log  `json:"log,omitzero"`
}

// ParseConfig reads a configuration in YAML or JSON. It refuses unknown fields, which are most likely misspelled.
func ParseConfig(b []byte) (*Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict(b, &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// Addresses are the addresses (host:port) of the parts of one data center, in the order of their indices.
type Addresses struct {
	// Coordinators are those of all members of the coordinators: of coordinator 0 in the order of the members, then of
	// coordinator 1, and so on. Without coordinatorMembers in the topology, each has one.
	Coordinators []string `json:"coordinators,omitempty"`
	// Middlemen are those of all members of the middlemen, in the same order: shardMembers for each.
	Middlemen []string `json:"middlemen,omitempty"`
	Caches    []string `json:"caches,omitempty"`
	// Via is the address (host:port) of an egress, through which the parts of a data center in another region are
	// dialed. It finds a part by the TLS server name, which is the host in the address of the part, so it needs tls,
	// and addresses with names (see PartAddress).
	Via string `json:"via,omitempty"`
}

// Listen holds the addresses to listen on, as host:port. An empty host means all addresses of the machine.
type Listen struct {
	// GRPC is for the other parts. Default: the port of the own entry in Addresses, on that address if it is a loopback
	// address. Sidecars do not listen, they dial.
	GRPC string `json:"grpc,omitempty"`
	// Redis is for the clients of a sidecar. Default 127.0.0.1:6379. ListenNone listens for clients with TLS only.
	Redis string `json:"redis,omitempty"`
	// RedisTLS is for the clients of a sidecar that use TLS. Default: none.
	RedisTLS string `json:"redisTLS,omitempty"`
	// HTTP serves /healthz, /readyz and /metrics. Default :7480.
	HTTP string `json:"http,omitempty"`
}

// Storage selects the engine that holds the data of a shard.
type Storage struct {
	Engine   Engine          `json:"engine,omitempty"`
	Embedded EmbeddedStorage `json:"embedded,omitzero"`
	Redis    RedisStorage    `json:"redis,omitzero"`
	// Replicated makes a middleman keep a log and be a member of a group, for which it needs DataDir and a register,
	// also while its shard has one member: others can then be added while it runs. With several members it always does.
	Replicated bool `json:"replicated,omitempty"`
}

// EmbeddedStorage keeps the data in a folder of the middleman.
type EmbeddedStorage struct {
	Dir string `json:"dir,omitempty"`
	// CacheBytes bounds the block cache in memory.
	CacheBytes Bytes `json:"cacheBytes,omitempty"`
}

// RedisStorage keeps the data in a stock Redis server.
type RedisStorage struct {
	// Address is host:port; Socket is the path of a unix socket instead.
	Address  string `json:"address,omitempty"`
	Socket   string `json:"socket,omitempty"`
	Username string `json:"username,omitempty"`
	// Password, or PasswordFile, which holds it.
	Password     string `json:"password,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	Database     int    `json:"database,omitempty"`
	// TLS secures the connections to the server. Cert and Key are optional.
	TLS *TLS `json:"tls,omitempty"`
	// WaitReplicas is how many replicas must have each write before it counts as written.
	WaitReplicas int `json:"waitReplicas,omitempty"`
	// AllowUnsafe accepts a server whose settings may lose acknowledged writes. A crash of such a server breaks causal
	// consistency.
	AllowUnsafe bool `json:"allowUnsafe,omitempty"`
}

// Register says where the configurations of groups are.
type Register struct {
	Etcd *EtcdRegister `json:"etcd,omitempty"`
}

// EtcdRegister is a register in etcd. The data center may have an etcd of its own, whose servers have certificates with
// RoleEtcd: then the part connects with its own certificate (Config.TLS). TLS is for an etcd with other certificates.
type EtcdRegister struct {
	// Endpoints are the addresses (host:port) of all servers of one cluster.
	Endpoints []string `json:"endpoints,omitempty"`
	// Prefix is that of all keys: PREFIX/STORE/DATA CENTER/..., without the store if there is no Config.TLS. Default
	// causalstore.
	Prefix string `json:"prefix,omitempty"`
	TLS    *TLS   `json:"tls,omitempty"`
	// UsernameFile and PasswordFile name a user of etcd. They are read again for each connection.
	UsernameFile string `json:"usernameFile,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
}

// Limits bound memory and disk.
type Limits struct {
	// WriteBufferBytes bounds the writes of a coordinator that are not in every ring yet. Beyond it, writes are
	// refused. Default 256Mi.
	WriteBufferBytes Bytes `json:"writeBufferBytes,omitempty"`
	// LogBytes bounds the log of a coordinator on disk. Default 1Gi.
	LogBytes Bytes `json:"logBytes,omitempty"`
	// CacheBytes bounds a cache. Default 256Mi.
	CacheBytes Bytes `json:"cacheBytes,omitempty"`
	// OwnBytes bounds the values of incomplete own writes that a session keeps in memory. Default 16Mi.
	OwnBytes Bytes `json:"ownBytes,omitempty"`
	// HistoryBytes bounds the old versions that a middleman keeps for snapshot reads (PROTOCOL MGET-2). Default 64Mi.
	HistoryBytes Bytes `json:"historyBytes,omitempty"`
	// ReplyBytes bounds the replies of a middleman that wait to be sent; beyond it, reads wait and are refused. At
	// least 32Mi. Default an eighth of GOMEMLIMIT, from 32Mi to 256Mi; 256Mi without.
	ReplyBytes Bytes `json:"replyBytes,omitempty"`
	// QueueBytes bounds the messages that wait to be sent to one process. Default 32Mi.
	QueueBytes Bytes `json:"queueBytes,omitempty"`
	// Links bounds the links that sidecars may open to a part. Default 16384.
	Links int `json:"links,omitempty"`
	// LinksPerIdentity bounds those of one identity, such as the sidecars of a namespace in a data center. Default a
	// quarter of Links.
	LinksPerIdentity int         `json:"linksPerIdentity,omitempty"`
	Redis            RedisLimits `json:"redis,omitzero"`
}

// MaxKeyBytes and MaxValueBytes are the longest key and value that a store takes. Limits.Redis may only lower them.
const (
	MaxKeyBytes   = 64 << 10
	MaxValueBytes = 16 << 20
)

// RedisLimits bound the memory that clients can make a sidecar use. The defaults are those of resp.Limits.
type RedisLimits struct {
	// KeyBytes is the longest key: MaxKeyBytes at most, which is the default.
	KeyBytes Bytes `json:"keyBytes,omitempty"`
	// ValueBytes is the longest value or other argument: MaxValueBytes at most, which is the default.
	ValueBytes    Bytes `json:"valueBytes,omitempty"`
	Arguments     int   `json:"arguments,omitempty"`
	CommandBytes  Bytes `json:"commandBytes,omitempty"`
	InlineBytes   Bytes `json:"inlineBytes,omitempty"`
	PipelineBytes Bytes `json:"pipelineBytes,omitempty"`
	MGetKeys      int   `json:"mgetKeys,omitempty"`
	// ClientBytes bounds what all clients together take. Beyond it, the one that takes most is disconnected. Default
	// two fifths of GOMEMLIMIT, or 512Mi without.
	ClientBytes Bytes `json:"clientBytes,omitempty"`
	// Clients is how many may be connected. Further ones are refused. Default 10000.
	Clients      int      `json:"clients,omitempty"`
	WriteTimeout Duration `json:"writeTimeout,omitempty"`
}

// NearCopies configures the copies of hot keys that a sidecar keeps.
type NearCopies struct {
	// MaxBytes bounds their memory; 0: there are none. The default follows from the scope (Scope.NearBytes).
	MaxBytes *Bytes `json:"maxBytes,omitempty"`
}

// DefaultNearBytes is the default of NearCopies.MaxBytes with scope DataCenter and caches.
const DefaultNearBytes = 8 << 20

// MinReplyBytes is the least Limits.ReplyBytes: there must be room for the largest message.
const MinReplyBytes = 32 << 20

// MinNearBytes is the least NearCopies.MaxBytes, if there are to be any.
const MinNearBytes = 64 << 10

// Session configures the sessions of a sidecar.
type Session struct {
	Scope Scope `json:"scope,omitempty"`
	// PerConnection makes each connection a session, with scope DataCenter too. Fronts set it.
	PerConnection bool `json:"perConnection,omitempty"`
	// Reads is the level of the sessions: Latest or Snapshot. The default is Latest; with scope DataCenter it is
	// Snapshot, and nothing else.
	Reads string `json:"reads,omitempty"`
	// ReadTimeout and WriteTimeout bound one operation. Default 5s.
	ReadTimeout  Duration `json:"readTimeout,omitempty"`
	WriteTimeout Duration `json:"writeTimeout,omitempty"`
}

// Auth says who the Redis clients of a sidecar may be.
type Auth struct {
	// UsersFile holds the users, see ParseUsers. It may change while the process runs.
	UsersFile string `json:"usersFile,omitempty"`
}

// RedisTLS names PEM files. They are read for every new connection, so that a rotation needs no restart.
type RedisTLS struct {
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	// ClientCA holds the authorities of clients. If it is given, clients need a certificate of theirs.
	ClientCA string `json:"clientCA,omitempty"`
}

// LinkTLS names the files for links between parts. They are read again when they change. Cert and Key are PEM files
// with a certificate that carries the Identity of the part; in their names, $INDEX stands for the index of the process.
// Trust is the name of a Trust file.
type LinkTLS struct {
	Cert  string `json:"cert,omitempty"`
	Key   string `json:"key,omitempty"`
	Trust string `json:"trust,omitempty"`
}

// TLS names PEM files for the connections to a storage server or an etcd.
type TLS struct {
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	CA   string `json:"ca,omitempty"`
	// ServerName is the name that the certificate of the server must have. Default: the host that is dialed.
	ServerName string `json:"serverName,omitempty"`
}

// Log configures the log. The level may change while the process runs.
type Log struct {
	// Level is debug, info (the default), warn or error.
	Level string `json:"level,omitempty"`
	// Format is LogText or LogJSON.
	Format string `json:"format,omitempty"`
}
