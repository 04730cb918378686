package causal

import "github.com/causalstore/causalstore/topology"

// Put asks a coordinator to accept a write, or to execute an operation: then the value is of the type Operation. The
// operation is executed only on a value that includes everything of the key at or below From.
type Put struct {
	ID      uint64
	Session uint64
	// Leadership of the coordinator that the put is meant for. A coordinator under another one ignores it.
	Leadership Leadership
	// Seq numbers the puts of a session in their order. A put that is sent again keeps its number.
	Seq uint64
	// Unanswered is the lowest number of a put of the session that may be sent again; those below have their answer.
	Unanswered uint64
	// Resent says that the put was sent to this coordinator before, perhaps to another leadership. Since is the SV of
	// the coordinator that was known when it was first sent: if it was accepted, its version is greater. The first copy
	// does not say it.
	Resent bool
	Since  HLC
	Key    string
	Value  Value
	// Floor is the greatest HLC that the session has seen or written: the new version is above it.
	Floor HLC
	Deps  []Dep
	// Local is the greatest HLC of a write that the session has read at the home, which is the coordinator; 0: none.
	// All that the coordinator has accepted counts as read. Foreign is the greatest HLC of a write of another origin in
	// the past of the session.
	Local, Foreign HLC
	// Conditional asks to accept the put only while If is the newest version of the key, which the session has read. It
	// has included everything at or below From.
	Conditional bool
	If          Version
	From        HLC
}

// Message returns p as a message.
func (p Put) Message(from, to topology.Node) Message {
	return Message{Kind: KindPut, From: from, To: to,
		fields: Fields{ID: p.ID, Session: p.Session, Epoch: p.Leadership.Epoch, Hash: p.Leadership.Life, Seq: p.Seq,
			Duration: int64(p.Unanswered), Clean: p.Resent, Cut: p.Since, Key: p.Key,
			Record: Record{Value: p.Value, Version: p.If},
			HLC:    p.Floor, Deps: p.Deps, Local: p.Local, Foreign: p.Foreign, VersionOnly: p.Conditional,
			ReadFrom: p.From}}
}

// Put returns the content of a message of KindPut.
func (m *Message) Put() Put {
	f := &m.fields
	return Put{ID: f.ID, Session: f.Session, Leadership: Leadership{f.Epoch, f.Hash}, Seq: f.Seq,
		Unanswered: uint64(f.Duration),
		Resent:     f.Clean, Since: f.Cut, Key: f.Key, Value: f.Record.Value, Floor: f.HLC, Deps: f.Deps,
		Local:   f.Local,
		Foreign: f.Foreign, Conditional: f.VersionOnly, If: f.Record.Version, From: f.ReadFrom}
}

// PutReply answers a Put once the log holds it, or refuses it.
type PutReply struct {
	ID      uint64
	Session uint64
	Version Version
	Err     ErrCode
	// Repeated says that the put was accepted before this copy of it came, and that this was answered.
	Repeated bool
	// Value, of an operation, is what it has written, and Past the greatest HLC of a write of another origin in the
	// past of that. Deps are of each other home of the data center up to where its past goes. An operation that writes
	// nothing is answered by a HomeReply.
	Value Value
	Past  HLC
	Deps  []Dep
	// Lacking, with ErrFormat, is a part that is not known to read the value.
	Lacking topology.Node
}

// Message returns r as a message.
func (r PutReply) Message(from, to topology.Node) Message {
	return Message{Kind: KindPutReply, From: from, To: to,
		fields: Fields{ID: r.ID, Session: r.Session, Record: Record{Version: r.Version, Value: r.Value}, Err: r.Err,
			Clean: r.Repeated, Foreign: r.Past, Deps: r.Deps, Hash: packNode(r.Lacking)}}
}

// PutReply returns the content of a message of KindPutReply.
func (m *Message) PutReply() PutReply {
	return PutReply{ID: m.fields.ID, Session: m.fields.Session, Version: m.fields.Record.Version, Err: m.fields.Err,
		Repeated: m.fields.Clean, Value: m.fields.Record.Value, Past: m.fields.Foreign,
		Deps: m.fields.Deps, Lacking: unpackNode(m.fields.Hash)}
}

// Complete tells a sidecar that writes of one of its sessions are in every ring and that no cache holds an older value.
type Complete struct {
	Session  uint64
	Versions []Version
}

