package causal

import (
	"fmt"

	"github.com/causalstore/causalstore/topology"
)

// Kind is the kind of a Message.
type Kind uint8

// The messages of the protocol. The content of each is a type of its own, in the files messages_*.go.
const (
	KindNone Kind = iota

	// Reads.
	KindGet       // sidecar -> middleman or cache
	KindGetReply  // middleman or cache -> sidecar
	KindFill      // cache -> middleman
	KindFillReply // middleman -> cache, on the stream

	// Writes.
	KindPut       // sidecar -> coordinator
	KindPutReply  // coordinator -> sidecar
	KindComplete  // coordinator -> sidecar
	KindPutAfter  // coordinator -> middleman
	KindPutAck    // middleman -> coordinator
	KindStable    // coordinator -> middleman; see StableMarks
	KindLaneHello // middleman -> coordinator
	KindLaneSync  // coordinator -> middleman
	KindLogGet    // sidecar -> coordinator
	KindLogReply  // coordinator -> sidecar

	// Dependencies.
	KindDepCheck  // middleman or sidecar -> middleman
	KindDepStatus // middleman -> middleman or sidecar
	KindFrontier  // middleman -> middlemen of its ring

	// Streams to caches.
	KindStreamOpen    // cache -> middleman
	KindStreamReset   // middleman -> cache
	KindLease         // cache -> middleman; see LeaseRenewal
	KindLeaseGrant    // middleman -> cache, on the stream
	KindInvalidate    // middleman -> cache, on the stream
	KindInvalidateAck // cache -> middleman

	// Stability and routes.
	KindVectors   // coordinator -> leader -> leaders -> nodes
	KindSubscribe // sidecar -> leader
	KindPing      // leader, or any part during a resharding -> middleman
	KindPong      // middleman -> who asked
	KindLatencies // leader -> nodes of its data center
	KindTerm      // coordinator that is away -> leader
	KindTermReply // leader -> coordinator
	KindPastQuery // part with an empty disk -> parts that would know of its past
	KindPastReply // and back

	KindCut        // sidecar -> cache; see CutNotice
	KindCount      // sidecar -> middleman
	KindCountReply // middleman -> sidecar

	// Resharding.
	KindPull   // middleman that takes slots -> one that gives them away
	KindPulled // and back

	KindDepProbe   // middleman -> middleman of its ring
	KindDepMissing // and back
	KindScan       // sidecar -> middleman
	KindScanReply  // middleman -> sidecar

	KindSignedVectors // leader -> leaders of other data centers, which pass it on

	KindGroup // member of a group -> member of it
	KindCopy  // member of a shard's group -> member of it

	// The log of a coordinator that is given up.
	KindSalvage    // coordinator -> middleman
	KindSalvaged   // and back
	KindTermQuery  // leader -> coordinator of its data center
	KindTermAnswer // and back

	// Adoption of the writes of a silent origin.
	KindAdoptQuery // leader -> middleman
	KindAdoptHeld  // and back
	KindAdoptPut   // leader -> middleman
	KindAdoptStep  // leader -> middleman
	KindAdoptState // and back

	// Homes.
	KindHomeRead  // sidecar -> coordinator of its data center
	KindHomeReply // and back

	KindHomeCommit // sidecar -> coordinator of its data center

	// The number of homes.
	KindHomeChange // leader -> coordinator of its data center
	KindHomeVote   // and back
	KindHomes      // coordinator -> sidecar of its data center

	KindHomeVerdict // coordinator -> another one of its data center: about a commit of several homes

	KindFormatQuery // leader -> parts of its data center, and leaders; coordinator -> its leader; member -> its group
	KindFormatReply // and back

	KindHomeWait // sidecar -> coordinator of its data center
	KindHomeWake // and back

	// NumKinds is above the kinds that this version knows.
	NumKinds
)

