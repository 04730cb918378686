package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// Reads at the home of a key (PROTOCOL HOM): what of it the coordinator of the data center has accepted. A get asks the
// home, and at the same time the cache or a ring, as other levels do. The newer of the two is the answer. Before a
// client is shown what was found elsewhere, the home hears of it.

const (
	// homeRetry is how long after a request to the home another one is sent.
	homeRetry = 250 * time.Millisecond
	// homeBusy is how long after an answer that cannot be used the home is asked again.
	homeBusy = 20 * time.Millisecond
)

// homeKeyRequest is the key of requests to the home in the table of requests; those of an MGET have the index of the
// key, with homeKeyRequest added.
const homeKeyRequest = 1 << 30

// homeRead is what a get asks of the home of its key, and finds elsewhere.
type homeRead struct {
	request  uint64
	askedAt  int64 // monotonic: when the request was sent
	retryAt  int64 // monotonic; causal.Never: nothing is asked
	answered bool
	reply    causal.HomeReply
	apart    WaitsFor       // why its answers could not be used; WaitsForReader: they could
	shown    causal.Version // the home is told that this is shown; zero: nothing

	found *causal.GetReply // elsewhere; nil: nothing yet
	// complete was known to be complete when it was asked for.
	complete causal.HLC
	from     causal.HLC // what was asked for elsewhere includes everything at or below it
	must     causal.HLC // and must include this
	rows     *homeRows  // of a value that merges
}

// startAtHome starts a get at the home, and elsewhere.
func (s *Sidecar) startAtHome(now causal.Now, c *call) {
	c.home = &homeRead{retryAt: causal.Never}
	if w := c.session.own.newest[c.op.Key]; w != nil && !s.isOfHome(causal.Dep{Version: w.version, Slot: c.slot}) {
		c.own = w // a coordinator of another data center has it: the home does not, and a ring may not
	}
	if c.op.Elsewhere {
		c.skipCache = s.isNear(now, c)
	} else {
		s.askHome(now, c)
	}
	s.sendGet(now, c)
}

// askHome asks the home of the key of a get.
func (s *Sidecar) askHome(now causal.Now, c *call) {
	h := c.home
	s.requests.drop(h.request)
	h.answered = false
	h.request = s.requests.add(c, homeKeyRequest)
	h.askedAt, h.retryAt = now.Mono, now.Mono+int64(homeRetry)
	home := s.homeOf(c.slot)
	s.Send(causal.HomeRead{ID: h.request, Key: c.op.Key, Seen: c.session.local.at(s.cfg.Topology.OriginOf(home)),
		Shown: h.shown, ForUpdate: c.op.ForUpdate, Lease: s.wantsLease(now, &c.op, c.op.Key)}.Message(s.cfg.Self, home))
}

// handleHomeReply takes what the home says of the key of a get.
func (s *Sidecar) handleHomeReply(now causal.Now, c *call, r causal.HomeReply) {
	h := c.home
	switch {
	case r.Err == causal.ErrBusy, r.Err == causal.ErrTooLarge, r.Err == causal.ErrType:
		s.fail(c, r.Err)
		return
	case r.Err == causal.ErrClock, max(r.Record.Version.HLC, r.Past, r.From) > s.timeLimit(now):
		s.stats.ClockRefused++
		c.refusedAhead = true
		h.retryAt = now.Mono + int64(homeBusy)
		return
	case r.Err != causal.OK:
		h.noteLocks(r.Err)
		h.retryAt = now.Mono + int64(homeBusy)
		return
	case !s.cfg.Types.Accepts(&r.Record.Value):
		s.fail(c, causal.ErrType)
		return
	}
	h.noteLocks(r.Err)
	h.reply, h.answered, h.retryAt = r, true, causal.Never
	if h.rows != nil {
		h.rows.after = false
	}
	h.must = max(h.must, r.From)
	s.decideAtHome(now, c)
}

// noteLocks notes whether the home does not answer because the key is kept for a commit of several homes.
func (h *homeRead) noteLocks(err causal.ErrCode) {
	switch {
	case err == causal.ErrLocked:
		h.apart = WaitsForLocks
	case h.apart == WaitsForLocks:
		h.apart = WaitsForReader
	}
}

// noteHome notes what the home knows to do.
func (s *Sidecar) noteHome(home topology.Node, r causal.HomeReply) {
	if r.Err == causal.OK {
		s.coordinators.commits[home], s.coordinators.executes[home] = r.Commits, r.Executes
		s.coordinators.locks[home], s.coordinators.merges[home] = r.Locks, r.Merges
	}
}

