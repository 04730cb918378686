package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// Values that merge at level Local (PROTOCOL HOV). The home keeps some of the writes of such a value, and the others
// are found elsewhere. So what the home has is no answer by itself, and what is found elsewhere has to include what the
// home's part follows: it is asked for after the home has answered, when the session has taken over the past of that.

// homeRows is what a get of a value that merges knows beside what any get at the home does.
type homeRows struct {
	after bool       // what is found elsewhere was asked for after the home has answered
	told  causal.HLC // the greatest HLC of the writes that the home was told of
}

// rowsElsewhere is what a read has found elsewhere of a value that merges, compared with what the home has.
type rowsElsewhere struct {
	joined   causal.Record    // with what the home has
	unstable []causal.Version // what is in flight and the home does not have
	news     causal.Record    // complete writes that the home may not know; of version zero: none
	seen     causal.Version   // the newest write that the home does not have
	behind   bool             // it has one of the data center that the home had not published
}

// mergesAtHome reports whether a get is of a value that merges, as far as is known.
func (h *homeRead) mergesAtHome() bool {
	return h.reply.Record.Value.Merges() || h.found != nil && h.found.Record.Value.Merges()
}

// decideRows is decideAtHome for a value that merges.
func (s *Sidecar) decideRows(now causal.Now, c *call) {
	h := c.home
	if h.rows == nil {
		h.rows = &homeRows{}
	}
	if h.reply.Record.Version.Written() && !s.takeOver(now, c.session, &h.reply) {
		s.stats.HomeApart++
		s.lookAgainLater(now, c, WaitsForPast) // until a ring has all, or a restriction is lifted
		return
	}
	switch {
	case !h.rows.after && !h.isFoundWithAll() && !s.cfg.Broken.Has(causal.LocalRowsBefore):
		s.lookAfterHome(now, c)
		return
	case h.found == nil:
		return
	case h.from < h.must && !s.cfg.Broken.Has(causal.LocalBaseUnchecked):
		s.lookAgain(now, c)
		return
	}
	rows := s.compareRows(c.slot, &h.reply, h.found, h.rows.told)
	switch {
	case len(rows.unstable) > 0 && c.op.ForUpdate:
		s.stats.HomeInFlight++
		s.lookAgainLater(now, c, WaitsForForeign)
	case !rows.news.Version.IsZero() && !s.cfg.Broken.Has(causal.LocalRowsUnheard):
		s.tellRows(now, c, &rows.news)
	default:
		s.finishRows(now, c, &rows)
	}
}

// isFoundWithAll reports whether what was asked for elsewhere before the home has answered includes all that the home
// has ever known of the key: it keeps nothing.
func (h *homeRead) isFoundWithAll() bool {
	return h.found != nil && !h.reply.Record.Version.Written() && h.reply.Shown.IsZero() &&
		h.reply.From <= min(h.from, h.complete)
}

// lookAfterHome reads elsewhere, again, what the home's answer follows.
func (s *Sidecar) lookAfterHome(now causal.Now, c *call) {
	c.home.rows.after = true
	s.lookAgain(now, c)
}

// compareRows compares what was found elsewhere with what the home has. told is up to where the home was told of what
// is complete.
func (s *Sidecar) compareRows(slot topology.Slot, r *causal.HomeReply, found *causal.GetReply,
	told causal.HLC) rowsElsewhere {
	top := &r.Record
	rows := rowsElsewhere{joined: found.Record}
	if top.Version.Written() {
		rows.joined = s.cfg.Types.Join(*top, found.Record)
		if keystate.Same(&rows.joined, top) {
			return rows
		}
	}
	var fresh []causal.Version // that the home may not know
	s.cfg.Types.Versions(&found.Record, func(v causal.Version) bool {
		if isKnownAtHome(s, slot, r, found, v, told) {
			rows.see(s, r, v)
		} else {
			fresh = append(fresh, v)
		}
		return false
	})
	if len(fresh) == 0 {
		return rows
	}
	for w := range s.cfg.Types.Writes(found.Record) {
		if slices.Contains(fresh, w.Version) && !isIn(s, top, &w) {
			rows.note(s, r, found, w)
		}
	}
	return rows
}

// isFoundStable reports whether a write of what was found is complete.
func isFoundStable(found *causal.GetReply, v causal.Version) bool {
	if found.Record.Value.Merges() {
		return !slices.Contains(found.Unstable, v)
	}
	return found.Status == causal.Stable
}

// isKnownAtHome reports whether the home need not be told of a write that was found elsewhere.
func isKnownAtHome(s *Sidecar, slot topology.Slot, r *causal.HomeReply, found *causal.GetReply, v causal.Version,
	told causal.HLC) bool {
	isOfHome := s.isOfHome(causal.Dep{Version: v, Slot: slot})
	return isFoundStable(found, v) &&
		(isOfHome && r.Includes(v) || !isOfHome && v.HLC <= r.Settled || v.HLC <= min(told, r.From))
}

