package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What clients were shown from elsewhere is compared with what the home has by versions. Two origins may write a key
// with the same HLC, and the one of the greater origin is the newer write. What reads elsewhere must include is an HLC:
// it stands for all writes up to there, of all origins (PROTOCOL HOS-3).

// shownBefore is what a write that is under way may have gone by: everything up to from, and shown.
type shownBefore struct {
	from  causal.HLC
	shown causal.Version
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
// write that it names, one that was shown since, or what was forgotten since.
func (h *home) isNews(k *homeKey, shown causal.Version) bool {
	top, before := k.top.Version, &k.before
	for _, v := range [...]causal.Version{h.comparable(shown), k.shown} {
		if v.HLC > before.from && before.shown.Less(v) && top.Less(v) {
			return true
		}
	}
	return h.from > before.from && h.from >= top.HLC
}

// lacksShown reports whether what a session has read of a key lacks what was shown of it.
func (h *home) lacksShown(k *homeKey, p *causal.Put) bool {
	if k.shown.Origin == anyOrigin && k.shown.HLC == p.If.HLC && k.shown != p.If {
		return p.From < k.shown.HLC
	}
	return p.If.Less(k.shown)
}

// toldOf returns what the home was told to be shown of a key, if that is above all that it has forgotten.
func (h *home) toldOf(k *homeKey) causal.Version {
	if k == nil || k.shown.HLC <= h.from || h.cfg.Broken.Has(causal.HomeComparesTimes) {
		return causal.Version{}
	}
	return k.shown
}
