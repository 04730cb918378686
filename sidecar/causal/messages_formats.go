package causal

import "github.com/causalstore/causalstore/topology"

// Format is what a part has to know to read a value. Each release reads the formats up to its own (PROTOCOL FMT).
type Format uint64

// FormatQuery asks a part up to which format it reads values. A part of a version that does not know of formats does
// not answer.
type FormatQuery struct{}

// Message returns q as a message.
func (q FormatQuery) Message(from, to topology.Node) Message {
	return bodyMessage(KindFormatQuery, from, to, &q)
}

// Visit implements Body.
func (q *FormatQuery) Visit(BodyVisitor) {}

// FormatReply answers a FormatQuery.
type FormatReply struct {
	// Reads is up to which format the sender reads values, and all those that it has asked for others: the members of
	// its group; of a leader that another leader has asked, the parts of its data center.
	Reads Format
	// Usable is up to which format all parts of the deployment are known to read values, for good.
	Usable Format
	// Lacking is a part that reads no more than Reads, or has not said what it reads. The zero Node: none is known.
	Lacking topology.Node
	// Heard says that Lacking has said what it reads.
	Heard bool
}

// Message returns r as a message.
func (r FormatReply) Message(from, to topology.Node) Message {
	return bodyMessage(KindFormatReply, from, to, &r)
}

// FormatReply returns the content of a message of KindFormatReply.
func (m *Message) FormatReply() FormatReply { return bodyOf[FormatReply](m) }

// Visit implements Body.
func (r *FormatReply) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "reads", rule: counter}, &r.Reads)
	visitNumber(v, BodyField{Number: 2, Name: "usable", rule: counter}, &r.Usable)
	visitNumber(v, BodyField{Number: 3, Name: "lacking_part", rule: anything}, &r.Lacking.Part)
	visitNumber(v, BodyField{Number: 4, Name: "lacking_dc", rule: aDC}, &r.Lacking.DC)
	visitNumber(v, BodyField{Number: 5, Name: "lacking_index", rule: anything}, &r.Lacking.Index)
	visitNumber(v, BodyField{Number: 6, Name: "lacking_member", rule: anything}, &r.Lacking.Member)
	v.Flag(BodyField{Number: 7, Name: "heard", rule: anything}, &r.Heard)
}

// nodeBits are those of the fields of a node in one number, of which the index takes the rest.
const (
	partBits   = 8
	memberBits = 8
	dcBits     = 16
)

// packNode puts a node of a topology into one number: no index of a part that has a place there needs 32 bits.
func packNode(n topology.Node) uint64 {
	return n.Index<<(partBits+memberBits+dcBits) | uint64(n.DC)<<(partBits+memberBits) |
		uint64(n.Member)<<partBits | uint64(n.Part)
}

func unpackNode(is uint64) topology.Node {
	return topology.Node{Part: topology.Part(is & (1<<partBits - 1)), Member: uint8(is >> partBits),
		DC: topology.DC(is >> (partBits + memberBits)), Index: is >> (partBits + memberBits + dcBits)}
}
