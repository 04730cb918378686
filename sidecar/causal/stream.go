package causal

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// stream is the ordered way from a middleman to one cache, which carries fills, invalidations and lease grants. The cache
// opens it with an epoch above all its earlier ones; what it holds is valid only while the stream that brought it lives.
//
// Invariant: every copy that the cache may still use is in cachedAt, or its invalidation is in pending, or the cache is
// unknown.
type stream struct {
	cache        topology.Node
	epoch        uint64 // 0: none lives
	maxEpoch     uint64
	seq          uint64 // of the last message sent
	acked        uint64
	leaseUntil   int64
	unknownUntil int64 // until when the cache may hold copies from before a restart; 0: it does not
	pending      []pendingInvalidation
}

type pendingInvalidation struct {
	seq  uint64
	hash uint64
	put  *put
	at   int64
}

// alive reports whether the cache may be using copies.
func (s *stream) alive(now Now) bool { return s.epoch != 0 && s.leaseUntil > now.Mono }

// expire ends the stream when its lease has run out. It cannot be renewed: copies may have gone uninvalidated since.
func (s *stream) expire(now Now) {
	if s.leaseUntil != 0 && s.leaseUntil <= now.Mono {
		s.epoch = 0
	}
}

func (s *stream) unknown(now Now) bool { return s.unknownUntil > now.Mono }

// solicit asks every cache to start anew, so that nobody has to wait for the leases from before the restart.
func (m *Middleman) solicit() {
	m.solicited = true
	for _, n := range m.caches {
		if s := m.streams[n]; s.epoch == 0 {
			m.reset(s)
		}
	}
}

// streamOpen: the cache has dropped all that earlier streams brought.
func (m *Middleman) streamOpen(now Now, msg *Message) {
	s := m.streams[msg.From]
	if s == nil || msg.Epoch == s.epoch {
		return
	}
	// A late message from before a reconnect, or from before this middleman's start, must not pass for a cache that has
	// dropped everything.
	if msg.Session != m.cfg.Incarnation || msg.Epoch <= s.maxEpoch {
		m.reset(s)
		return
	}
	*s = stream{cache: s.cache, epoch: msg.Epoch, maxEpoch: msg.Epoch, pending: s.pending}
	m.releasePending(now, s, ^uint64(0))
}

func (m *Middleman) reset(s *stream) {
	m.send(Message{Kind: KindStreamReset, From: m.cfg.Self, To: s.cache, Epoch: s.maxEpoch, Session: m.cfg.Incarnation})
}

// streamCurrent reports whether msg belongs to the living stream of its sender, which is told if it does not.
func (m *Middleman) streamCurrent(now Now, msg *Message) bool {
	s := m.streams[msg.From]
	if s == nil {
		return false
	}
	s.expire(now)
	if s.epoch == 0 || msg.Epoch != s.epoch {
		if msg.Epoch >= s.maxEpoch || s.epoch == 0 {
			m.reset(s)
		}
		return false
	}
	return true
}

// onStream sends a message as the next one of the stream.
func (m *Middleman) onStream(s *stream, msg Message) {
	s.seq++
	msg.From, msg.To, msg.Epoch, msg.Seq = m.cfg.Self, s.cache, s.epoch, s.seq
	m.send(msg)
}

func (m *Middleman) lease(now Now, msg *Message) {
	if !m.streamCurrent(now, msg) {
		return
	}
	s := m.streams[msg.From]
	m.confirm(now, s, msg.Seq)
	if len(s.pending) > 0 && now.Mono-s.pending[0].at > int64(m.cfg.Lease) {
		return // it sends and does not hear: its lease must end, or the put would wait for ever
	}
	s.leaseUntil = now.Mono + int64(m.cfg.Lease)
	m.onStream(s, Message{Kind: KindLeaseGrant, ID: msg.ID, Duration: int64(m.cfg.Lease)})
}

func (m *Middleman) invalidated(now Now, msg *Message) {
	if m.streamCurrent(now, msg) {
		m.confirm(now, m.streams[msg.From], msg.Seq)
	}
}

func (m *Middleman) confirm(now Now, s *stream, seq uint64) {
	if seq > s.acked {
		s.acked = seq
		m.releasePending(now, s, seq)
	}
}

// releasePending lets go of the puts that waited for the cache up to seq.
func (m *Middleman) releasePending(now Now, s *stream, seq uint64) {
	n := 0
	for n < len(s.pending) && s.pending[n].seq <= seq {
		n++
	}
	free := s.pending[:n]
	s.pending = append([]pendingInvalidation(nil), s.pending[n:]...)
	for _, p := range free {
		if m.invalidating[p.hash]--; m.invalidating[p.hash] == 0 {
			delete(m.invalidating, p.hash)
		}
		p.put.waits--
		m.locallyClean(now, p.put)
		m.maybeAck(now, p.put)
	}
}

