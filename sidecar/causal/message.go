package causal

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Kind is what a Message says.
type Kind uint8

// The messages of the protocol. Beside each, the fields it uses beyond From and To.
const (
	KindNone Kind = iota

	// Reads.
	KindGet       // sidecar -> middleman or cache: ID Key Cut(everything at or below is complete) VersionOnly Older HLC(greatest seen, if it is bound or Older)
	KindGetReply  // -> sidecar: ID Record Status Ring Hit Err Map(with ErrMoved)
	KindFill      // cache -> middleman: ID Key Epoch Older Cut HLC
	KindFillReply // middleman -> cache, on the stream: ID Record Status Ring Err Map(with ErrMoved) Epoch Seq Cut(HLC of the next version, if there is one)

	// Writes.
	KindPut      // sidecar -> coordinator: ID Session Seq Key Record.Value HLC(floor) Deps
	KindPutReply // coordinator -> sidecar: ID Record.Version Err
	KindComplete // coordinator -> sidecar: Session Versions
	KindPutAfter // coordinator -> middleman: Key Record Deps HLC(of the one before it for this shard) Cut(all up to here acknowledged)
	//               Seq(how many of the last Deps are lanes, not single writes) Clean(it is complete already) Map(that the lane is of)
	KindPutAck    // middleman -> coordinator: Versions Epoch(incarnation)
	KindStable    // coordinator -> middleman: HLC(SV of the origin) Versions(complete, above it)
	KindLaneHello // middleman -> coordinator, after a restart: Epoch(incarnation) Map Clean(only who is away) : send again what I may have lost
	KindLaneSync  // coordinator -> middleman: Epoch HLC(newest write for this shard that was sent) Cut(all up to here acknowledged) Map
	//               Seq(bits of the coordinators of the DC that are away)
	KindLogGet   // sidecar -> coordinator: ID Record.Version
	KindLogReply // coordinator -> sidecar: ID Record Err(NotFound once complete)

	// Dependencies.
	KindDepCheck  // middleman or sidecar -> middleman: Versions[0] : tell me when it is processed, and when it is clean
	KindDepStatus // middleman -> asker: Versions[0] Ring Clean
	KindFrontier  // middleman -> middlemen of its ring: Vectors(by origin: RV[0] received, SV locally clean) Map

	// Caches.
	KindStreamOpen    // cache -> middleman: Epoch Session(incarnation of the middleman)
	KindStreamReset   // middleman -> cache: Epoch(greatest seen) Session(incarnation) : open a new one, above it
	KindLease         // cache -> middleman: Epoch ID Seq(cumulative acknowledgement)
	KindLeaseGrant    // middleman -> cache, on the stream: Epoch Seq ID Duration
	KindInvalidate    // middleman -> cache, on the stream: Epoch Seq Hash HLC(of the new version)
	KindInvalidateAck // cache -> middleman: Epoch Seq(cumulative)

	// Stability.
	KindVectors   // coordinator -> leader -> leaders -> nodes: Vectors Seq(to nodes: bits of the coordinators of the DC that are in use)
	KindSubscribe // sidecar -> leader: send me the vectors for a while
	KindPing      // leader, or anybody while a ring changes -> middleman: ID
	KindPong      // middleman -> who asked: ID Map
	KindLatencies // leader -> nodes of its DC: Latencies
	KindTerm      // coordinator that is away -> leader: ID Seq(term) HLC(all its writes are at or below) Clean(it wants to come)
	KindTermReply // leader -> coordinator: ID Seq(term) HLC(to begin above) Clean(the leader's topology counts it)

	// Sizes.
	KindCut        // sidecar -> cache: Cut(will soon be read at)
	KindCount      // sidecar -> middleman: ID
	KindCountReply // middleman -> sidecar: ID Seq(keys)

	// Changes of shards.
	KindPull   // middleman that takes slots in -> one that gives them away: see Mover
	KindPulled // and back

	kindEnd
)

var kindNames = [...]string{"none", "get", "get-reply", "fill", "fill-reply", "put", "put-reply", "complete", "put-after",
	"put-ack", "stable", "lane-hello", "lane-sync", "log-get", "log-reply", "dep-check", "dep-status", "frontier", "stream-open", "stream-reset",
	"lease", "lease-grant", "invalidate", "invalidate-ack", "vectors", "subscribe", "ping", "pong", "latencies", "term", "term-reply", "cut", "count", "count-reply",
	"pull", "pulled"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ErrCode is a failure that travels in a message.
type ErrCode uint8

// The failures.
const (
	OK             ErrCode = iota
	ErrBusy                // a bound was reached; nothing was done
	ErrClock               // a timestamp too far ahead of the clock; nothing was done
	ErrCutTooOld           // the versions of that cut are gone: take a newer one
	ErrNotFound            // the log does not hold it any more
	ErrStorage             // the store below failed; nothing was served
	ErrUnavailable         // no node that may answer is reachable; nothing was done
	ErrUnknown             // the put may or may not have been accepted
	ErrStale               // a put that was overtaken by a later one of its session; nothing was done
	ErrStarting            // the node is not ready yet
	ErrMoved               // the slot of the key belongs to another middleman
)

var errNames = [...]string{"ok", "busy", "clock", "cut too old", "not found", "storage", "unavailable", "outcome unknown",
	"stale", "starting", "moved"}

func (e ErrCode) String() string {
	if int(e) < len(errNames) {
		return errNames[e]
	}
	return fmt.Sprintf("error(%d)", uint8(e))
}

// VectorEntry is what is known of the writes of one origin.
type VectorEntry struct {
	Origin topology.Origin
	// Last: the entry holds for all origins from Origin to this one; 0: for Origin alone.
	Last topology.Origin
	// SV: every write of the origin at or below it is complete.
	SV HLC
	// RV[r]: every write of the origin at or below it is acknowledged by ring r. Left out, it is SV for every ring.
	RV []HLC
}

// Message is one flat record for all kinds: one codec, one queue, no boxing. Unused fields are zero.
type Message struct {
	Kind        Kind
	Status      Status
	Err         ErrCode
	Ring        topology.RingID
	Clean       bool // KindDepStatus: also acknowledged, with its dependencies; KindPutAfter
	Hit         bool // KindGetReply: answered from the cache
	VersionOnly bool // KindGet: the value is not wanted
	Older       bool // KindGet, KindFill: the newest version at or below Cut and HLC, not the newest of all
	Map         topology.MapID

	From, To topology.Node
	ID       uint64
	Session  uint64
	Seq      uint64
	Epoch    uint64
	Hash     uint64
	HLC      HLC
	Cut      HLC
	Duration int64 // nanoseconds

	Key       string
	Record    Record
	Deps      []Dep
	Versions  []Version
	Vectors   []VectorEntry
	Latencies []float64 // milliseconds, by DC; negative: unreachable
	Moved     []Moved
}
