// Package authorize decides whether a part may send a message to another one (Table), and whether the message is one
// that the protocol has. There is one method for all links, so the kind, the parts at both ends, what the message
// speaks of, and each of its fields are all that can be checked. The functions are pure and allocate nothing.
package authorize

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Reason says why a message is refused.
type Reason uint8

// The reasons.
const (
	Permitted   Reason = iota
	Unknown            // this version does not know the kind, or a value of a field: a later one may send it
	ForeignNode        // the sender is not a node at the other end of the link
	Forbidden          // no rule permits the kind between these two nodes
	ForeignData        // it speaks of what is not the sender's
	Malformed          // a field has a value that no version sends
)

var reasonNames = [...]string{"permitted", "unknown kind or value", "foreign sender", "forbidden kind",
	"foreign content", "impossible value"}

func (r Reason) String() string { return reasonNames[r] }

// numParts is above the greatest part.
const numParts = topology.Cache + 1

// rules holds the rules by sender, receiver and kind, as bits of the positions in Table.
var rules = compile(Table)

func compile(table []Rule) *[numParts][numParts][causal.NumKinds]uint64 {
	var all [numParts][numParts][causal.NumKinds]uint64
	for i, r := range table {
		for _, k := range r.Kinds {
			all[r.From][r.To][k] |= 1 << i // panics in the tests of this package if there are more than 64 rules
		}
	}
	return &all
}

// Check returns whether m.From may send m to m.To, and whether m is one that a machine can handle.
func Check(m *causal.Message, t *topology.Topology) Reason {
	if r := checkSender(m, t); r != Permitted {
		return r
	}
	switch v, _ := causal.Validate(m, t); v {
	case causal.Valid:
		return Permitted
	case causal.Later:
		return Unknown
	}
	return Malformed
}

// checkSender returns whether m.From may send something of the kind and content of m to m.To.
func checkSender(m *causal.Message, t *topology.Topology) Reason {
	from, to := m.From, m.To
	switch {
	case m.Kind >= causal.NumKinds:
		return Unknown
	case from.Part >= numParts || to.Part >= numParts || int(from.DC) >= len(t.DCs) || int(to.DC) >= len(t.DCs):
		return Forbidden
	}
	result, members := Forbidden, from.Member != 0 && to.Member != 0
	if !members && from.Member+to.Member != 0 {
		return Forbidden
	}
	for set, i := rules[from.Part][to.Part][m.Kind], 0; set != 0; set, i = set>>1, i+1 {
		if r := &Table[i]; set&1 == 0 || members != r.Place.isOfMembers() || !r.Place.holds(from, to, t) {
			continue
		} else if r.Content.holds(m, t) {
			return Permitted
		}
		result = ForeignData
	}
	return result
}

// isOfMembers reports whether both ends are members of groups; otherwise neither is.
func (p Place) isOfMembers() bool { return p >= SameGroup }

func (p Place) holds(from, to topology.Node, t *topology.Topology) bool {
	switch p {
	case Anywhere:
		return true
	case SameDC:
		return from.DC == to.DC
	case SameRing:
		return t.RingOf(from.DC) == t.RingOf(to.DC)
	case ToOwnLeader:
		return to == t.Leader(from.DC)
	case LeaderToOwnDC:
		return from == t.Leader(to.DC)
	case LeaderToLeader:
		return from == t.Leader(from.DC) && to == t.Leader(to.DC)
	case FromLeader:
		return from == t.Leader(from.DC)
	case ToLeader:
		return to == t.Leader(to.DC)
	case SameGroup:
		return from.Group() == to.Group()
	case MemberToOwnLeader:
		return to.Group() == t.Leader(from.DC) && from.Group() != to.Group()
	case LeaderMemberToOwnDC:
		return from.Group() == t.Leader(to.DC) && from.Group() != to.Group()
	}
	return false
}

func (c Content) holds(m *causal.Message, t *topology.Topology) bool {
	switch c {
	case Free:
		return true
	case OriginSender:
		return m.SpeaksOnlyOf(t.OriginOf(m.From))
	case OriginReceiver:
		return m.SpeaksOnlyOf(t.OriginOf(m.To))
	case RingSender:
		return m.IsOfRing(t.RingOf(m.From.DC))
	case OriginsSender:
		return m.Vectors().AreOf(m.From.DC, t)
	case OriginsNamed:
		return m.SignedVectors().IsBounded(t)
	}
	return false
}
