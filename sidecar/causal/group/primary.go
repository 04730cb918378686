package group

import (
	"errors"
	"fmt"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// leadership is one session of a primary.
//
// A session begins with a start record. When it is committed, the logs of all members are the primary's up to there, so
// only then the user gets the log: what it builds from it cannot be lost or replaced any more.
type leadership struct {
	session Stamp
	start   uint64 // position of the start record
	own     uint64 // the log is durable here up to this position
	serving bool
	peers   []*peer // of all members and joining members but this one
	// departed are those that were peers, for Health.
	departed []departed
	// uncommitted is the size of the records above commit, in bytes.
	uncommitted int

	change *change
	// unsettled: a swap was sent, and may still apply.
	unsettled bool
	// paused: Append refuses, because another member becomes the primary. resumedAt is when that was given up.
	paused    bool
	resumedAt int64
	staysTo   int64 // until then it does not make way for the preferred member: see Stay
	wasStuck  bool  // the disk did not respond lately
}

// begin begins a session. The first frames may go out before the session is durable here: no record of it is committed
// before the start record is durable, and the session is on the disk before that.
func (g *Group) begin(now causal.Now) {
	if g.isReplaced() {
		return
	}
	g.state.Session = Stamp{g.state.Config.Epoch, g.state.Life}
	g.save(now)
	g.matched, g.waits = 0, nil
	l := &leadership{session: g.state.Session}
	g.lead = l
	for l.own = g.log.firstHeld() - 1; l.own < g.log.last() && g.log.at(l.own+1).index <= g.durable; l.own++ {
	}
	for pos := max(g.commit+1, g.log.firstHeld()); pos <= g.log.last(); pos++ {
		l.uncommitted += len(g.log.at(pos).Data)
	}
	l.start = g.appendRecord(now, Record{Stamp: l.session, Start: true})
	for _, id := range g.required() {
		g.peerOf(now, id)
	}
	if g.opts.Broken.Has(causal.ReplayBeforeAligned) {
		g.serve(now)
	}
}

// required returns all members whose acknowledgement a commit needs: those of the configuration, and those that a swap
// which may have applied has added to it.
//
// The result is valid until the next call.
func (g *Group) required() []ID {
	ids := append(g.requiredIDs[:0], g.state.Config.Members...)
	defer func() { g.requiredIDs = ids }()
	add := func(more []ID) {
		for _, id := range more {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if broken := g.opts.Broken.Has(causal.JoinNotRequired); !broken {
		add(g.state.Pending)
	} else if g.lead != nil && g.lead.change != nil && g.lead.change.submitted {
		return ids
	}
	if g.lead != nil && g.lead.change != nil {
		add(g.lead.change.config.Members)
	}
	if g.opts.Broken.Has(causal.DropBeforeSettled) && g.lead != nil && g.lead.change != nil && g.lead.change.submitted {
		ids = append(ids[:0], g.lead.change.config.Members...)
	}
	return ids
}

// peerOf returns the peer with an identity, and makes one if there is none.
func (g *Group) peerOf(now causal.Now, id ID) *peer {
	if id == g.self {
		return nil
	}
	if p := g.findPeer(id); p != nil {
		return p
	}
	// Most logs are the same up to what was there before the session.
	p := &peer{id: id, agreed: g.log.last(), probing: true, heardAt: now.Mono, waitingSince: now.Mono,
		founding: !g.lead.serving}
	if g.lead.start >= g.log.first() {
		p.agreed = g.lead.start - 1
	}
	p.next = p.agreed + 1
	g.lead.peers = append(g.lead.peers, p)
	return p
}

func (g *Group) findPeer(id ID) *peer {
	for _, p := range g.lead.peers {
		if p.id == id {
			return p
		}
	}
	return nil
}

// The reasons for which Append refuses.
var (
	ErrNotPrimary = errors.New("this member of the group is not its primary, or does not serve yet; ask the others")
	ErrMoving     = errors.New("another member of the group is about to become its primary; ask again in a moment")
	ErrBusy       = errors.New("too many records of the group wait for a member's disk; try again later")
	ErrFull       = errors.New(
		"the group's log is full; try again when the oldest records are collected, or raise the limit")
	ErrTooLarge = errors.New("the record is too large for the group's log")
)

// Append appends a record and returns its position. It is committed when an event says that everything up to there is.
// If it returns an error, nothing was appended. data is retained.
func (g *Group) Append(now causal.Now, data []byte) (uint64, error) {
	l := g.lead
	switch {
	case l == nil || !l.serving:
		return 0, ErrNotPrimary
	case l.paused:
		return 0, ErrMoving
	case len(data) > g.opts.MaxRecordBytes:
		return 0, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrTooLarge, len(data), g.opts.MaxRecordBytes)
	case l.uncommitted > 0 && l.uncommitted+len(data) > g.opts.MaxUncommittedBytes || g.isStuck(now):
		return 0, ErrBusy
	case g.log.bytes+len(data) > g.opts.MaxLogBytes:
		return 0, ErrFull
	}
	l.uncommitted += len(data)
	return g.appendRecord(now, Record{Stamp: l.session, Data: data}), nil
}

// Collect says that the user of the primary needs the records before pos no more. They must be committed.
func (g *Group) Collect(now causal.Now, pos uint64) {
	if g.lead == nil || !g.lead.serving {
		return
	}
	g.collect(now, min(pos, g.commit+1, g.lead.own+1, g.collectLimit()))
}

// advance commits what all required members have.
func (g *Group) advance(now causal.Now) {
	l := g.lead
	for l.own < g.log.last() && (g.log.at(l.own+1).index <= g.durable || g.opts.Broken.Has(causal.SelfBeforeDurable)) {
		l.own++
	}
	pos := g.quorum()
	if pos <= g.commit && l.serving {
		return
	}
	for p := max(g.commit+1, g.log.firstHeld()); p <= pos; p++ {
		l.uncommitted -= len(g.log.at(p).Data)
	}
	g.commit = max(g.commit, pos)
	if !l.serving {
		g.serveWhenAligned(now)
		return
	}
	g.release()
	if n := len(g.events); n > 0 && g.events[n-1].Kind == Committed {
		g.events[n-1].Position = g.commit
		return
	}
	g.events = append(g.events, Event{Kind: Committed, Position: g.commit})
}

// quorum returns the position up to which all required members have the log: there is no smaller quorum, so every
// member can take over alone.
func (g *Group) quorum() uint64 {
	least, greatest, others := g.lead.own, uint64(0), false
	for _, id := range g.required() {
		match := uint64(0)
		if p := g.findPeer(id); p != nil {
			match = p.match
		} else if id == g.self {
			continue
		}
		least, greatest, others = min(least, match), max(greatest, match), true
	}
	if g.opts.Broken.Has(causal.AckBeforeAll) && others {
		return min(g.lead.own, greatest)
	}
	return least
}

// serveWhenAligned makes the primary serve when its start record is committed, the grant that this member has given to
// an earlier primary has run out, and the others have granted a lease: then nobody serves at the same time.
func (g *Group) serveWhenAligned(now causal.Now) {
	l := g.lead
	if l.serving || g.commit < l.start || !g.hasGrants(now) {
		return
	}
	if g.opts.Register && now.Mono < g.grantUntil && !g.opts.Broken.Has(causal.ServeBeforeLeaseEnd) {
		return
	}
	g.serve(now)
}

func (g *Group) serve(now causal.Now) {
	l := g.lead
	l.serving, l.staysTo = true, now.Mono+int64(g.opts.SilentAfter)
	e := Event{Kind: Lead, Position: g.log.last()}
	for pos := g.log.first(); pos <= g.log.last() && !g.opts.External; pos++ {
		if r := g.log.at(pos); !r.Start {
			e.Records = append(e.Records, Positioned{pos, r.Data})
		}
	}
	g.events = append(g.events, e)
	g.release()
}

// release drops committed records from memory, if nobody else will ever ask for them. A record that is committed is
// durable here.
func (g *Group) release() {
	if !g.opts.Register {
		g.log.release(g.commit)
	}
}

// tickPrimary looks after the members.
func (g *Group) tickPrimary(now causal.Now) {
	if g.isStuck(now) {
		g.lead.wasStuck = true
		g.lookAtRegister(now) // it keeps silent, so it may have been given up for absent
		return
	}
	if g.lead.wasStuck {
		g.lead.wasStuck = false
		g.forgive(now)
	}
	g.advance(now) // fewer members may be necessary, or a grant has come
	g.serveWhenAligned(now)
	for i := len(g.lead.peers) - 1; i >= 0; i-- {
		p := g.lead.peers[i]
		if !slices.Contains(g.required(), p.id) && g.isSilent(now, p) {
			g.lead.letGo(p)
			g.lead.peers = slices.Delete(g.lead.peers, i, i+1) // it asks again to join
			continue
		}
		if p.match < g.log.last() && now.Mono-max(p.waitingSince, p.rewoundAt) > int64(g.opts.Retry) {
			p.rewind(now)
		}
	}
	g.plan(now)
}