// Message returns c as a message.
func (c Complete) Message(from, to topology.Node) Message {
	return Message{Kind: KindComplete, From: from, To: to, fields: Fields{Session: c.Session, Versions: c.Versions}}
}

// Complete returns the content of a message of KindComplete.
func (m *Message) Complete() Complete {
	return Complete{Session: m.fields.Session, Versions: m.fields.Versions}
}

// DepList holds what a write must wait for in a ring: single writes, and lanes up to an HLC. The zero DepList is empty.
type DepList struct {
	all   []Dep // single writes, then lanes
	lanes int
}

// NewDepList returns an empty list with room for n dependencies.
func NewDepList(n int) DepList { return DepList{all: make([]Dep, 0, n)} }

// AddWrite adds a single write. All single writes are added before the first lane.
func (l *DepList) AddWrite(d Dep) {
	if l.lanes > 0 {
		panic("causal: a single write was added to a DepList after a lane")
	}
	l.all = append(l.all, d)
}

// AddLane adds a lane: the version's origin names the coordinator, d.Slot a slot of the shard, and the version's HLC
// how far the shard must have received it.
func (l *DepList) AddLane(d Dep) {
	l.all = append(l.all, d)
	l.lanes++
}

// Writes returns the single writes, each to be asked for by its id.
func (l DepList) Writes() []Dep { return l.all[:len(l.all)-l.lanes] }

// Lanes returns the lanes.
func (l DepList) Lanes() []Dep { return l.all[len(l.all)-l.lanes:] }

// Len returns the number of dependencies.
func (l DepList) Len() int { return len(l.all) }

// With returns a list with the dependencies of both.
func (l DepList) With(o DepList) DepList {
	both := NewDepList(len(l.all) + len(o.all))
	both.all = append(append(append(append(both.all, l.Writes()...), o.Writes()...), l.Lanes()...), o.Lanes()...)
	both.lanes = l.lanes + o.lanes
	return both
}

// Reset empties the list and keeps its room.
func (l *DepList) Reset() { l.all, l.lanes = l.all[:0], 0 }

// DepRoom is room for lists that are allocated together, since most are short.
type DepRoom struct{ free []Dep }

// depRoom is for how many dependencies room is allocated at a time. A list that is kept keeps all of it.
const depRoom = 32

// Clone returns a copy of l, which nobody changes.
func (r *DepRoom) Clone(l DepList) DepList {
	n := len(l.all)
	if n == 0 {
		return DepList{}
	}
	if n > len(r.free) {
		r.free = make([]Dep, max(n, depRoom))
	}
	c := DepList{all: r.free[:n:n], lanes: l.lanes}
	copy(c.all, l.all)
	r.free = r.free[n:]
	return c
}

// PutAfter carries a write from a coordinator to a middleman, in the order of the lane between them.
type PutAfter struct {
	Key    string
	Record Record
	Deps   DepList
	// Met are the other dependencies: those that are known to be in the ring. They matter if the write is put elsewhere
	// by an adopter.
	Met DepList
	// Previous is the HLC of the write before this one in the lane.
	Previous HLC
	// AckedUpTo is the HLC up to which the lane is acknowledged.
	AckedUpTo HLC
	// Complete says that the write is complete already; the value is left out, only its place in the lane counts.
	Complete bool
	// Map is the slot map that the lane belongs to.
	Map topology.MapID
	// Generation is that of the coordinator's log. It is greater after a log was lost and given up.
	Generation uint64
	// Past is the greatest HLC in the past of the write; 0: unknown, so anything below its own.
	Past HLC
}

// Message returns p as a message.
func (p PutAfter) Message(from, to topology.Node) Message {
	deps := p.Deps.all
	if p.Met.Len() > 0 {
		deps = append(deps[:len(deps):len(deps)], p.Met.all...)
	}
	return Message{Kind: KindPutAfter, From: from, To: to,
		fields: Fields{Key: p.Key, Record: p.Record, Deps: deps, Seq: uint64(p.Deps.lanes), Hash: uint64(p.Met.Len()),
			ID:  uint64(p.Met.lanes),
			HLC: p.Previous, Cut: p.AckedUpTo, Clean: p.Complete, Map: p.Map, Epoch: p.Generation,
			Session: uint64(p.Past)}}
}

