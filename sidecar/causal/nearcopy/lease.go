package nearcopy

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Leases of homes (PROTOCOL HON): while one runs, the home of the key keeps no write of it, so the newest complete
// version, which a copy may be, is the answer at level Local. A lease belongs to the copy of its key, and goes with it.

// homeLease is a lease of the home of a key; the zero homeLease: there is none.
type homeLease struct {
	// from, settled and shown are those of the answer that has brought the lease: they say what the home has heard of.
	from, settled causal.HLC
	shown         causal.Version
	until         int64 // monotonic
}

// endedBuckets is the number of places that remember when leases were withdrawn; keys whose hashes share one count
// together.
const endedBuckets = 1024

// IsHot reports whether a key is hot.
func (s *Store) IsHot(now causal.Now, key string) bool {
	if !s.isOn() {
		return false
	}
	s.decay(now)
	return s.reads[topology.Hash(key)%hotCounters] >= s.cfg.HotReads
}

// KeepLease keeps a lease on a key that was asked for at some time, if there is a copy of the key. One that was asked
// for before the newest that was withdrawn may be that one: the network has changed their order.
func (s *Store) KeepLease(askedAt, until int64, answer *causal.HomeReply) {
	hash := topology.Hash(answer.Key)
	if e, _ := s.entries.Peek(hash); e != nil && e.key == answer.Key && askedAt > s.endedAt[hash%endedBuckets] &&
		until >= e.lease.until {
		e.lease = homeLease{answer.From, answer.Settled, answer.Shown, until}
	}
}

// EndLease ends the lease on a key.
func (s *Store) EndLease(now causal.Now, key string) {
	hash := topology.Hash(key)
	s.endedAt[hash%endedBuckets] = now.Mono
	if e, _ := s.entries.Peek(hash); e != nil && e.key == key {
		e.lease = homeLease{}
	}
}

// FindLeased returns the copy of a key that may be read at level Local, as Find does, if the home has heard of it, and
// what reads elsewhere must include by the home.
func (s *Store) FindLeased(now causal.Now, key []byte, hash uint64,
	hasHeard func(*causal.HomeReply, causal.Version) bool) (rec *causal.Record, from causal.HLC, ok bool) {
	e, _ := s.entries.Peek(hash)
	if e == nil || e.lease.until <= now.Mono || e.key != string(key) {
		return nil, 0, false
	}
	l := &e.lease
	answer := causal.HomeReply{From: l.from, Settled: l.settled, Shown: l.shown}
	if !hasHeard(&answer, e.Record.Version) && !s.cfg.Broken.Has(causal.LocalNearUnheard) {
		return nil, 0, false
	}
	rec, ok = s.find(now, e, hash, 0)
	if !ok && s.cfg.Broken.Has(causal.LocalNearOlder) {
		return &e.Record, l.from, e.from.isLeased(now)
	}
	return rec, l.from, ok
}