// expireLeases ends the streams whose cache has not renewed: its copies are dead by its own clock.
func (m *Middleman) expireLeases(now Now) {
	for _, n := range m.caches {
		s := m.streams[n]
		s.expire(now)
		if len(s.pending) > 0 && !s.alive(now) && !s.unknown(now) {
			m.releasePending(now, s, ^uint64(0))
		}
	}
}

// fillReply gives a cache a value. Only a stable one is fillable; the copy is registered in the step that read it.
func (m *Middleman) fillReply(now Now, req *Message, reply Message) {
	if !m.streamCurrent(now, req) {
		return
	}
	s := m.streams[req.From]
	reply.Kind = KindFillReply
	if req.Older {
		m.olderUntil = now.Mono + olderWanted
	}
	if reply.Cut != 0 && !m.keepsOlder(now) {
		reply.Status = InFlight // always safe, and not cached
	}
	register := reply.Status == Stable && reply.Err == OK && s.alive(now)
	// While numbers of caches change, a cache may be asked that is another one's by the topology here. It would not be told.
	if at, _ := m.cfg.Topology.CacheFor(req.From.DC, topology.Hash(req.Key)); at != req.From && !m.cfg.Broken.has(FillAnyCache) {
		register = false
		reply.Status = InFlight // always safe, and not cached
	}
	if m.cfg.Broken.has(NegativeUntracked) && reply.Record.Value.Tombstone {
		register = false
	}
	if hash := topology.Hash(req.Key); register {
		switch {
		case m.cfg.Broken.has(RegisterLate):
			m.faultLate = append(m.faultLate, lateRegistration{hash, req.From.DC})
		case reply.Cut != 0:
			m.rememberOlder(hash, req.From.DC, reply.Cut)
		default:
			m.at.add(hash, req.From.DC)
		}
	}
	m.onStream(s, reply)
}

// invalidate tells every cache that may serve an older value of p's key to somebody who has seen p, and makes p wait for
// them. A superseded p matters only to copies that are older than what stands in storage. It also waits for the
// invalidations of the key that are under way for other writes: the copy that these are after may be older than p too, and
// is registered no more.
func (m *Middleman) invalidate(now Now, p *put, superseded bool) {
	hash := topology.Hash(p.key)
	if m.invalidating[hash] > 0 && !m.cfg.Broken.has(IgnoreOtherInvalidations) {
		for _, n := range m.caches {
			s := m.streams[n]
			for i := len(s.pending) - 1; i >= 0; i-- {
				if s.pending[i].hash == hash {
					m.waitFor(now, s, s.pending[i].seq, hash, p)
					break
				}
			}
		}
	}
	next := p.rec.Version.HLC
	if !m.keepsOlder(now) {
		next = 0
	}
	tell := func(dc topology.DC) bool {
		cache, ok := m.cfg.Topology.CacheFor(dc, hash)
		s := m.streams[cache]
		if !ok || !s.alive(now) {
			return false
		}
		m.stats.Invalidations++
		m.onStream(s, Message{Kind: KindInvalidate, Hash: hash, HLC: next})
		m.waitFor(now, s, s.seq, hash, p)
		return true
	}
	m.tellOlder(hash, p, tell)
	if !superseded {
		m.at.take(hash, func(dc topology.DC) {
			if tell(dc) && next != 0 { // it goes on serving the copy to those who have seen less
				m.rememberOlder(hash, dc, next)
			}
		})
	}
	for _, n := range m.caches {
		if s := m.streams[n]; s.unknown(now) {
			m.waitFor(now, s, ^uint64(0), hash, p)
		}
	}
	if now.Mono < m.heldUntil {
		p.waits++
		m.held = append(m.held, p)
	}
}

// letGo ends the wait for leases that others gave for slots which were taken in from them.
func (m *Middleman) letGo(now Now) {
	if len(m.held) == 0 || now.Mono < m.heldUntil {
		return
	}
	for _, p := range m.held {
		p.waits--
		m.locallyClean(now, p)
		m.maybeAck(now, p)
	}
	m.held = nil
}

// waitFor keeps pending in order of seq: a wait for an earlier message goes before the later ones.
func (m *Middleman) waitFor(now Now, s *stream, seq, hash uint64, p *put) {
	i := len(s.pending)
	for i > 0 && s.pending[i-1].seq > seq {
		i--
	}
	s.pending = slices.Insert(s.pending, i, pendingInvalidation{seq, hash, p, now.Mono})
	m.invalidating[hash]++
	p.waits++
}
