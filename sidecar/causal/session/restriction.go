package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// restriction is a version that a session read while it was in-flight (PROTOCOL SES-1).
type restriction struct {
	version causal.Version
	slot    topology.Slot
	opCount uint64           // the session's when the restriction was added
	askedAt int64            // monotonic: when it was added, or notify-after was last sent
	rings   topology.RingSet // rings that are known to have the version
	// complete says that a ring has answered that the version is complete.
	complete bool
	// prefix says that it stands for all writes of the origin up to its version: what shards say of that one does not
	// count.
	prefix bool
	clean  topology.RingSet // rings that answered notify-after: the version is there, and out of the caches
}

// restrictions are the in-flight versions that a session has read. While there are any, the session is bound to the
// rings that have all of them.
type restrictions struct {
	list []*restriction
	// index has the list by version, while it is long.
	index map[causal.Version]*restriction
	// allowed is the result of Sidecar.allowedRings, while cached is set.
	allowed topology.RingSet
	cached  bool
}

// indexedFrom is the number of restrictions from which on they are found by an index.
const indexedFrom = 32

func (rs *restrictions) find(v causal.Version) *restriction {
	if rs.index != nil {
		return rs.index[v]
	}
	for _, r := range rs.list {
		if r.version == v {
			return r
		}
	}
	return nil
}

// add adds a restriction of a version that has none.
func (rs *restrictions) add(r *restriction) {
	rs.list, rs.cached = append(rs.list, r), false
	switch {
	case rs.index != nil:
		rs.index[r.version] = r
	case len(rs.list) >= indexedFrom:
		rs.index = make(map[causal.Version]*restriction, 2*indexedFrom)
		for _, r := range rs.list {
			rs.index[r.version] = r
		}
	}
}

// addRings adds rings to those that have r.
func (rs *restrictions) addRings(r *restriction, rings topology.RingSet) {
	if rings |= r.rings; rings != r.rings {
		r.rings, rs.cached = rings, false
	}
}

// lift drops the restrictions for which f returns true.
func (rs *restrictions) lift(f func(*restriction) bool) {
	n := len(rs.list)
	rs.list = slices.DeleteFunc(rs.list, func(r *restriction) bool {
		lifted := f(r)
		if lifted {
			delete(rs.index, r.version)
		}
		return lifted
	})
	if len(rs.list) != n {
		rs.cached = false
	}
	if len(rs.list) < indexedFrom/2 {
		rs.index = nil
	}
}

// allowedRings returns the rings that have everything the session has seen: rings() in PROTOCOL SES.
func (s *Sidecar) allowedRings(ss *session) topology.RingSet {
	rs := &ss.restrictions
	if rs.cached {
		return rs.allowed
	}
	rings := s.readable
	for _, r := range rs.list {
		rings &= r.rings
	}
	if s.cfg.Broken.Has(causal.TwoRings) && rings == 0 {
		rings = rs.list[len(rs.list)-1].rings
	}
	if s.cfg.Broken.Has(causal.ForgetBind) {
		rings = s.readable
	}
	rs.allowed, rs.cached = rings, true
	return rings
}

// unbound reports whether the session may read anywhere, caches included.
func (s *Sidecar) unbound(ss *session) bool {
	return len(ss.restrictions.list) == 0 || s.cfg.Broken.Has(causal.ForgetBind)
}

// wouldRestrict reports whether reading v in-flight would add a restriction.
func (s *Sidecar) wouldRestrict(ss *session, v causal.Version) bool {
	return v.Written() && !ss.own.contains(v) && !s.stability.Complete(v) && ss.restrictions.find(v) == nil
}

// bind adds restrictions for what of a value is in-flight. It returns false, and adds none, if they would leave no ring
// to read from.
func (s *Sidecar) bind(now causal.Now, ss *session, f *foundValue) bool {
	unstable, newest := f.unstable, [1]causal.Version{f.record.Version}
	if keystate.Identifies(&f.record) {
		unstable = newest[:]
	} else if s.cfg.Broken.Has(causal.UnstablePartUnbound) {
		unstable = unstable[max(0, len(unstable)-1):]
	}
	allowed, found := s.allowedRings(ss), topology.RingsOf(f.ring)
	for _, v := range unstable {
		if s.binds(ss, v) {
			allowed &= s.ringsWith(v, found)
		}
	}
	if allowed == 0 && !s.cfg.Broken.Has(causal.TwoRings) {
		return false
	}
	for _, v := range unstable {
		if s.binds(ss, v) {
			s.restrict(now, ss, v, f.slot, s.ringsWith(v, found))
		}
	}
	return true
}

// binds reports whether reading v in-flight binds the session.
func (s *Sidecar) binds(ss *session, v causal.Version) bool {
	return !ss.own.contains(v) && (s.cfg.Comparison.WithoutSVLifting || !s.stability.Complete(v))
}

