package causal

import "github.com/causalstore/causalstore/topology"

// LockName names a try to commit at several homes of a data center, for all of them (PROTOCOL HOL).
type LockName struct {
	Sidecar topology.Node
	Session uint64
	LockToken
}

// NameOf returns the name of the commit that a part belongs to, which a sidecar has sent.
func (c *HomeCommit) NameOf(sidecar topology.Node) LockName {
	return LockName{sidecar, c.Session, c.Lock}
}

// DeciderIn returns the home that decides a commit of a data center.
func (n *LockName) DeciderIn(dc topology.DC) topology.Node {
	return topology.Node{DC: dc, Part: topology.Coordinator, Index: n.Decider}
}

// Verdict is what homes say to each other about a commit.
type Verdict uint64

// The verdicts.
const (
	VerdictAsked     Verdict = iota // a home that keeps keys for the commit asks the decider
	VerdictCommitted                // the decider's log has its part: the others put theirs
	VerdictAborted                  // the decider has not put its part, and never will: the others let go
	VerdictDone                     // the log of a home has its part
)

// HomeVerdict is what one home tells another about a commit in which both take part.
type HomeVerdict struct {
	Verdict Verdict
	Sidecar uint64 // its index, in the same data center
	Session uint64
	Lock    LockToken
	// Last is the newest put of the parts that are in the logs: the next part follows it. Of a VerdictDone it is that
	// of the part; it has no version if that is not known any more.
	Last Dep
}

// Name returns the name of the commit, in a data center.
func (v *HomeVerdict) Name(dc topology.DC) LockName {
	return LockName{topology.Node{DC: dc, Part: topology.Sidecar, Index: v.Sidecar}, v.Session, v.Lock}
}

// VerdictOn returns a verdict on a commit.
func VerdictOn(n LockName, is Verdict, last Dep) HomeVerdict {
	return HomeVerdict{Verdict: is, Sidecar: n.Sidecar.Index, Session: n.Session, Lock: n.LockToken, Last: last}
}

// Message returns v as a message.
func (v HomeVerdict) Message(from, to topology.Node) Message {
	return bodyMessage(KindHomeVerdict, from, to, &v)
}

// HomeVerdict returns the content of a message of KindHomeVerdict.
func (m *Message) HomeVerdict() HomeVerdict { return bodyOf[HomeVerdict](m) }

// Visit implements Body.
func (v *HomeVerdict) Visit(b BodyVisitor) {
	visitNumber(b, BodyField{Number: 1, Name: "verdict", rule: anything}, &v.Verdict)
	visitNumber(b, BodyField{Number: 2, Name: "sidecar", rule: anything}, &v.Sidecar)
	visitNumber(b, BodyField{Number: 3, Name: "session", rule: anything}, &v.Session)
	v.Lock.visit(b, 4)
	b.Version(BodyField{Number: 8, Name: "last", rule: writtenOrNone}, &v.Last.Version)
	visitNumber(b, BodyField{Number: 9, Name: "slot", rule: aSlot}, &v.Last.Slot)
}
