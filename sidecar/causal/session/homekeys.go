package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// homeKeys is what an MGET asks of the homes of its keys. First it asks for all of them, each home in one request, so
// that what its keys are is so at one time. Several homes are asked until all have twice said the same: between the two
// answers all of it was so (PROTOCOL HOK-2). Then the keys are read elsewhere, with all that these follow. At last the
// home hears of what is shown from elsewhere.
type homeKeys struct {
	homes    []topology.Node
	replies  []causal.HomeReply // by index in Op.Keys, of the first request
	before   []causal.Record    // what several homes have said before; nil: nothing yet
	requests []uint64
	pending  int      // requests without a reply
	askedAt  int64    // monotonic: when the requests were sent
	retryAt  int64    // monotonic: when the MGET starts again; 0: never
	failed   WaitsFor // why the replies cannot be used; WaitsForReader: they can
	showing  bool     // the requests in flight tell what is shown
	told     bool     // and the home has heard it
	// lockedKey is the index of a key that is kept for a commit of several homes, if that is why they cannot.
	lockedKey int
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
	m.atHome = homeKeys{homes: s.homesOf(c.op.Keys), replies: make([]causal.HomeReply, n),
		requests: make([]uint64, n)}
	c.retryAt = causal.Never
	s.askHomes(now, c)
}

// askHomes asks each home for those of the keys of an MGET that are its own.
func (s *Sidecar) askHomes(now causal.Now, c *call) {
	h := &c.mget.atHome
	h.pending, h.askedAt, h.retryAt = len(c.op.Keys), now.Mono, now.Mono+int64(homeRetry)
	s.dropRequests(h.requests)
	for _, home := range h.homes {
		read := causal.HomeRead{Seen: c.session.local.at(s.cfg.Topology.OriginOf(home)), ForUpdate: c.op.ForUpdate}
		for i, key := range c.op.Keys {
			if s.hasSeveralHomes() && s.homeOf(topology.SlotOf(key)) != home {
				continue
			}
			h.requests[i] = s.requests.add(c, homeKeyRequest+i)
			read.Lease = read.Lease || c.window != nil && s.wantsLease(now, &c.op, key)
			if read.ID == 0 {
				read.ID, read.Key = h.requests[i], key
			} else {
				read.More = append(read.More, causal.Moved{Key: key})
			}
		}
		request := read.Message(s.cfg.Self, home)
		if len(read.More) >= causal.MaxHomeKeys || !request.FitsMessage() { // two would not say what was so at one time
			s.fail(c, causal.ErrTooLarge)
			return
		}
		s.Send(request)
	}
}

// homesOf returns the homes of some keys.
func (s *Sidecar) homesOf(keys []string) (homes []topology.Node) {
	if !s.hasSeveralHomes() {
		return []topology.Node{s.homeOf(0)}
	}
	found := uint64(0)
	for _, key := range keys {
		if home := s.homeOf(topology.SlotOf(key)); found&(1<<home.Index) == 0 {
			found |= 1 << home.Index
			homes = append(homes, home)
		}
	}
	return homes
}

// saidBefore reports whether what the homes of the keys say was so at one time: there is one home, or all have said the
// same before.
func (s *Sidecar) saidBefore(c *call) bool {
	h := &c.mget.atHome
	if len(h.homes) == 1 || s.cfg.Broken.Has(causal.LocalOneRound) {
		return true
	}
	same := h.before != nil
	if h.before == nil {
		h.before = make([]causal.Record, len(h.replies))
	}
	for i := range h.replies {
		r := &h.replies[i].Record
		same = same && h.before[i].Version == r.Version &&
			(keystate.Same(&h.before[i], r) || s.cfg.Broken.Has(causal.LocalRowsByVersion))
		h.before[i] = *r
	}
	return same
}

