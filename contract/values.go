package contract

import "strings"

// Engine is a kind of storage.
type Engine string

// The engines.
const (
	EngineEmbedded Engine = "embedded"
	EngineRedis    Engine = "redis"
)

// Scope decides which connections to a sidecar share a session.
type Scope string

// The scopes.
const (
	// ScopePod makes all connections to a sidecar one session. The default of a configuration file.
	ScopePod        Scope = "Pod"
	ScopeConnection Scope = "Connection"
	// ScopeDataCenter makes all sidecars of a data center one server to their clients.
	ScopeDataCenter Scope = "DataCenter"
)

// NearBytes is the default of NearCopies.MaxBytes with a scope, written in any case: none without caches, which give
// near copies.
func (s Scope) NearBytes(caches bool) Bytes {
	if caches && strings.EqualFold(string(s), string(ScopeDataCenter)) {
		return DefaultNearBytes
	}
	return 0
}

// The formats of log lines.
const (
	LogText = "text" // the default
	LogJSON = "json"
)

// Ports that parts listen on by default, and the usual one for Redis clients with TLS.
const (
	DefaultRedisPort = 6379
	RedisTLSPort     = 6380
	DefaultHTTPPort  = 7480
	// DefaultPartsPort is that of the pods in Kubernetes, and in the addresses of parts in other regions.
	DefaultPartsPort = 7400
)

// OperatorConsole is where the operator serves the live page of stores, unless its flags say otherwise: reached by a
// port-forward.
const OperatorConsole = "127.0.0.1:8082"

// ListenNone in the place of an address means not to listen.
const ListenNone = "none"
