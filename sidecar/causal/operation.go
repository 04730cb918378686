package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// SidecarConfig is what a sidecar is told at its start.
type SidecarConfig struct {
	Topology *topology.Topology
	Self     topology.Node
	// Static pins every session to the ring of its own DC (COPS-PR).
	Static bool
	// UseCache reads of unbound sessions go through the DC's cache, if it has one.
	UseCache bool
	// Snapshot makes sessions read at a cut at which everything is complete, and so stay unbound.
	Snapshot bool
	// SnapshotEvery is how far apart cuts are. Between two of them nothing that is cached goes out of date.
	SnapshotEvery time.Duration
	// SnapshotAhead is how long before it is used the caches are told of a cut.
	SnapshotAhead time.Duration
	// MaxSnapshotLag is when such reads give up on a cut that does not move, and take the newest versions.
	MaxSnapshotLag time.Duration
	// ReadTimeout and PutTimeout bound an operation.
	ReadTimeout, PutTimeout time.Duration
	// MaxOwnBytes bounds the values of incomplete own writes that a session keeps in memory; older ones are read from the
	// coordinator's log.
	MaxOwnBytes int
	// MaxBound bounds the in-flight versions that a session may have read; beyond it reads of further ones wait.
	MaxBound int
	// OneRing binds a session to the one ring that it read from, and AskEach lifts restrictions by notify-after and not by
	// SV, as Karma does.
	OneRing, AskEach bool
	// LagBound is when a restriction that SV does not lift is asked for in every ring.
	LagBound time.Duration
	// TokenKey authenticates session tokens.
	TokenKey []byte
	Broken   Faults
}

// DefaultSidecarConfig returns the defaults for a sidecar of t.
func DefaultSidecarConfig(t *topology.Topology, self topology.Node) SidecarConfig {
	return SidecarConfig{
		Topology: t, Self: self, UseCache: true, ReadTimeout: 5 * time.Second, PutTimeout: 5 * time.Second,
		MaxOwnBytes: 16 << 20, MaxBound: 4096, LagBound: 2 * time.Second,
		SnapshotEvery: 500 * time.Millisecond, SnapshotAhead: 250 * time.Millisecond, MaxSnapshotLag: 3 * time.Second,
	}
}

// OpKind is what a client asks of a session.
type OpKind uint8

// The operations.
const (
	OpGet OpKind = iota
	OpMGet
	OpPut
	OpToken  // export the session
	OpResume // go on with an exported session
	OpWait   // until the own writes are in a ring, or in all
	OpCount  // keys in a ring, an estimate
)

// Op is one operation. ID is the caller's and comes back in the Result.
type Op struct {
	Kind    OpKind
	Ring    topology.RingID // OpWait; NoRing: all rings and out of all caches
	ID      uint64
	Session uint64
	Timeout time.Duration // 0: the default
	Key     string
	Keys    []string
	Value   Value
	Token   string
	Latest  bool // OpGet, OpMGet: the newest version, also with Snapshot
}

// Source says where a value came from.
type Source uint8

// The sources of a value.
const (
	SourceNone   Source = iota
	SourceOwn           // own incomplete write
	SourceCache         // DC cache
	SourceLocal         // shard in the own DC
	SourceRemote        // shard in another DC
)

func (s Source) String() string {
	return [...]string{"none", "own", "cache", "local", "remote"}[s]
}

// Outcome is how an operation was answered.
type Outcome struct {
	Version Version
	Source  Source
	Status  Status
	Ring    topology.RingID
	// Bound is set if the session was bound when it asked.
	Bound bool
}

// Result answers an Op.
type Result struct {
	ID      uint64
	Err     ErrCode
	Record  Record
	Records []Record // OpMGet, in the order of Keys
	Token   string
	Count   int64
	Outcome Outcome
}
