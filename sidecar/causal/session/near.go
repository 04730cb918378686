package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// GetNear answers a get of a session from a near copy (PROTOCOL NEAR), where Do would do so at once. It
// starts no operation, and does not allocate. If it returns false, it has done nothing. latest is Op.Latest. The record
// is valid until the machine gets an input, and its value for ever; neither may be changed.
func (s *Sidecar) GetNear(now causal.Now, id uint64, key []byte, latest bool) (*causal.Record, bool) {
	ss := s.sessions[id]
	if ss == nil || s.cfg.MaxNearBytes == 0 || ss.own.newest[string(key)] != nil || s.lateReplies != nil {
		return nil, false
	}
	if !s.unbound(ss) && !s.cfg.Broken.Has(causal.NearBound) {
		return nil, false
	}
	rec, ok := s.findNear(now, key, s.nearCut(now, ss, key, latest))
	if !ok {
		return nil, false
	}
	ss.opCount++
	s.stats.Gets++
	s.stats.NearHits++
	// a stable version binds nobody, so its slot does not matter
	s.observe(now, ss, foundValue{record: rec, status: causal.Stable, ring: topology.NoRing})
	return rec, true
}

// nearCut returns the cut at which an unbound session reads a key; 0: the newest version.
func (s *Sidecar) nearCut(now causal.Now, ss *session, key []byte, latest bool) causal.HLC {
	if latest || !s.cutUsable(now) {
		return 0
	}
	return max(s.cuts.current.At, s.readBase(ss, key))
}

// findNear returns the near copy of a key that is current at a cut. There is none while the cache that holds the key
// does not answer.
func (s *Sidecar) findNear(now causal.Now, key []byte, cut causal.HLC) (*causal.Record, bool) {
	hash := topology.HashBytes(key)
	if _, ok := s.cacheAt(now, hash); !ok {
		return nil, false
	}
	return s.near.Find(now, key, hash, cut)
}

// answerNear answers a get at once if a near copy can.
func (s *Sidecar) answerNear(now causal.Now, op *Op) bool {
	s.keyBytes = append(s.keyBytes[:0], op.Key...)
	rec, ok := s.GetNear(now, op.Session, s.keyBytes, op.Latest)
	if ok {
		s.results = append(s.results, Result{ID: op.ID, Record: *rec, Outcome: NearOutcome(rec.Version)})
	}
	return ok
}

// NearOutcome is the Outcome of a read that a near copy has answered.
func NearOutcome(v causal.Version) Outcome {
	return Outcome{Version: v, Source: SourceNear, Status: causal.Stable, Ring: topology.NoRing}
}
