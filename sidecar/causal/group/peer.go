package group

import (
	"github.com/causalstore/causalstore/sidecar/causal"
)

// peer is what a primary knows of another member, or of a joining one, in its session.
//
// Invariants: match <= agreed < next; the peer's log is the primary's up to match, durably.
type peer struct {
	id   ID
	next uint64 // position of the next record to be sent
	// agreed is the position up to which the logs are probably the same: what is sent again begins there.
	agreed uint64
	// match is what the peer has acknowledged in this session.
	match uint64
	// founding: it was a member when the session began. Then its log has something in common with the primary's, if it
	// is intact.
	founding bool
	// probing: agreed is a guess. One frame is sent at a time.
	probing bool
	reset   bool // it has nothing in common with the log, and is to start at the base
	gone    bool // its volume is gone or damaged
	goneAs  PeerState
	isHeard bool // something was heard of it in this session
	// resigning: it is about to stop.
	resigning bool
	// unfit: its user could not serve, or not well. impaired: it is to be dropped.
	unfit, impaired bool
	// inflight is the size of what was sent and is not acknowledged, in bytes.
	inflight int
	number   uint64 // of the last frame
	ignore   uint64 // reports on frames up to this number are out of date

	sentAt, heardAt int64
	waitingSince    int64 // when it last made progress, or had everything
	rewoundAt       int64
	grantedUntil    int64
}

// rewind sends again what is not acknowledged.
func (p *peer) rewind(now causal.Now) {
	p.next, p.inflight, p.rewoundAt, p.sentAt = p.agreed+1, 0, now.Mono, 0
}

// isSilent reports whether nothing is heard of a peer, or it makes no progress.
func (g *Group) isSilent(now causal.Now, p *peer) bool {
	after := int64(g.opts.SilentAfter)
	return p == nil || p.gone || now.Mono-p.heardAt > after || p.match < g.log.last() && now.Mono-p.waitingSince > after
}

// replicate sends every peer what it lacks, within its window, and heartbeats.
func (g *Group) replicate(now causal.Now) {
	if g.isStuck(now) {
		return // others are to go on without this member
	}
	for _, p := range g.lead.peers {
		if p.gone {
			continue
		}
		if p.match == g.log.last() {
			p.waitingSince = now.Mono
		}
		for p.next <= g.log.last() && p.inflight < g.opts.MaxInflightBytes &&
			!(p.probing && (p.inflight > 0 || g.asksFirst(p))) && !g.gathers(p) {
			g.sendFrame(now, p)
		}
		if now.Mono-p.sentAt >= int64(g.opts.Heartbeat) || p.sentAt == 0 {
			g.sendFrame(now, p)
		}
	}
}

// gatherBytes is how many bytes of records are sent to a peer although more may join them.
const gatherBytes = 64 << 10

// gathers reports whether the records that a peer lacks wait for more. They do while the disk here writes earlier ones
// and the peer has something to write, too: both would write them later, and so all that have come until then are one
// frame. No commit is later for it: it needs the disk here, whose next progress sends what has gathered just when it
// begins to write that itself.
func (g *Group) gathers(p *peer) bool {
	if p.inflight == 0 || p.next <= g.log.firstHeld() || g.log.at(p.next).index <= g.durable+1 {
		return false
	}
	size := 0
	for pos := p.next; pos <= g.log.last(); pos++ {
		if size += len(g.log.at(pos).Data) + recordOverhead; size >= gatherBytes {
			return false
		}
	}
	return true
}

// asksFirst reports whether a peer that is probed gets no records yet, since most probably it has to copy the user's
// storage first.
func (g *Group) asksFirst(p *peer) bool { return g.opts.External && !p.founding }

