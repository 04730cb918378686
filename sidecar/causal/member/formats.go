package member

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Each member of a group may take over with what is in the log and in the storage, so a part reads what all of its
// members read (PROTOCOL FMT-3). The member that serves asks the others while somebody asks it. They answer as members,
// whoever serves.

// memberFormats is what a member knows of the formats that the others of its group read.
type memberFormats struct {
	reads    causal.Format // this member
	unasked  bool          // the mutation FormatMembersUnasked
	said     map[topology.Node]saidFormat
	wantedAt int64 // when somebody has asked last
	askAt    int64
	messages []causal.Message
}

type saidFormat struct {
	reads causal.Format
	at    int64
}

const (
	formatInterval = 250 * time.Millisecond
	// formatFreshFor is how long an answer counts: a member may be started again with an earlier version.
	formatFreshFor = 3 * time.Second
	// formatWantedFor is how long after it was asked a member goes on asking the others.
	formatWantedFor = time.Second
)

func newMemberFormats(reads causal.Format, broken causal.Mutations) memberFormats {
	return memberFormats{reads: reads, unasked: broken.Has(causal.FormatMembersUnasked),
		said: map[topology.Node]saidFormat{}}
}

// IsAboutFormats reports whether a message is between members, about what they read.
func (g *groupMember) IsAboutFormats(m *causal.Message) bool {
	return (m.Kind == causal.KindFormatQuery || m.Kind == causal.KindFormatReply) && g.isFromMember(m)
}

// stepFormats answers another member, or takes its answer.
func (g *groupMember) stepFormats(now causal.Now, m *causal.Message) {
	f := &g.formats
	if m.Kind == causal.KindFormatQuery {
		f.messages = append(f.messages, causal.FormatReply{Reads: f.reads}.Message(g.self, m.From))
		return
	}
	f.said[m.From] = saidFormat{m.FormatReply().Reads, now.Mono}
}

// membersRead returns what the member reads that reads least.
func (g *groupMember) membersRead(now causal.Now) causal.FormatReply {
	f := &g.formats
	f.wantedAt = now.Mono
	g.askFormats(now)
	least := causal.FormatReply{Reads: f.reads, Lacking: g.self, Heard: true}
	for _, n := range g.others() {
		s, ok := f.said[n]
		if ok = ok && now.Mono-s.at <= int64(formatFreshFor); !ok {
			s = saidFormat{}
		}
		if s.reads < least.Reads {
			least = causal.FormatReply{Reads: s.reads, Lacking: n, Heard: ok}
		}
	}
	return least
}

// askFormats asks the others, while somebody asks this one.
func (g *groupMember) askFormats(now causal.Now) {
	f := &g.formats
	if f.wantedAt == 0 || now.Mono-f.wantedAt > int64(formatWantedFor) || now.Mono < f.askAt {
		return
	}
	f.askAt = now.Mono + int64(formatInterval)
	for _, n := range g.others() {
		if s, ok := f.said[n]; !ok || s.reads < f.reads || now.Mono-s.at > int64(formatFreshFor/2) {
			f.messages = append(f.messages, causal.FormatQuery{}.Message(g.self, n))
		}
	}
}

// others returns the other members of the group: those of the topology, and those that it still has.
func (g *groupMember) others() (all []topology.Node) {
	if g.formats.unasked {
		return nil
	}
	isOther := map[topology.Node]bool{g.self: false}
	add := func(n topology.Node) {
		if _, known := isOther[n]; !known {
			isOther[n] = true
			all = append(all, n)
		}
	}
	for _, n := range g.topo.MembersOf(g.self.Group()) {
		add(n)
	}
	s := g.group.Status()
	for _, id := range append(s.Pending[:len(s.Pending):len(s.Pending)], s.Config.Members...) {
		if n, ok := g.nodeOf(id.Name); ok {
			add(n)
		}
	}
	return all
}
