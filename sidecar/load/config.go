package load

import (
	"io"
	"time"
)

// Endpoint is a RESP server. Name is the data centre in the history; it must be unique.
type Endpoint struct {
	Name string
	Addr string // host:port
}

// Naming says what is one session in the history.
type Naming string

// The ways to name sessions.
const (
	// ByConnection: every connection is a session of its own, and ends with it.
	ByConnection Naming = "connection"
	// ByEndpoint: all connections to one endpoint are one session (scope Pod).
	ByEndpoint Naming = "endpoint"
)

// Config says what to do to whom. The zero values of the optional fields are replaced by the defaults named.
type Config struct {
	Endpoints []Endpoint
	// Sessions are spread round robin over the endpoints. Default 1.
	Sessions int
	// ConnectionsPerSession is for ByEndpoint. Default 1.
	ConnectionsPerSession int
	// SessionNaming defaults to ByConnection.
	SessionNaming Naming

	// Duration and Ops bound the run; at least one must be given.
	Duration time.Duration
	Ops      int64
	// Rate is operations a second of all connections together; 0 is the closed loop.
	Rate float64
	// Arrivals is how they are spread over time, Uniform if left out; Burst lets the rate go up and down.
	Arrivals Arrivals
	Burst    Burst
	// Pipeline is how many operations a connection sends at once; in the open loop at most, of those that are due. Default 1.
	Pipeline int
	// Timeout bounds connecting and every round trip. Default 5 s.
	Timeout time.Duration
	// Protocol is the version of RESP, 2 or 3. Default 3.
	Protocol int

	// Workload says what is asked. Nil is the mix of the fields from Theta to ValueBytes, which shows whether a store is
	// causal; a Workload has its own instead.
	Workload *Workload
	// Keys is the number of keys that all share. Default that of the Workload, or 1000.
	Keys int
	// MaxKeys is up to how many keys there may be by inserts. Default that of the Workload.
	MaxKeys int
	// LoadKeys is how many keys of the Workload are written before the load: 0 is all, -1 none.
	LoadKeys int
	// MaxBytes bounds what the keys of a Workload may hold. Default 2 GiB.
	MaxBytes int64
	// Hot is a set of keys that is asked for more often; its default is that of the Workload.
	Hot Hot
	// KeyPrefix stands before every key. Where a history is kept, the default is new for every run, since what an earlier run
	// has left would be values that nobody wrote.
	KeyPrefix string
	// Theta is the skew of YCSB's zipfian distribution, 0 (uniform) to below 1. YCSB's own is 0.99.
	Theta float64
	// PrivateKeyShare is the share of operations that go to keys which no other connection uses: Keys divided by the
	// number of connections for each, but at least 1.
	PrivateKeyShare float64
	// ReadRatio, MGetRatio and DeleteRatio are the shares of GET, MGET and DEL; the rest is SET.
	ReadRatio, MGetRatio, DeleteRatio float64
	// MGetKeys is the number of keys of an MGET. Default 4, at most Keys.
	MGetKeys int
	// ValueBytes pads values to that length. Default 0: as short as uniqueness allows.
	ValueBytes int
	// Seed makes the choice of operations repeatable.
	Seed uint64

	// Series takes a line of CSV for every second of the load; nil writes none.
	Series io.Writer
	// Record takes the history as JSON lines; nil records nothing.
	Record io.Writer
	// CaptureVersions asks CAUSAL LAST after every operation, in the same pipeline. Endpoints that do not know the command
	// are not asked again.
	CaptureVersions bool
	// FinalReads reads every written key at every endpoint when all is done, until the endpoints agree.
	FinalReads bool
	// FinalTimeout bounds that. Default 60 s.
	FinalTimeout time.Duration
}
