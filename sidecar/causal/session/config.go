package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a sidecar.
type Config struct {
	Topology *topology.Topology
	Self     topology.Node
	// Binding says which rings sessions read from.
	Binding causal.Binding
	// UseCache lets unbound sessions read through the data center's cache, if it has one.
	UseCache bool
	// Level is that of the sessions, and of operations that name none; causal.DefaultLevel: Latest. With Snapshot, cuts
	// move, and all sessions keep what reads at cuts need; without, there are none to read at.
	Level causal.Level
	// SnapshotInterval is the distance between two cuts. Between them no cached value goes out of date.
	SnapshotInterval time.Duration
	// SnapshotLead is how long after it is complete a cut is first used: the caches of the data center must have heard
	// so, too.
	SnapshotLead time.Duration
	// MaxSnapshotLag is how long a cut may stay the same before sessions stop using it and read the newest versions. It
	// should be longer than a write takes to be complete while all that goes to one data center is late.
	MaxSnapshotLag time.Duration
	// MaxSilentLag is the same while nothing has been heard of a data center for so long: what needs that one will not
	// be complete.
	MaxSilentLag time.Duration
	// LeftOut is how many data centers the cut leaves out: those whose writes become complete last. 0: causal.LeftOut
	// of all.
	LeftOut int
	// LateAfter is how long the least SV must have stood still before the cut moves on without the data center that it
	// is of; it should be well below MaxSilentLag. What is older than that at the cut is then read even if it is not
	// complete.
	LateAfter time.Duration
	// ReadTimeout and PutTimeout bound operations that set no timeout of their own.
	ReadTimeout, PutTimeout time.Duration
	// PutRecovery is how long the puts in flight to a coordinator wait when it has stopped, until it or another member
	// of its group serves; then their outcome is unknown. It is that anyway when they are past their timeout. 0: four
	// fifths of PutTimeout.
	PutRecovery time.Duration
	// MaxOwnBytes bounds the own writes that a session keeps in memory. The values of older ones are read from the
	// coordinator's log.
	MaxOwnBytes int
	// MaxRestrictions bounds the in-flight versions that a session may have read. At the bound, reads of further ones
	// wait.
	MaxRestrictions int
	// MaxNearBytes bounds the near copies that the sidecar keeps, in bytes; 0: it keeps none. A key is copied once
	// NearHotReads gets of it were made within NearHotWindow; those of earlier windows count half as much with each.
	MaxNearBytes  int
	NearHotReads  uint8
	NearHotWindow time.Duration
	// MaxMGetBytes bounds what all MGETs in progress hold: values, and some bytes for each key. One that would exceed
	// it fails with ErrBusy.
	MaxMGetBytes int
	// MaxInFlight bounds the requests that are in flight, for pipelined gets (DoGets): while there are as many, only
	// the first get of each pipeline is started. A cache or shard that had to answer all that thousands of clients send
	// at once would take longer for the last of them than its time-out allows, and each would be sent elsewhere. 0: no
	// bound.
	MaxInFlight int
	// MaxAheadBytes bounds the values that pipelined gets (DoGets) have read and that were not taken over with
	// ReleaseAhead. A get that would exceed it fails with ErrBusy, and so do those behind it. 0: no bound.
	MaxAheadBytes int
	// NotifyAfterDelay is how long a restriction may wait for SV before every ring is asked for it by notify-after.
	NotifyAfterDelay time.Duration
	// Types are the types of values that are known here; nil: registers only.
	Types *value.Types
	// Comparison is set by the laboratory only. Production leaves it zero.
	Comparison Comparison
	// Broken is set by the simulator's self-tests only. Production leaves it zero.
	Broken causal.Mutations
}

// Comparison switches off what this protocol adds to Karma's session rules, so that the laboratory can measure what
// each addition brings. Both variants are correct; both make sessions stay bound for longer.
type Comparison struct {
	// WithoutRingSets binds a session to the one ring that it read from, even if more rings are known to have the
	// version.
	WithoutRingSets bool
	// WithoutSVLifting lifts restrictions by notify-after only, which is sent at once, and not by SV.
	WithoutSVLifting bool
}

// DefaultMGetBytes is the default of Config.MaxMGetBytes.
const DefaultMGetBytes = 256 << 20

// DefaultConfig returns the defaults for a sidecar of t.
func DefaultConfig(t *topology.Topology, self topology.Node) Config {
	return Config{
		Topology: t, Self: self, UseCache: true, Level: causal.Latest,
		ReadTimeout: 5 * time.Second, PutTimeout: 5 * time.Second,
		MaxOwnBytes: 16 << 20, MaxMGetBytes: DefaultMGetBytes, MaxRestrictions: causal.MaxRestrictions,
		MaxInFlight: 4096, NotifyAfterDelay: 2 * time.Second,
		SnapshotInterval: 50 * time.Millisecond, SnapshotLead: 10 * time.Millisecond, MaxSnapshotLag: 5 * time.Second,
		MaxSilentLag: 2 * time.Second, LateAfter: time.Second,
		NearHotReads: 4, NearHotWindow: time.Second,
	}
}
