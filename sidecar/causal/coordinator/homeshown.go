package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What clients were shown from elsewhere is compared with what the home has by versions. Two origins may write a key
// with the same HLC, and the one of the greater origin is the newer write. What reads elsewhere must include is an HLC:
// it stands for all writes up to there, of all origins (PROTOCOL HOS-3).

// shownBefore is what a write that is under way has gone by: everything up to settled, and shown.
type shownBefore struct {
	settled causal.HLC
	shown   causal.Version
}

// anyOrigin stands for one that is not named: the sidecar is of a version before, or what it shows is that the key was
// deleted by this HLC. It may be the greatest.
const anyOrigin = ^topology.Origin(0)

// comparable returns a version that a client is shown, to be compared with others.
func (h *home) comparable(shown causal.Version) causal.Version {
	switch {
	case h.cfg.Broken.Has(causal.HomeComparesTimes):
		shown.Origin = 0
	case shown.HLC != 0 && shown.Origin == 0:
		shown.Origin = anyOrigin
	}
	return shown
}

// isNews reports whether a read may show what nobody had seen when the oldest write was accepted that is under way: the
// write that it names, one that was shown since, or one that need not be told any more.
func (h *home) isNews(k *homeKey, shown causal.Version) bool {
	top, before := k.top.Version, &k.before
	for _, v := range [...]causal.Version{h.comparable(shown), k.shown} {
		if v.HLC > before.settled && before.shown.Less(v) && top.Less(v) {
			return true
		}
	}
	return h.settled > before.settled && h.settled >= top.HLC
}

// lacksShown reports whether what a session has read of a key lacks what was shown of it.
func (h *home) lacksShown(k *homeKey, p *causal.Put) bool {
	if k.shown.Origin == anyOrigin && k.shown.HLC == p.If.HLC && k.shown != p.If {
		return p.From < k.shown.HLC
	}
	return p.If.Less(k.shown)
}

// toldOf returns what the home was told to be shown of a key, if that is not settled.
func (h *home) toldOf(k *homeKey) causal.Version {
	if k == nil || k.shown.HLC <= h.settled || h.cfg.Broken.Has(causal.HomeComparesTimes) {
		return causal.Version{}
	}
	return k.shown
}

// settledAsTold returns what sidecars are told to be settled. It is not 0, as a home of before has it.
func (h *home) settledAsTold() causal.HLC {
	if h.cfg.Broken.Has(causal.HomeSettlesEarly) {
		return max(h.from, 1)
	}
	return max(h.settled, 1)
}

// settle raises what is settled, and from with it (PROTOCOL HOS-4). If from is ahead of what is complete, what was read
// includes everything up to from that was complete then, and not what is complete since. So from rises each time as
// well, and with it what conditions have to include. That makes puts begin again, so it is done once for each homeLag.
func (h *home) settle() {
	lag := causal.HLCAt(homeLag.Milliseconds())
	settled := h.known.MinSV()
	if settled <= lag {
		return
	}
	switch settled -= lag; {
	case settled >= h.from:
		h.from, h.settled = settled, settled
	case settled >= h.settled+lag:
		h.settled = settled
		h.raiseFrom(0)
	}
}

// raiseFrom makes what reads elsewhere must include, and conditions, include more than before, at least up to hlc.
func (h *home) raiseFrom(hlc causal.HLC) {
	h.from = max(h.from+1, hlc)
	h.clock.Raise(h.from)
}

// isPassed reports whether something of a key may be forgotten: what is accepted by conditions includes it.
func (h *home) isPassed(e *homeEntry) bool {
	if e.shown {
		return e.hlc <= h.settled
	}
	return e.hlc <= h.from
}