var kindNames = [...]string{"none", "get", "get-reply", "fill", "fill-reply", "put", "put-reply", "complete",
	"put-after",
	"put-ack", "stable", "lane-hello", "lane-sync", "log-get", "log-reply", "dep-check", "dep-status", "frontier",
	"stream-open", "stream-reset",
	"lease", "lease-grant", "invalidate", "invalidate-ack", "vectors", "subscribe", "ping", "pong", "latencies", "term",
	"term-reply", "past-query", "past-reply", "cut", "count", "count-reply",
	"pull", "pulled", "dep-probe", "dep-missing", "scan", "scan-reply", "signed-vectors", "group", "copy",
	"salvage", "salvaged", "term-query", "term-answer",
	"adopt-query", "adopt-held", "adopt-put", "adopt-step", "adopt-state", "home-read", "home-reply",
	"home-commit", "home-change", "home-vote", "homes", "home-verdict", "format-query", "format-reply",
	"home-wait", "home-wake"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// IsPut reports whether a message of the kind asks a coordinator to accept writes: it must not be lost unnoticed.
func (k Kind) IsPut() bool { return k == KindPut || k == KindHomeCommit }

// ErrCode is a failure that a message reports.
type ErrCode uint8

// The failures.
const (
	OK             ErrCode = iota
	ErrBusy                // a limit was reached; nothing was done
	ErrClock               // a timestamp is too far ahead of the clock; nothing was done
	ErrCutTooOld           // the versions at that cut are no longer kept
	ErrNotFound            // the log no longer holds it
	ErrStorage             // the storage failed; nothing was served
	ErrUnavailable         // no node that may answer can be reached; nothing was done
	ErrUnknown             // the put may or may not have been accepted
	ErrStale               // a later put of the session has overtaken this one; nothing was done, and will not be
	ErrStarting            // the node is not ready yet
	ErrMoved               // another middleman owns the slot of the key
	ErrDataLost            // the storage has lost data that it had acknowledged; other rings have it
	ErrTooLarge            // a key, a value or a list is beyond the bounds; nothing was done
	ErrType                // the type of a value is not known here; nothing was done
	ErrConflict            // the key was written since it was read; nothing was done
	ErrLocked              // a commit of several homes keeps the key; nothing was done
	ErrFormat              // not all parts are known to read values of this format; nothing was done
)

var errNames = [...]string{"ok", "busy", "clock", "cut too old", "not found", "storage", "unavailable",
	"outcome unknown",
	"stale", "starting", "moved", "data lost", "too large", "unknown type of value", "conflict",
	"locked", "format of value not usable yet"}

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
	// Settled: every write of the origin at or below it is complete, or was lost with a log that was given up. 0: it is
	// SV.
	Settled HLC
}

// Message is one message of any kind. Its content is built and read through the type of its kind, e.g. Put.Message and
// Message.Put. That of the frequent kinds is in fields, without an allocation; that of all others is the body.
type Message struct {
	Kind     Kind
	From, To topology.Node
	fields   Fields
	body     Body
}

// Fields holds the content of a message of a kind without a Body in the form in which it is encoded, and Exclusions of
// every message. What a field means depends on the kind, so only the types of the contents and the codec use it.
type Fields struct {
	Status      Status
	Err         ErrCode
	Ring        topology.RingID
	Clean       bool
	Hit         bool
	VersionOnly bool
	Older       bool
	Map         topology.MapID

	ID       uint64
	Session  uint64
	Seq      uint64
	Epoch    uint64
	Hash     uint64
	HLC      HLC
	Cut      HLC
	Local    HLC
	Foreign  HLC
	ReadFrom HLC
	Duration int64 // nanoseconds

	Key      string
	Record   Record
	Deps     []Dep
	Versions []Version
	Vectors  []VectorEntry
	// Exclusions, in a message of any kind, are those that the sender applies.
	Exclusions Exclusions
}

// Fields returns the fields of m, for the codec.
func (m *Message) Fields() *Fields { return &m.fields }

// Moved is a key that is handed over in a resharding. A record without a version says that the key does not exist.
type Moved struct {
	Key    string
	Record Record
}

// PayloadBytes returns the size of the key and the value that a message carries, in bytes.
func (m *Message) PayloadBytes() int {
	return len(m.fields.Key) + len(m.fields.Record.Value.Data) + m.sizeOfBody().payload
}

// ConcernsKey reports whether a message names a key, or its hash.
func (m *Message) ConcernsKey(key string) bool {
	if m.body == nil {
		return m.fields.Key == key || m.fields.Hash == topology.Hash(key)
	}
	k, ok := m.body.(interface{ key() string })
	return ok && k.key() == key
}

// slotMap returns the slot map that a message names; 0: it names none.
func (m *Message) slotMap() topology.MapID {
	if b, ok := m.body.(interface{ slotMap() topology.MapID }); ok {
		return b.slotMap()
	}
	return m.fields.Map
}
