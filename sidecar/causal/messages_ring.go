package causal

import (
	"iter"

	"github.com/causalstore/causalstore/topology"
)

// DepCheck asks the middleman that owns a slot to tell when a write is processed there, and when it is clean.
type DepCheck struct {
	Version Version
	Slot    topology.Slot
}

// Message returns c as a message.
func (c DepCheck) Message(from, to topology.Node) Message {
	return Message{Kind: KindDepCheck, From: from, To: to,
		fields: Fields{Versions: []Version{c.Version}, Seq: uint64(c.Slot)}}
}

// DepCheck returns the content of a message of KindDepCheck.
func (m *Message) DepCheck() DepCheck {
	return DepCheck{Version: m.onlyVersion(), Slot: topology.Slot(m.fields.Seq)}
}

// DepStatus tells that a write is processed in a ring.
type DepStatus struct {
	Version Version
	Ring    topology.RingID
	// Clean says that it is also acknowledged: its dependencies are processed, and no cache of the ring holds an older
	// value.
	Clean bool
	// Complete says that it is known to be complete: the same holds in all rings.
	Complete bool
}

// Message returns s as a message.
func (s DepStatus) Message(from, to topology.Node) Message {
	return Message{Kind: KindDepStatus, From: from, To: to,
		fields: Fields{Versions: []Version{s.Version}, Ring: s.Ring, Clean: s.Clean, Hit: s.Complete}}
}

// DepStatus returns the content of a message of KindDepStatus.
func (m *Message) DepStatus() DepStatus {
	return DepStatus{Version: m.onlyVersion(), Ring: m.fields.Ring, Clean: m.fields.Clean, Complete: m.fields.Hit}
}

// DepProbe asks the middleman that owns a slot whether a dependency of a staged put is missing there. It is answered
// only if that is certain, with DepMissing.
type DepProbe struct {
	// ID counts the probes of the sender's Incarnation.
	ID          uint64
	Incarnation uint64
	Dep         Dep
	// Lane asks whether the lane of the origin is received up to the version, else the question is whether the write
	// itself is processed.
	Lane bool
	Map  topology.MapID
}

// Message returns p as a message.
func (p DepProbe) Message(from, to topology.Node) Message {
	return bodyMessage(KindDepProbe, from, to, &p)
}

// DepProbe returns the content of a message of KindDepProbe.
func (m *Message) DepProbe() DepProbe { return bodyOf[DepProbe](m) }

// Visit implements Body.
func (p *DepProbe) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: counter, before: sharedID}, &p.ID)
	visitNumber(v, BodyField{Number: 2, Name: "incarnation", rule: counter, before: sharedEpoch}, &p.Incarnation)
	v.Dep(BodyField{Number: 3, Name: "dep", rule: dependency, before: sharedDep}, &p.Dep)
	v.Flag(BodyField{Number: 4, Name: "lane", rule: anything, before: sharedClean}, &p.Lane)
	visitNumber(v, BodyField{Number: 5, Name: "map", rule: anything, before: sharedMap}, &p.Map)
}

func (p *DepProbe) slotMap() topology.MapID { return p.Map }

// DepMissing answers a DepProbe: when it arrived, the dependency had never been met in this ring.
type DepMissing struct {
	// ID and Incarnation are those of the probe.
	ID          uint64
	Incarnation uint64
	Dep         Dep
	Lane        bool
}

// Message returns d as a message.
func (d DepMissing) Message(from, to topology.Node) Message {
	return bodyMessage(KindDepMissing, from, to, &d)
}

// DepMissing returns the content of a message of KindDepMissing.
func (m *Message) DepMissing() DepMissing { return bodyOf[DepMissing](m) }

// Visit implements Body.
func (d *DepMissing) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: counter, before: sharedID}, &d.ID)
	visitNumber(v, BodyField{Number: 2, Name: "incarnation", rule: counter, before: sharedEpoch}, &d.Incarnation)
	v.Dep(BodyField{Number: 3, Name: "dep", rule: dependency, before: sharedDep}, &d.Dep)
	v.Flag(BodyField{Number: 4, Name: "lane", rule: anything, before: sharedClean}, &d.Lane)
}

func (m *Message) onlyVersion() Version {
	if len(m.fields.Versions) == 0 {
		return Version{}
	}
	return m.fields.Versions[0]
}

// Frontier tells the other middlemen of a ring how far lanes to the sender have come.
type Frontier struct {
	Map     topology.MapID
	entries []VectorEntry
}

// LaneProgress is how far the lane from one coordinator to one shard has come.
type LaneProgress struct {
	Origin topology.Origin
	// Received: every write of the lane at or below it has arrived.
	Received HLC
	// Clean: every write of the lane at or below it is written, and its own invalidations are confirmed.
	Clean HLC
}

// Add adds a lane.
func (f *Frontier) Add(p LaneProgress) {
	f.entries = append(f.entries, VectorEntry{Origin: p.Origin, SV: p.Clean, RV: []HLC{p.Received}})
}

// Empty reports whether f has no lane.
func (f *Frontier) Empty() bool { return len(f.entries) == 0 }

// Lanes returns the lanes, in the order in which they were added.
func (f *Frontier) Lanes() iter.Seq[LaneProgress] {
	return func(yield func(LaneProgress) bool) {
		for _, e := range f.entries {
			if len(e.RV) == 1 && !yield(LaneProgress{Origin: e.Origin, Received: e.RV[0], Clean: e.SV}) {
				return
			}
		}
	}
}

