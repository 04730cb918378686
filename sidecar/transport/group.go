package transport

import (
	"sync"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// A node may be served by one of several members of a group, each a process with an address of its own
// (PROTOCOL GRP-23). Each process keeps links to all members of a group that it uses. A member that begins or ceases to
// serve announces that on all its links, so those who have a link to it know at once. Messages to the node go to the
// member with the greatest leadership.

// group is what this process knows of the members of one node. GRPC.mu guards members.
type group struct {
	node     topology.Node
	lastUsed atomic.Int64 // of the outboxes to all members: their links become idle together
	members  [topology.MaxMembers]member

	reporting sync.Mutex        // held while callbacks about the node run, so that they come in order
	reported  causal.Leadership // the last one; zero if the node cannot be reached
}

// member is what is known of the process that runs a member.
type member struct {
	link        *dialer // whose stream to the member is up, or nil
	linkedTo    uint64  // the incarnation at its other end
	incarnation uint64  // of the process that has connected last
	announced   wire.Announcement
	// floor is the greatest leadership that another member has announced since this process is known. Below it, this
	// one has been replaced, whatever it says and whether or not the other one can be reached. A later start of it has
	// none: when all volumes of a group are replaced, leaderships start over.
	floor causal.Leadership
}

func (m *member) serves() bool {
	return !m.announced.Leadership.IsZero() && m.announced.Leadership.Compare(m.floor) >= 0
}

func isMember(n topology.Node) bool { return n.Member >= 1 && n.Member <= topology.MaxMembers }

// memberOf returns the member that a process runs.
func memberOf(h *wire.Hello) (n topology.Node, ok bool) {
	if len(h.Nodes) != 1 || !isMember(h.Nodes[0]) {
		return n, false
	}
	return h.Nodes[0], true
}

// locality says which messages for a node stay in this process.
type locality uint8

const (
	remote         locality = iota
	local                   // it runs here
	localIfServing          // a member of its group runs here
)

// refusal returns why this process does not take messages for a node, or notDropped.
func (g *GRPC) refusal(n topology.Node) DropReason {
	switch g.localNodes[n] {
	case remote:
		return DropMisrouted
	case localIfServing:
		if g.ownAnnouncement().Leadership.IsZero() {
			return DropNotServing
		}
	}
	return notDropped
}

// SetLeadership announces that the member of a group that this process runs serves its node in a leadership, or, if
// that is zero, that it does not. On each link that comes after all messages that were sent before the call, and before
// all later ones.
func (g *GRPC) SetLeadership(l causal.Leadership) {
	g.announcing.Lock()
	defer g.announcing.Unlock()
	a := wire.Announcement{Leadership: l, Number: g.announced.Load().Number + 1}
	g.announced.Store(&a) // first: the hellos of links that are not there yet have it
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, d := range g.dialed {
		d.out.pushAnnouncement(a)
	}
	for _, s := range g.accepted {
		s.out.pushAnnouncement(a)
	}
}

func (g *GRPC) ownAnnouncement() wire.Announcement { return *g.announced.Load() }

// group returns what is known of the group of a node. It needs GRPC.mu for writing.
func (g *GRPC) group(n topology.Node) *group {
	grp := g.groups[n]
	if grp == nil {
		grp = &group{node: n}
		g.groups[n] = grp
	}
	return grp
}

// Open opens the links to a node, or to all members of its group, that are not there yet, and keeps them from becoming
// idle. So what is sent to it later does not wait for them.
func (g *GRPC) Open(n topology.Node) {
	var out *outbox
	if g.config.Members != nil && n.HasGroup() {
		out, _ = g.groupOutbox(n)
	} else {
		out, _ = g.outboxFor(n)
	}
	if out != nil {
		out.touch()
	}
}

// groupOutbox returns the outbox of the link to the member that serves a node. It opens the links to all members that
// lack one.
func (g *GRPC) groupOutbox(n topology.Node) (out *outbox, reason DropReason) {
	reason = DropNoRoute
	var missing [topology.MaxMembers]bool
	lacks := false
	g.mu.RLock()
	grp, closed := g.groups[n], g.closed
	if grp != nil {
		reason = DropNotServing
		if out, _ = g.serving(grp); out != nil {
			reason = notDropped
		} else {
			touch(&grp.lastUsed)
		}
	}
	for i := range missing {
		addr, ok := g.config.Resolve(n.WithMember(uint8(i + 1)))
		missing[i] = ok && g.dialed[addr] == nil
		lacks = lacks || missing[i]
	}
	g.mu.RUnlock()
	switch {
	case closed:
		return nil, DropClosed
	case !lacks:
		return out, reason
	}
	for _, m := range g.config.Members(n) {
		addr, ok := g.config.Resolve(m)
		if ok && isMember(m) && missing[m.Member-1] {
			g.dial(m, addr)
			if out == nil {
				reason = DropNotServing
			}
		}
	}
	return out, reason
}

// serving returns the outbox of the link to the member that serves a node, and its leadership; nil if there is none. It
// needs GRPC.mu.
//
// A member that the topology does not have counts only while no other one serves: it may be one that this process has
// not heard of yet, or somebody who has the certificate of the group.
func (g *GRPC) serving(grp *group) (out *outbox, l causal.Leadership) {
	known := false
	for i := range grp.members {
		m, n := &grp.members[i], grp.node.WithMember(uint8(i+1))
		isKnown := g.hasPlace(n)
		if !m.serves() || known && !isKnown || known == isKnown && m.announced.Leadership.Compare(l) <= 0 {
			continue
		}
		if o := g.outboxOf(n, m); o != nil {
			out, l, known = o, m.announced.Leadership, isKnown
		}
	}
	return out, l
}

// hasPlace reports whether the topology has a member.
func (g *GRPC) hasPlace(n topology.Node) bool {
	return g.config.Topology == nil || g.config.Topology().Runs(n)
}

// outboxOf returns the outbox of the link to a member, or nil. As with other nodes, a member that can be dialed is sent
// nothing on the links that it has opened. It needs GRPC.mu.
func (g *GRPC) outboxOf(n topology.Node, m *member) *outbox {
	addr, ok := g.config.Resolve(n)
	a := g.acceptedFrom[n]
	switch {
	case ok && m.link != nil && m.link.addr == addr && m.linkedTo == m.incarnation:
		return m.link.out
	case !ok && a != nil && a.peer.Incarnation == m.incarnation:
		return a.out
	}
	return nil
}

// hearHello takes what the hello of an accepted link says.
func (g *GRPC) hearHello(h *wire.Hello) {
	if n, ok := memberOf(h); ok {
		g.updateMember(n, func(grp *group) { grp.hear(n, h, h.Announcement, g.hasPlace(n)) }, g.config.Down, false)
	}
}

// hearAnnouncement takes an announcement from a frame, if there is one.
func (g *GRPC) hearAnnouncement(peer *wire.Hello, a wire.Announcement) {
	n, ok := memberOf(peer)
	if !ok || a.Number == 0 {
		return
	}
	g.updateMember(n, func(grp *group) {
		if grp.members[n.Member-1].incarnation == peer.Incarnation { // else it has restarted since
			grp.hear(n, peer, a, g.hasPlace(n))
		}
	}, g.config.Down, false)
}

// hear takes an announcement of the process with hello h, of a member that the topology has or not. It needs GRPC.mu
// for writing.
func (grp *group) hear(n topology.Node, h *wire.Hello, a wire.Announcement, hasPlace bool) {
	m := &grp.members[n.Member-1]
	if m.incarnation != h.Incarnation {
		m.incarnation, m.announced, m.floor = h.Incarnation, wire.Announcement{}, causal.Leadership{}
	}
	if a.Number <= m.announced.Number { // it has arrived on another link already, or a later one has
		return
	}
	m.announced = a
	if !hasPlace {
		return // its word replaces nobody: the members that the topology has would be out of use until they restart
	}
	for i := range grp.members {
		if other := &grp.members[i]; other != m && other.floor.Compare(a.Leadership) < 0 {
			other.floor = a.Leadership
		}
	}
}

// reviseGroups reports what follows from the end of an accepted link.
func (g *GRPC) reviseGroups(nodes []topology.Node) {
	for _, n := range nodes {
		g.mu.RLock()
		known := g.groups[n.Group()] != nil
		g.mu.RUnlock()
		if known && isMember(n) {
			g.updateMember(n, func(*group) {}, g.config.Down, false)
		}
	}
}

// updateMember changes what is known of a member and reports what follows for its node: by lost, which may be nil, if
// no member that serves can be reached any more, or still none after a failure.
func (g *GRPC) updateMember(n topology.Node, change func(*group), lost func(topology.Node), failure bool) {
	g.mu.Lock()
	grp := g.group(n.Group())
	g.mu.Unlock()
	grp.reporting.Lock()
	defer grp.reporting.Unlock()
	g.mu.Lock()
	change(grp)
	_, l := g.serving(grp)
	g.mu.Unlock()
	was := grp.reported
	grp.reported = l
	if l.IsZero() && !was.IsZero() {
		g.checkMembers(grp)
	}
	switch {
	case g.localNodes[grp.node] != remote: // a member of its own group knows who serves
	case !l.IsZero() && l != was && g.config.Up != nil:
		g.config.Up(grp.node, l)
	case l.IsZero() && lost != nil && (failure || !was.IsZero()):
		lost(grp.node)
	}
}

// checkMembers asks all members of a group that has lost the one that served whether they are there. A link to one of
// them may be left of a process that is gone without a word, as its host may be; nothing is sent to a member that
// follows, so only the keep-alive would find out. A link on which nothing comes back is renewed: the next member to
// serve may be at the other end of the new one.
func (g *GRPC) checkMembers(grp *group) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.closed {
		return
	}
	for i := range grp.members {
		if d := grp.members[i].link; d != nil {
			g.wg.Go(func() {
				if !g.isAlive(g.ctx, d.out, d.heard.Load, g.timing.memberProbe) {
					d.requestRenewal()
				}
			})
		}
	}
}

