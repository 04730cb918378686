package cache

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Near copies (PROTOCOL NEAR): sidecars keep copies of what this cache holds. The cache is to them what a
// middleman is to the cache. It registers each copy in the step that hands it out, passes the invalidations of the
// middleman on, and confirms them only when no near copy can be served against them any more.

// DefaultNearLease is the longest time that a sidecar serves its copies without hearing from the cache. It must be the
// same at all starts of a cache.
const DefaultNearLease = time.Second

const (
	// maxNearCopies bounds the keys that are registered for one near stream. A sidecar does not say what it has
	// evicted; at the bound, it starts over.
	maxNearCopies = 1 << 15
	// maxAllNearCopies bounds the keys that are registered for all near streams, to about 64 MiB, and
	// maxNearCopiesOfOne those for the sidecars of one identity. Beyond, sidecars get no copies and ask each time.
	maxAllNearCopies, maxNearCopiesOfOne = 1 << 20, 1 << 19
	// nearTickInterval is how often near streams whose lease has ended are removed while nothing waits for that.
	nearTickInterval = 250 * time.Millisecond
)

// nearStream is the ordered sequence of messages from the cache to a sidecar that concerns copies from one stream of
// one middleman: values, invalidations and lease grants. It lives no longer than that stream.
//
// Invariant: every copy that the sidecar may still serve is in copies, or its invalidation is awaited in
// stream.nearWaits.
type nearStream struct {
	to   topology.Node
	from *stream
	id   uint64 // never used before, and above all earlier ones
	seq  uint64 // of the last message sent
	// leaseUntil is when the sidecar stops to serve its copies, unless it renews the lease; 0: it has none. It is not
	// after from.leaseUntil.
	leaseUntil int64
	openedAt   int64
	acked      uint64 // the sidecar has confirmed everything up to here
	waitsSince int64  // since when it owes a confirmation; 0: it owes none
	ending     bool   // the sidecar was told to drop everything
	copies     map[uint64]struct{}
	holder     causal.Holder
}

// isLeased reports whether the sidecar may be serving copies that the stream has brought.
func (n *nearStream) isLeased(now causal.Now) bool { return n.leaseUntil > now.Mono }

// nearWait is an invalidation of a middleman that a sidecar has not confirmed.
type nearWait struct {
	seq     uint64 // on the stream of the middleman
	near    *nearStream
	nearSeq uint64
}

// nearCopies are what is known of near copies, beside what the streams hold.
type nearCopies struct {
	byID     map[nearID]*nearStream
	quota    causal.Quota // of copies
	lastID   uint64
	tickedAt int64
	// opensFrom is when streams to middlemen may be opened: the sidecars serve copies from before the start until then.
	// 0: nothing has happened yet.
	opensFrom int64

	faultCopies []lateNearCopy
}

type nearID struct {
	sidecar topology.Node
	id      uint64
}

// lateNearCopy is registered late, for the mutation NearRegisterLate.
type lateNearCopy struct {
	near *nearStream
	hash uint64
	at   int64
}

// started notes the time of the first input.
func (c *Cache) started(now causal.Now) {
	if c.near.opensFrom == 0 {
		c.near.opensFrom = now.Mono + int64(c.cfg.NearLease)
		if c.cfg.Broken.Has(causal.NearStartEarly) {
			c.near.opensFrom = now.Mono
		}
	}
}

// isStarting reports whether sidecars may hold copies from before the start. Until then nothing can be fetched.
func (c *Cache) isStarting(now causal.Now) bool { return now.Mono < c.near.opensFrom }

// passOn gives a sidecar that wants one a near copy of what a reply carries: an entry that is registered with the
// middleman.
func (c *Cache) passOn(now causal.Now, w waiter, e *entry, r *causal.GetReply) {
	if c.cfg.NearLease == 0 || uint64(e.Record.Value.Size()+len(e.key)) > w.nearMax || w.to.Part != topology.Sidecar {
		return
	}
	n := c.nearStreamTo(now, e.from, w.to)
	if n.ending {
		return
	}
	if len(n.copies) >= maxNearCopies {
		c.endNearStream(now, n)
		return
	}
	hash := topology.Hash(e.key)
	if c.cfg.Broken.Has(causal.NearRegisterLate) {
		c.near.faultCopies = append(c.near.faultCopies, lateNearCopy{n, hash, now.Mono + int64(100*time.Millisecond)})
	} else if _, has := n.copies[hash]; !has {
		if !c.near.quota.TakeFor(n.holder) {
			return
		}
		n.copies[hash] = struct{}{}
	}
	n.seq++
	c.stats.NearCopies++
	r.Key, r.Next, r.Stream = e.key, e.Next, causal.StreamPosition{Epoch: n.id, Seq: n.seq}
}

