package load

import (
	"io"
	"time"
)

// Endpoint is a RESP server. Its name must be unique.
type Endpoint struct {
	Name string
	Addr string // host:port
	// DataCenter is where it is, as the history says; default: Name. A data center may have several endpoints.
	DataCenter string
}

// Naming says which operations the history attributes to one session.
type Naming string

// The ways to name sessions.
const (
	// ByConnection: every connection is a session, which ends with the connection.
	ByConnection Naming = "connection"
	// ByEndpoint: all connections to one endpoint share a session (scope Pod).
	ByEndpoint Naming = "endpoint"
)

// Config describes a load. Zero values of optional fields mean the documented defaults.
type Config struct {
	Endpoints []Endpoint
	// Sessions are spread round robin over the endpoints. Default 1.
	Sessions int
	// ConnectionsPerSession applies to ByEndpoint. Default 1.
	ConnectionsPerSession int
	// SessionNaming defaults to ByConnection.
	SessionNaming Naming

	// Duration and Ops bound the run; set at least one.
	Duration time.Duration
	Ops      int64
	// Rate is the number of operations per second of all connections together; 0 selects the closed loop.
	Rate float64
	// Arrivals is how operations are spread over time, Uniform by default; Burst varies the rate.
	Arrivals Arrivals
	Burst    Burst
	// Pipeline is how many operations a connection sends at once; in the open loop it bounds how many due operations
	// are sent together. Default 1.
	Pipeline int
	// Timeout bounds connecting and every round trip. Default 5 s.
	Timeout time.Duration
	// Protocol is the RESP version, 2 or 3. Default 3.
	Protocol int

	// Promise is what the mix without a Workload is made to check; default Causal.
	Promise Promise
	// Workload is the operation mix. If it is nil, the fields from Theta to ValueBytes describe a mix that is made to
	// check causality; a Workload replaces those fields.
	Workload *Workload
	// Keys is the number of shared keys. Default: that of the Workload, or 1000.
	Keys int
	// MaxKeys bounds the keys that inserts can create. Default: that of the Workload.
	MaxKeys int
	// LoadKeys is how many keys of the Workload are preloaded: 0 means all, -1 none.
	LoadKeys int
	// MaxBytes bounds the data of a Workload's keys. Default 2 GiB.
	MaxBytes int64
	// Hot is a set of keys that are accessed more often. Default: that of the Workload.
	Hot Hot
	// KeyPrefix starts the name of every key. If a history is recorded, the default is new for every run: values of
	// earlier runs would look like values that nobody wrote.
	KeyPrefix string
	// Theta is the skew of YCSB's zipfian distribution, from 0 (uniform) to below 1. YCSB uses 0.99.
	Theta float64
	// PrivateKeyShare is the share of operations on keys that no other connection uses: Keys divided by the number of
	// connections for each, but at least 1.
	PrivateKeyShare float64
	// ReadRatio, MGetRatio and DeleteRatio are the shares of GET, MGET and DEL; the rest is SET.
	ReadRatio, MGetRatio, DeleteRatio float64
	// MGetKeys is the number of keys per MGET. Default 4, at most Keys.
	MGetKeys int
	// ValueBytes pads values to this length. Default 0: as short as uniqueness allows.
	ValueBytes int
	// Seed makes the choice of operations repeatable.
	Seed uint64

	// Series receives a line of CSV for every second of the load; nil writes none.
	Series io.Writer
	// Observe is called for every operation of the load when it has ended; nil observes none. One call is made at a
	// time, while connections wait: it must return soon.
	Observe func(Observation)
	// Record receives the history as JSON lines; nil records none.
	Record io.Writer
	// CaptureVersions sends CAUSAL LAST after every operation, in the same pipeline. Endpoints that do not know the
	// command are not asked again.
	CaptureVersions bool
	// FinalReads reads every written key at every endpoint after the load, until the endpoints agree.
	FinalReads bool
	// FinalTimeout bounds the final reads. Default 60 s.
	FinalTimeout time.Duration
}
