package causal

import (
	"cmp"

	"github.com/causalstore/causalstore/topology"
)

// Leadership identifies the time in which one process serves a node, from its start or from a failover on: of the
// group's epoch, and of the life of the member that serves, whose lower bits are those of its volume. The zero
// Leadership is none. (PROTOCOL GRP.)
type Leadership struct{ Epoch, Life uint64 }

// IsZero reports whether nobody serves.
func (l Leadership) IsZero() bool { return l == Leadership{} }

// Compare orders the leaderships of one node by time.
func (l Leadership) Compare(o Leadership) int {
	if c := cmp.Compare(l.Epoch, o.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(l.Life, o.Life)
}

// GroupMessage carries a message between two members of a group, as package group encodes it.
type GroupMessage struct{ Body []byte }

// Message returns g as a message.
func (g GroupMessage) Message(from, to topology.Node) Message {
	return bodyMessage(KindGroup, from, to, &g)
}

// GroupMessage returns the content of a message of KindGroup.
func (m *Message) GroupMessage() GroupMessage { return bodyOf[GroupMessage](m) }

// Visit implements Body.
func (g *GroupMessage) Visit(v BodyVisitor) {
	v.Bytes(BodyField{Number: 1, Name: "body", rule: anything, before: sharedData}, &g.Body)
}

// CopyMessage carries a message about the copy of a storage between two members of a shard's group, as package member
// encodes it.
type CopyMessage struct{ Body []byte }

// Message returns c as a message.
func (c CopyMessage) Message(from, to topology.Node) Message {
	return bodyMessage(KindCopy, from, to, &c)
}

// CopyMessage returns the content of a message of KindCopy.
func (m *Message) CopyMessage() CopyMessage { return bodyOf[CopyMessage](m) }

// Visit implements Body.
func (c *CopyMessage) Visit(v BodyVisitor) {
	v.Bytes(BodyField{Number: 1, Name: "body", rule: anything, before: sharedData}, &c.Body)
}
