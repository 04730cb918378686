package causal

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// source is the cache's side of the stream from one middleman.
type source struct {
	mm          topology.Node
	incarnation uint64 // of the middleman; 0: not known yet
	epoch       uint64
	open        bool
	seq         uint64 // of the last message taken
	leaseUntil  int64
	renewals    []renewal // sent and not granted, oldest first
	renewedAt   int64
	openedAt    int64
	usedAt      int64
	leaseFor    int64
}

type renewal struct {
	id     uint64
	sentAt int64
}

const (
	// streamIdle is when a cache stops renewing the lease of a source that nobody reads from.
	streamIdle = 30 * time.Second
	reopenWait = time.Second
	maxRenewal = 16
)

func (c *Cache) sourceOf(mm topology.Node) *source {
	s := c.sources[mm]
	if s == nil {
		s = &source{mm: mm, epoch: c.cfg.Incarnation << 16}
		c.sources[mm] = s
		c.sorted = append(c.sorted, s)
	}
	return s
}

// ensureOpen opens the stream if it is not, and reports whether requests may be sent on it.
func (c *Cache) ensureOpen(now Now, s *source) bool {
	if s.open && s.leaseUntil != 0 && now.Mono >= s.leaseUntil {
		c.reopen(now, s) // the lease ran out: the stream is over on both sides
	}
	if s.open {
		return true
	}
	if s.incarnation != 0 {
		c.reopen(now, s)
		return true
	}
	if s.openedAt == 0 || now.Mono-s.openedAt >= int64(reopenWait) {
		s.openedAt = now.Mono
		c.send(Message{Kind: KindStreamOpen, From: c.cfg.Self, To: s.mm, Epoch: s.epoch})
	}
	return false
}

// reopen starts a new stream: everything that the earlier ones brought is void from here on.
func (c *Cache) reopen(now Now, s *source) {
	s.epoch++
	s.open, s.seq, s.leaseUntil, s.renewals, s.openedAt = true, 0, 0, nil, now.Mono
	c.stats.Resets++
	c.send(Message{Kind: KindStreamOpen, From: c.cfg.Self, To: s.mm, Epoch: s.epoch, Session: s.incarnation})
	c.askLease(now, s)
	for _, f := range c.order {
		if f.from == s && f.id != 0 && f.epoch != s.epoch {
			f.epoch, f.early = s.epoch, len(f.waiters)
			c.sendFill(f)
		}
	}
}

// streamReset: the middleman does not know the stream; it may have restarted.
func (c *Cache) streamReset(now Now, m *Message) {
	s := c.sourceOf(m.From)
	if s.open && m.Session == s.incarnation && m.Epoch < s.epoch && now.Mono-s.openedAt < int64(reopenWait) {
		return // about an earlier stream
	}
	s.incarnation = m.Session
	s.epoch = max(s.epoch, m.Epoch)
	c.reopen(now, s)
}

func (c *Cache) askLease(now Now, s *source) {
	c.nextID++
	if len(s.renewals) >= maxRenewal {
		s.renewals = s.renewals[1:]
	}
	s.renewals = append(s.renewals, renewal{c.nextID, now.Mono})
	s.renewedAt = now.Mono
	c.send(Message{Kind: KindLease, From: c.cfg.Self, To: s.mm, ID: c.nextID, Epoch: s.epoch, Seq: s.seq})
}

// renew keeps the lease of a source that is read from.
func (c *Cache) renew(now Now, s *source) {
	every := s.leaseFor / 3
	if every == 0 {
		every = int64(reopenWait)
	}
	if !s.open || now.Mono-s.renewedAt < every || now.Mono-s.usedAt > int64(streamIdle) {
		return
	}
	if c.ensureOpen(now, s) && s.renewedAt != now.Mono {
		c.askLease(now, s)
	}
}

// onStream takes the next message of a stream. After a gap nothing is known of what was missed: the stream starts anew.
func (c *Cache) onStream(now Now, m *Message) {
	s := c.sources[m.From]
	if s == nil || !s.open || m.Epoch != s.epoch {
		return
	}
	if m.Seq != s.seq+1 && !c.cfg.Broken.has(FillUnordered) {
		if m.Seq > s.seq {
			c.reopen(now, s)
		}
		return
	}
	s.seq = m.Seq
	switch m.Kind {
	case KindFillReply:
		c.filled(now, s, m)
	case KindLeaseGrant:
		c.granted(now, s, m)
	case KindInvalidate:
		c.invalidate(now, s, m)
	}
}

// granted extends the lease, counted from when the renewal was sent; a little is taken off for clocks that drift.
func (c *Cache) granted(now Now, s *source, m *Message) {
	if s.leaseUntil != 0 && now.Mono >= s.leaseUntil && !c.cfg.Broken.has(LeaseFromReceipt) {
		c.reopen(now, s)
		return
	}
	for i, r := range s.renewals {
		if r.id != m.ID {
			continue
		}
		s.leaseFor = m.Duration
		from := r.sentAt
		if c.cfg.Broken.has(LeaseFromReceipt) {
			from = now.Mono
		}
		s.leaseUntil = max(s.leaseUntil, from+m.Duration-m.Duration/50)
		s.renewals = append([]renewal(nil), s.renewals[i+1:]...)
		return
	}
}

// invalidate ends the use of a copy for all that may have seen the new version, and only then confirms. The others, who
// read at or below a cut, may go on with it.
func (c *Cache) invalidate(now Now, s *source, m *Message) {
	c.stats.Invalidated++
	if c.cfg.Broken.has(InvalidateLate) {
		c.faultDrops = append(c.faultDrops, faultDrop{m.Hash, now.Mono + int64(300*time.Millisecond)})
	} else {
		c.outdate(now, m.Hash, m.HLC)
	}
	c.send(Message{Kind: KindInvalidateAck, From: c.cfg.Self, To: s.mm, Epoch: s.epoch, Seq: s.seq})
}
