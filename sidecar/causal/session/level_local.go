package session

import "github.com/causalstore/causalstore/sidecar/causal"

func init() { register(causal.Local, local{}) }

// local reads the newest version that the home of the key knows, or what snapshot reads if that is newer (PROTOCOL
// HOM). So a session sees at once what any other one of the data center has written. Several keys are read at the home
// at one time, and then elsewhere what these follow.
type local struct{ snapshot }

func (local) asksHome() bool { return true }

// get asks for what includes everything that the home has forgotten, and what it knows that clients were shown.
func (l local) get(s *Sidecar, now causal.Now, c *call) (g causal.Get, near causal.HLC) {
	g, near = l.snapshot.get(s, now, c)
	h := c.home
	h.complete = s.stability.MinSV()
	if !g.Snapshot { // the newest version: all that is complete by now
		h.from = max(h.complete, h.must)
		return g, near
	}
	if h.from = includedBy(&g); h.must > h.from {
		g.Seen, g.Base = max(g.Seen, h.must), max(g.Base, h.must)
		near = max(near, h.must)
		h.from = includedBy(&g)
	}
	return g, near
}

// includedBy returns up to where an answer to a get includes everything. One without a base, of a sidecar that has just
// begun, may be answered from anywhere above its cut.
func includedBy(g *causal.Get) causal.HLC {
	if g.Base == 0 && g.At == causal.NoLimit {
		return max(g.Cut, g.Seen)
	}
	return g.From()
}

func (l local) startMGet(s *Sidecar, now causal.Now, c *call) {
	for i, w := range c.mget.own {
		if w != nil && w.version.Origin == s.cfg.Topology.OriginOf(s.homeOf(c.mget.slots[i])) {
			c.mget.own[i] = nil // it is read at the home
		}
	}
	s.askHomeOfKeys(now, c)
}

func (l local) restartMGet(s *Sidecar, now causal.Now, c *call) { l.startMGet(s, now, c) }