// takeFound takes what a get has found elsewhere.
func (s *Sidecar) takeFound(now causal.Now, c *call, r *causal.GetReply) {
	if c.op.Elsewhere {
		s.takeFoundOnly(now, c, r)
		return
	}
	found := *r
	c.home.found = &found
	c.retryAt = causal.Never
	s.decideAtHome(now, c)
}

// decideAtHome answers a get if what is known is enough.
func (s *Sidecar) decideAtHome(now causal.Now, c *call) {
	h := c.home
	if !h.answered {
		return
	}
	if h.mergesAtHome() {
		s.decideRows(now, c)
		return
	}
	top := &h.reply.Record
	isWritten := top.Version.Written()
	isNewest := isWritten && (c.own == nil || c.own.version.Less(top.Version)) // but for what is elsewhere
	if isNewest && !h.reply.Complete && top.Version.HLC > max(c.session.seen, h.must) {
		s.answerFromHome(now, c) // what is elsewhere may be newer, but nobody of the session's past has seen it
		return
	}
	if h.found == nil {
		return
	}
	if h.from < h.must && !s.cfg.Broken.Has(causal.LocalBaseUnchecked) {
		s.lookAgain(now, c)
		return
	}
	found := h.found
	if isNewest && !keystate.Newer(&found.Record, top) {
		s.answerFromHome(now, c)
		return
	}
	switch v := found.Record.Version; {
	case found.Status == causal.InFlight && c.op.ForUpdate:
		s.stats.HomeInFlight++
		s.lookAgainLater(now, c, WaitsForForeign) // another session, which has not seen it, may write the key meanwhile
	case found.Status == causal.Stable && h.shown != v && // also that it was deleted at or below that
		!s.homeKnows(c.slot, &h.reply, v) &&
		!s.cfg.Broken.Has(causal.LocalUnregistered):
		h.shown = v
		s.askHome(now, c)
	default:
		s.finishGet(now, c, found)
	}
}

// homeKnows reports whether the home of a slot need not be told of a write that was found elsewhere.
func (s *Sidecar) homeKnows(slot topology.Slot, r *causal.HomeReply, v causal.Version) bool {
	if v.Origin == s.cfg.Topology.OriginOf(s.homeOf(slot)) {
		return r.Includes(v)
	}
	return r.Knows(v)
}

// lookAgain reads elsewhere again.
func (s *Sidecar) lookAgain(now causal.Now, c *call) {
	c.home.found = nil
	s.stats.Rereads++
	s.stats.HomeRereads++
	s.sendGet(now, c)
}

// lookAgainLater asks the home again after a moment, and reads elsewhere again.
func (s *Sidecar) lookAgainLater(now causal.Now, c *call, why WaitsFor) {
	h := c.home
	h.apart = why
	h.found, h.answered, h.retryAt = nil, false, now.Mono+int64(homeBusy)
	c.replied, c.retryAt = true, now.Mono+int64(homeBusy)
}

// answerFromHome answers a get with what the home has.
func (s *Sidecar) answerFromHome(now causal.Now, c *call) {
	h := c.home
	if !s.takeOver(now, c.session, &h.reply) {
		s.stats.HomeApart++
		s.lookAgainLater(now, c, WaitsForPast) // until a ring has all, or a restriction is lifted
		return
	}
	s.stats.HomeReads++
	s.keepLease(now, h.askedAt, &h.reply)
	status := causal.InFlight
	if h.reply.Complete {
		status = causal.Stable
	}
	rec := h.reply.Record
	s.finish(c, Result{Record: rec, From: h.reply.From, Outcome: Outcome{Version: rec.Version, Source: SourceHome,
		Status: status, Ring: topology.NoRing}})
}