// ringsWith returns the rings that are known to have v, which was found in some.
func (s *Sidecar) ringsWith(v causal.Version, found topology.RingSet) topology.RingSet {
	if s.cfg.Comparison.WithoutRingSets {
		return found
	}
	return found | s.stability.RingsWith(v)
}

// newRestrictions returns how many restrictions reading a value would add.
func (s *Sidecar) newRestrictions(ss *session, f *foundValue) (n int) {
	switch {
	case f.status != causal.InFlight:
	case !keystate.Identifies(&f.record):
		for _, v := range f.unstable {
			if s.wouldRestrict(ss, v) {
				n++
			}
		}
	case s.wouldRestrict(ss, f.record.Version):
		n = 1
	}
	return n
}

// restrict adds a restriction, or rings to the one that there is for v.
func (s *Sidecar) restrict(now causal.Now, ss *session, v causal.Version, slot topology.Slot, rings topology.RingSet) {
	s.activate(ss)
	if r := ss.restrictions.find(v); r != nil {
		ss.restrictions.addRings(r, rings)
		return
	}
	if len(ss.restrictions.list) == 0 {
		s.stats.Bindings++
		if !s.bound { // ticks are rare while no session is
			s.bound, s.tickedAt = true, now.Mono
		}
	}
	ss.opCount++ // an unanswered put was sent before this read, and must not lift it
	askedAt := now.Mono
	if s.cfg.Comparison.WithoutSVLifting {
		askedAt -= int64(s.cfg.NotifyAfterDelay) // send notify-after at the next tick
	}
	ss.restrictions.add(&restriction{version: v, slot: slot, opCount: ss.opCount, askedAt: askedAt, rings: rings})
}

// askOverdueRestrictions sends notify-after for the restrictions that SV has not lifted in time (PROTOCOL SES-9).
func (s *Sidecar) askOverdueRestrictions(now causal.Now, ss *session) {
	for _, r := range ss.restrictions.list {
		if now.Mono-r.askedAt >= int64(s.cfg.NotifyAfterDelay) {
			r.askedAt = now.Mono
			s.sendNotifyAfter(r)
		}
	}
}

// sendNotifyAfter asks every ring that has not reported r clean to tell when it has processed r.
func (s *Sidecar) sendNotifyAfter(r *restriction) {
	if r.prefix {
		return
	}
	for ring := range s.cfg.Topology.Rings {
		if id := topology.RingID(ring); !r.clean.Has(id) || len(s.exclusions) > 0 {
			// a shard that has it may tell that it is complete
			s.Send(causal.DepCheck{Version: r.version, Slot: r.slot}.Message(s.cfg.Self,
				s.cfg.Topology.Owner(id, r.slot)))
		}
	}
}

// handleDepStatus takes a middleman's answer to notify-after.
func (s *Sidecar) handleDepStatus(now causal.Now, from topology.Node, d causal.DepStatus) {
	changed := false
	for _, ss := range s.active {
		r := ss.restrictions.find(d.Version)
		if r == nil || !s.recordDepStatus(r, from, d) {
			continue
		}
		changed, ss.restrictions.cached = true, false
		if s.isClean(r) {
			ss.restrictions.lift(s.isClean)
		}
	}
	for _, c := range s.blocked {
		if c.resume == nil || c.finished {
			continue
		}
		for i := range c.resume.restrictions {
			if r := &c.resume.restrictions[i]; r.version == d.Version {
				changed = s.recordDepStatus(r, from, d) || changed
			}
		}
	}
	if changed {
		s.retryBlocked(now)
	}
}

// isClean reports whether a version is clean in all rings, by their answers to notify-after.
func (s *Sidecar) isClean(r *restriction) bool {
	return r.complete || r.clean == s.cfg.Topology.AllRings()
}

// recordDepStatus reports whether it has learned something of r. Only the owner of its slot can tell. That the write is
// complete is believed of the own ring, which answers the session anyway, and of other rings only while a data center
// is excluded, whose shards are not asked.
func (s *Sidecar) recordDepStatus(r *restriction, from topology.Node, d causal.DepStatus) bool {
	if from != s.cfg.Topology.Owner(d.Ring, r.slot) || r.prefix {
		return false
	}
	rings, clean, complete := r.rings, r.clean, r.complete
	if !s.cfg.Comparison.WithoutRingSets {
		r.rings = r.rings.With(d.Ring)
	}
	r.complete = r.complete || d.Complete &&
		(d.Ring == s.cfg.Topology.RingOf(s.cfg.Self.DC) || len(s.exclusions) > 0)
	if d.Clean {
		r.clean = r.clean.With(d.Ring)
	}
	return r.rings != rings || r.clean != clean || r.complete != complete
}
