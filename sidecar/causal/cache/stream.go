package cache

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// stream is the cache's end of the ordered stream from one middleman.
type stream struct {
	mm          topology.Node
	incarnation uint64 // of the middleman; 0: unknown
	epoch       uint64
	open        bool
	seq         uint64 // of the last message taken
	leaseUntil  int64
	renewals    []renewal // sent and not granted, oldest first
	renewedAt   int64
	openedAt    int64
	usedAt      int64
	leaseTerm   time.Duration // as last granted
	// reopening says that a new stream is to be opened when no near copy that this one has brought can be served any
	// more.
	reopening bool
	near      []*nearStream
	nearWaits []nearWait // ascending by seq
	acked     uint64     // the last confirmation of an invalidation was up to here
}

type renewal struct {
	id     uint64
	sentAt int64
}

const (
	// streamIdle is how long after the last read from a middleman the lease is still renewed.
	streamIdle     = 30 * time.Second
	reopenInterval = time.Second
	maxRenewals    = 16
)

func (c *Cache) streamFrom(mm topology.Node) *stream {
	s := c.streams[mm]
	if s == nil {
		s = &stream{mm: mm, epoch: c.cfg.Incarnation << causal.CacheEpochBits}
		c.streams[mm] = s
		c.order = append(c.order, s)
	}
	return s
}

// ensureOpen opens the stream if it is closed, and reports whether requests may be sent on it.
func (c *Cache) ensureOpen(now causal.Now, s *stream) bool {
	if s.open && s.leaseUntil != 0 && now.Mono >= s.leaseUntil {
		c.reopen(now, s) // the lease has expired: the stream is over on both sides
	}
	if s.open {
		return true
	}
	if s.reopening {
		return false // it is sent when the stream opens
	}
	if s.incarnation != 0 {
		c.reopen(now, s)
		return s.open
	}
	if s.openedAt == 0 || now.Mono-s.openedAt >= int64(reopenInterval) {
		s.openedAt = now.Mono
		c.Send(causal.StreamOpen{Epoch: s.epoch}.Message(c.cfg.Self, s.mm))
	}
	return false
}

// reopen ends a stream: everything that it brought is void from here on. A new one is opened as soon as sidecars serve
// nothing of that either: it makes the middleman forget what it waits for.
func (c *Cache) reopen(now causal.Now, s *stream) {
	s.epoch++
	s.open, s.seq, s.acked, s.leaseUntil, s.renewals = false, 0, 0, 0, nil
	s.reopening = false // until all near streams are told
	c.endNearStreams(now, s)
	s.reopening = true
	c.openIfDue(now, s)
}

// openIfDue opens a new stream if that is due and nothing of earlier ones can be served any more.
func (c *Cache) openIfDue(now causal.Now, s *stream) {
	if !s.reopening || len(s.near) > 0 || c.isStarting(now) {
		return
	}
	s.reopening, s.open, s.openedAt = false, true, now.Mono
	c.stats.Resets++
	c.Send(causal.StreamOpen{Epoch: s.epoch, Incarnation: s.incarnation}.Message(c.cfg.Self, s.mm))
	c.askLease(now, s)
	c.resendFlights(s)
}

// handleStreamReset opens a new stream: the middleman does not know the present one, perhaps because it has restarted.
func (c *Cache) handleStreamReset(now causal.Now, from topology.Node, r causal.StreamReset) {
	if c.streams[from] == nil && !c.cfg.Topology.Runs(from) ||
		!causal.IsPlausible(r.MaxEpoch, causal.CacheEpochBits, c.timeLimit(now)) {
		return
	}
	s := c.streamFrom(from)
	if s.open && r.Incarnation == s.incarnation && r.MaxEpoch < s.epoch && now.Mono-s.openedAt < int64(reopenInterval) {
		return // it is about an earlier stream
	}
	s.incarnation = r.Incarnation
	s.epoch = max(s.epoch, r.MaxEpoch)
	c.reopen(now, s)
}

