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
	return bodyMessage(KindAdoptQuery, from, to, &q)
}

// AdoptQuery returns the content of a message of KindAdoptQuery.
func (m *Message) AdoptQuery() AdoptQuery { return bodyOf[AdoptQuery](m) }

// Visit implements Body.
func (q *AdoptQuery) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &q.ID)
	visitNumber(v, BodyField{Number: 2, Name: "origin", rule: anOrigin, before: sharedHash}, &q.Origin)
	visitNumber(v, BodyField{Number: 3, Name: "after", rule: counter, before: sharedSeq}, &q.After)
	visitNumber(v, BodyField{Number: 4, Name: "incarnation", rule: counter, before: sharedEpoch}, &q.Incarnation)
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
	return bodyMessage(KindAdoptHeld, from, to, &h)
}

// AdoptHeld returns the content of a message of KindAdoptHeld.
func (m *Message) AdoptHeld() AdoptHeld { return bodyOf[AdoptHeld](m) }

// Visit implements Body.
func (h *AdoptHeld) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &h.ID)
	visitNumber(v, BodyField{Number: 2, Name: "origin", rule: anOrigin, before: sharedHash}, &h.Origin)
	visitNumber(v, BodyField{Number: 3, Name: "number", rule: counter, before: sharedSeq}, &h.Number)
	visitNumber(v, BodyField{Number: 4, Name: "before", rule: counter, before: sharedSession}, &h.Before)
	v.Flag(BodyField{Number: 5, Name: "none", rule: anything, before: sharedHit}, &h.None)
	visitNumber(v, BodyField{Number: 6, Name: "incarnation", rule: counter, before: sharedDuration}, &h.Incarnation)
	v.Text(BodyField{Number: 7, Name: "key", rule: anything, before: sharedKey}, &h.Key)
	v.Record(BodyField{Number: 8, Name: "record", rule: writtenOrNone, before: sharedRecord}, &h.Record)
	visitNumber(v, BodyField{Number: 9, Name: "generation", rule: counter, before: sharedEpoch}, &h.Generation)
	visitDepList(v, BodyField{Number: 10, Name: "deps", rule: dependencies, before: sharedDeps},
		BodyField{Number: 11, Name: "lanes", rule: depCount, before: sharedCut}, &h.Deps)
	v.Time(BodyField{Number: 12, Name: "previous", rule: anything, before: sharedHLC}, &h.Previous)
	visitNumber(v, BodyField{Number: 13, Name: "map", rule: anything, before: sharedMap}, &h.Map)
	visitNumber(v, BodyField{Number: 14, Name: "state", rule: knownAdoption, before: sharedErr}, &h.State)
}

func (h *AdoptHeld) key() string { return h.Key }

func (h *AdoptHeld) slotMap() topology.MapID { return h.Map }

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
	return bodyMessage(KindAdoptPut, from, to, &p)
}

// AdoptPut returns the content of a message of KindAdoptPut.
func (m *Message) AdoptPut() AdoptPut { return bodyOf[AdoptPut](m) }

// Visit implements Body.
func (p *AdoptPut) Visit(v BodyVisitor) {
	v.Text(BodyField{Number: 1, Name: "key", rule: anything, before: sharedKey}, &p.Key)
	v.Record(BodyField{Number: 2, Name: "record", rule: written, before: sharedRecord}, &p.Record)
	visitNumber(v, BodyField{Number: 3, Name: "generation", rule: counter, before: sharedEpoch}, &p.Generation)
	v.Deps(BodyField{Number: 4, Name: "deps", rule: dependencies, before: sharedDeps}, &p.Deps)
	visitNumber(v, BodyField{Number: 5, Name: "map", rule: anything, before: sharedMap}, &p.Map)
}

func (p *AdoptPut) key() string { return p.Key }

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
	return bodyMessage(KindAdoptStep, from, to, &s)
}

// AdoptStep returns the content of a message of KindAdoptStep.
func (m *Message) AdoptStep() AdoptStep { return bodyOf[AdoptStep](m) }

// Visit implements Body.
func (s *AdoptStep) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "past", rule: knownAdoption, before: sharedErr}, &s.Past)
	v.Versions(BodyField{Number: 2, Name: "versions", rule: versions, before: sharedVersions}, &s.Versions)
	visitNumber(v, BodyField{Number: 3, Name: "incarnation", rule: counter, before: sharedEpoch}, &s.Incarnation)
	visitNumber(v, BodyField{Number: 4, Name: "map", rule: anything, before: sharedMap}, &s.Map)
}

// AdoptStatus answers an AdoptPut or an AdoptStep with the state of writes that have the same one.
type AdoptStatus struct {
	State       AdoptionState
	Versions    []Version
	Incarnation uint64
}

// Message returns s as a message.
func (s AdoptStatus) Message(from, to topology.Node) Message {
	return bodyMessage(KindAdoptState, from, to, &s)
}

// AdoptStatus returns the content of a message of KindAdoptState.
func (m *Message) AdoptStatus() AdoptStatus { return bodyOf[AdoptStatus](m) }

// Visit implements Body.
func (s *AdoptStatus) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "state", rule: knownAdoption, before: sharedErr}, &s.State)
	v.Versions(BodyField{Number: 2, Name: "versions", rule: versions, before: sharedVersions}, &s.Versions)
	visitNumber(v, BodyField{Number: 3, Name: "incarnation", rule: counter, before: sharedEpoch}, &s.Incarnation)
}
