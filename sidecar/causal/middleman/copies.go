package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Copies in caches: filling registers them, writing invalidates them (PROTOCOL MM-5, CAC).

// copies are where caches may hold copies of the keys of this shard.
type copies struct {
	cachedAt *cachedAt   // of the version in storage
	older    olderCopies // of versions before it
	// invalidating counts, by key hash, the waits for invalidations in all streams.
	invalidating map[uint64]int
	// foreignLeasesUntil is until when caches may serve copies that others have given them: see Config.Inherited.
	foreignLeasesUntil int64
	awaitForeignLeases []*put
}

func newCopies(dcs, bound int) copies {
	return copies{cachedAt: newCachedAt(dcs, bound), older: newOlderCopies(), invalidating: map[uint64]int{}}
}

func (c *copies) invalidationConfirmed(hash uint64) {
	if c.invalidating[hash]--; c.invalidating[hash] == 0 {
		delete(c.invalidating, hash)
	}
}

// sendFill sends a value to a cache. The cache may keep it only if it is stable, and the copy is then registered in the
// same step that has read it. Status InFlight, which is always safe, keeps the cache from keeping it.
func (m *Middleman) sendFill(now causal.Now, r *readRequest, reply causal.FillReply) {
	s := m.currentStream(now, r.from, r.epoch)
	if s == nil {
		return
	}
	if r.snapshot {
		m.copies.older.readersUntil = now.Mono + int64(causal.SnapshotReadersTTL)
	}
	mayKeep := reply.Status == causal.Stable || r.ahead && reply.Record.Version.Written()
	if reply.Next != 0 && !m.copies.older.isKept(now) {
		reply.Status, mayKeep = causal.InFlight, false
	}
	register := mayKeep && reply.Err == causal.OK && s.isLeased(now)
	// While the number of caches changes, a fill may come from a cache that does not own the key by the topology here.
	// Invalidations would go to the one that does.
	hash := topology.Hash(r.key)
	if owner, _ := m.cfg.Topology.CacheFor(r.from.DC, hash); owner != r.from && !m.cfg.Broken.Has(causal.FillAnyCache) {
		register = false
		reply.Status = causal.InFlight
	}
	if m.cfg.Broken.Has(causal.NegativeUntracked) && reply.Record.Value.Tombstone {
		register = false
	}
	if register && reply.Next == 0 && m.makeRoomForCopy(now, hash) {
		if s = m.currentStream(now, r.from, r.epoch); s == nil {
			return // it was this one
		}
	}
	reply.Registered = register && reply.Status == causal.InFlight
	if register {
		switch {
		case reply.Registered && m.cfg.Broken.Has(causal.AheadUnregistered):
		case m.cfg.Broken.Has(causal.RegisterLate):
			m.mutations.lateCopies = append(m.mutations.lateCopies, lateCopy{hash, r.from.DC})
		case reply.Next != 0:
			m.copies.older.add(hash, r.from.DC, reply.Next)
		default:
			m.copies.cachedAt.add(hash, r.from.DC)
		}
	}
	m.sendOnStream(s, reply.Message(m.cfg.Self, s.cache))
}

// makeRoomForCopy makes room in cachedAt, and reports whether that was necessary. The data center that may hold the
// most copies starts over: its streams end, and until each of its caches has opened another one, or its lease ends, it
// may hold a copy of any key (PROTOCOL CAC-10).
func (m *Middleman) makeRoomForCopy(now causal.Now, hash uint64) (needed bool) {
	for !m.copies.cachedAt.hasRoom(hash) {
		needed = true
		dc := m.copies.cachedAt.fullest()
		m.copies.cachedAt.forget(dc)
		if !m.cfg.Broken.Has(causal.ForgetCopies) {
			m.endStreamsTo(now, dc)
		}
	}
	return needed
}

// invalidate tells every cache that may serve a value older than p to somebody who has seen p, and makes p wait for
// them. A superseded p matters only to copies that are older than the version in storage. p also waits for the
// invalidations of its key that earlier writes have under way: those copies may be older than p too, and are not
// registered any more.
func (m *Middleman) invalidate(now causal.Now, p *put, superseded bool) {
	hash := topology.Hash(p.key)
	m.awaitOtherInvalidations(now, p, hash)
	next := p.record.Version.HLC
	if !m.copies.older.isKept(now) {
		next = 0
	}
	if !m.cfg.Broken.Has(causal.SupersededKeepsOlder) {
		for dc := range m.copies.older.outdatedBy(hash, p.record.Version) {
			m.sendInvalidate(now, p, dc, hash, next)
		}
	}
	if !superseded {
		m.copies.cachedAt.take(hash, func(dc topology.DC) {
			if m.sendInvalidate(now, p, dc, hash, next) && next != 0 {
				m.copies.older.add(hash, dc, next) // the cache keeps serving the copy to readers that have seen less
			}
		})
	}
	for _, s := range m.streams.ordered {
		if s.mayHoldUnknown(now) {
			m.awaitCache(now, p, s, untilStreamEnds, hash)
		}
	}
	if now.Mono < m.copies.foreignLeasesUntil {
		p.unconfirmedWaits++
		m.copies.awaitForeignLeases = append(m.copies.awaitForeignLeases, p)
	}
}

func (m *Middleman) awaitOtherInvalidations(now causal.Now, p *put, hash uint64) {
	if m.copies.invalidating[hash] == 0 || m.cfg.Broken.Has(causal.IgnoreOtherInvalidations) {
		return
	}
	for _, s := range m.streams.ordered {
		if seq, ok := s.lastWaitFor(hash); ok {
			m.awaitCache(now, p, s, seq, hash)
		}
	}
}

// sendInvalidate invalidates the key's copy in a data center, and reports whether a cache there may be serving it.
func (m *Middleman) sendInvalidate(now causal.Now, p *put, dc topology.DC, hash uint64, next causal.HLC) bool {
	cache, ok := m.cfg.Topology.CacheFor(dc, hash)
	s := m.streams.byCache[cache]
	if !ok || !s.isLeased(now) {
		return false
	}
	m.stats.Invalidations++
	m.sendOnStream(s, causal.Invalidate{KeyHash: hash, Next: next}.Message(m.cfg.Self, s.cache))
	m.awaitCache(now, p, s, s.seq, hash)
	return true
}

// awaitCache makes p wait until the cache has confirmed its stream up to seq.
func (m *Middleman) awaitCache(now causal.Now, p *put, s *stream, seq, hash uint64) {
	s.await(pendingInvalidation{seq, hash, p, now.Mono})
	m.copies.invalidating[hash]++
	p.unconfirmedWaits++
}

// releaseForeignLeaseWaits releases the puts that waited for leases that others had granted.
func (m *Middleman) releaseForeignLeaseWaits(now causal.Now) {
	if len(m.copies.awaitForeignLeases) == 0 || now.Mono < m.copies.foreignLeasesUntil {
		return
	}
	for _, p := range m.copies.awaitForeignLeases {
		m.cacheConfirmed(now, p)
	}
	m.copies.awaitForeignLeases = nil
}
