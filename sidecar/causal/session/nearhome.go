package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// Near copies at level Local (PROTOCOL HON): the home of a hot key gives a lease. While it runs, the home keeps no
// write of the key, and the newest near copy is the answer to a get.

// maxHomeLease is the longest lease of a home to believe.
const maxHomeLease = 10 * time.Second

// getNearAtHome answers a get at level Local at once, if a near copy can, and says up to which HLC everything was
// included.
func (s *Sidecar) getNearAtHome(now causal.Now, ss *session, key []byte, l level) (rec *causal.Record, from causal.HLC,
	ok bool) {
	hash := topology.HashBytes(key)
	if _, copies := l.sources(s, ss); !copies && !s.cfg.Broken.Has(causal.LocalNearBound) {
		return nil, 0, false
	}
	if _, ok := s.cacheAt(now, hash); !ok {
		return nil, 0, false
	}
	slot := topology.Slot(0)
	if s.hasSeveralHomes() {
		slot = topology.SlotOf(string(key))
	}
	rec, from, ok = s.near.FindLeased(now, key, hash, func(r *causal.HomeReply, v causal.Version) bool {
		return s.homeKnows(slot, r, v)
	})
	if ok && !keystate.Identifies(rec) { // of a value that merges, the home has to have heard of each part
		return nil, 0, false
	}
	return rec, from, ok
}

// wantsLease reports whether a read asks the home for a lease on a key.
func (s *Sidecar) wantsLease(now causal.Now, op *Op, key string) bool {
	return s.cfg.MaxNearBytes > 0 && !op.ForUpdate && s.near.IsHot(now, key)
}

// keepLease keeps the lease that the home has given with a reply, counted from when it was asked. Two percent are taken
// off because clocks drift.
func (s *Sidecar) keepLease(now causal.Now, askedAt int64, r *causal.HomeReply) {
	if r.LeaseMs == 0 {
		return
	}
	from := askedAt
	if s.cfg.Broken.Has(causal.LocalNearFromReceipt) {
		from = now.Mono
	}
	term := int64(min(r.LeaseMs, uint64(maxHomeLease.Milliseconds()))) * int64(time.Millisecond)
	s.near.KeepLease(askedAt, from+term-term/50, r)
}

// handleWithdrawal ends a lease, and confirms that.
func (s *Sidecar) handleWithdrawal(now causal.Now, home topology.Node, r causal.HomeReply) {
	if !s.cfg.Broken.Has(causal.LocalNearKept) {
		s.near.EndLease(now, r.Key)
	}
	s.Send(causal.HomeRead{Key: r.Key, Withdrawn: r.Withdrawn}.Message(s.cfg.Self, home))
}
