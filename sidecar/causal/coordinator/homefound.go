package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// What a session has found elsewhere of the key of an operation (PROTOCOL HOO-5). It has read it before it has sent the
// operation, so the home need not know the key. Whatever the home knows that is newer counts.

// admitsFound returns why the home does not go on from what a session has found. As with reads, what clients are shown
// of other data centers is not above the durable ceiling.
func (c *Coordinator) admitsFound(now causal.Now, f *operation.Found) causal.ErrCode {
	switch {
	case f == nil:
	case f.Version.Written() && f.Version.Origin > topology.Origin(c.cfg.Topology.Origins()):
		return causal.ErrType
	case !c.cfg.Types.Accepts(&f.Value):
		return causal.ErrType
	case f.Version.HLC > c.sessionLimit(now):
		return causal.ErrClock
	case f.Version.Origin != c.origin && f.Version.HLC > c.log.durable.Ceiling &&
		!c.cfg.Broken.Has(causal.HomeForgetsCeiling):
		c.clock.Raise(f.Version.HLC) // which renews the ceiling
		return causal.ErrConflict
	}
	return causal.OK
}

// baseWithFound is base for an operation that comes with what its session has found elsewhere, beside what was
// accepted. least is what that has to include of the key, unless the base is newer.
func (h *home) baseWithFound(k *homeKey, b base, isAccepted bool, p *causal.Put, f *operation.Found,
	least causal.HLC) (base, bool) {
	isNewest := !isAccepted || b.rec.Version.Less(f.Version) || h.cfg.Broken.Has(causal.HomePrefersFound)
	if isNewest {
		b = base{rec: causal.Record{Version: f.Version, Value: f.Value}, past: f.Version.HLC, isFound: true}
	}
	b.isCompared, b.upTo = true, f.From
	if b.rec.Version.Written() {
		b.upTo = max(b.upTo, b.rec.Version.HLC) // it overwrites what is older
	}
	if h.cfg.Broken.Has(causal.HomeTrustsFound) {
		return b, true
	}
	isCertain := (f.From >= least || b.rec.Version.Written() && b.rec.Version.HLC > least) &&
		(!isNewest || h.mayShow(k, p, f))
	return b, isCertain && h.knowsPast(p, &b)
}

// joinedBase is what was accepted and what was found, joined. What was found becomes a part of the top with the write
// of the operation, and is shown with that: behind all that is under way, which has not seen it.
func (h *home) joinedBase(b base, isAccepted bool, p *causal.Put, f *operation.Found, least causal.HLC) (base, bool) {
	found := causal.Record{Version: f.Version, Value: f.Value}
	joined := found
	if isAccepted {
		joined = h.cfg.Types.Join(b.rec, found)
	}
	own, past := h.newIn(&joined, &found, &b)
	isLost := len(own) > 0 && own[len(own)-1].HLC > h.from
	if b.rec = joined; h.cfg.Broken.Has(causal.HomePrefersFound) {
		b.rec = found
	}
	b.past, b.upTo, b.isCompared = max(b.past, past), max(b.upTo, f.From), true
	h.clock.Raise(f.Version.HLC) // what is written is above it
	if h.cfg.Broken.Has(causal.HomeTrustsFound) {
		return b, true
	}
	return b, f.From >= least && !isLost && h.cfg.Types.IsExecutable(&b.rec.Value) && h.knowsPast(p, &b)
}

// newIn returns the writes of the own origin that a record has, and what was accepted has not, and the greatest HLC in
// the past of what it has anew; joined is both, as one. A write of the own origin that is neither accepted nor known to
// be complete was lost with an earlier life of the coordinator. What was accepted brings its own past.
func (h *home) newIn(joined, found *causal.Record, accepted *base) (own []causal.Version, past causal.HLC) {
	isOwn := func(v causal.Version) bool { return v.Origin == h.origin && v.Written() }
	if !accepted.rec.Value.Merges() {
		own = h.cfg.Types.Versions(found, isOwn)
		if len(own) > 0 && !accepted.rec.Version.Less(own[len(own)-1]) {
			own = nil
		}
		return own, found.Version.HLC
	}
	had := h.cfg.Types.Versions(&accepted.rec, func(causal.Version) bool { return true })
	for _, v := range h.cfg.Types.Versions(joined, func(v causal.Version) bool { return !slices.Contains(had, v) }) {
		if past = v.HLC; isOwn(v) {
			own = append(own, v)
		}
	}
	return own, past
}

// mayShow reports whether what a session has found of a key, and is newer than all that was accepted of it, may be
// shown now: nobody was shown anything newer, nothing is under way that has to be published first, and it was not lost
// with an earlier life of the coordinator.
func (h *home) mayShow(k *homeKey, p *causal.Put, f *operation.Found) bool {
	v := f.Version
	switch {
	case v.Origin == h.origin && v.Written() && v.HLC > h.from:
		return false
	case k == nil:
		return true
	}
	shown := causal.Put{Key: p.Key, If: v, From: f.From}
	return !h.lacksShown(k, &shown) && !h.mustWait(&causal.HomeRead{}, k, v)
}

// showFound notes that a client is about to be shown what its session has found.
func (h *home) showFound(key string, b *base) {
	if !b.isFound {
		return
	}
	v := b.rec.Version
	h.clock.Raise(v.HLC) // what is written is above it
	if v.Origin != h.origin && v.HLC > h.settled && !h.cfg.Broken.Has(causal.HomeForgetsShown) {
		h.show(key, v)
	}
}

// acceptedBase returns the newest write of a key that was accepted, if the home has it. Of a value that merges it is
// all that was accepted and shown.
func (h *home) acceptedBase(k *homeKey) (base, bool) {
	switch {
	case k == nil || k.isForgotten(): // a top may be what was shown only
		return base{}, false
	case k.under == nil || h.cfg.Broken.Has(causal.HomeExecutesOnPublished):
		b := base{rec: k.top, w: k.w, past: k.past, upTo: k.top.Version.HLC}
		if b.rec.Value.Merges() {
			b.upTo = k.wholeUpTo()
		}
		return b, true
	case k.under.made != nil:
		b := base{rec: k.under.made.rec, w: k.under, past: max(k.past, k.under.foreignPast), upTo: k.under.made.upTo}
		if k.parts != nil && k.parts.isNews { // it was told since
			b.rec = h.cfg.Types.Join(b.rec, k.top)
		}
		return b, true
	}
	return base{rec: k.under.rec, w: k.under, past: k.under.foreignPast, upTo: k.under.rec.Version.HLC}, true
}