// nearStreamTo returns the near stream to a sidecar for what a stream brings. It opens one if there is none.
func (c *Cache) nearStreamTo(now causal.Now, s *stream, to topology.Node) *nearStream {
	if i := slices.IndexFunc(s.near, func(n *nearStream) bool { return n.to == to }); i >= 0 {
		n := s.near[i]
		if n.leaseUntil == 0 || n.isLeased(now) {
			return n
		}
		c.removeNearStream(now, n)
	}
	c.near.lastID++
	n := &nearStream{to: to, from: s, id: c.cfg.Incarnation<<16 + c.near.lastID, openedAt: now.Mono,
		copies: map[uint64]struct{}{}, holder: c.near.quota.Holder(to)}
	s.near = append(s.near, n)
	c.near.byID[nearID{to, n.id}] = n
	return n
}

// invalidateNear passes an invalidation on, and makes its confirmation wait for the sidecars that may serve a copy. A
// copy stays registered if others may go on using it: a write that comes later and loses may concern them, too.
func (c *Cache) invalidateNear(now causal.Now, s *stream, i causal.Invalidate) {
	if i.Next != 0 && c.cfg.Broken.Has(causal.NearNextLost) {
		return
	}
	for _, n := range s.near {
		if _, ok := n.copies[i.KeyHash]; !ok || n.ending {
			continue
		}
		if i.Next == 0 || c.cfg.Broken.Has(causal.NearLoserEnds) {
			delete(n.copies, i.KeyHash)
			c.near.quota.Release(n.holder, 1)
		}
		n.seq++
		m := i.Message(c.cfg.Self, n.to)
		m.SetStreamPosition(causal.StreamPosition{Epoch: n.id, Seq: n.seq})
		c.Send(m)
		c.stats.NearInvalidated++
		if !n.isLeased(now) {
			continue // it serves nothing, and hears of this before any grant
		}
		if n.waitsSince == 0 {
			n.waitsSince = now.Mono
		}
		s.nearWaits = append(s.nearWaits, nearWait{seq: s.seq, near: n, nearSeq: n.seq})
	}
}

// confirmed returns up to where the stream can be confirmed to the middleman.
func (s *stream) confirmed() uint64 {
	if len(s.nearWaits) == 0 {
		return s.seq
	}
	return s.nearWaits[0].seq - 1
}

// confirm confirms the stream to the middleman, as far as near copies allow.
func (c *Cache) confirm(s *stream) {
	upTo := s.confirmed()
	if c.cfg.Broken.Has(causal.NearConfirmEarly) {
		upTo = s.seq
	}
	if s.open && upTo > s.acked {
		s.acked = upTo
		c.Send(causal.InvalidateAck{Epoch: s.epoch, AckedSeq: upTo}.Message(c.cfg.Self, s.mm))
	}
}

// releaseNearWaits removes the waits for a near stream that end with what it has confirmed, or with the stream.
func (c *Cache) releaseNearWaits(now causal.Now, n *nearStream, all bool) {
	s := n.from
	before := len(s.nearWaits)
	s.nearWaits = slices.DeleteFunc(s.nearWaits, func(w nearWait) bool {
		return w.near == n && (all || w.nearSeq <= n.acked)
	})
	if len(s.nearWaits) == before {
		return
	}
	n.waitsSince = 0
	if slices.ContainsFunc(s.nearWaits, func(w nearWait) bool { return w.near == n }) {
		n.waitsSince = now.Mono
	}
	c.confirm(s)
}

// handleNearLease extends the lease of a sidecar on a near stream, within that of the stream that it depends on.
func (c *Cache) handleNearLease(now causal.Now, from topology.Node, l causal.LeaseRenewal) {
	n := c.near.byID[nearID{from, l.Epoch}]
	if n == nil || n.ending || n.leaseUntil != 0 && !n.isLeased(now) {
		if n != nil && !n.isLeased(now) {
			c.removeNearStream(now, n)
		}
		c.Send(causal.StreamReset{MaxEpoch: l.Epoch}.Message(c.cfg.Self, from))
		return
	}
	c.confirmNear(now, n, l.AckedSeq)
	if n.waitsSince != 0 && now.Mono-n.waitsSince > int64(c.cfg.NearLease) {
		return // it sends but does not receive: its lease must end, or writes would wait for ever
	}
	s := n.from
	d := int64(c.cfg.NearLease)
	if !c.cfg.Broken.Has(causal.NearLeaseLonger) {
		d = min(d, s.leaseUntil-now.Mono)
	}
	if d <= 0 {
		return
	}
	s.usedAt = now.Mono
	n.leaseUntil = max(n.leaseUntil, now.Mono+d)
	n.seq++
	m := causal.LeaseGrant{ID: l.ID, Duration: time.Duration(d)}.Message(c.cfg.Self, n.to)
	m.SetStreamPosition(causal.StreamPosition{Epoch: n.id, Seq: n.seq})
	c.Send(m)
}