// PutAfter returns the content of a message of KindPutAfter.
func (m *Message) PutAfter() PutAfter {
	f := &m.fields
	met := len(f.Deps) - int(min(f.Hash, uint64(len(f.Deps))))
	return PutAfter{Key: f.Key, Record: f.Record, Deps: depList(f.Deps[:met:met], f.Seq),
		Met: depList(f.Deps[met:], f.ID), Previous: f.HLC,
		AckedUpTo: f.Cut, Complete: f.Clean, Map: f.Map, Generation: f.Epoch, Past: HLC(f.Session)}
}

// depList returns a list of which the last ones are lanes.
func depList(all []Dep, lanes uint64) DepList {
	if len(all) == 0 {
		return DepList{}
	}
	return DepList{all, int(min(lanes, uint64(len(all))))}
}

// PutAck tells a coordinator that writes are processed in the middleman's ring, with their dependencies, and that the
// ring's caches hold no older value.
type PutAck struct {
	Versions []Version
	// Incarnation is that of the middleman.
	Incarnation uint64
	// GivenUpBelow, if it is not 0, says that a log of a lower generation was given up: puts of it are refused.
	GivenUpBelow uint64
	// Changes is up to which of its changes the storage is durable, and has all that was ever acknowledged; 0: the
	// coordinator is not to remember it. A message without versions says only that.
	Changes uint64
}

// Message returns a as a message.
func (a PutAck) Message(from, to topology.Node) Message {
	return Message{Kind: KindPutAck, From: from, To: to,
		fields: Fields{Versions: a.Versions, Epoch: a.Incarnation, Seq: a.GivenUpBelow, Hash: a.Changes}}
}

// PutAck returns the content of a message of KindPutAck.
func (m *Message) PutAck() PutAck {
	return PutAck{Versions: m.fields.Versions, Incarnation: m.fields.Epoch, GivenUpBelow: m.fields.Seq,
		Changes: m.fields.Hash}
}

// StableMarks tells a middleman which writes of an origin are complete.
type StableMarks struct {
	// SV is that of the origin.
	SV HLC
	// Versions are complete, and above SV when it was computed.
	Versions []Version
}

// Message returns s as a message.
func (s StableMarks) Message(from, to topology.Node) Message {
	return Message{Kind: KindStable, From: from, To: to, fields: Fields{HLC: s.SV, Versions: s.Versions}}
}

// StableMarks returns the content of a message of KindStable.
func (m *Message) StableMarks() StableMarks {
	return StableMarks{SV: m.fields.HLC, Versions: m.fields.Versions}
}

// LaneHello asks a coordinator, after a restart of the middleman, to send again what may have been lost.
type LaneHello struct {
	// Incarnation is that of the middleman.
	Incarnation uint64
	// Map is the slot map in use at the middleman.
	Map topology.MapID
	// AwayOnly asks only which coordinators of the data center are away: this lane is in step.
	AwayOnly bool
	// Lost says that the storage has lost its data: what earlier incarnations have acknowledged of writes that are
	// incomplete counts no more. Round is repeated in the answer, so that a late answer to an earlier hello does not
	// count for a later one.
	Lost  bool
	Round uint64
}

// Message returns h as a message.
func (h LaneHello) Message(from, to topology.Node) Message {
	return bodyMessage(KindLaneHello, from, to, &h)
}

// LaneHello returns the content of a message of KindLaneHello.
func (m *Message) LaneHello() LaneHello { return bodyOf[LaneHello](m) }

// Visit implements Body.
func (h *LaneHello) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "incarnation", rule: counter, before: sharedEpoch}, &h.Incarnation)
	visitNumber(v, BodyField{Number: 2, Name: "map", rule: anything, before: sharedMap}, &h.Map)
	v.Flag(BodyField{Number: 3, Name: "away_only", rule: anything, before: sharedClean}, &h.AwayOnly)
	v.Flag(BodyField{Number: 4, Name: "lost", rule: anything, before: sharedHit}, &h.Lost)
	visitNumber(v, BodyField{Number: 5, Name: "round", rule: anything, before: sharedID}, &h.Round)
}

func (h *LaneHello) slotMap() topology.MapID { return h.Map }

