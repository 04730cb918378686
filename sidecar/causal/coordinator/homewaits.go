package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// homeWaits are the clients of the data center that wait until there is something in a key (PROTOCOL HOW). Those of a
// key have turns: the first one is told when something is published, and looks. What it does then is its own affair, an
// ordinary command. When it has looked and found nothing, the next publication is told to it again; when it waits no
// more, it is the turn of the next one.
type homeWaits struct {
	*shared
	queues map[string]*waitQueue
	quota  causal.Quota // of bytes
	tickAt int64        // monotonic
	woken  uint64
}

// waitQueue are those who wait for a key, in the order in which they began.
type waitQueue struct {
	key     string
	news    causal.HLC // stands for what was published so far; it only rises
	waiters []*waiter
}

type waiter struct {
	from   topology.Node
	id     uint64
	holder causal.Holder
	since  int64 // monotonic
	// heardAt is when it was last heard of, toldAt when it was last told that it is its turn; monotonic.
	heardAt, toldAt int64
	// told is the news that it was told, and looked those after which it has found nothing.
	told, looked causal.HLC
}

const (
	// waitBytes is about what a wait takes beside the key, in bytes; maxWaitBytes bounds all of them, and a quarter of
	// it those of one identity.
	waitBytes    = 250
	maxWaitBytes = 32 << 20
	// waitTurn is how long whoever was told that it is its turn may take until it is the turn of the next one as well.
	waitTurn = time.Second
	// waitKept is how long a wait is kept of which nothing is heard: three times what a sidecar lets pass.
	waitKept = 3 * causal.WaitRenewal
	// maxWaitAgeMs bounds for how long a client claims to have waited: 30 years.
	maxWaitAgeMs = 1 << 40
	// waitTick is how often waits are looked at.
	waitTick = 250 * time.Millisecond
)

func newHomeWaits(s *shared) homeWaits {
	return homeWaits{shared: s, queues: map[string]*waitQueue{},
		quota: causal.Quota{Total: maxWaitBytes, Each: maxWaitBytes / 4, OwnerOf: s.cfg.OwnerOf}}
}

// handleHomeWait takes that a client of a sidecar waits, still waits, or waits no more.
func (c *Coordinator) handleHomeWait(now causal.Now, from topology.Node, m causal.HomeWait) {
	w := &c.home.waiters
	if m.Ended {
		w.remove(now, from, &m)
		return
	}
	err := causal.OK
	switch {
	case !c.home.enabled, c.Membership() != Serving, !c.home.isOf(topology.SlotOf(m.Key)):
		err = causal.ErrUnavailable
		w.remove(now, from, &m)
		c.homeChange.tell(from)
	case len(m.Key) > causal.MaxKeyBytes:
		err = causal.ErrTooLarge
	case m.Looked > c.sessionLimit(now):
		err = causal.ErrClock
	case !w.note(now, from, &m, c.clock.Peek(now)):
		err = causal.ErrBusy
	}
	c.Send(causal.HomeWake{ID: m.ID, Key: m.Key, Err: err}.Message(c.cfg.Self, from))
	w.tell(now, w.queues[m.Key])
}

// note notes that a client waits. To one that was not known, all that was published before is news, though an earlier
// life of the home may have told it. hlc is what the clock says.
func (w *homeWaits) note(now causal.Now, from topology.Node, m *causal.HomeWait, hlc causal.HLC) bool {
	q := w.queues[m.Key]
	if q == nil {
		q = &waitQueue{key: m.Key, news: hlc}
	}
	one := q.find(from, m.ID)
	if one == nil {
		holder, ok := w.quota.TakeSize(from, waitSize(m.Key))
		if !ok {
			return false
		}
		age := min(m.AgeMs, maxWaitAgeMs)
		one = &waiter{from: from, id: m.ID, holder: holder, since: now.Mono - int64(age)*int64(time.Millisecond)}
		q.news = max(q.news, m.Looked+1)
		q.insert(one, w.cfg.Broken.Has(causal.WaitNewestFirst))
		w.queues[m.Key] = q
	}
	one.heardAt = now.Mono
	if one.looked = max(one.looked, min(m.Looked, q.news)); one.isSilent(now) {
		one.told, one.toldAt = one.looked, 0 // it lives, and may not have heard it
	}
	return true
}