// confirmNear takes the confirmation of a near stream up to seq.
func (c *Cache) confirmNear(now causal.Now, n *nearStream, seq uint64) {
	if seq > n.acked {
		n.acked = seq
		c.releaseNearWaits(now, n, false)
	}
}

// handleNearAck takes a sidecar's confirmation of an invalidation.
func (c *Cache) handleNearAck(now causal.Now, from topology.Node, a causal.InvalidateAck) {
	if n := c.near.byID[nearID{from, a.Epoch}]; n != nil {
		c.confirmNear(now, n, a.AckedSeq)
	}
}

// handleNearReset takes the word of a sidecar that it has dropped everything that a near stream has brought, and will
// take nothing more from it.
func (c *Cache) handleNearReset(now causal.Now, from topology.Node, r causal.StreamReset) {
	if n := c.near.byID[nearID{from, r.MaxEpoch}]; n != nil {
		c.removeNearStream(now, n)
	}
}

// endNearStream makes a sidecar drop what a near stream has brought. The stream is gone when the sidecar says so, or
// its lease ends.
func (c *Cache) endNearStream(now causal.Now, n *nearStream) {
	c.Send(causal.StreamReset{MaxEpoch: n.id}.Message(c.cfg.Self, n.to))
	if n.ending = true; !n.isLeased(now) {
		c.removeNearStream(now, n)
	}
}

func (c *Cache) removeNearStream(now causal.Now, n *nearStream) {
	delete(c.near.byID, nearID{n.to, n.id})
	c.near.quota.Release(n.holder, len(n.copies))
	n.from.near = slices.DeleteFunc(n.from.near, func(x *nearStream) bool { return x == n })
	c.releaseNearWaits(now, n, true)
	c.openIfDue(now, n.from)
}

// endNearStreams ends those that depend on a stream that is over.
func (c *Cache) endNearStreams(now causal.Now, s *stream) {
	s.nearWaits = nil
	if c.cfg.Broken.Has(causal.NearReopenEarly) {
		for _, n := range s.near {
			delete(c.near.byID, nearID{n.to, n.id})
			c.near.quota.Release(n.holder, len(n.copies))
		}
		s.near = nil
	}
	for _, n := range slices.Clone(s.near) {
		if !n.ending {
			c.endNearStream(now, n)
		}
	}
}

// tickNear removes near streams whose lease has ended, and those that no lease was asked for.
func (c *Cache) tickNear(now causal.Now) {
	c.registerLate(now)
	if len(c.near.byID) == 0 || !c.awaitsNear() && now.Mono-c.near.tickedAt < int64(nearTickInterval) {
		return
	}
	c.near.tickedAt = now.Mono
	for _, s := range c.order {
		for _, n := range slices.Clone(s.near) {
			unused := n.leaseUntil == 0 && now.Mono-n.openedAt > 2*int64(c.cfg.NearLease)
			if unused || n.leaseUntil != 0 && !n.isLeased(now) {
				c.removeNearStream(now, n)
			}
		}
	}
}

// awaitsNear reports whether something waits for near copies to be gone.
func (c *Cache) awaitsNear() bool {
	return slices.ContainsFunc(c.order, func(s *stream) bool { return len(s.nearWaits) > 0 || s.reopening })
}

// nextNearTick returns when tickNear has something to do next.
func (c *Cache) nextNearTick(now causal.Now) int64 {
	switch {
	case c.awaitsNear():
		return now.Mono
	case len(c.near.byID) > 0:
		return c.near.tickedAt + int64(nearTickInterval)
	}
	return causal.Never
}

// registerLate carries out the mutation NearRegisterLate.
func (c *Cache) registerLate(now causal.Now) {
	for len(c.near.faultCopies) > 0 && c.near.faultCopies[0].at <= now.Mono {
		l := c.near.faultCopies[0]
		if _, has := l.near.copies[l.hash]; !has {
			l.near.copies[l.hash] = struct{}{}
			l.near.holder = c.near.quota.Must(l.near.to)
		}
		c.near.faultCopies = c.near.faultCopies[1:]
	}
}

// forgetNear carries out the mutation NearForgetEvicted.
func (c *Cache) forgetNear(hash uint64) {
	for _, s := range c.order {
		for _, n := range s.near {
			if _, has := n.copies[hash]; has {
				delete(n.copies, hash)
				c.near.quota.Release(n.holder, 1)
			}
		}
	}
}