// reportUp reports a stream that has been opened.
func (d *dialer) reportUp(h *wire.Hello) {
	g := d.g
	for _, n := range h.Nodes {
		if addr, ok := g.config.Resolve(n); ok && addr == d.addr {
			d.mu.Lock()
			d.node = n
			d.mu.Unlock()
			break
		}
	}
	n, ok := memberOf(h)
	if !ok {
		if g.config.Up != nil {
			g.config.Up(d.node, causal.Leadership{})
		}
		return
	}
	g.updateMember(n, func(grp *group) {
		m := &grp.members[n.Member-1]
		grp.hear(n, h, h.Announcement, g.hasPlace(n))
		m.link, m.linkedTo = d, h.Incarnation
	}, g.config.Down, false)
	if g.config.MemberUp != nil {
		g.config.MemberUp(n)
	}
}

// reportDown reports by notify that the stream has ended, or could not be opened; nil: that is no failure.
func (d *dialer) reportDown(notify func(topology.Node)) {
	g := d.g
	addr, ok := g.config.Resolve(d.node)
	isHere := !ok || addr == d.addr // else an attempt to reach it at its old address says nothing
	if !isMember(d.node) {
		if notify != nil && isHere {
			notify(d.node)
		}
		return
	}
	g.updateMember(d.node, func(grp *group) {
		if m := &grp.members[d.node.Member-1]; m.link == d {
			m.link = nil
		}
	}, notify, isHere)
}