// handleKeyAtHome takes what the home says of a key of an MGET.
func (s *Sidecar) handleKeyAtHome(now causal.Now, c *call, i int, r causal.HomeReply) {
	h := &c.mget.atHome
	h.requests[i] = 0
	h.pending--
	switch {
	case r.Err == causal.ErrTooLarge, r.Err == causal.ErrBusy, r.Err == causal.ErrType:
		s.fail(c, r.Err)
		return
	case r.Err == causal.ErrLocked:
		h.failed, h.lockedKey = WaitsForLocks, i
	case r.Err != causal.OK, max(r.Record.Version.HLC, r.Past, r.From) > s.timeLimit(now):
		h.failed = WaitsForHome
	case !s.cfg.Types.Accepts(&r.Record.Value):
		s.fail(c, causal.ErrType)
		return
	case h.showing && c.mget.mergesAt(i):
		if s.isNews(c.mget, i) || s.haveRowsChanged(c.mget, i, &r) {
			h.failed = WaitsForQuiet // all is read again, with what the home knows now
		}
	case h.showing && s.isNews(c.mget, i) && r.From < c.mget.toldOf(i).HLC: // a home of before has not read the field
		h.pending++
		h.requests[i] = s.requests.add(c, homeKeyRequest+i)
		home := s.homeOf(topology.SlotOf(c.op.Keys[i]))
		s.Send(causal.HomeRead{ID: h.requests[i], Key: c.op.Keys[i],
			Seen:  c.session.local.at(s.cfg.Topology.OriginOf(home)),
			Shown: c.mget.toldOf(i)}.Message(s.cfg.Self, home))
	case h.showing:
		if s.hasChanged(c.mget, i, &r) {
			h.failed = WaitsForQuiet
		}
	default:
		h.replies[i] = r
	}
	if h.pending > 0 {
		return
	}
	h.retryAt = 0
	switch {
	case h.failed != WaitsForReader:
		s.startAgainLater(now, c, h.failed)
	case h.showing:
		h.told = true
		s.deliver(now, c)
	case !s.saidBefore(c):
		s.askHomes(now, c)
	case !s.takeOverKeys(now, c):
		s.stats.HomeApart++
		s.startAgainLater(now, c, WaitsForPast) // until a ring has all, or a restriction is lifted
	default:
		snapshot{}.startMGet(s, now, c)
	}
}

// startAgainLater makes an MGET start again after a moment.
func (s *Sidecar) startAgainLater(now causal.Now, c *call, why WaitsFor) {
	c.mget.apart, c.mget.atHome.retryAt, c.retryAt = why, now.Mono+int64(homeBusy), causal.Never
}

// toldOf returns what the home was told to be shown of a key.
func (m *mget) toldOf(i int) causal.Version { return m.replies[i].record.Version }

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

// hasChanged reports whether a home has something of a key that it had not when it was asked first: it has published
// it, or was told of it, or has published and forgotten it since.
func (s *Sidecar) hasChanged(m *mget, i int, r *causal.HomeReply) bool {
	before, told := &m.atHome.replies[i], m.toldOf(i)
	return before.Record.Version.Less(r.Record.Version) || before.Shown.Less(r.Shown) && told.Less(r.Shown) ||
		r.From > max(m.fromOf(i), told.HLC)
}

// isBehind reports whether an MGET has found a write of the data center elsewhere that its home had not published when
// it was asked: what the homes have said of the other keys was so before.
func (s *Sidecar) isBehind(m *mget) bool {
	for i := range m.replies {
		v, r := m.replies[i].record.Version, &m.atHome.replies[i]
		if m.mergesAt(i) {
			if rows := s.rowsOfKey(m, i); rows.behind {
				return true
			}
			continue
		}
		if v.Written() && !r.Includes(v) && r.Record.Version.Less(v) && s.isOwnOrigin(v.Origin) {
			return true
		}
	}
	return false
}

// isOwnOrigin reports whether a coordinator of the data center has an origin.
func (s *Sidecar) isOwnOrigin(o topology.Origin) bool {
	return s.cfg.Topology.CoordinatorOf(o).DC == s.cfg.Self.DC
}

