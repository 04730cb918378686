package groups

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// settle ends all faults. The group must then become whole and serve, unless it says why it cannot.
func (w *world) settle() {
	w.checkCounts()
	w.faulty = false
	w.register.downTill = 0
	for _, l := range w.links {
		l.cutTill = 0
	}
	d := w.desiredNames()
	for _, h := range w.hosts {
		h.cutTill, h.pausedTill, h.disk.hungTill, h.disk.slowTill = 0, 0, 0, 0
		h.start()
		h.with(func(g *group.Group, now causal.Now) { g.SetDesired(now, d) })
	}
	if w.becomesWhole() || len(w.Violations) > 0 || w.isFrozenAndDecided() || len(w.Violations) > 0 {
		return
	}
	for range 4 { // the volume of who is asked may have to be emptied first, and another one comes back
		if w.external && w.hostNamed(d.Names[0]).giveUp() && w.becomesWhole() || len(w.Violations) > 0 {
			return
		}
	}
	w.checkLoss()
}

// checkCounts compares what members have counted with what there is. With broken rules they may count wrongly.
func (w *world) checkCounts() {
	for _, h := range w.hosts {
		if h.g == nil || w.broken.Any() {
			continue
		}
		for _, wrong := range h.g.CheckCounts() {
			w.violate("counts: %s: %s", h.id(), wrong)
		}
	}
}

// becomesWhole reports whether the group has all members that it should have, and commits, within a bounded time.
func (w *world) becomesWhole() bool {
	for range 60 {
		w.run(time.Second)
		if len(w.Violations) > 0 {
			return false
		}
		if h := w.primary(); h != nil && w.isWhole(h) && w.commits(h) {
			return true
		}
	}
	return false
}

// primary returns the host that serves in the highest configuration.
func (w *world) primary() (best *host) {
	for _, h := range w.hosts {
		if h.g == nil || !h.serving {
			continue
		}
		if best == nil || h.isAfter(best) {
			best = h
		}
	}
	return best
}

// isWhole reports whether the configuration is as desired.
func (w *world) isWhole(h *host) bool {
	s := h.g.Status()
	if len(s.Config.Members) != w.members || len(s.Pending) > 0 ||
		w.withRegister && s.Config.Nonce != w.register.Config.Nonce {
		return false
	}
	for _, name := range w.desiredNames().Names {
		if !s.Config.Has(w.hostNamed(name).id()) {
			return false
		}
	}
	return s.Config.Primary.Name == w.desiredNames().Names[0]
}

// commits reports whether a primary commits what is appended now.
func (w *world) commits(h *host) bool {
	for range 20 {
		if h.g == nil || !h.serving {
			return false
		}
		before := h.commit
		_ = h.append() // it may be busy
		w.run(time.Second)
		if h.g != nil && h.serving && h.commit > before {
			return true
		}
	}
	return false
}

// isFrozenAndDecided reports whether the group is frozen, and is whole when a person has decided that the register is
// to be believed. The person asks a member of the configuration that came last.
func (w *world) isFrozenAndDecided() bool {
	var best *host
	frozen := false
	for _, h := range w.hosts {
		if h.g == nil {
			continue
		}
		frozen = frozen || h.g.Status().Frozen != ""
		if w.isLeft(h) && (best == nil || h.isAfter(best) || !best.isAfter(h) && h.serving) {
			best = h
		}
	}
	if !frozen || best == nil || !w.register.restored {
		return false
	}
	best.with(func(g *group.Group, now causal.Now) { g.AcceptRegister(now) })
	return w.becomesWhole()
}

// isLeft reports whether a host has an intact volume of the configuration that came last, and knows that it is a
// member.
func (w *world) isLeft(h *host) bool {
	if h.g == nil || h.disk.damaged || !w.register.latest.Has(h.id()) {
		return false
	}
	known := h.g.Status().Config
	return known.Has(h.id())
}

// checkLoss checks a group that is not whole: all volumes of its configuration must be lost, and it must say so.
func (w *world) checkLoss() {
	lost, says := true, false
	for _, h := range w.hosts {
		if h.g == nil {
			continue
		}
		s := h.g.Status()
		says = says || s.Lost || s.Role == group.Broken || s.Frozen != ""
		lost = lost && !w.isLeft(h)
	}
	if lost && says && !w.external { // else somebody has given it up
		w.Losses++
		return
	}
	w.violate("liveness: the group is not whole, with %v: register %s", w.desiredNames().Names,
		w.register.Config.String())
	for _, h := range w.hosts {
		if h.g != nil {
			s := h.g.Status()
			w.violate("%s is %s in %s; commit %d, last %d, pending %v, frozen %q, lost %v", h.id(), s.Role,
				s.Config.String(), s.Commit, s.Last, s.Pending, s.Frozen, s.Lost)
		}
	}
}
