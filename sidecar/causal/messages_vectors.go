package causal

import (
	"encoding/binary"

	"github.com/causalstore/causalstore/topology"
)

// Vectors carries the stability vectors: coordinator -> leader -> leaders of other data centers -> nodes. A leader
// sends other leaders those of its own data center only, and they believe it nothing else.
type Vectors struct {
	Entries []VectorEntry
	// InUse has a bit for each coordinator of the data center that is in use, in messages of a leader to its nodes; 0:
	// unknown.
	InUse uint64
	// ActiveAt is when a write was last accepted or acknowledged anywhere, as far as the sender knows.
	ActiveAt HLC
	// Asks has a bit for each data center whose SignedVectors the sender, a leader, asks another leader for.
	Asks uint64
	// Heard has a bit for each coordinator of the sender's data center that its leader has lately heard of, in messages
	// to other leaders: it is there, whether or not its vectors move. 0: unknown.
	Heard uint64
}

// Message returns v as a message.
func (v Vectors) Message(from, to topology.Node) Message {
	return Message{Kind: KindVectors, From: from, To: to,
		fields: Fields{Vectors: v.Entries, Seq: v.InUse, HLC: v.ActiveAt, ID: v.Asks, Epoch: v.Heard}}
}

// Vectors returns the content of a message of KindVectors.
func (m *Message) Vectors() Vectors {
	return Vectors{Entries: m.fields.Vectors, InUse: m.fields.Seq, ActiveAt: m.fields.HLC, Asks: m.fields.ID,
		Heard: m.fields.Epoch}
}

// AreOf reports whether v speaks of the origins of a data center only.
func (v Vectors) AreOf(dc topology.DC, t *topology.Topology) bool { return areOfDC(v.Entries, dc, t) }

// SignedVectors carries what the leader of a data center says of the origins of that data center. Other leaders pass it
// on as it is, so that it reaches those that do not hear that leader.
type SignedVectors struct {
	DC      topology.DC
	Entries []VectorEntry
	// Seal proves that the leader of DC has said so. It is empty in a deployment without identities.
	Seal []byte
}

// MaxSealBytes bounds a seal: a signature and a chain of a few certificates.
const MaxSealBytes = 16 << 10

// Message returns v as a message.
func (v SignedVectors) Message(from, to topology.Node) Message {
	return bodyMessage(KindSignedVectors, from, to, &v)
}

// SignedVectors returns the content of a message of KindSignedVectors.
func (m *Message) SignedVectors() SignedVectors { return bodyOf[SignedVectors](m) }

// Visit implements Body.
func (v *SignedVectors) Visit(b BodyVisitor) {
	visitNumber(b, BodyField{Number: 1, Name: "dc", rule: aDC, before: sharedSeq}, &v.DC)
	b.Vectors(BodyField{Number: 2, Name: "entries", rule: vectors, before: sharedVectors}, &v.Entries)
	b.Bytes(BodyField{Number: 3, Name: "seal", rule: anything, before: sharedData}, &v.Seal)
}

// Statement returns what the seal covers. Every part has a fixed length or is preceded by it, or by whether it is
// there, so no two contents have the same.
func (v SignedVectors) Statement() []byte {
	b := make([]byte, 0, 6+24*len(v.Entries))
	b = binary.BigEndian.AppendUint16(b, uint16(v.DC))
	b = binary.BigEndian.AppendUint32(b, uint32(len(v.Entries)))
	for i := range v.Entries {
		e := &v.Entries[i]
		b = binary.BigEndian.AppendUint32(b, uint32(e.Origin))
		b = binary.BigEndian.AppendUint32(b, uint32(e.Last))
		b = binary.BigEndian.AppendUint64(b, uint64(e.SV))
		rings := uint32(len(e.RV))
		if e.Settled != 0 {
			rings |= 1 << 31
		}
		b = binary.BigEndian.AppendUint32(b, rings)
		for _, h := range e.RV {
			b = binary.BigEndian.AppendUint64(b, uint64(h))
		}
		if e.Settled != 0 {
			b = binary.BigEndian.AppendUint64(b, uint64(e.Settled))
		}
	}
	return b
}

// IsBounded reports whether v has no more than a leader has to say, and speaks of the origins of its data center only.
func (v SignedVectors) IsBounded(t *topology.Topology) bool {
	return int(v.DC) < len(t.DCs) && len(v.Seal) <= MaxSealBytes && areOfDC(v.Entries, v.DC, t)
}