// LaneSync answers a LaneHello.
type LaneSync struct {
	// Incarnation is that of the middleman, and Round a number that it has given, as in the LaneHello.
	Incarnation uint64
	Round       uint64
	// Newest is the newest write for the shard that was sent, and is not complete; of a shard that has lost its data,
	// perhaps a newer one that is.
	Newest HLC
	// AckedUpTo is the HLC up to which the lane is acknowledged; of a shard that has lost its data, up to which it is
	// complete, or acknowledged by the present incarnation.
	AckedUpTo HLC
	Map       topology.MapID
	// Away has a bit for each coordinator of the data center that is away, if the sender is the leader.
	Away uint64
	// Surpassed, if it is not 0, is a greater incarnation of the middleman, which has lost its data since. Nothing else
	// is said then: the middleman has to begin again above that.
	Surpassed uint64
	// Generation is that of the log, as in PutAfter. Recovering says that the log before it is lost, and that the
	// recovery has not got to where more can be said: writes that were salvaged are not complete. (Nothing of this
	// concerns the adoption of writes of a silent origin.)
	Generation uint64
	Recovering bool
	// Reached is what the coordinator remembers of how far the storage of the shard had come. Unsure says that it has
	// restarted since, and may have forgotten what it had heard last: of writes up to Newest, which it sends again.
	Reached Reach
	Unsure  bool
}

// Message returns s as a message.
func (s LaneSync) Message(from, to topology.Node) Message {
	return bodyMessage(KindLaneSync, from, to, &s)
}

// LaneSync returns the content of a message of KindLaneSync.
func (m *Message) LaneSync() LaneSync { return bodyOf[LaneSync](m) }

// Visit implements Body.
func (s *LaneSync) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "incarnation", rule: counter, before: sharedEpoch}, &s.Incarnation)
	visitNumber(v, BodyField{Number: 2, Name: "round", rule: anything, before: sharedID}, &s.Round)
	v.Time(BodyField{Number: 3, Name: "newest", rule: anything, before: sharedHLC}, &s.Newest)
	v.Time(BodyField{Number: 4, Name: "acked_up_to", rule: anything, before: sharedCut}, &s.AckedUpTo)
	visitNumber(v, BodyField{Number: 5, Name: "map", rule: anything, before: sharedMap}, &s.Map)
	visitNumber(v, BodyField{Number: 6, Name: "away", rule: coordinatorSet, before: sharedSeq}, &s.Away)
	visitNumber(v, BodyField{Number: 7, Name: "surpassed", rule: counter, before: sharedSession}, &s.Surpassed)
	visitNumber(v, BodyField{Number: 8, Name: "generation", rule: counter, before: sharedHash}, &s.Generation)
	v.Flag(BodyField{Number: 9, Name: "recovering", rule: anything, before: sharedHit}, &s.Recovering)
	visitNumber(v, BodyField{Number: 10, Name: "reached_incarnation", rule: counter, before: sharedReachIncarnation},
		&s.Reached.Incarnation)
	visitNumber(v, BodyField{Number: 11, Name: "reached_changes", rule: counter, before: sharedReachChanges},
		&s.Reached.Changes)
	v.Flag(BodyField{Number: 12, Name: "unsure", rule: anything, before: sharedClean}, &s.Unsure)
}

func (s *LaneSync) slotMap() topology.MapID { return s.Map }

// LogGet asks a coordinator for a write that is in its log.
type LogGet struct {
	ID      uint64
	Version Version
}

// Message returns g as a message.
func (g LogGet) Message(from, to topology.Node) Message {
	return bodyMessage(KindLogGet, from, to, &g)
}

// LogGet returns the content of a message of KindLogGet.
func (m *Message) LogGet() LogGet { return bodyOf[LogGet](m) }

// Visit implements Body.
func (g *LogGet) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &g.ID)
	v.Version(BodyField{Number: 2, Name: "version", rule: written, before: sharedVersion}, &g.Version)
}

func (g *LogGet) speaksOf() Version { return g.Version }

// LogReply answers a LogGet; ErrNotFound once the write is complete.
type LogReply struct {
	ID     uint64
	Record Record
	Err    ErrCode
}

// Message returns r as a message.
func (r LogReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindLogReply, from, to, &r)
}

// LogReply returns the content of a message of KindLogReply.
func (m *Message) LogReply() LogReply { return bodyOf[LogReply](m) }

// Visit implements Body.
func (r *LogReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &r.ID)
	v.Record(BodyField{Number: 2, Name: "record", rule: writtenOrNone, before: sharedRecord}, &r.Record)
	visitNumber(v, BodyField{Number: 3, Name: "err", rule: knownErr, before: sharedErr}, &r.Err)
}

func (r *LogReply) speaksOf() Version { return r.Record.Version }

func (r *LogReply) requestID() uint64 { return r.ID }
