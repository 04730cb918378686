package causal

import "github.com/causalstore/causalstore/topology"

// PastQuery is sent by a part that has an empty disk, to those that would know if it had data before (PROTOCOL DISK):
// by a middleman to the coordinators, and by a coordinator to the middlemen. A coordinator also asks middlemen
// before it begins to apply an exclusion (PROTOCOL EXC), and so does a middleman before it gives up
// what it has, or that gets back what it has lost, of the middlemen of other rings.
type PastQuery struct {
	// ID changes with each start, and with each exclusion that a coordinator is about to begin with.
	ID uint64
}

// Message returns q as a message.
func (q PastQuery) Message(from, to topology.Node) Message {
	return bodyMessage(KindPastQuery, from, to, &q)
}

// PastQuery returns the content of a message of KindPastQuery.
func (m *Message) PastQuery() PastQuery { return bodyOf[PastQuery](m) }

// Visit implements Body.
func (q *PastQuery) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &q.ID)
}

// PastReply answers a PastQuery.
type PastReply struct {
	ID uint64
	// HadData says that the disk held something that others rely on: to a middleman, that it has acknowledged a write;
	// to a coordinator, that it has sent or published one.
	HadData bool
	// Incarnation, to a middleman, is the greatest that was heard of; 0: none.
	Incarnation uint64
	// Above, to a coordinator, is what its first write must be above.
	Above HLC
	// Away, from a leader to a middleman, has a bit for each coordinator of its data center that is away and therefore
	// need not be asked.
	Away uint64
	// HasAll, from a middleman, says that it serves, and has all that its ring has acknowledged of its slots by Map.
	HasAll bool
	Map    topology.MapID
	// Vouches, from a middleman that has lost data, says that it has all that it has acknowledged of its slots, by Map,
	// but for the keys in Lacks.
	Vouches bool
	Lacks   KeyRanges
	// Accepted, with Vouches, says that a person has given up those of them that no other ring has.
	Accepted bool
}

// Message returns r as a message.
func (r PastReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindPastReply, from, to, &r)
}

// PastReply returns the content of a message of KindPastReply.
func (m *Message) PastReply() PastReply { return bodyOf[PastReply](m) }

// Visit implements Body.
func (r *PastReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &r.ID)
	v.Flag(BodyField{Number: 2, Name: "had_data", rule: anything, before: sharedClean}, &r.HadData)
	visitNumber(v, BodyField{Number: 3, Name: "incarnation", rule: counter, before: sharedEpoch}, &r.Incarnation)
	v.Time(BodyField{Number: 4, Name: "above", rule: anything, before: sharedHLC}, &r.Above)
	visitNumber(v, BodyField{Number: 5, Name: "away", rule: coordinatorSet, before: sharedSeq}, &r.Away)
	v.Flag(BodyField{Number: 6, Name: "has_all", rule: anything, before: sharedHit}, &r.HasAll)
	visitNumber(v, BodyField{Number: 7, Name: "map", rule: anything, before: sharedMap}, &r.Map)
	v.Flag(BodyField{Number: 8, Name: "vouches", rule: anything, before: sharedOlder}, &r.Vouches)
	visitParts(v, BodyField{Number: 9, Name: "lacks", rule: keyRanges, before: sharedRanges}, (*[]KeyRange)(&r.Lacks))
	v.Flag(BodyField{Number: 10, Name: "accepted", rule: anything, before: sharedVersionOnly}, &r.Accepted)
}

func (r *PastReply) slotMap() topology.MapID { return r.Map }

// ShardMark is what a coordinator remembers of the past of a shard, so that the shard cannot come back empty without
// being noticed.
type ShardMark struct {
	DC    topology.DC
	Index uint64
	// Incarnation is the greatest that was heard of.
	Incarnation uint64
	// HasData says that the shard has acknowledged a write, or was given slots of another shard.
	HasData bool
	// Lost is an incarnation that has found the data of earlier ones lost: their acknowledgements count no more; 0:
	// none has.
	Lost uint64
}

// Visit implements Body.
func (m *ShardMark) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "dc", rule: aDC}, &m.DC)
	visitNumber(v, BodyField{Number: 2, Name: "index", rule: shardIndex}, &m.Index)
	visitNumber(v, BodyField{Number: 3, Name: "incarnation", rule: counter}, &m.Incarnation)
	v.Flag(BodyField{Number: 4, Name: "has_data", rule: anything}, &m.HasData)
	visitNumber(v, BodyField{Number: 5, Name: "lost", rule: counter}, &m.Lost)
}

// encodeMarks stores marks as link protocols 1 and 2 do, in the form of versions: twice the incarnation, plus one if
// there is data, and the data center and index of the shard. A second version of the same shard is the incarnation that
// has found its data lost.
func encodeMarks(marks []ShardMark) (vs []Version) {
	for _, m := range marks {
		v := Version{HLC: HLC(m.Incarnation << 1), Origin: topology.Origin(uint32(m.DC)<<16 | uint32(m.Index)&0xffff)}
		if m.HasData {
			v.HLC |= 1
		}
		vs = append(vs, v)
		if m.Lost != 0 {
			vs = append(vs, Version{HLC: HLC(m.Lost), Origin: v.Origin})
		}
	}
	return vs
}

func decodeMarks(vs []Version) (marks []ShardMark) {
	for _, v := range vs {
		dc, index := topology.DC(v.Origin>>16), uint64(v.Origin&0xffff)
		if n := len(marks) - 1; n >= 0 && marks[n].DC == dc && marks[n].Index == index {
			marks[n].Lost = uint64(v.HLC)
			continue
		}
		marks = append(marks, ShardMark{DC: dc, Index: index, Incarnation: uint64(v.HLC) >> 1, HasData: v.HLC&1 != 0})
	}
	return marks
}
