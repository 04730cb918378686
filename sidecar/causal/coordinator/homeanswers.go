package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Answers of the home to reads, at once or when what they wait for is published.

// handleHomeRead answers what a reader of the data center asks of the home of some keys.
func (c *Coordinator) handleHomeRead(now causal.Now, from topology.Node, r causal.HomeRead) {
	h := &c.home
	if r.Withdrawn != 0 {
		h.leases.confirm(now, from, &r)
		c.publishHeld(now)
		return
	}
	if err := c.admitsHomeRead(now, &r); err != causal.OK {
		h.stats.Refused++
		c.homeChange.tell(from)
		h.refuseRead(from, &r, err)
		return
	}
	if !c.cfg.Broken.Has(causal.HomeForgetsShown) {
		h.showAll(&r)
	}
	h.forget()
	if k := h.underWay(&r); k != nil {
		holder, ok := h.waits.Take(from)
		if !ok {
			h.stats.Busy++
			h.refuseRead(from, &r, causal.ErrBusy)
			return
		}
		h.stats.Waited++
		k.waiting = append(k.waiting, homeWait{read: r, from: from, holder: holder, since: now.Mono})
		return
	}
	h.answer(now, from, &r)
	c.noteLeases(now)
}

// admitsHomeRead returns why a read cannot be answered.
func (c *Coordinator) admitsHomeRead(now causal.Now, r *causal.HomeRead) causal.ErrCode {
	switch {
	case !c.home.enabled, c.Membership() != Serving, !c.home.leases.isOpen(now), !c.home.isOfAll(r):
		return causal.ErrUnavailable
	case len(r.Key) > causal.MaxKeyBytes, len(r.More) >= causal.MaxHomeKeys:
		return causal.ErrTooLarge
	case !c.acceptsShown(r):
		return causal.ErrType
	case r.GreatestShown() > c.sessionLimit(now):
		return causal.ErrClock
	case !c.home.has(r.Seen):
		return causal.ErrUnavailable
	case r.GreatestShown() > c.log.durable.Ceiling && !c.cfg.Broken.Has(causal.HomeForgetsCeiling):
		c.clock.Raise(r.GreatestShown()) // which renews the ceiling
		return causal.ErrUnavailable     // until it is durable
	}
	return causal.OK
}

// acceptsShown reports whether what a client is about to be shown can be joined with what is here.
func (c *Coordinator) acceptsShown(r *causal.HomeRead) bool {
	return !slices.ContainsFunc(r.More, func(m causal.Moved) bool { return !c.cfg.Types.Accepts(&m.Record.Value) })
}

// has reports whether everything that a session may have seen of this home up to an HLC is known here, or complete.
func (h *home) has(seen causal.HLC) bool {
	return seen <= h.published || seen <= h.known.Settled(h.origin)
}

// answer answers a read.
func (h *home) answer(now causal.Now, to topology.Node, r *causal.HomeRead) {
	lease := r.Lease && !r.ForUpdate
	h.answerKey(now, to, r.ID, r.Key, r.Shown.HLC, lease)
	for i := range r.More {
		h.answerKey(now, to, r.ID+1+uint64(i), r.More[i].Key, r.More[i].Record.Version.HLC, lease)
	}
}

func (h *home) answerKey(now causal.Now, to topology.Node, id uint64, key string, shown causal.HLC, lease bool) {
	k := h.keys[key]
	reply := causal.HomeReply{ID: id, Key: key, From: max(h.least(k), shown), Shown: h.toldOf(k),
		Settled: h.settledAsTold(), Commits: true, Executes: true, Locks: true, Merges: h.takesMerging()}
	if k == nil || k.top.Version.IsZero() {
		h.stats.Elsewhere++
	} else {
		h.stats.Answered++
		reply.Record, reply.Complete, reply.Past = k.top, k.w == nil, k.past
		if k.w != nil && k.w.rec.Version != k.top.Version && !h.cfg.Broken.Has(causal.HomePartUnnamed) {
			reply.Incomplete = k.w.rec.Version.HLC // a newer write of another origin was shown
		}
		if !h.cfg.Broken.Has(causal.HomeWithoutDeps) {
			reply.Deps = h.depsOf(k.w)
		}
		if h.cfg.Broken.Has(causal.HomeWithoutPast) {
			reply.Past = 0
		}
	}
	if lease && (k == nil || k.isForgotten() || h.cfg.Broken.Has(causal.HomeLeaseBusy)) {
		h.leases.grant(now, to, &reply)
	}
	h.Send(reply.Message(h.cfg.Self, to))
}

// answerWaiting answers what waits for a key and need not wait any more, or lets it wait for another one.
func (h *home) answerWaiting(now causal.Now, k *homeKey) {
	waiting := k.waiting
	k.waiting = waiting[:0]
	for _, w := range waiting {
		if k.top.Version.Less(w.on.rec.Version) {
			k.waiting = append(k.waiting, w)
			continue
		}
		if other := h.underWay(&w.read); other != nil {
			other.waiting = append(other.waiting, w)
			continue
		}
		h.waits.Release(w.holder, 1)
		if w.on.rec.Version.Written() {
			h.answerUnwritten(w.from, &w.read, &w.on)
			continue
		}
		h.answer(now, w.from, &w.read)
	}
	clear(waiting[len(k.waiting):])
}

// refuseWaiting refuses the reads that have waited for a key that is kept since before a time.
func (h *home) refuseWaiting(k *homeKey, before int64) {
	k.waiting = slices.DeleteFunc(k.waiting, func(w homeWait) bool {
		if w.since >= before || w.on.rec.Version.Written() {
			return false
		}
		h.waits.Release(w.holder, 1)
		h.refuseRead(w.from, &w.read, causal.ErrLocked)
		return true
	})
}

// refuseRead answers a read with an error.
func (h *home) refuseRead(to topology.Node, r *causal.HomeRead, err causal.ErrCode) {
	for i := range 1 + len(r.More) {
		h.Send(causal.HomeReply{ID: r.ID + uint64(i), Err: err}.Message(h.cfg.Self, to))
	}
}
