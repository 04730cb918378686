package middleman

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a middleman.
type Config struct {
	Topology *topology.Topology
	Self     topology.Node
	// Incarnation is greater than zero and differs from that of every earlier start.
	Incarnation uint64
	// Lineage is that of the storage, with this start as the last one; the zero Lineage: nothing is compared. Changes
	// is how far the storage has come.
	Lineage causal.Lineage
	Changes uint64
	// Horizon is the durable tombstone horizon: every put at or below it has been processed.
	Horizon causal.HLC
	// Fences are durable: puts of an origin whose log is of a lower generation are refused.
	Fences causal.Fences
	// Exclusions are durable: what this middleman applies.
	Exclusions causal.Exclusions
	// Fresh says that the storage has never been used, so no cache holds a copy of anything in it.
	Fresh bool
	// Emptied says that the storage has never been used, though coordinators have heard of an earlier start of the
	// shard. One that has restarted since may have forgotten what the shard has acknowledged to it.
	Emptied bool
	// DataLost says that the storage has lost data that an earlier incarnation has acknowledged. The middleman then
	// answers no read; it takes and acknowledges puts, so that the writes of others complete. If there are other rings,
	// it gets the data back from them (HasRefilled).
	DataLost bool
	// DataKept says, with DataLost, that storage holds what the shard had acknowledged when its data center was
	// excluded, and that this counts: nothing is copied from other rings. It gets what is not complete from the
	// coordinators.
	DataKept bool
	// Missing are the keys that were lost, with DataLost, if the storage has all others that were acknowledged; nil:
	// any may be.
	Missing causal.KeyRanges
	// AcceptLoss says, with DataLost, that what no other ring has either is given up.
	AcceptLoss bool
	// Inherited says that caches may hold copies that this middleman cannot invalidate: it has taken over slots from
	// other middlemen, or the number of caches has changed. It acknowledges nothing until the leases on such copies
	// have expired.
	Inherited bool
	// Lease is how long a cache may serve its copies without hearing from the middleman. It must be the same
	// everywhere, and may be lowered only while no middleman runs.
	Lease time.Duration
	// DepRetryInterval is when an unanswered dependency check is sent again.
	DepRetryInterval time.Duration
	// KeepMs is how long old versions and tombstones are kept once they are below SV, for reads at snapshot cuts, in
	// milliseconds.
	KeepMs int64
	// ExpiredMs is how long a value is kept after it has expired in all data centers, and is complete there, in
	// milliseconds. Nobody takes it for alive that long, or has not seen it: a sidecar's clock may be a minute behind,
	// a timestamp 10 s ahead, and an operation may have read 20 s before it writes.
	ExpiredMs int64
	// MaxHistoryBytes bounds the memory of old versions.
	MaxHistoryBytes int
	// MaxCopies bounds the keys of which it is remembered which data centers hold copies.
	MaxCopies int
	// BackfillPage is about how many keys are listed at once while lost data are copied from other rings.
	BackfillPage int
	// SalvageBytes is about the size of a page of what storage holds of a log that is given up: it has to fit into the
	// queue of a link.
	SalvageBytes int
	// OwnerOf returns the identity behind a node, as for causal.Quota; nil: there are none.
	OwnerOf func(topology.Node) string
	// Types are the types of values that are known here; nil: registers only. MembersRead returns what the members of
	// the shard's group read, of which Lacking reads least; nil: it has no others.
	Types       *value.Types
	MembersRead func(causal.Now) causal.FormatReply
	Broken      causal.Mutations
}

// DefaultLease is the default of Config.Lease.
const DefaultLease = 3 * time.Second

// DefaultConfig returns the defaults for a middleman of t.
func DefaultConfig(t *topology.Topology, self topology.Node) Config {
	return Config{
		Topology: t, Self: self, Lease: DefaultLease, DepRetryInterval: 500 * time.Millisecond, KeepMs: 3000,
		ExpiredMs: 90_000, MaxHistoryBytes: 64 << 20, MaxCopies: 4 << 20, BackfillPage: 512, SalvageBytes: 8 << 20,
	}
}
