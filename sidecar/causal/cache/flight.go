package cache

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// flight is one read-through in progress; whoever wants the same key joins it.
type flight struct {
	flightKey
	slot    topology.Slot
	id      uint64 // 0: it has ended
	from    *stream
	epoch   uint64 // of the stream on which the answer is to come; 0: the request was not sent yet
	waiters []waiter
	early   int // waiters[:early] had asked before the request was sent
	tried   topology.RingSet
	tries   int
	dueAt   int64
}

// flightKey tells flights apart: for each key one for the newest version, one for the version at the cut, and one for
// each cut to come.
type flightKey struct {
	key      string
	snapshot bool
	ahead    causal.HLC // the cut that it fetches for before anyone asks; 0: somebody asked
}

// waiter is a sidecar that waits for a flight.
type waiter struct {
	to              topology.Node
	id              uint64
	cut, from, upTo causal.HLC // of a snapshot read
	nearMax         uint64     // of the values of which it wants near copies, the largest
	holder          causal.Holder
	size            int // bytes that it counts for
}

const (
	// waiterBytes is about what a read takes that waits for a flight, beside the key of the flight.
	waiterBytes = 256
	// maxWaiters bounds what reads take that wait for flights, in bytes, and maxWaitersOfOne those of one identity:
	// with short keys, four times what a sidecar sends at a time. Others are answered that the key is not here, and ask
	// a middleman.
	maxWaiters, maxWaitersOfOne = 16 << 20, 4 << 20
)

// flights are those in progress.
type flights struct {
	byKey map[flightKey]*flight
	byID  map[uint64]*flight // those whose request is with a middleman
	order []*flight          // may hold some that have ended
	quota causal.Quota       // of waiters
}

func newFlights(ownerOf func(topology.Node) string) flights {
	return flights{byKey: map[flightKey]*flight{}, byID: map[uint64]*flight{},
		quota: causal.Quota{Total: maxWaiters, Each: maxWaitersOfOne, OwnerOf: ownerOf}}
}

func newFlight(k flightKey) *flight { return &flight{flightKey: k, slot: topology.SlotOf(k.key)} }

func (c *Cache) startFlight(now causal.Now, f *flight) {
	c.flights.byKey[f.flightKey] = f
	c.flights.order = append(c.flights.order, f)
	c.launch(now, f)
}

// launch sends a flight to the nearest ring that was not tried, or to any once all were.
func (c *Cache) launch(now causal.Now, f *flight) {
	delete(c.flights.byID, f.id)
	if f.tries >= c.cfg.Attempts {
		c.stats.Unavailable++
		c.land(now, f, causal.GetReply{Err: causal.ErrUnavailable}, len(f.waiters), nil)
		return
	}
	rings := c.cfg.Rings &^ f.tried
	if rings == 0 {
		f.tried, rings = 0, c.cfg.Rings
	}
	ring, _ := c.routes.Nearest(now, f.slot, rings)
	f.tried = f.tried.With(ring)
	f.tries++
	f.from = c.streamFrom(c.cfg.Topology.Owner(ring, f.slot))
	c.lastID++
	f.id, f.early = c.lastID, len(f.waiters)
	f.dueAt = now.Mono + int64(c.routes.Timeout(f.from.mm.DC))
	c.flights.byID[f.id] = f
	f.from.usedAt = now.Mono
	if f.epoch = 0; c.ensureOpen(now, f.from) {
		f.epoch = f.from.epoch
		c.sendFill(f)
	} // otherwise it is sent when the stream opens
}

func (c *Cache) sendFill(f *flight) {
	m := causal.Fill{ID: f.id, Key: f.key, Epoch: f.epoch, Snapshot: f.snapshot}
	switch {
	case f.ahead != 0:
		m.Seen, m.Ahead = f.ahead, true
	case f.snapshot:
		for _, w := range f.waiters[:f.early] {
			m.Cut, m.Base, m.Seen = max(m.Cut, w.cut), max(m.Base, w.from), max(m.Seen, w.upTo)
		}
		m.Ahead = m.Seen > m.Cut // what is above the cut may be complete, though the middleman does not know it
	}
	c.Send(m.Message(c.cfg.Self, f.from.mm))
}

// resendFlights sends the flights to a middleman again, on the stream that has just been opened.
func (c *Cache) resendFlights(s *stream) {
	for _, f := range c.flights.order {
		if f.from == s && f.id != 0 && f.epoch != s.epoch {
			f.epoch, f.early = s.epoch, len(f.waiters)
			c.sendFill(f)
		}
	}
}

