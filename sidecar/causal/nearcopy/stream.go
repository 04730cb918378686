package nearcopy

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// stream is the sidecar's end of a near stream: what one cache sends of the stream of one middleman.
type stream struct {
	cache      topology.Node
	id         uint64
	over       bool
	seq        uint64 // of the last message taken
	leaseUntil int64
	leaseTerm  time.Duration // as last granted
	renewals   []renewal     // sent and not granted, oldest first
	renewedAt  int64
	openedAt   int64
	usedAt     int64
}

type renewal struct {
	id     uint64
	sentAt int64
}

const (
	// streamIdle is how long after the last hit the lease is still renewed.
	streamIdle  = 10 * time.Second
	maxRenewals = 8
	// firstRenewal is when a renewal that was not answered is sent again while no lease was granted yet.
	firstRenewal = 250 * time.Millisecond
	// grantPatience is how long a stream lives without a first grant.
	grantPatience = 2 * time.Second
)

// isLeased reports whether what the stream has brought may be served.
func (st *stream) isLeased(now causal.Now) bool { return !st.over && now.Mono < st.leaseUntil }

func (s *Store) nodeOf(cache topology.Node) *node {
	n := s.nodes[cache]
	if n == nil {
		n = &node{streams: map[uint64]*stream{}}
		s.nodes[cache] = n
	}
	return n
}

// handleStreamMessage takes the next message of a near stream. The first one opens it. After a gap it is unknown what
// was missed, so the stream ends.
func (s *Store) handleStreamMessage(now causal.Now, m *causal.Message, limit causal.HLC) {
	at, n := m.StreamPosition(), s.nodeOf(m.From)
	st := n.streams[at.Epoch]
	if st == nil {
		if at.Epoch <= n.refusedUpTo || at.Seq != 1 || !s.isOn() {
			s.end(m.From, at.Epoch)
			return
		}
		st = &stream{cache: m.From, id: at.Epoch, openedAt: now.Mono, usedAt: now.Mono}
		n.refusedUpTo = at.Epoch
		n.streams[at.Epoch] = st
		s.order = append(s.order, st)
		s.askLease(now, st)
	}
	if at.Seq != st.seq+1 && !s.cfg.Broken.Has(causal.NearUnordered) {
		if at.Seq > st.seq {
			s.end(m.From, st.id)
		}
		return
	}
	st.seq = at.Seq
	switch m.Kind {
	case causal.KindGetReply:
		s.keep(now, st, m.GetReply(), limit)
	case causal.KindLeaseGrant:
		s.extendLease(now, st, m.LeaseGrant())
	case causal.KindInvalidate:
		i := m.Invalidate()
		if i.Next > limit {
			i.Next = 0 // a copy must not be good for every cut to come
		}
		if s.cfg.Broken.Has(causal.NearDropLate) {
			s.faultCopies = append(s.faultCopies, lateDrop{i, now.Mono + int64(300*time.Millisecond)})
		} else {
			s.invalidate(i)
		}
		s.out.Send(causal.InvalidateAck{Epoch: st.id, AckedSeq: st.seq}.Message(s.cfg.Self, st.cache))
	}
}

// end drops what a near stream has brought, takes nothing more from it, and tells the cache.
func (s *Store) end(cache topology.Node, id uint64) {
	n := s.nodeOf(cache)
	n.refusedUpTo = max(n.refusedUpTo, id)
	if st := n.streams[id]; st != nil {
		st.over = true
		delete(n.streams, id)
		s.order = slices.DeleteFunc(s.order, func(x *stream) bool { return x == st })
		s.stats.StreamsEnded++
	}
	s.out.Send(causal.StreamReset{MaxEpoch: id}.Message(s.cfg.Self, cache))
}

// EndAll drops everything, and tells the caches.
func (s *Store) EndAll() {
	for _, st := range slices.Clone(s.order) {
		s.end(st.cache, st.id)
	}
}

// handleReset ends a near stream that is over at the cache.
func (s *Store) handleReset(cache topology.Node, id uint64) { s.end(cache, id) }

func (s *Store) askLease(now causal.Now, st *stream) {
	s.lastID++
	if len(st.renewals) >= maxRenewals {
		st.renewals = st.renewals[1:]
	}
	st.renewals = append(st.renewals, renewal{s.lastID, now.Mono})
	st.renewedAt = now.Mono
	s.out.Send(causal.LeaseRenewal{ID: s.lastID, Epoch: st.id, AckedSeq: st.seq}.Message(s.cfg.Self, st.cache))
}

// extendLease extends the lease, counted from when the renewal was sent; two percent are taken off because clocks
// drift.
func (s *Store) extendLease(now causal.Now, st *stream, g causal.LeaseGrant) {
	for i, r := range st.renewals {
		if r.id != g.ID {
			continue
		}
		from := r.sentAt
		if s.cfg.Broken.Has(causal.NearLeaseFromReceipt) {
			from = now.Mono
		}
		st.leaseTerm = g.Duration
		st.leaseUntil = max(st.leaseUntil, from+int64(g.Duration-g.Duration/50))
		st.renewals = append([]renewal(nil), st.renewals[i+1:]...)
		return
	}
}

// renewalInterval returns the time between two renewals.
func (st *stream) renewalInterval() int64 {
	if st.leaseTerm == 0 {
		return int64(firstRenewal)
	}
	return int64(st.leaseTerm / 3)
}

// isOver reports whether a stream cannot be used any more: its lease has ended, or none was granted.
func (st *stream) isOver(now causal.Now) bool {
	if st.leaseUntil == 0 {
		return now.Mono-st.openedAt > int64(grantPatience)
	}
	return now.Mono >= st.leaseUntil
}

// Tick renews the leases of streams that are in use, and ends those whose lease has ended.
func (s *Store) Tick(now causal.Now) {
	for len(s.faultCopies) > 0 && s.faultCopies[0].at <= now.Mono {
		s.invalidate(s.faultCopies[0].invalidate)
		s.faultCopies = s.faultCopies[1:]
	}
	for _, st := range slices.Clone(s.order) {
		switch {
		case st.isOver(now):
			s.end(st.cache, st.id)
		case now.Mono-st.usedAt <= int64(streamIdle) && now.Mono-st.renewedAt >= st.renewalInterval():
			s.askLease(now, st)
		}
	}
}

// NextTick returns when Tick has something to do next, if no input comes before.
func (s *Store) NextTick() int64 {
	next := causal.Never
	for _, st := range s.order {
		if st.leaseUntil == 0 {
			next = min(next, st.openedAt+int64(grantPatience)+1)
		} else {
			next = min(next, st.leaseUntil)
		}
		if st.renewedAt-st.usedAt <= int64(streamIdle)-st.renewalInterval() {
			next = min(next, st.renewedAt+st.renewalInterval())
		}
	}
	return next
}

// WithoutLease returns how many near streams were never granted a lease.
func (s *Store) WithoutLease() (n int) {
	for _, st := range s.order {
		if st.leaseUntil == 0 {
			n++
		}
	}
	return n
}
