package session

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// GetNear answers a get of a session from a near copy (PROTOCOL NEAR), where Do would do so at once. It
// starts no operation, and does not allocate. If it returns false, Do is to be called. of is Op.Level. The record is
// valid until the machine gets an input, and its value for ever; neither may be changed.
func (s *Sidecar) GetNear(now causal.Now, id uint64, key []byte, of causal.Level) (*causal.Record, bool) {
	rec, _, ok := s.getNear(now, id, key, of)
	return rec, ok
}

// getNear is GetNear, and says at level Local up to which HLC everything was included.
func (s *Sidecar) getNear(now causal.Now, id uint64, key []byte, of causal.Level) (rec *causal.Record, from causal.HLC,
	ok bool) {
	ss, l := s.sessions[id], s.levelOf(of)
	if ss == nil || s.cfg.MaxNearBytes == 0 || ss.own.newest[string(key)] != nil || s.lateReplies != nil {
		return nil, 0, false
	}
	if l.asksHome() {
		rec, from, ok = s.getNearAtHome(now, ss, key, l)
	} else {
		s.leaveHome(now, ss)
		if _, copies := l.sources(s, ss); copies || s.cfg.Broken.Has(causal.NearBound) {
			rec, ok = s.findNear(now, key, l.nearCut(s, now, ss, key))
		}
	}
	if !ok {
		return nil, 0, false
	}
	ss.opCount++
	s.stats.Gets++
	s.stats.NearHits++
	// a stable version binds nobody, so its slot does not matter
	l.observe(s, now, ss, foundValue{record: *rec, status: causal.Stable, ring: topology.NoRing})
	return rec, from, true
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
	if op.ForUpdate || op.Elsewhere {
		return false
	}
	s.keyBytes = append(s.keyBytes[:0], op.Key...)
	rec, from, ok := s.getNear(now, op.Session, s.keyBytes, op.Level)
	if ok {
		s.results = append(s.results,
			Result{ID: op.ID, Record: *rec, From: from, Outcome: NearOutcome(rec.Version)})
	}
	return ok
}

// NearOutcome is the Outcome of a read that a near copy has answered.
func NearOutcome(v causal.Version) Outcome {
	return Outcome{Version: v, Source: SourceNear, Status: causal.Stable, Ring: topology.NoRing}
}

// AnswersWithout is that of a cache, for the near copies of this sidecar.
func (s *Sidecar) AnswersWithout(now causal.Now, key string, v causal.Version) (causal.Version, bool) {
	return s.near.AnswersWithout(now, key, v)
}
