package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Streams to caches and their leases (PROTOCOL CAC).

// stream is the ordered sequence of messages from a middleman to one cache: fills, invalidations and lease grants. The
// cache opens it with an epoch above all its earlier ones. A copy is valid only while the stream that brought it lives.
//
// Invariant: every copy that the cache may still serve is in cachedAt or olderCopies, or its invalidation is in
// pending, or the cache may hold unknown copies.
type stream struct {
	cache    topology.Node
	epoch    uint64 // 0: the stream has ended
	maxEpoch uint64
	seq      uint64 // of the last message sent
	ackedSeq uint64
	// leaseUntil is when the cache stops to serve its copies, unless it renews the lease; 0: it has none.
	leaseUntil int64
	// unknownUntil is until when the cache may hold copies of any key: from before this middleman's start, or from a
	// stream that was ended because there was no room to remember them; 0: it holds none.
	unknownUntil int64
	pending      []pendingInvalidation // ascending by seq
}

// pendingInvalidation is a put that waits until the cache has confirmed the stream up to seq.
type pendingInvalidation struct {
	seq     uint64
	hash    uint64
	put     *put
	addedAt int64
}

// isLeased reports whether the cache may be serving copies that the stream has brought.
func (s *stream) isLeased(now causal.Now) bool { return s.epoch != 0 && s.leaseUntil > now.Mono }

// expire ends the stream if its lease has expired. The lease cannot be renewed: copies may not have been invalidated
// since.
func (s *stream) expire(now causal.Now) {
	if s.leaseUntil != 0 && s.leaseUntil <= now.Mono {
		s.epoch = 0
	}
}

// mayHoldUnknown reports whether the cache may hold copies of any key.
func (s *stream) mayHoldUnknown(now causal.Now) bool { return s.unknownUntil > now.Mono }

// untilStreamEnds is a sequence number that no message reaches: only the end of the stream or of unknown copies
// releases it.
const untilStreamEnds = ^uint64(0)

// await adds a wait for seq, in order.
func (s *stream) await(w pendingInvalidation) {
	i := len(s.pending)
	for i > 0 && s.pending[i-1].seq > w.seq {
		i--
	}
	s.pending = append(s.pending, pendingInvalidation{})
	copy(s.pending[i+1:], s.pending[i:])
	s.pending[i] = w
}

// confirmUpTo removes and returns the waits up to seq.
func (s *stream) confirmUpTo(seq uint64) []pendingInvalidation {
	n := 0
	for n < len(s.pending) && s.pending[n].seq <= seq {
		n++
	}
	confirmed := s.pending[:n]
	s.pending = append([]pendingInvalidation(nil), s.pending[n:]...)
	return confirmed
}

// lastWaitFor returns the last wait for an invalidation of the hash.
func (s *stream) lastWaitFor(hash uint64) (seq uint64, ok bool) {
	for i := len(s.pending) - 1; i >= 0; i-- {
		if s.pending[i].hash == hash {
			return s.pending[i].seq, true
		}
	}
	return 0, false
}

// streams are those to all caches.
type streams struct {
	byCache   map[topology.Node]*stream
	ordered   []*stream
	requested bool
}

func newStreams(t *topology.Topology) streams {
	ss := streams{byCache: map[topology.Node]*stream{}}
	t.Nodes(func(n topology.Node) {
		if n.Part == topology.Cache {
			s := &stream{cache: n}
			ss.byCache[n] = s
			ss.ordered = append(ss.ordered, s)
		}
	})
	return ss
}

// assumeUnknownCopies follows a restart: each cache may hold any copy until its lease has expired or it opens a new
// stream.
func (ss *streams) assumeUnknownCopies(until int64) {
	for _, s := range ss.ordered {
		s.unknownUntil = until
	}
}

// requestStreams asks every cache, once, to open a stream, so that nobody has to wait for leases from before a restart.
func (m *Middleman) requestStreams() {
	if m.streams.requested {
		return
	}
	m.streams.requested = true
	for _, s := range m.streams.ordered {
		if s.epoch == 0 {
			m.resetStream(s)
		}
	}
}

