package member

import (
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// groupMember is what a Coordinator and a Storage have in common: the group, and its inputs and outputs.
type groupMember struct {
	self  topology.Node // the member
	topo  *topology.Topology
	group *group.Group
	now   causal.Now // of the last input
	// settle carries what the group says to its user, and back.
	settle func(causal.Now)

	formats  memberFormats
	reset    bool
	events   []group.Event
	messages []group.Message
	stats    Stats
}

// Stats counts since the start.
type Stats struct {
	// Malformed counts messages of members that could not be decoded, the last one because of MalformedWhy.
	Malformed    uint64
	MalformedWhy error
	// Commits is how long records took from when the user emitted them until all members had them on disk.
	Commits CommitLatency
}

// MaxLogBytesInMemory bounds the log of a group that may have several members, on each of them: it is in memory, as a
// member that was away gets from there what it has missed.
const MaxLogBytesInMemory = 256 << 20

// Now returns the time of the last input.
func (g *groupMember) Now() causal.Now { return g.now }

// nameOf returns the name of a member in its group.
func nameOf(member topology.Node) string { return strconv.Itoa(int(member.Member)) }

// nodeOf returns the member with a name in its group; false: the register names a member that is none.
func (g *groupMember) nodeOf(name string) (topology.Node, bool) {
	number, err := strconv.ParseUint(name, 10, 8)
	return g.self.WithMember(uint8(number)), err == nil
}

// desired returns the members that the topology gives the group.
func (g *groupMember) desired() (d group.Desired) {
	for _, n := range g.topo.DesiredMembersOf(g.self.Group()) {
		d.Names = append(d.Names, nameOf(n))
	}
	return d
}

// isFromMember reports whether a message is from another member of the group to this one.
func (g *groupMember) isFromMember(m *causal.Message) bool {
	return m.To == g.self && m.From.Group() == g.self.Group() && m.From.Member != 0 &&
		m.From.Member <= topology.MaxMembers && m.From != g.self
}

// stepGroup takes in a message of the group.
func (g *groupMember) stepGroup(now causal.Now, m *causal.Message) {
	if !g.isFromMember(m) {
		return
	}
	msg, err := group.ParseMessage(nameOf(m.From), nameOf(m.To), m.GroupMessage().Body)
	if err != nil {
		g.noteMalformed(err)
		return
	}
	g.group.Step(now, &msg)
}

func (g *groupMember) noteMalformed(err error) {
	g.stats.Malformed, g.stats.MalformedWhy = g.stats.Malformed+1, err
}

// takeGroup appends the messages of the group to dst.
func (g *groupMember) takeGroup(dst []causal.Message) []causal.Message {
	g.messages = g.group.Take(g.now, g.messages[:0])
	for i := range g.messages {
		m := &g.messages[i]
		if to, ok := g.nodeOf(m.To.Name); ok {
			dst = append(dst, causal.GroupMessage{Body: m.AppendTo(nil)}.Message(g.self, to))
		}
	}
	clear(g.messages)
	dst = append(dst, g.formats.messages...)
	g.formats.messages = causal.Recycle(g.formats.messages)
	return dst
}

// RegisterDone takes in the outcome of a request to the register.
func (g *groupMember) RegisterDone(now causal.Now, res group.RegisterResult) {
	g.now = now
	g.group.RegisterDone(now, res)
	g.settle(now)
}

// RegisterChanged is a hint that the register has changed. Hints may be wrong, late or lost.
func (g *groupMember) RegisterChanged(now causal.Now) {
	g.now = now
	g.group.RegisterChanged(now)
	g.settle(now)
}

// AcceptRegister says that a person has decided to believe the register: see group.Group.
func (g *groupMember) AcceptRegister(now causal.Now) {
	g.now = now
	g.group.AcceptRegister(now)
	g.settle(now)
}

// SetTopology replaces the topology by one that differs only in the numbers of coordinators, shards, their members, and
// caches.
func (g *groupMember) SetTopology(now causal.Now, t *topology.Topology) {
	g.now, g.topo = now, t
	g.group.SetDesired(now, g.desired())
	g.settle(now)
}

// Topology returns the topology in use.
func (g *groupMember) Topology() *topology.Topology { return g.topo }

// HandOver makes another member the primary before this one stops, if there is one that has everything. Status tells
// when that is done.
func (g *groupMember) HandOver(now causal.Now) {
	g.now = now
	g.group.Resign(now)
	g.settle(now)
}

// Writes appends the entries to be made durable, in this order, to dst. Appended says when they are; until then the
// data of their records is not changed, and afterwards it may be.
func (g *groupMember) Writes(dst []group.Entry) []group.Entry { return g.group.Writes(dst) }

// TruncateBefore returns the index of the first entry that the disk has to keep.
func (g *groupMember) TruncateBefore() uint64 { return g.group.TruncateBefore() }

// RegisterOps appends the requests to be sent to the register to dst. RegisterDone answers each of them once, however
// late.
func (g *groupMember) RegisterOps(dst []group.RegisterOp) []group.RegisterOp {
	return g.group.RegisterOps(dst)
}

// NeedsReset reports whether the volume is damaged and the group does without it: it is to be emptied, and a new member
// started with another volume id.
func (g *groupMember) NeedsReset() bool { return g.reset }

// Status returns what the group says about itself.
func (g *groupMember) Status() group.Status { return g.group.Status() }

// Count is how many members a group has.
type Count struct {
	// Wanted are those that the topology gives the group, Present those of them that are in its configuration, and that
	// no change leaves out which may have been done.
	Wanted, Present int
	// Leaving are those that the topology does not give the group, and whom commits wait for.
	Leaving int
}

// Count counts the members of the group, as far as this member knows.
func (g *groupMember) Count() (n Count) {
	d, s := g.desired(), g.group.Status()
	n.Wanted = len(d.Names)
	for _, id := range s.Config.Members {
		switch {
		case !slices.Contains(d.Names, id.Name):
			n.Leaving++
		case !slices.Contains(s.Uncertain, id):
			n.Present++
		}
	}
	for _, id := range s.Pending {
		if !slices.Contains(d.Names, id.Name) {
			n.Leaving++
		}
	}
	return n
}

// Health returns how this member finds its group.
func (g *groupMember) Health(now causal.Now) group.Health { return g.group.Health(now) }

// Stats returns the counters.
func (g *groupMember) Stats() Stats { return g.stats }
