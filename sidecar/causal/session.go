package causal

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// restriction is a version that a session read while it was in-flight (PROTOCOL §3).
type restriction struct {
	version Version
	slot    topology.Slot
	at      uint64 // operation counter when it was read
	since   int64  // monotonic; when it was read or last asked for
	rings   topology.RingSet
	clean   topology.RingSet // rings that answered notify-after
}

// ownWrite is an acknowledged put of the session until it is complete.
type ownWrite struct {
	version  Version
	key      string
	value    Value
	complete bool   // and yet above the cut that the session reads at
	gone     bool   // it is in own no more
	dropped  bool   // the value fell out of memory: the coordinator's log has it
	issued   uint64 // operation counter when the put was sent
	cc       topology.Node
}

// ownOverhead is what an own write costs beside its key and value, in bytes.
const ownOverhead = 150

func (w *ownWrite) size() int { return len(w.key) + w.value.Size() + ownOverhead }

// session is one causal session.
//
// Invariant: everything that the session has seen is complete, or processed in every ring of rings(), or an own write in
// own. Dependencies of what it has seen are in the same places.
type session struct {
	id       uint64
	ops      uint64 // operation counter
	restrict []*restriction
	bound    topology.RingSet // cached rings(); valid if boundOK
	boundOK  bool
	own      map[string]*ownWrite // newest own incomplete write of a key
	pending  map[Version]*ownWrite
	order    []*ownWrite // of pending, as acknowledged; some may be complete
	kept     []*ownWrite // of own, complete, as they became that
	ownBytes int
	recent   [8]Version // own writes that completed lately: a middleman may not know it yet
	recentAt int
	seen     HLC // greatest foreign HLC observed
	floor    HLC // greatest HLC observed or written: the next put is above it
	ownDone  HLC // greatest HLC of an own complete write
	last     Dep // newest own put, while incomplete
	covered  uint64
	cut      HLC // of the newest snapshot read

	seq         uint64
	cc          topology.Node
	outstanding int     // puts not answered
	held        []*call // those of them that were refused
	active      bool
	closed      bool
	latest      Outcome
}

// rings returns the rings that have everything the session has seen.
func (s *Sidecar) rings(ss *session) topology.RingSet {
	if ss.boundOK {
		return ss.bound
	}
	all := s.home
	for _, r := range ss.restrict {
		all &= r.rings
	}
	if s.cfg.Broken.has(TwoRings) && all == 0 {
		all = ss.restrict[len(ss.restrict)-1].rings
	}
	if s.cfg.Broken.has(ForgetBind) {
		all = s.home
	}
	ss.bound, ss.boundOK = all, true
	return all
}

// unbound reports whether the session may read anywhere, caches included.
func (s *Sidecar) unbound(ss *session) bool {
	return len(ss.restrict) == 0 || s.cfg.Broken.has(ForgetBind)
}

// mine reports whether v is an own write of the session: its past is the session's own, so it binds nothing.
func (ss *session) mine(v Version) bool {
	if _, ok := ss.pending[v]; ok {
		return true
	}
	return slices.Contains(ss.recent[:], v)
}

// observe takes a read value into the session's past. It refuses an in-flight one that would leave no ring with
// everything: that answer must be thrown away and read again from rings().
func (s *Sidecar) observe(now Now, ss *session, rec Record, slot topology.Slot, status Status, ring topology.RingID) bool {
	v := rec.Version
	if !v.Written() {
		ss.seen = max(ss.seen, v.HLC) // deleted at or below: an own write that this overtook must not be served again
		return true
	}
	if ss.mine(v) {
		return true
	}
	if status == InFlight && (s.cfg.AskEach || !s.known.Complete(v)) {
		rings := topology.RingsOf(ring)
		if !s.cfg.OneRing {
			rings |= s.known.RingsWith(v)
		}
		if s.rings(ss)&rings == 0 && !s.cfg.Broken.has(TwoRings) {
			return false
		}
		s.bind(now, ss, v, slot, rings)
	}
	ss.seen = max(ss.seen, v.HLC)
	ss.floor = max(ss.floor, v.HLC)
	return true
}

// bind adds a restriction, or what is newly known of one.
func (s *Sidecar) bind(now Now, ss *session, v Version, slot topology.Slot, rings topology.RingSet) {
	ss.boundOK = false
	s.activate(ss)
	for _, r := range ss.restrict {
		if r.version == v {
			r.rings |= rings
			return
		}
	}
	if len(ss.restrict) == 0 {
		s.stats.Bindings++
	}
	ss.ops++ // a put that is under way was sent before this read, and must not lift it
	since := now.Mono
	if s.cfg.AskEach {
		since -= int64(s.cfg.LagBound) // at once
	}
	ss.restrict = append(ss.restrict, &restriction{version: v, slot: slot, at: ss.ops, since: since, rings: rings})
}

// lift drops the restrictions for which f holds.
func (ss *session) lift(f func(*restriction) bool) {
	n := len(ss.restrict)
	ss.restrict = slices.DeleteFunc(ss.restrict, f)
	if len(ss.restrict) != n {
		ss.boundOK = false
	}
}