func (c *Cache) askLease(now causal.Now, s *stream) {
	c.lastID++
	if len(s.renewals) >= maxRenewals {
		s.renewals = s.renewals[1:]
	}
	s.renewals = append(s.renewals, renewal{c.lastID, now.Mono})
	s.renewedAt = now.Mono
	c.Send(causal.LeaseRenewal{ID: c.lastID, Epoch: s.epoch, AckedSeq: c.renewalSeq(s)}.Message(c.cfg.Self, s.mm))
}

// renewalSeq returns up to where a renewal confirms the stream: what was received and not confirmed does not count.
func (c *Cache) renewalSeq(s *stream) uint64 {
	if c.cfg.Broken.Has(causal.NearRenewReceived) {
		return s.seq
	}
	return s.confirmed()
}

// isRenewed reports whether the lease of a stream is kept.
func (s *stream) isRenewed(now causal.Now) bool {
	return s.open && now.Mono-s.usedAt <= int64(streamIdle)
}

// renewalInterval returns the time between two renewals of the lease.
func (s *stream) renewalInterval() int64 {
	if s.leaseTerm == 0 {
		return int64(reopenInterval)
	}
	return int64(s.leaseTerm / 3)
}

// renewLease keeps the lease of a stream that is read from.
func (c *Cache) renewLease(now causal.Now, s *stream) {
	if !s.isRenewed(now) || now.Mono-s.renewedAt < s.renewalInterval() {
		return
	}
	if c.ensureOpen(now, s) && s.renewedAt != now.Mono {
		c.askLease(now, s)
	}
}

// handleStreamMessage takes the next message of a stream. After a gap it is unknown what was missed, so a new stream is
// opened.
func (c *Cache) handleStreamMessage(now causal.Now, m *causal.Message) {
	s, at := c.streams[m.From], m.StreamPosition()
	if s == nil || !s.open || at.Epoch != s.epoch {
		return
	}
	if at.Seq != s.seq+1 && !c.cfg.Broken.Has(causal.FillUnordered) {
		if at.Seq > s.seq {
			c.reopen(now, s)
		}
		return
	}
	s.seq = at.Seq
	switch m.Kind {
	case causal.KindFillReply:
		c.handleFillReply(now, s, m.FillReply())
	case causal.KindLeaseGrant:
		c.extendLease(now, s, m.LeaseGrant())
	case causal.KindInvalidate:
		c.invalidate(now, s, m.Invalidate())
	}
}

// extendLease extends the lease, counted from when the renewal was sent; two percent are taken off because clocks
// drift.
func (c *Cache) extendLease(now causal.Now, s *stream, g causal.LeaseGrant) {
	if s.leaseUntil != 0 && now.Mono >= s.leaseUntil && !c.cfg.Broken.Has(causal.LeaseFromReceipt) {
		c.reopen(now, s)
		return
	}
	for i, r := range s.renewals {
		if r.id != g.ID {
			continue
		}
		s.leaseTerm = g.Duration
		from := r.sentAt
		if c.cfg.Broken.Has(causal.LeaseFromReceipt) {
			from = now.Mono
		}
		s.leaseUntil = max(s.leaseUntil, from+int64(g.Duration-g.Duration/50))
		s.renewals = append([]renewal(nil), s.renewals[i+1:]...)
		return
	}
}

// invalidate withdraws a copy from everyone who may have seen the new version, and only then confirms. Others, who read
// at or below a cut, may go on using it.
func (c *Cache) invalidate(now causal.Now, s *stream, i causal.Invalidate) {
	c.stats.Invalidated++
	if i.Next > c.timeLimit(now) {
		i.Next = 0 // a copy must not be good for every cut to come
	}
	if c.cfg.Broken.Has(causal.InvalidateLate) {
		c.faultDrops = append(c.faultDrops, lateDrop{i.KeyHash, now.Mono + int64(300*time.Millisecond)})
	} else {
		c.supersede(now, i.KeyHash, i.Next)
	}
	c.invalidateNear(now, s, i)
	c.confirm(s)
}
