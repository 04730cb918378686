package causal

import "github.com/causalstore/causalstore/topology"

// AdoptQuery asks a shard for the puts of a silent origin that it has received and that are not known to be complete
// (PROTOCOL ADO).
type AdoptQuery struct {
	// ID changes with each start of the adopter.
	ID     uint64
	Origin topology.Origin
	// After is the number of the newest put that the adopter has, of Incarnation of the middleman.
	After       uint64
	Incarnation uint64
}

// Message returns q as a message.
func (q AdoptQuery) Message(from, to topology.Node) Message {
	return Message{Kind: KindAdoptQuery, From: from, To: to,
		fields: Fields{ID: q.ID, Hash: uint64(q.Origin), Seq: q.After, Epoch: q.Incarnation}}
}

// AdoptQuery returns the content of a message of KindAdoptQuery.
func (m *Message) AdoptQuery() AdoptQuery {
	return AdoptQuery{ID: m.fields.ID, Origin: topology.Origin(m.fields.Hash), After: m.fields.Seq,
		Incarnation: m.fields.Epoch}
}

// AdoptHeld answers an AdoptQuery with one put.
type AdoptHeld struct {
	ID     uint64
	Origin topology.Origin
	// Number counts the puts that the middleman has received of the origin, and Before is that of the one reported
	// before. None says that there is none after Before.
	Number, Before uint64
	None           bool
	Incarnation    uint64
	Key            string
	Record         Record
	Generation     uint64
	// Deps are all dependencies of the put, met or not. The lanes are those of the middleman's ring under Map.
	Deps DepList
	// Previous is the HLC of the put before it in the lane.
	Previous HLC
	Map      topology.MapID
	State    AdoptionState
}

// Message returns h as a message.
func (h AdoptHeld) Message(from, to topology.Node) Message {
	return Message{Kind: KindAdoptHeld, From: from, To: to,
		fields: Fields{ID: h.ID, Hash: uint64(h.Origin), Seq: h.Number, Session: h.Before, Hit: h.None,
			Duration: int64(h.Incarnation),
			Key:      h.Key, Record: h.Record, Epoch: h.Generation, Deps: h.Deps.all, Cut: HLC(h.Deps.lanes),
			HLC: h.Previous, Map: h.Map, Err: ErrCode(h.State)}}
}

// AdoptHeld returns the content of a message of KindAdoptHeld.
func (m *Message) AdoptHeld() AdoptHeld {
	f := &m.fields
	return AdoptHeld{ID: f.ID, Origin: topology.Origin(f.Hash), Number: f.Seq, Before: f.Session, None: f.Hit,
		Incarnation: uint64(f.Duration),
		Key:         f.Key, Record: f.Record, Generation: f.Epoch, Deps: depList(f.Deps, uint64(f.Cut)),
		Previous: f.HLC, Map: f.Map, State: AdoptionState(f.Err)}
}

// AdoptPut hands a write of a silent origin to a shard, which keeps it staged until an AdoptStep.
type AdoptPut struct {
	Key        string
	Record     Record
	Generation uint64
	// Deps are all of its dependencies that are single writes.
	Deps []Dep
	Map  topology.MapID
}

// Message returns p as a message.
func (p AdoptPut) Message(from, to topology.Node) Message {
	return Message{Kind: KindAdoptPut, From: from, To: to,
		fields: Fields{Key: p.Key, Record: p.Record, Epoch: p.Generation, Deps: p.Deps, Map: p.Map}}
}

// AdoptPut returns the content of a message of KindAdoptPut.
func (m *Message) AdoptPut() AdoptPut {
	return AdoptPut{Key: m.fields.Key, Record: m.fields.Record, Generation: m.fields.Epoch, Deps: m.fields.Deps,
		Map: m.fields.Map}
}

// AdoptionState is how far an adopted write has come at a shard.
type AdoptionState uint8

// The states, in this order.
const (
	// AdoptionUnknown: the shard does not have the write.
	AdoptionUnknown AdoptionState = iota
	// AdoptionReceived: it is received, and whatever depends on it may be written in the ring.
	AdoptionReceived
	// AdoptionConfirmed: it is written, no cache holds an older value, and its dependencies of other origins are clean.
	AdoptionConfirmed
	// AdoptionClean: the same holds for everything in its past.
	AdoptionClean
	// AdoptionComplete: it is known to be clean in all rings.
	AdoptionComplete
)

// AdoptStep tells a shard how far the past of adopted writes has come in its ring: those of its own origin that the
// write follows.
type AdoptStep struct {
	// Past is AdoptionReceived: all of it is received, so the writes need not wait for lanes; AdoptionConfirmed: all of
	// it is, so the writes are clean once they are confirmed; or AdoptionComplete: the writes themselves are complete.
	Past     AdoptionState
	Versions []Version
	// Incarnation of the middleman of which this was found out; another one ignores it.
	Incarnation uint64
	Map         topology.MapID
}

// Message returns s as a message.
func (s AdoptStep) Message(from, to topology.Node) Message {
	return Message{Kind: KindAdoptStep, From: from, To: to,
		fields: Fields{Err: ErrCode(s.Past), Versions: s.Versions, Epoch: s.Incarnation, Map: s.Map}}
}

// AdoptStep returns the content of a message of KindAdoptStep.
func (m *Message) AdoptStep() AdoptStep {
	return AdoptStep{Past: AdoptionState(m.fields.Err), Versions: m.fields.Versions, Incarnation: m.fields.Epoch,
		Map: m.fields.Map}
}

// AdoptStatus answers an AdoptPut or an AdoptStep with the state of writes that have the same one.
type AdoptStatus struct {
	State       AdoptionState
	Versions    []Version
	Incarnation uint64
}

// Message returns s as a message.
func (s AdoptStatus) Message(from, to topology.Node) Message {
	return Message{Kind: KindAdoptState, From: from, To: to,
		fields: Fields{Err: ErrCode(s.State), Versions: s.Versions, Epoch: s.Incarnation}}
}

// AdoptStatus returns the content of a message of KindAdoptState.
func (m *Message) AdoptStatus() AdoptStatus {
	return AdoptStatus{State: AdoptionState(m.fields.Err), Versions: m.fields.Versions, Incarnation: m.fields.Epoch}
}
