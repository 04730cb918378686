package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// homeKeys is what an MGET asks of the home of its keys. First it asks for all of them, in one request, so that what
// they are is so at one time. Then the keys are read elsewhere, with all that these follow. At last the home hears of
// what is shown from elsewhere.
type homeKeys struct {
	replies  []causal.HomeReply // by index in Op.Keys, of the first request
	requests []uint64
	pending  int   // requests without a reply
	retryAt  int64 // monotonic: when the MGET starts again; 0: never
	failed   bool  // a reply was an error
	showing  bool  // the requests in flight tell what is shown
	told     bool  // and the home has heard it
}

// isDue reports whether an MGET is to start again at the home.
func (h *homeKeys) isDue(now causal.Now) bool { return h.retryAt != 0 && now.Mono >= h.retryAt }

// askHomeOfKeys begins an MGET at the home of its keys.
func (s *Sidecar) askHomeOfKeys(now causal.Now, c *call) {
	m := c.mget
	s.dropRequests(m.atHome.requests)
	s.dropRequests(m.round.requests)
	clear(m.round.requests)
	s.forgetReplies(m)
	m.ring, m.phase, m.rounds, m.failed = topology.NoRing, mgetCollects, 0, false
	n := len(c.op.Keys)
	m.atHome = homeKeys{replies: make([]causal.HomeReply, n), requests: make([]uint64, n), pending: n,
		retryAt: now.Mono + int64(homeRetry)}
	c.retryAt = causal.Never
	read := causal.HomeRead{Key: c.op.Keys[0], Seen: c.session.local}
	for i, key := range c.op.Keys {
		m.atHome.requests[i] = s.requests.add(c, homeKeyRequest+i)
		if i > 0 {
			read.More = append(read.More, causal.Moved{Key: key})
		}
	}
	read.ID = m.atHome.requests[0]
	request := read.Message(s.cfg.Self, s.homeOf())
	if n > causal.MaxHomeKeys || !request.FitsMessage() { // two requests would not say what was so at one time
		s.fail(c, causal.ErrTooLarge)
		return
	}
	s.Send(request)
}

// handleKeyAtHome takes what the home says of a key of an MGET.
func (s *Sidecar) handleKeyAtHome(now causal.Now, c *call, i int, r causal.HomeReply) {
	h := &c.mget.atHome
	h.requests[i] = 0
	h.pending--
	switch {
	case r.Err == causal.ErrTooLarge:
		s.fail(c, r.Err)
		return
	case r.Err != causal.OK, max(r.Record.Version.HLC, r.Past, r.From) > s.timeLimit(now):
		h.failed = true
	case !s.cfg.Types.Knows(r.Record.Value.Type):
		s.fail(c, causal.ErrType)
		return
	case h.showing:
		h.failed = h.failed || h.replies[i].Record.Version.Less(r.Record.Version)
	default:
		h.replies[i] = r
	}
	if h.pending > 0 {
		return
	}
	h.retryAt = 0
	switch {
	case h.failed:
		h.retryAt = now.Mono + int64(homeBusy)
	case h.showing:
		h.told = true
		s.deliver(now, c)
	case !s.takeOverKeys(now, c):
		s.stats.HomeApart++
		h.retryAt = now.Mono + int64(homeBusy) // until a ring has all, or a restriction is lifted
	default:
		snapshot{}.startMGet(s, now, c)
	}
}

// takeOverKeys adds what the home has of the keys to the past of the session, so that what is read elsewhere includes
// all that it follows, and all that the home has forgotten.
func (s *Sidecar) takeOverKeys(now causal.Now, c *call) bool {
	for i := range c.mget.atHome.replies {
		r := &c.mget.atHome.replies[i]
		if r.Record.Version.Written() && !s.takeOver(now, c.session, r) {
			return false
		}
		if !s.cfg.Broken.Has(causal.LocalBaseUnchecked) {
			c.session.past.raise(r.From)
		}
	}
	return true
}

// tellShown tells the home what an MGET is about to show from elsewhere, and reports whether there is nothing to tell.
func (s *Sidecar) tellShown(now causal.Now, c *call) bool {
	m := c.mget
	h := &m.atHome
	if h.told || s.cfg.Broken.Has(causal.LocalUnregistered) {
		return true
	}
	for i := range m.replies {
		found, r := &m.replies[i], &h.replies[i]
		if v := found.record.Version; s.shownStatus(m, found) != causal.Stable || !v.Written() || v.HLC <= r.From ||
			!keystate.Newer(&found.record, &r.Record) {
			continue
		}
		h.showing = true
		h.pending++
		h.requests[i] = s.requests.add(c, homeKeyRequest+i)
		s.Send(causal.HomeRead{ID: h.requests[i], Key: c.op.Keys[i], Seen: c.session.local,
			Shown: found.record.Version.HLC}.Message(s.cfg.Self, s.homeOf()))
	}
	if h.showing {
		h.retryAt, c.retryAt = now.Mono+int64(homeRetry), causal.Never
	}
	return !h.showing
}

// takeFromHome makes the value of a key the one that the home has, unless what was found elsewhere is newer.
func (s *Sidecar) takeFromHome(m *mget, i int, to *Result) bool {
	r := &m.atHome.replies[i]
	if !r.Record.Version.Written() || keystate.Newer(&m.replies[i].record, &r.Record) {
		return false
	}
	s.stats.HomeReads++
	to.Records[i] = r.Record
	if !r.Complete {
		to.Outcome.Status = causal.InFlight
	}
	to.Outcome.Source = max(to.Outcome.Source, SourceHome)
	return true
}