// sendFrame sends the next records that fit, if any.
func (g *Group) sendFrame(now causal.Now, p *peer) {
	l := g.lead
	if p.reset {
		p.next, p.inflight = g.log.first(), 0
	}
	p.next = max(p.next, g.log.first())
	p.number++
	f := &Frame{Session: l.session, Config: g.state.Config, Cluster: g.state.Cluster, Position: p.next - 1,
		Stamp:  g.log.stamp(p.next - 1),
		Commit: g.commit, Base: g.log.first(), Reset: p.reset,
		Number: p.number, Acked: p.match, SentAt: now.Mono, Released: l.paused}
	if !p.probing || p.inflight == 0 && !g.asksFirst(p) {
		var size int
		f.Records, size = g.nextRecords(p)
		p.next += uint64(len(f.Records))
		p.inflight += size
	}
	p.sentAt = now.Mono
	g.send(p.id, f)
}

// nextRecords returns the next records for a peer, as many as a frame holds, and their size.
func (g *Group) nextRecords(p *peer) (records []Record, size int) {
	end := p.next
	for ; end <= g.log.last() && p.inflight < g.opts.MaxInflightBytes; end++ {
		more := len(g.log.at(end).Data) + recordOverhead
		if end > p.next && size+more > g.opts.MaxFrameBytes {
			break
		}
		size += more
	}
	if end == p.next {
		return nil, 0
	}
	records = make([]Record, end-p.next)
	for i := range records {
		records[i] = g.log.at(p.next + uint64(i)).Record
	}
	return records, size
}

// stepAck takes in an acknowledgement.
func (g *Group) stepAck(now causal.Now, from ID, a *Ack) {
	if g.lead == nil {
		return
	}
	p := g.findPeer(from)
	// An earlier session's may be of records that were replaced since.
	if p == nil || a.Session != g.lead.session {
		return
	}
	p.heardAt, p.isHeard, p.resigning = now.Mono, true, a.Resigning
	p.unfit, p.impaired = a.Unfit, a.Impaired
	if a.Granted && a.SentAt >= g.lead.resumedAt {
		p.grantedUntil = max(p.grantedUntil, g.grantEnd(now, a))
	}
	if match := min(a.Match, g.log.last()); match > p.match {
		for pos := max(p.match+1, g.log.first()); pos <= match && pos < p.next; pos++ {
			p.inflight -= len(g.log.at(pos).Data) + recordOverhead
		}
		p.inflight = max(p.inflight, 0)
		p.match, p.waitingSince = match, now.Mono
		p.agreed, p.next = max(p.agreed, match), max(p.next, match+1)
	}
	if p.probing {
		p.probing, p.reset = false, false
	}
	g.advance(now)
	g.plan(now)
}

// stepReport finds the position from which a peer's log has to be replaced.
func (g *Group) stepReport(now causal.Now, from ID, r *Report) {
	if g.lead == nil || r.Session != g.lead.session {
		return
	}
	p := g.findPeer(from)
	if p == nil {
		return
	}
	p.heardAt, p.isHeard = now.Mono, true
	match, ok := g.log.match(r.Base, r.Last, r.Runs)
	if match == 0 && g.opts.External {
		ok = false // the log does not begin with nothing
	}
	switch {
	case ok && r.Commit > match && g.state.Config.Has(from):
		// What is committed there is missing or different here: this disk does not hold what it has acknowledged.
		g.fail()
		return
	case ok && (match < r.Acked || r.Commit > match) || !ok && p.founding:
		// Its disk does not hold what it has acknowledged; or it is the disk of another group, which a person has to
		// empty.
		p.gone, p.goneAs = true, PeerDamaged
		g.plan(now)
		return
	case r.Number <= p.ignore:
		return
	case !ok && p.reset && g.opts.External:
		return // it copies the user's storage, and is asked with each heartbeat whether it has done so
	case ok:
		p.agreed, p.probing, p.reset = match, false, false
	default:
		p.agreed, p.probing, p.reset = g.log.first()-1, true, true
	}
	p.match = min(p.match, p.agreed)
	p.ignore = p.number
	p.rewind(now)
}