// retryFlights sends the flights that were not answered in time another way.
func (c *Cache) retryFlights(now causal.Now) {
	kept := c.flights.order[:0]
	for _, f := range c.flights.order {
		if f.id == 0 {
			continue
		}
		kept = append(kept, f)
		if now.Mono >= f.dueAt {
			c.routes.TimedOut(now, f.from.mm)
			c.launch(now, f)
		}
	}
	clear(c.flights.order[len(kept):])
	c.flights.order = kept
}

// handleFillReply takes the answer to a flight.
func (c *Cache) handleFillReply(now causal.Now, s *stream, r causal.FillReply) {
	f := c.flights.byID[r.ID]
	if f == nil || f.from != s || f.key != r.Key {
		return
	}
	isAhead := r.Err == causal.OK && r.Record.Version.HLC > c.timeLimit(now)
	if isAhead {
		c.stats.ClockRefused++ // another ring may not have it
	}
	if r.Err != causal.OK || isAhead {
		if r.Err == causal.ErrDataLost {
			c.routes.NoteDataLost(now, f.from.mm)
		}
		c.launch(now, f)
		return
	}
	answer := causal.GetReply{Record: r.Record, Status: r.Status, Unstable: r.Unstable, Past: r.Past, Ring: r.Ring}
	fillable := r.Status == causal.Stable || r.Registered || c.cfg.Broken.Has(causal.CacheInFlight)
	if fillable && now.Mono < s.leaseUntil {
		// The copy is registered, so nothing newer can have become complete before the answer arrived, except for the
		// versions that it is older than: all waiters that have not seen these may have it.
		readAt := now.Mono
		if f.ahead != 0 {
			readAt = 0
		}
		e := c.insert(now, f.key, &r, s, readAt)
		if r.Registered && !c.awaitsCompletion(e) {
			answer.Status, answer.Unstable = causal.Stable, nil
		}
		if answer.Status != causal.Stable {
			c.stats.InFlight++
			if !c.cfg.Broken.Has(causal.NearInFlight) {
				e = nil // near copies are of stable versions
			}
		}
		n := len(f.waiters)
		if r.Next != 0 && !c.cfg.Broken.Has(causal.OlderUnchecked) {
			n = f.partition(func(w waiter) bool { return w.from < r.Next })
		}
		c.landSome(now, f, answer, n, e)
		return
	}
	if r.Status == causal.InFlight {
		c.stats.InFlight++
	}
	// Not registered: only those who asked before it was read may have it. A later one may have seen something newer.
	n := f.early
	if c.cfg.Broken.Has(causal.ShareInFlight) {
		n = len(f.waiters)
	}
	var e *entry
	if c.cfg.Broken.Has(causal.NearUnregistered) {
		e = &entry{Copy: keystate.Copy{Record: r.Record, Next: r.Next}, key: f.key, from: s, epoch: s.epoch}
	}
	c.landSome(now, f, answer, n, e)
}

// landSome answers the first n waiters of a flight with what it has brought, and launches it again for the others. e is
// the entry made of that, if there is one.
func (c *Cache) landSome(now causal.Now, f *flight, r causal.GetReply, n int, e *entry) {
	c.land(now, f, r, n, e)
	if len(f.waiters) > 0 {
		f.tries, f.tried = 0, 0
		c.launch(now, f)
	}
}

// land answers the first n waiters of a flight, and ends the flight if these were all.
func (c *Cache) land(now causal.Now, f *flight, r causal.GetReply, n int, e *entry) {
	for _, w := range f.waiters[:n] {
		r := r
		if e != nil {
			c.passOn(now, w, e, &r)
		}
		c.reply(w, r)
		c.flights.quota.Release(w.holder, w.size)
	}
	f.waiters = f.waiters[n:]
	if len(f.waiters) == 0 {
		delete(c.flights.byKey, f.flightKey)
		delete(c.flights.byID, f.id)
		f.id = 0
	}
}

// partition moves the waiters for which first holds before the others, and returns their number.
func (f *flight) partition(first func(waiter) bool) int {
	others := slices.DeleteFunc(slices.Clone(f.waiters), first)
	f.waiters = append(slices.DeleteFunc(f.waiters, func(w waiter) bool { return !first(w) }), others...)
	return len(f.waiters) - len(others)
}