// clients returns how many clients wait; one that waits for several keys counts for each.
func (w *homeWaits) clients() (n int) {
	for _, q := range w.queues {
		n += len(q.waiters)
	}
	return n
}

func waitSize(key string) int { return waitBytes + len(key) }

func (q *waitQueue) find(from topology.Node, id uint64) *waiter {
	for _, one := range q.waiters {
		if one.id == id && one.from == from {
			return one
		}
	}
	return nil
}

// insert adds a client behind those who have begun before it.
func (q *waitQueue) insert(one *waiter, first bool) {
	at := len(q.waiters)
	for at > 0 && (first || one.since < q.waiters[at-1].since) {
		at--
	}
	q.waiters = slices.Insert(q.waiters, at, one)
}

// isLooking reports whether a client was told that it is its turn, and has not said since that it has found nothing.
func (one *waiter) isLooking() bool { return one.told > one.looked }

// isSilent reports whether a client takes longer than its turn lasts.
func (one *waiter) isSilent(now causal.Now) bool {
	return one.isLooking() && now.Mono-one.toldAt >= int64(waitTurn)
}

// remove removes a client, whose turn the next one has.
func (w *homeWaits) remove(now causal.Now, from topology.Node, m *causal.HomeWait) {
	if q := w.queues[m.Key]; q != nil {
		w.removeIf(now, q, func(one *waiter) bool { return one.id == m.ID && one.from == from })
	}
}

func (w *homeWaits) removeIf(now causal.Now, q *waitQueue, gone func(*waiter) bool) {
	before := len(q.waiters)
	q.waiters = slices.DeleteFunc(q.waiters, func(one *waiter) bool {
		if !gone(one) {
			return false
		}
		w.quota.Release(one.holder, waitSize(q.key))
		return true
	})
	switch {
	case len(q.waiters) == 0:
		delete(w.queues, q.key)
	case len(q.waiters) < before && !w.cfg.Broken.Has(causal.WaitTurnLost):
		w.tell(now, q)
	}
}

// published takes that a write of a key was published.
func (w *homeWaits) published(now causal.Now, key string, hlc causal.HLC) {
	if q := w.queues[key]; q != nil && !w.cfg.Broken.Has(causal.WaitUntold) {
		q.news = max(q.news+1, hlc)
		w.tell(now, q)
	}
}

// tell tells the first client that there are news, unless it knows. It passes over those who take too long.
func (w *homeWaits) tell(now causal.Now, q *waitQueue) {
	if q == nil {
		return
	}
	for _, one := range q.waiters {
		switch {
		case one.isSilent(now) && !w.cfg.Broken.Has(causal.WaitTurnKept):
			continue
		case one.isLooking(), one.looked >= q.news:
			return
		}
		one.told, one.toldAt = q.news, now.Mono
		w.woken++
		w.Send(causal.HomeWake{ID: one.id, Key: q.key, News: q.news}.Message(w.cfg.Self, one.from))
		return
	}
}

// tick forgets clients of which nothing is heard, and passes over those who take too long.
func (w *homeWaits) tick(now causal.Now) {
	if now.Mono < w.tickAt || len(w.queues) == 0 {
		return
	}
	w.tickAt = now.Mono + int64(waitTick)
	for _, key := range slices.Sorted(maps.Keys(w.queues)) {
		q := w.queues[key]
		w.removeIf(now, q, func(one *waiter) bool { return now.Mono-one.heardAt >= int64(waitKept) })
		if slices.ContainsFunc(q.waiters, func(one *waiter) bool { return one.isSilent(now) }) {
			w.tell(now, q)
		}
	}
}