// takeOver adds a write that was read at the home to the past of a session: the write itself, which its later puts
// follow; what it depends on in other rings, which binds the session; and how new that is. It returns false, and adds
// nothing, if no ring had all that the session has seen.
func (s *Sidecar) takeOver(now causal.Now, ss *session, r *causal.HomeReply) bool {
	v, w := r.Record.Version, r.Record.Version
	if r.Incomplete != 0 {
		home := s.homeOf(topology.SlotOf(r.Key))
		w = causal.Version{HLC: r.Incomplete, Origin: s.cfg.Topology.OriginOf(home)}
	}
	if s.hasSeveralHomes() && ss.inPast() >= s.cfg.MaxRestrictions {
		return false
	}
	isOwn := ss.own.contains(v) && !r.Record.Value.Merges() // else it has writes of others
	if !s.cfg.Broken.Has(causal.LocalUnbound) && !isOwn && !s.bindTo(now, ss, r.Deps) {
		return false
	}
	isComplete := r.Complete || s.stability.Complete(w)
	if isComplete || v != w {
		ss.localDone = max(ss.localDone, v.HLC)
	}
	if !isComplete {
		s.takeOverIncomplete(ss, w, r)
	}
	ss.floor = max(ss.floor, v.HLC, r.Past)
	ss.seen = max(ss.seen, r.Past)
	ss.past.raise(r.Past)
	return true
}

// takeOverIncomplete adds an incomplete write that was read at its home. Of the writes of other homes that it follows,
// the session need only know how far they go: its puts name the write, and rings that have it have those too.
func (s *Sidecar) takeOverIncomplete(ss *session, v causal.Version, r *causal.HomeReply) {
	ss.local.add(v)
	for _, d := range r.Deps {
		if s.isOfHome(d) && !s.stability.Complete(d.Version) {
			ss.local.add(d.Version)
		}
	}
	switch {
	case !s.hasSeveralHomes():
		ss.local.noteUnnamed(v)
	case !ss.own.contains(v):
		ss.opCount++ // an unanswered put was sent before this read, and does not name it
		ss.local.name(causal.Dep{Version: v, Slot: topology.SlotOf(r.Key)}, ss.opCount)
	}
	s.activate(ss)
}

// bindTo binds a session to the rings that have some writes of other data centers. It returns false, and does nothing,
// if there are none, or they are too many.
func (s *Sidecar) bindTo(now causal.Now, ss *session, deps []causal.Dep) bool {
	allowed, added := s.allowedRings(ss), 0
	for _, d := range deps {
		if !s.isOfHome(d) && s.binds(ss, d.Version) {
			allowed &= s.stability.RingsWith(d.Version)
			added++
		}
	}
	if added > 0 && (allowed == 0 || ss.inPast()+added > s.cfg.MaxRestrictions) {
		return false
	}
	for _, d := range deps {
		if !s.isOfHome(d) && s.binds(ss, d.Version) {
			s.restrict(now, ss, d.Version, d.Slot, s.stability.RingsWith(d.Version))
		}
	}
	return true
}

// leaveHome prepares an operation that does not ask the home: what the session has read there becomes a part of its
// past as what it has read elsewhere is. Of what is not complete, only rings that have all of it may answer, and at no
// cut below it.
func (s *Sidecar) leaveHome(now causal.Now, ss *session) {
	ss.seen = max(ss.seen, ss.localDone)
	ss.past.raise(ss.localDone)
	ss.localDone = 0
	for _, v := range ss.local.upTo {
		if !s.cfg.Broken.Has(causal.LocalPastAtCut) {
			ss.seen = max(ss.seen, v.HLC)
			ss.past.raise(v.HLC) // it may become complete, and lift the restriction, while what follows is read
		}
		if !s.stability.Complete(v) {
			s.restrictToPrefix(now, ss, v)
		}
	}
}

// restrictToPrefix adds the restriction that a ring must have all writes of an origin up to a version. One for the
// version alone, which the session may have found in a ring, becomes it: other rings are not known to have all.
func (s *Sidecar) restrictToPrefix(now causal.Now, ss *session, v causal.Version) {
	s.restrict(now, ss, v, 0, s.stability.RingsWith(v))
	if r := ss.restrictions.find(v); !r.prefix {
		r.prefix, r.complete, r.clean, r.rings = true, false, 0, s.stability.RingsWith(v)
		ss.restrictions.cached = false
	}
}

// tickHome asks the home again if it is due.
func (s *Sidecar) tickHome(now causal.Now, c *call) {
	if c.home != nil && now.Mono >= c.home.retryAt {
		s.askHome(now, c)
	}
}

// askHomeAgain sends what was asked of the home again: it has started again, or another member serves.
func (s *Sidecar) askHomeAgain(now causal.Now, home topology.Node) {
	for _, c := range s.calls {
		switch {
		case c.finished, home.DC != s.cfg.Self.DC:
		case c.home != nil && c.home.retryAt != causal.Never && home == s.homeOf(c.slot):
			s.askHome(now, c)
		case c.mget != nil && c.mget.atHome.pending > 0:
			s.askHomeOfKeys(now, c)
		}
	}
}