// openStream starts a stream to a cache that has dropped everything that earlier ones brought.
func (m *Middleman) openStream(now causal.Now, from topology.Node, o causal.StreamOpen) {
	s := m.streams.byCache[from]
	if s == nil || o.Epoch == s.epoch || !causal.IsPlausible(o.Epoch, causal.CacheEpochBits, m.timeLimit(now)) {
		return
	}
	// A late message from before a reconnect, or from before this middleman's start, must not be taken for a cache that
	// has dropped everything.
	if o.Incarnation != m.cfg.Incarnation || o.Epoch <= s.maxEpoch {
		m.resetStream(s)
		return
	}
	*s = stream{cache: s.cache, epoch: o.Epoch, maxEpoch: o.Epoch, pending: s.pending}
	m.releaseWaits(now, s, untilStreamEnds)
}

func (m *Middleman) resetStream(s *stream) {
	m.Send(causal.StreamReset{MaxEpoch: s.maxEpoch, Incarnation: m.cfg.Incarnation}.Message(m.cfg.Self, s.cache))
}

// endStreamsTo ends the streams to the caches of a data center. They may serve what these have brought until they hear
// of it, or their leases end.
func (m *Middleman) endStreamsTo(now causal.Now, dc topology.DC) {
	for _, s := range m.streams.ordered {
		if s.cache.DC != dc || s.epoch == 0 {
			continue
		}
		m.stats.StreamsEnded++
		s.unknownUntil = s.leaseUntil // with the stream, what was unknown before has ended
		s.epoch = 0
		m.resetStream(s)
	}
}

// currentStream returns the stream to a cache if epoch is its current one, or nil. A cache that is behind is told.
func (m *Middleman) currentStream(now causal.Now, cache topology.Node, epoch uint64) *stream {
	s := m.streams.byCache[cache]
	if s == nil {
		return nil
	}
	s.expire(now)
	if s.epoch == 0 || epoch != s.epoch {
		if epoch >= s.maxEpoch || s.epoch == 0 {
			m.resetStream(s)
		}
		return nil
	}
	return s
}

// sendOnStream sends a message as the next one of the stream.
func (m *Middleman) sendOnStream(s *stream, msg causal.Message) {
	s.seq++
	msg.SetStreamPosition(causal.StreamPosition{Epoch: s.epoch, Seq: s.seq})
	m.Send(msg)
}

// renewLease extends the lease of a cache.
func (m *Middleman) renewLease(now causal.Now, from topology.Node, l causal.LeaseRenewal) {
	s := m.currentStream(now, from, l.Epoch)
	if s == nil {
		return
	}
	m.confirmStream(now, s, l.AckedSeq)
	if len(s.pending) > 0 && now.Mono-s.pending[0].addedAt > int64(m.cfg.Lease) {
		return // the cache sends but does not receive: its lease must end, or the put would wait for ever
	}
	s.leaseUntil = now.Mono + int64(m.cfg.Lease)
	m.sendOnStream(s, causal.LeaseGrant{ID: l.ID, Duration: m.cfg.Lease}.Message(m.cfg.Self, s.cache))
}

// confirmStream releases the puts that waited for the cache to confirm the stream up to seq.
func (m *Middleman) confirmStream(now causal.Now, s *stream, seq uint64) {
	if seq > s.ackedSeq {
		s.ackedSeq = seq
		m.releaseWaits(now, s, seq)
	}
}

// releaseWaits releases the puts that wait for the cache, up to seq.
func (m *Middleman) releaseWaits(now causal.Now, s *stream, seq uint64) {
	for _, w := range s.confirmUpTo(seq) {
		m.copies.invalidationConfirmed(w.hash)
		m.cacheConfirmed(now, w.put)
	}
}

// expireLeases ends the streams of caches that have not renewed their leases: these have stopped to serve their copies.
func (m *Middleman) expireLeases(now causal.Now) {
	for _, s := range m.streams.ordered {
		s.expire(now)
		if len(s.pending) > 0 && !s.isLeased(now) && !s.mayHoldUnknown(now) {
			m.releaseWaits(now, s, untilStreamEnds)
		}
	}
}