// completeOwn takes the news that an own write is in all rings and out of all caches. Everything that it depends on is
// too: so are the reads before it (PROTOCOL §3, lifting by transitivity).
func (s *Sidecar) completeOwn(ss *session, w *ownWrite) {
	v := w.version
	delete(ss.pending, v)
	above := s.cfg.Snapshot && ss.own[w.key] == w && s.cut < v.HLC && !s.cfg.Broken.has(CutWithoutOwn)
	if above && !w.dropped {
		w.complete = true
		ss.kept = append(ss.kept, w)
		s.activate(ss)
	} else {
		if above {
			ss.seen = max(ss.seen, v.HLC) // to be read like any other
		}
		ss.disown(w)
	}
	ss.recent[ss.recentAt%len(ss.recent)] = v
	ss.recentAt++
	ss.ownDone = max(ss.ownDone, v.HLC)
	if ss.last.Version == v {
		ss.last = Dep{}
	}
	ss.lift(func(r *restriction) bool { return r.at <= w.issued || s.cfg.Broken.has(LiftByEarlierPut) })
}

// disown forgets the value of an own write.
func (ss *session) disown(w *ownWrite) {
	if ss.own[w.key] == w {
		delete(ss.own, w.key)
	}
	if !w.dropped && !w.gone {
		ss.ownBytes -= w.size()
	}
	w.gone = true
}

// overlaid drops the complete own writes that are not above the cut any more.
func (s *Sidecar) overlaid(ss *session) {
	n := 0
	for n < len(ss.kept) && ss.kept[n].version.HLC <= s.cut {
		ss.disown(ss.kept[n])
		n++
	}
	clear(ss.kept[:n])
	ss.kept = ss.kept[n:]
}

// sweep applies the vectors to a session, and reports whether anything is left that they may change.
func (s *Sidecar) sweep(ss *session) bool {
	for _, r := range ss.restrict {
		if rings := r.rings | s.known.RingsWith(r.version); rings != r.rings && !s.cfg.OneRing {
			r.rings, ss.boundOK = rings, false
		}
	}
	if !s.cfg.AskEach {
		ss.lift(func(r *restriction) bool { return s.known.Complete(r.version) })
	}
	// Own writes stand in the order of acknowledgement, and mostly complete in it.
	n := 0
	for ; n < len(ss.order); n++ {
		w := ss.order[n]
		if ss.pending[w.version] != w {
			continue
		}
		if !s.known.Complete(w.version) {
			break
		}
		s.completeOwn(ss, w)
	}
	clear(ss.order[:n])
	ss.order = ss.order[n:]
	s.overlaid(ss)
	return len(ss.restrict) > 0 || len(ss.pending) > 0 || len(ss.kept) > 0
}

func (s *Sidecar) activate(ss *session) {
	if !ss.active {
		ss.active = true
		s.active = append(s.active, ss)
	}
}

// depsFor returns what a put of the session must follow: the in-flight reads since the newest acknowledged put, and that
// put.
func (s *Sidecar) depsFor(ss *session) []Dep {
	var deps []Dep
	for _, r := range ss.restrict {
		if r.at > ss.covered {
			deps = append(deps, Dep{r.version, r.slot})
		}
	}
	if !ss.last.Version.IsZero() {
		deps = append(deps, ss.last)
	}
	return deps
}

// wrote takes the acknowledgement of a put.
func (s *Sidecar) wrote(ss *session, c *call, v Version) {
	w := &ownWrite{version: v, key: c.op.Key, value: c.op.Value, issued: c.issued, cc: c.target}
	ss.floor = max(ss.floor, v.HLC)
	ss.covered = max(ss.covered, c.issued)
	if ss.last.Version.Less(v) {
		ss.last = Dep{v, c.slot}
	}
	ss.ownBytes += w.size()
	if old := ss.own[w.key]; old == nil || old.version.Less(v) {
		ss.own[w.key] = w
	}
	if s.known.Complete(v) || v.HLC <= ss.ownDone { // a later one is complete, so this one is
		s.completeOwn(ss, w)
		return
	}
	ss.pending[v] = w
	ss.order = append(ss.order, w)
	s.activate(ss)
	if ss.ownBytes > s.cfg.MaxOwnBytes {
		s.shed(ss)
	}
}

// shed drops the values of own writes from memory, oldest first, until half of the bound is free.
func (s *Sidecar) shed(ss *session) {
	for len(ss.kept) > 0 && ss.ownBytes > s.cfg.MaxOwnBytes/2 {
		ss.seen = max(ss.seen, ss.kept[0].version.HLC) // to be read like any other
		ss.disown(ss.kept[0])
		ss.kept = ss.kept[1:]
	}
	for _, w := range ss.order {
		if ss.ownBytes <= s.cfg.MaxOwnBytes/2 {
			return
		}
		if ss.pending[w.version] == w && !w.dropped {
			ss.ownBytes -= w.size()
			w.value.Data, w.dropped = nil, true
		}
	}
}