// Message returns f as a message.
func (f Frontier) Message(from, to topology.Node) Message {
	return Message{Kind: KindFrontier, From: from, To: to, fields: Fields{Vectors: f.entries, Map: f.Map}}
}

// Frontier returns the content of a message of KindFrontier.
func (m *Message) Frontier() Frontier { return Frontier{Map: m.fields.Map, entries: m.fields.Vectors} }

// Subscribe asks a leader for the vectors for SubscriptionTTL.
type Subscribe struct{}

// Message returns s as a message.
func (s Subscribe) Message(from, to topology.Node) Message {
	return bodyMessage(KindSubscribe, from, to, &s)
}

// Visit implements Body.
func (s *Subscribe) Visit(BodyVisitor) {}

// Ping asks a middleman for a Pong: to measure the round trip, or to learn its slot map.
type Ping struct{ ID uint64 }

// Message returns p as a message.
func (p Ping) Message(from, to topology.Node) Message { return bodyMessage(KindPing, from, to, &p) }

// Ping returns the content of a message of KindPing.
func (m *Message) Ping() Ping { return bodyOf[Ping](m) }

// Visit implements Body.
func (p *Ping) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &p.ID)
}

// Pong answers a Ping.
type Pong struct {
	ID uint64
	// Map is the slot map in use at the middleman.
	Map topology.MapID
}

// Message returns p as a message.
func (p Pong) Message(from, to topology.Node) Message { return bodyMessage(KindPong, from, to, &p) }

// Pong returns the content of a message of KindPong.
func (m *Message) Pong() Pong { return bodyOf[Pong](m) }

// Visit implements Body.
func (p *Pong) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &p.ID)
	visitNumber(v, BodyField{Number: 2, Name: "map", rule: anything, before: sharedMap}, &p.Map)
}

func (p *Pong) slotMap() topology.MapID { return p.Map }

// Latencies tells the nodes of a data center the round trips to all data centers.
type Latencies struct{ RoundTrips []RoundTrip }

// RoundTrip is what the probes of one data center say, in milliseconds.
type RoundTrip struct {
	// Ms is to choose by. It grows while probes are not answered; negative: unreachable.
	Ms float64
	// ExpectedMs is in what time an answer is expected: as measured last, or declared, and somewhat more while probes
	// are late.
	ExpectedMs float64
}

// Message returns l as a message.
func (l Latencies) Message(from, to topology.Node) Message {
	return bodyMessage(KindLatencies, from, to, &l)
}

// Latencies returns the content of a message of KindLatencies.
func (m *Message) Latencies() Latencies { return bodyOf[Latencies](m) }

// Visit implements Body.
func (l *Latencies) Visit(v BodyVisitor) {
	visitParts(v, BodyField{Number: 1, Name: "round_trips", rule: roundTrips, before: sharedLatencies}, &l.RoundTrips)
}

// Visit implements Body.
func (r *RoundTrip) Visit(v BodyVisitor) {
	v.Float(BodyField{Number: 1, Name: "ms", rule: finite}, &r.Ms)
	v.Float(BodyField{Number: 2, Name: "expected_ms", rule: finite}, &r.ExpectedMs)
}

// Term is sent by a coordinator that is away to its leader, to join or to confirm that it has left.
type Term struct {
	// ID changes with each change of what the coordinator wants, and with each start.
	ID   uint64
	Term uint64
	// UpTo is at or above everything that the coordinator has written or published.
	UpTo HLC
	// Join says that it wants to come into use.
	Join bool
	// New says that its log is empty: it asks only which term the leader knows, and nothing changes.
	New bool
	// Shards is what it knows of shards, when it has left: the leader remembers that in its place.
	Shards []ShardMark
}

// Message returns t as a message.
func (t Term) Message(from, to topology.Node) Message {
	return bodyMessage(KindTerm, from, to, &t)
}

// Term returns the content of a message of KindTerm.
func (m *Message) Term() Term { return bodyOf[Term](m) }

// Visit implements Body.
func (t *Term) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &t.ID)
	visitNumber(v, BodyField{Number: 2, Name: "term", rule: awayTerm, before: sharedSeq}, &t.Term)
	v.Time(BodyField{Number: 3, Name: "up_to", rule: anything, before: sharedHLC}, &t.UpTo)
	v.Flag(BodyField{Number: 4, Name: "join", rule: anything, before: sharedClean}, &t.Join)
	v.Flag(BodyField{Number: 5, Name: "new", rule: anything, before: sharedHit}, &t.New)
	visitParts(v, BodyField{Number: 6, Name: "shards", rule: anything, before: sharedMarks}, &t.Shards)
}

// TermReply is the leader's answer to a Term.
type TermReply struct {
	ID   uint64
	Term uint64
	// Above is what the first write of the new term must be above.
	Above HLC
	// Counted says that the leader's topology has the coordinator.
	Counted bool
	// New says that it answers a Term that was New: it admits nobody.
	New bool
}

// Message returns t as a message.
func (t TermReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindTermReply, from, to, &t)
}

// TermReply returns the content of a message of KindTermReply.
func (m *Message) TermReply() TermReply { return bodyOf[TermReply](m) }

// Visit implements Body.
func (t *TermReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &t.ID)
	visitNumber(v, BodyField{Number: 2, Name: "term", rule: counter, before: sharedSeq}, &t.Term)
	v.Time(BodyField{Number: 3, Name: "above", rule: anything, before: sharedHLC}, &t.Above)
	v.Flag(BodyField{Number: 4, Name: "counted", rule: anything, before: sharedClean}, &t.Counted)
	v.Flag(BodyField{Number: 5, Name: "new", rule: anything, before: sharedHit}, &t.New)
}
