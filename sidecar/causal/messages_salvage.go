package causal

import (
	"encoding/binary"
	"errors"

	"github.com/causalstore/causalstore/topology"
)

// Salvage asks a shard for what it holds of the sender's origin, whose log is lost, page by page (PROTOCOL LOG).
// The shard refuses puts of earlier logs of the origin from then on.
type Salvage struct {
	// ID changes with each start of the coordinator.
	ID uint64
	// Generation is that of the log that begins.
	Generation uint64
	// After is where the page begins; "": the first one.
	After string
}

// Message returns s as a message.
func (s Salvage) Message(from, to topology.Node) Message {
	return bodyMessage(KindSalvage, from, to, &s)
}

// Salvage returns the content of a message of KindSalvage.
func (m *Message) Salvage() Salvage { return bodyOf[Salvage](m) }

// Visit implements Body.
func (s *Salvage) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &s.ID)
	visitNumber(v, BodyField{Number: 2, Name: "generation", rule: counter, before: sharedEpoch}, &s.Generation)
	v.Text(BodyField{Number: 3, Name: "after", rule: anything, before: sharedKey}, &s.After)
}

// Salvaged answers a Salvage with a part of a page.
type Salvaged struct {
	ID uint64
	// Generation is the greatest that the shard was asked for. If Refused, it was asked by somebody else.
	Generation uint64
	Refused    bool
	// Failed says that the storage could not be read, or cannot go on there: begin again.
	Failed bool
	After  string
	// Part is the number of this part of the page, of Parts. Edition tells the times apart that Incarnation has read
	// the page: what is written meanwhile may move records from one part to another, so only parts of one of them make
	// a page. 0: the sender does not say.
	Part, Parts uint64
	Edition     uint64
	Records     []Moved
	// Next is where the next page begins; "": this is the last one.
	Next string
	// SV is that of the origin, as the shard knows it, and Seen the greatest timestamp that it has met.
	SV, Seen HLC
	// Incarnation is that of the middleman.
	Incarnation uint64
}

// Message returns s as a message.
func (s Salvaged) Message(from, to topology.Node) Message {
	return bodyMessage(KindSalvaged, from, to, &s)
}

// Salvaged returns the content of a message of KindSalvaged.
func (m *Message) Salvaged() Salvaged { return bodyOf[Salvaged](m) }

// Visit implements Body.
func (s *Salvaged) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &s.ID)
	visitNumber(v, BodyField{Number: 2, Name: "generation", rule: counter, before: sharedEpoch}, &s.Generation)
	v.Flag(BodyField{Number: 3, Name: "refused", rule: anything, before: sharedClean}, &s.Refused)
	v.Flag(BodyField{Number: 4, Name: "failed", rule: anything, before: sharedHit}, &s.Failed)
	v.Text(BodyField{Number: 5, Name: "after", rule: anything, before: sharedKey}, &s.After)
	visitNumber(v, BodyField{Number: 6, Name: "part", rule: counter, before: sharedSession}, &s.Part)
	visitNumber(v, BodyField{Number: 7, Name: "parts", rule: counter, before: sharedSeq}, &s.Parts)
	visitNumber(v, BodyField{Number: 8, Name: "edition", rule: counter, before: sharedDuration}, &s.Edition)
	v.Records(BodyField{Number: 9, Name: "records", rule: records, before: sharedMoved}, &s.Records)
	v.Text(BodyField{Number: 10, Name: "next", rule: anything, before: sharedData}, &s.Next)
	v.Time(BodyField{Number: 11, Name: "sv", rule: anything, before: sharedHLC}, &s.SV)
	v.Time(BodyField{Number: 12, Name: "seen", rule: anything, before: sharedCut}, &s.Seen)
	visitNumber(v, BodyField{Number: 13, Name: "incarnation", rule: counter, before: sharedHash}, &s.Incarnation)
}

// TermQuery is sent by a leader whose log is lost to another coordinator of its data center, for the term that the lost
// log knew.
type TermQuery struct{ ID uint64 }

// Message returns q as a message.
func (q TermQuery) Message(from, to topology.Node) Message {
	return bodyMessage(KindTermQuery, from, to, &q)
}

// TermQuery returns the content of a message of KindTermQuery.
func (m *Message) TermQuery() TermQuery { return bodyOf[TermQuery](m) }

// Visit implements Body.
func (q *TermQuery) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &q.ID)
}

// TermAnswer answers a TermQuery.
type TermAnswer struct {
	ID   uint64
	Term uint64
	// UpTo is at or above everything that the coordinator has written or published.
	UpTo HLC
	// Homes is what the coordinator knows of the number of homes.
	Homes Homes
}

// Message returns a as a message.
func (a TermAnswer) Message(from, to topology.Node) Message {
	return bodyMessage(KindTermAnswer, from, to, &a)
}

// TermAnswer returns the content of a message of KindTermAnswer.
func (m *Message) TermAnswer() TermAnswer { return bodyOf[TermAnswer](m) }

// Visit implements Body.
func (a *TermAnswer) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "id", rule: anything, before: sharedID}, &a.ID)
	visitNumber(v, BodyField{Number: 2, Name: "term", rule: counter, before: sharedSeq}, &a.Term)
	v.Time(BodyField{Number: 3, Name: "up_to", rule: anything, before: sharedHLC}, &a.UpTo)
	visitNumber(v, BodyField{Number: 80, Name: "homes_number", rule: anything}, &a.Homes.Number)
	visitNumber(v, BodyField{Number: 81, Name: "homes_count", rule: anything}, &a.Homes.Count)
}

// Fences are, by origin, the generation of the log below which a shard takes no put. They are never changed in place.
type Fences map[topology.Origin]uint64

// With returns fences with another one for an origin, in place of the one that it had.
func (f Fences) With(o topology.Origin, generation uint64) Fences {
	g := make(Fences, len(f)+1)
	for origin, n := range f {
		g[origin] = n
	}
	g[o] = generation
	return g
}

// Encode returns f as bytes: an origin and its generation after the other, as varints, in the order of the origins.
func (f Fences) Encode(origins int) (b []byte) {
	for o := range topology.Origin(origins + 1) {
		if n := f[o]; n > 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(o)), n)
		}
	}
	return b
}

// ParseFences is the inverse of Encode.
func ParseFences(b []byte) (Fences, error) {
	f := Fences{}
	for len(b) > 0 {
		o, n := binary.Uvarint(b)
		generation, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 || o > maxOrigin {
			return nil,
				errors.New(
					"it is no list of origins and generations; the storage is damaged, or belongs to another " +
						"application")
		}
		f[topology.Origin(o)], b = generation, b[n+m:]
	}
	return f, nil
}

const maxOrigin = 1<<32 - 1
