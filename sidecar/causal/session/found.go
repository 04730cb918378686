package session

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// An operation of a key that its home has probably forgotten is sent with what was found of the key elsewhere
// (PROTOCOL HOO-5): the home goes on from that, or from what it knows that is newer. So it is read and written with two
// messages each, as at other levels, and those of a pipeline together.

const (
	// knownFor is for how long after this sidecar has written a key its home is expected to know it. The home does for
	// 500 ms after the write is complete.
	knownFor = 300 * time.Millisecond
	// comparedFor is for how long after this sidecar has read a key elsewhere, and written it, its home is expected to
	// execute operations that were not. The home does for a second.
	comparedFor = 800 * time.Millisecond
	// knownKeys is how many keys are remembered that were written a moment ago.
	knownKeys = 1 << 14
)

// writtenKeys are keys that the sidecar has written a moment ago, by their hash. Two keys may have one place: it is a
// guess, and the home refuses what it does not know.
type writtenKeys [knownKeys]writtenKey

// writtenKey says until when the home of a key is expected to know it, and to execute operations that come without what
// was found elsewhere; both monotonic.
type writtenKey struct {
	hash                   uint64
	knownUntil, comparedTo int64
	// whole is up to which HLC the home is expected to have everything of the key, if its value merges.
	whole causal.HLC
}

func (w *writtenKeys) at(key string) (e *writtenKey, hash uint64) {
	hash = topology.Hash(key)
	return &w[hash%knownKeys], hash
}

// note notes that a key was written, by a put that was started at a time: by one whose session has read the key
// elsewhere, too, or by an operation that came without. whole is up to which HLC the home has everything of the key by
// that.
func (w *writtenKeys) note(startedAt int64, key string, isCompared bool, whole causal.HLC) {
	e, hash := w.at(key)
	switch {
	case e.hash == hash:
		e.whole = max(e.whole, whole)
	case isCompared:
		*e = writtenKey{hash: hash, whole: whole}
	default:
		return
	}
	if e.knownUntil = startedAt + int64(knownFor); isCompared {
		e.comparedTo = startedAt + int64(comparedFor)
	}
}

// forget notes that the home of a key does not know it.
func (w *writtenKeys) forget(key string) {
	if e, hash := w.at(key); e.hash == hash {
		*e = writtenKey{}
	}
}

// has reports whether the home of a key is expected to know it, and to have everything of it up to an HLC.
func (w *writtenKeys) has(now causal.Now, key string, least causal.HLC) bool {
	e, hash := w.at(key)
	return e.hash == hash && now.Mono < min(e.knownUntil, e.comparedTo) && least <= e.whole
}

// noteWritten notes the keys of a put that was accepted, and started at a time. written is what an operation has made.
func (s *Sidecar) noteWritten(c *call, startedAt int64, written causal.Value) {
	switch {
	case !c.level.asksHome():
	case c.isOperation():
		s.written.note(startedAt, c.op.Key, operation.HasFound(c.op.Value), wholeBy(written, c.op.From))
	case c.op.Commit == nil:
		s.written.note(startedAt, c.op.Key, true, wholeBy(c.op.Value, 0))
	default:
		for i := range c.op.Commit {
			if k := &c.op.Commit[i]; !k.ReadOnly {
				s.written.note(startedAt, k.Key, true, wholeBy(k.Record.Value, 0))
			}
		}
	}
}

// wholeBy returns up to which HLC the home of a key has everything of it when it has accepted a value, which was made
// of what includes everything up to from. A register is newer than what any session has seen.
func wholeBy(v causal.Value, from causal.HLC) causal.HLC {
	if v.Merges() {
		return from
	}
	return causal.NoLimit
}

// NeedsFound reports whether an operation of a key should be sent with what a get Elsewhere finds of it: it may be
// sent, and the home is not expected to know the key, with all that the session may have seen of it.
func (s *Sidecar) NeedsFound(now causal.Now, id uint64, key string) bool {
	ss := s.sessions[id]
	return ss != nil && !s.written.has(now, key, max(ss.seen, ss.past.greatest([]string{key}))) &&
		s.mayShip(now, ss, key, topology.SlotOf(key))
}

// isNear reports whether a shard of the own data center has the key of a get Elsewhere. Then the cache is not asked:
// its copy would mostly be outdated, and is outdated by what the operation writes.
func (s *Sidecar) isNear(now causal.Now, c *call) bool {
	ring, ok := s.routes.Nearest(now, c.slot, s.allowedRings(c.session))
	return ok && s.cfg.Topology.Owner(ring, c.slot).DC == s.cfg.Self.DC
}

// isFoundComplete reports whether all that was found is complete, but for what the home knows.
func (s *Sidecar) isFoundComplete(c *call, found *causal.GetReply) bool {
	if !found.Record.Value.Merges() {
		return found.Status == causal.Stable
	}
	return !slices.ContainsFunc(found.Unstable, func(v causal.Version) bool {
		return !s.isOfHome(causal.Dep{Version: v, Slot: c.slot})
	})
}

// takeFoundOnly answers a get Elsewhere. What is in flight is no answer, since only some sessions see it, nor is what
// an operation is not sent with: the operation is then executed here. But what the home of the key has accepted a
// moment ago it knows: the operation is sent without.
//
// The session has not seen what was found: the home may know better. It has when the operation is answered, which says
// how new that is.
func (s *Sidecar) takeFoundOnly(now causal.Now, c *call, r *causal.GetReply) {
	rec := r.Record
	f := operation.Found{Value: rec.Value}
	isSeen := s.isFoundComplete(c, r) || !rec.Value.Merges() && c.session.past.hasRead(c.op.Key, &rec)
	isOwnKnown := c.own == nil || c.own.value.Merges() // the home joins it with what was found
	if !isSeen || !isOwnKnown || !f.CanBeSent() || !s.cfg.Types.IsExecutable(&rec.Value) {
		if isSeen || !s.isOfHome(causal.Dep{Version: rec.Version, Slot: c.slot}) {
			s.unship(now, c.op.Key)
		}
		s.fail(c, causal.ErrConflict)
		return
	}
	s.finish(c, Result{Record: rec, From: min(c.home.from, c.home.complete), Outcome: Outcome{Version: rec.Version,
		Source: s.sourceOfGet(c, r), Status: causal.Stable, Ring: r.Ring}})
}
