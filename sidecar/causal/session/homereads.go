package session

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// homeReads is what a session has read at the homes of its data center and is not complete (PROTOCOL HOM-5, HOM-10).
type homeReads struct {
	// upTo has the greatest version of each home, in the order in which it was first read there.
	upTo []causal.Version
	// named are the writes that the next put names by their ids, of a data center with several homes. With one home the
	// put names the greatest HLC, and follows all that the home has accepted.
	named []namedRead
	// unnamed is the newest write that is not among these, since it was read while there was one home only.
	unnamed causal.Version
}

// namedRead is a write that was read at a home, with the opCount of the session.
type namedRead struct {
	dep     causal.Dep
	opCount uint64
}

// newest returns the greatest HLC; 0: none.
func (h *homeReads) newest() (hlc causal.HLC) {
	for _, v := range h.upTo {
		hlc = max(hlc, v.HLC)
	}
	return hlc
}

// at returns the greatest HLC of an origin; 0: none.
func (h *homeReads) at(o topology.Origin) causal.HLC {
	for _, v := range h.upTo {
		if v.Origin == o {
			return v.HLC
		}
	}
	return 0
}

// add notes that writes of a home up to v count as read.
func (h *homeReads) add(v causal.Version) {
	for i := range h.upTo {
		if h.upTo[i].Origin == v.Origin {
			h.upTo[i].HLC = max(h.upTo[i].HLC, v.HLC)
			return
		}
	}
	h.upTo = append(h.upTo, v)
}

// noteUnnamed notes that a write was read of the only home.
func (h *homeReads) noteUnnamed(v causal.Version) {
	if h.unnamed.Less(v) {
		h.unnamed = v
	}
}

// name makes the next put name a write.
func (h *homeReads) name(d causal.Dep, opCount uint64) {
	for i := len(h.named) - 1; i >= 0; i-- {
		if h.named[i].dep == d {
			h.named[i].opCount = opCount
			return
		}
	}
	h.named = append(h.named, namedRead{d, opCount})
}

// drop drops what is complete, and returns the greatest HLC of it.
func (h *homeReads) drop(isComplete func(causal.Version) bool) (done causal.HLC) {
	h.upTo = slices.DeleteFunc(h.upTo, func(v causal.Version) bool {
		complete := isComplete(v)
		if complete {
			done = max(done, v.HLC)
		}
		return complete
	})
	h.named = slices.DeleteFunc(h.named, func(r namedRead) bool { return isComplete(r.dep.Version) })
	if !h.unnamed.IsZero() && isComplete(h.unnamed) {
		h.unnamed = causal.Version{}
	}
	return done
}

// inPast returns how many in-flight versions a session has read: its next put may have to name all of them.
func (ss *session) inPast() int { return len(ss.restrictions.list) + len(ss.local.named) }

// homeOf returns the home of a slot.
func (s *Sidecar) homeOf(slot topology.Slot) topology.Node {
	if s.cfg.Broken.Has(causal.HomeOfAnyKey) {
		return topology.Node{DC: s.cfg.Self.DC, Part: topology.Coordinator,
			Index: s.cfg.Self.Index % uint64(s.cfg.Topology.DCs[s.cfg.Self.DC].Coordinators)}
	}
	return s.cfg.Topology.HomeOf(s.cfg.Self.DC, slot, s.homeCount())
}

// homeCount returns how many homes the data center has, as the sidecar knows it. If that is wrong, a coordinator
// refuses what it is not the home of, and tells the number (PROTOCOL HOC).
func (s *Sidecar) homeCount() int {
	if s.homes.Number == 0 {
		return s.cfg.Topology.DCs[s.cfg.Self.DC].Coordinators
	}
	return int(s.homes.Count)
}

// HomeOf returns the home of a slot, as the sidecar knows it.
func (s *Sidecar) HomeOf(slot topology.Slot) topology.Node { return s.homeOf(slot) }

// hasSeveralHomes reports whether the data center has several homes, or is about to.
func (s *Sidecar) hasSeveralHomes() bool {
	return s.homeCount() > 1 || s.cfg.Topology.DCs[s.cfg.Self.DC].RunningCoordinators() > 1
}

// handleHomes takes how many homes there are, from a coordinator that is about to refuse something.
func (s *Sidecar) handleHomes(now causal.Now, from topology.Node, h causal.Homes) {
	if from.DC != s.cfg.Self.DC || h.Count == 0 || h.Count > topology.MaxCoordinators {
		return
	}
	s.coordinators.toldHomes[from] = now.Mono
	if h.Number <= s.homes.Number {
		return
	}
	s.homes = h
	s.awaitAgain(now, func(topology.Node) bool { return true })
	for _, c := range s.calls {
		switch {
		case c.finished:
		case c.home != nil && c.home.retryAt != causal.Never:
			s.askHome(now, c)
		case c.mget != nil && len(c.mget.atHome.homes) > 0: // also one that reads elsewhere: it may have to tell others
			s.askHomeOfKeys(now, c)
		}
	}
}

// refusedByHome takes that a coordinator has refused a put. If it is not the home of the key, the put goes to that.
// While slots move they have no home: it is tried again soon.
func (s *Sidecar) refusedByHome(now causal.Now, c *call) {
	told, was := s.coordinators.toldHomes[c.target]
	switch {
	case !s.putsAtHome(c.session) || !was || now.Mono > told+int64(homeRetry):
		s.coordinators.refused(now, c.target, refusalSuspicion)
	case s.homeOf(c.slot) == c.target:
		s.coordinators.refused(now, c.target, homeBusy)
	}
}

// awaitsPast reports whether a put at the home of a slot has to wait: what its session has read while there was one
// home is not complete, and only that home can follow it.
func (s *Sidecar) awaitsPast(ss *session, slot topology.Slot) bool {
	v := ss.local.unnamed
	return !v.IsZero() && s.hasSeveralHomes() && s.putsAtHome(ss) &&
		v.Origin != s.cfg.Topology.OriginOf(s.homeOf(slot))
}

// localOf returns up to where a put at a coordinator follows all that it has accepted; 0: what was read is named.
func (s *Sidecar) localOf(ss *session, coordinator topology.Node) causal.HLC {
	if !s.hasSeveralHomes() {
		return ss.local.at(s.onlyHome())
	}
	if v := ss.local.unnamed; v.Origin == s.cfg.Topology.OriginOf(coordinator) {
		return v.HLC
	}
	return 0
}

// onlyHome returns the origin of the home, if the data center has only one; else 0.
func (s *Sidecar) onlyHome() topology.Origin {
	if s.hasSeveralHomes() {
		return 0
	}
	return s.cfg.Topology.OriginOf(s.homeOf(0))
}

// isOfHome reports whether a write is of the home of its key.
func (s *Sidecar) isOfHome(d causal.Dep) bool {
	return s.cfg.Topology.OriginOf(s.homeOf(d.Slot)) == d.Version.Origin
}
