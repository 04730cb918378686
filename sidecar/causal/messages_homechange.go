package causal

import "github.com/causalstore/causalstore/topology"

// HomeChange is what the leader of a data center tells the other coordinators about how many of them are homes
// (PROTOCOL HOC).
type HomeChange struct {
	// Number counts the changes, those that were given up too. Next is 0 in the announcement of the change with this
	// number: then Count coordinators are homes, and everything of before is at or below UpTo. Otherwise the leader
	// proposes Next homes, as the change that follows Number.
	Number, Count, Next uint64
	UpTo                HLC
}

// Message returns c as a message.
func (c HomeChange) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeChange, from, to, &c)
}

// HomeChange returns the content of a message of KindHomeChange.
func (m *Message) HomeChange() HomeChange { return bodyOf[HomeChange](m) }

// Visit implements Body.
func (c *HomeChange) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "number", rule: anything}, &c.Number)
	visitNumber(v, BodyField{Number: 2, Name: "count", rule: anything}, &c.Count)
	visitNumber(v, BodyField{Number: 3, Name: "next", rule: anything}, &c.Next)
	v.Time(BodyField{Number: 4, Name: "up_to", rule: anything}, &c.UpTo)
}

// HomeVote answers a HomeChange.
type HomeVote struct {
	// Number is that of the last change that the coordinator knows. Ready says that it has no write that is incomplete
	// for long, so that a change would not take long.
	Number uint64
	Ready  bool
	// Next, if it is not 0, is the number of homes after the change that follows: the coordinator has given up the
	// slots that it loses, and everything that it has accepted of them, or heard that clients were shown, is complete
	// and at or below UpTo. If Number is 0, and UpTo is not, the coordinator knows no decision, and is the home of
	// nothing: everything that it has accepted is complete and at or below UpTo.
	Next uint64
	UpTo HLC
}

// Message returns v as a message.
func (v HomeVote) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeVote, from, to, &v)
}

// HomeVote returns the content of a message of KindHomeVote.
func (m *Message) HomeVote() HomeVote { return bodyOf[HomeVote](m) }

// Visit implements Body.
func (v *HomeVote) Visit(b BodyVisitor) {
	visitNumber(b, BodyField{Number: 1, Name: "number", rule: anything}, &v.Number)
	b.Flag(BodyField{Number: 2, Name: "ready", rule: anything}, &v.Ready)
	visitNumber(b, BodyField{Number: 3, Name: "next", rule: anything}, &v.Next)
	b.Time(BodyField{Number: 4, Name: "up_to", rule: anything}, &v.UpTo)
}

// Homes tells a sidecar how many coordinators of its data center are homes. It comes before a refusal, which may be due
// to that.
type Homes struct{ Number, Count uint64 }

// Message returns h as a message.
func (h Homes) Message(from, to topology.Node) Message { return bodyMessage(KindHomes, from, to, &h) }

// Homes returns the content of a message of KindHomes.
func (m *Message) Homes() Homes { return bodyOf[Homes](m) }

// Visit implements Body.
func (h *Homes) Visit(v BodyVisitor) {
	visitNumber(v, BodyField{Number: 1, Name: "number", rule: anything}, &h.Number)
	visitNumber(v, BodyField{Number: 2, Name: "count", rule: anything}, &h.Count)
}