// isIn reports whether a write has a part in, or is overwritten by, what the home has.
func isIn(s *Sidecar, top, w *causal.Record) bool {
	if !top.Version.Written() {
		return false
	}
	joined := s.cfg.Types.Join(*top, *w)
	return keystate.Same(&joined, top)
}

// see notes that a write was found elsewhere.
func (rows *rowsElsewhere) see(s *Sidecar, r *causal.HomeReply, v causal.Version) {
	rows.seen = maxVersion(rows.seen, v)
	rows.behind = rows.behind || s.isOwnOrigin(v.Origin) && v.Written() && !r.Includes(v)
}

// note notes a write that was found elsewhere, and that the home may not know and does not have.
func (rows *rowsElsewhere) note(s *Sidecar, r *causal.HomeReply, found *causal.GetReply, w causal.Record) {
	rows.see(s, r, w.Version)
	switch {
	case !isFoundStable(found, w.Version):
		rows.unstable = append(rows.unstable, w.Version)
	case rows.news.Version.IsZero():
		rows.news = w
	default:
		rows.news = s.cfg.Types.Join(rows.news, w)
	}
}

func maxVersion(a, b causal.Version) causal.Version {
	if a.Less(b) {
		return b
	}
	return a
}

// tellRows tells the home of complete writes that are about to be shown, and asks it again. A register is told by its
// version, as always.
func (s *Sidecar) tellRows(now causal.Now, c *call, news *causal.Record) {
	h := c.home
	h.rows.told = max(h.rows.told, news.Version.HLC)
	if !news.Value.Merges() {
		h.shown = news.Version
		s.askHome(now, c)
		return
	}
	s.requests.drop(h.request)
	h.answered = false
	first := s.requests.add(c, homeKeyRequest)
	s.requests.drop(first) // what is answered first is the same
	h.request = s.requests.add(c, homeKeyRequest)
	h.askedAt, h.retryAt = now.Mono, now.Mono+int64(homeRetry)
	home := s.homeOf(c.slot)
	read := causal.HomeRead{ID: first, Key: c.op.Key, Seen: c.session.local.at(s.cfg.Topology.OriginOf(home)),
		Shown: h.shown, ForUpdate: c.op.ForUpdate, More: []causal.Moved{{Key: c.op.Key, Record: *news}}}
	request := read.Message(s.cfg.Self, home)
	if !request.FitsMessage() {
		s.fail(c, causal.ErrTooLarge)
		return
	}
	s.Send(request)
}

// finishRows answers a get with what the home has and what was found elsewhere.
func (s *Sidecar) finishRows(now causal.Now, c *call, rows *rowsElsewhere) {
	h, ss, found := c.home, c.session, c.home.found
	rec := rows.joined
	switch {
	case c.own != nil && c.own.isIncomplete(): // evicted since what is elsewhere was found
		s.awaitOwnWrite(now, c)
		return
	case c.own != nil:
		own, isOwn := c.own.record(), false
		if rec, isOwn = keystate.Overlay(s.cfg.Types, &rows.joined, &own); isOwn {
			s.serveOwnWrite(now, c, c.own)
			return
		}
	}
	f := rows.found(found.Record, found.Ring, found.Past)
	f.slot, f.key = c.slot, c.op.Key
	if n := c.level.restrictions(s, ss, f); n > 0 && ss.inPast()+n > s.cfg.MaxRestrictions {
		s.retryFound(now, c) // until a restriction is lifted
		return
	}
	if !c.level.observe(s, now, ss, f) {
		s.lookAgain(now, c)
		return
	}
	status := f.status
	if h.reply.Record.Version.Written() && !h.reply.Complete {
		status = causal.InFlight
	}
	if status == causal.InFlight {
		s.stats.InFlightReads++
	}
	s.finish(c, Result{Record: rec, From: max(h.reply.From, min(h.from, h.complete)), Outcome: Outcome{
		Version: rec.Version, Source: s.sourceOfGet(c, found), Status: status, Ring: found.Ring}})
}

// found returns what of a record that was found elsewhere becomes a part of the past of a session: the writes that the
// home does not have.
func (rows *rowsElsewhere) found(rec causal.Record, ring topology.RingID, past causal.HLC) foundValue {
	f := foundValue{record: causal.Record{Version: rows.seen, Value: rec.Value}, status: causal.Stable, ring: ring,
		past: past, unstable: rows.unstable}
	if len(rows.unstable) > 0 {
		f.status = causal.InFlight
	}
	return f
}