// tellShown tells the homes what an MGET is about to show of their keys from elsewhere, each in one request, and
// reports whether there is nothing to tell. It asks for all keys again: if one has changed, what is shown was not so at
// one time with the others (PROTOCOL HOK-2).
func (s *Sidecar) tellShown(now causal.Now, c *call) bool {
	m := c.mget
	h := &m.atHome
	switch {
	case h.told:
		return true
	case len(m.replies) > 1 && s.isBehind(m) && !s.cfg.Broken.Has(causal.LocalMixesTimes):
		s.startAgainLater(now, c, WaitsForQuiet)
		return false
	case s.cfg.Broken.Has(causal.LocalUnregistered), !s.hasNews(m):
		return true
	}
	h.showing = true
	for _, home := range h.homes {
		tell, first := causal.HomeRead{Seen: c.session.local.at(s.cfg.Topology.OriginOf(home))}, causal.Record{}
		for i := range m.replies {
			if s.hasSeveralHomes() && s.homeOf(topology.SlotOf(c.op.Keys[i])) != home {
				continue
			}
			h.pending++
			h.requests[i] = s.requests.add(c, homeKeyRequest+i)
			shown := s.newsOfKey(m, i)
			if tell.ID == 0 {
				tell.ID, tell.Key, first = h.requests[i], c.op.Keys[i], shown
			} else {
				tell.More = append(tell.More, causal.Moved{Key: c.op.Keys[i], Record: shown})
			}
		}
		if tell.Shown = first.Version; first.Value.Merges() { // it is told behind the others, and answered twice
			s.requests.drop(s.requests.add(c, homeKeyRequest))
			tell.Shown, tell.More = causal.Version{}, append(tell.More, causal.Moved{Key: tell.Key, Record: first})
		}
		request := tell.Message(s.cfg.Self, home)
		if !request.FitsMessage() {
			s.fail(c, causal.ErrTooLarge)
			return false
		}
		s.Send(request)
	}
	h.retryAt, c.retryAt = now.Mono+int64(homeRetry), causal.Never
	return false
}

// hasNews reports whether an MGET is about to show something that the homes may not know.
func (s *Sidecar) hasNews(m *mget) bool {
	for i := range m.replies {
		if s.isNews(m, i) {
			return true
		}
	}
	return false
}

// isNews reports whether an MGET is about to show a complete version of a key that its home may not know.
func (s *Sidecar) isNews(m *mget, i int) bool {
	if m.mergesAt(i) {
		rows := s.rowsOfKey(m, i)
		return !rows.news.Version.IsZero() && !s.cfg.Broken.Has(causal.LocalRowsUnheard)
	}
	found, r := &m.replies[i], &m.atHome.replies[i]
	v := found.record.Version
	return s.shownStatus(m, found) == causal.Stable && !s.homeKnows(m.slots[i], r, v) &&
		keystate.Newer(&found.record, &r.Record)
}

// takesFromHome reports whether the value of a key is the one that the home has: what was found elsewhere is not newer,
// nor is an own write that another coordinator has.
func (m *mget) takesFromHome(i int) bool {
	r := &m.atHome.replies[i].Record
	return !m.mergesAt(i) && r.Version.Written() && !keystate.Newer(&m.replies[i].record, r) &&
		(m.own[i] == nil || m.own[i].version.Less(r.Version))
}

// awaitsComplete makes an MGET for update start again after a moment if it would show a write of another data center
// that is in-flight: another session, which has not seen it, may write the key meanwhile.
func (s *Sidecar) awaitsComplete(now causal.Now, c *call) bool {
	m := c.mget
	for i := range m.replies {
		found, r := &m.replies[i].record, &m.atHome.replies[i].Record
		if m.mergesAt(i) {
			if rows := s.rowsOfKey(m, i); len(rows.unstable) > 0 {
				s.startAgainLater(now, c, WaitsForForeign)
				return true
			}
			continue
		}
		if found.Version.Written() && s.shownStatus(m, &m.replies[i]) != causal.Stable &&
			(!r.Version.Written() || keystate.Newer(found, r)) {
			s.startAgainLater(now, c, WaitsForForeign)
			return true
		}
	}
	return false
}

// included returns up to where everything that was complete was included in what an MGET has found elsewhere.
func (m *mget) included() causal.HLC {
	if m.ring == topology.NoRing {
		return min(m.cut, m.covers.At, m.covers.Complete)
	}
	return m.completeCut
}

// fromOf returns up to where everything of a key was included in what an MGET has found.
func (m *mget) fromOf(i int) causal.HLC {
	from := m.included()
	if v := m.replies[i].record.Version; v.Written() && !m.mergesAt(i) {
		from = max(from, v.HLC-1) // what is older is not shown any more
	}
	return max(from, m.atHome.replies[i].From)
}
