package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// mapping is which map of each ring a part uses while the shards of rings change. The middlemen decide: each goes over to
// the new map on its own (see Mover), and refuses what is sent by another map than its own. Everybody else goes on with the
// old one until some middleman of the ring is heard to use the new one.
type mapping struct {
	file  *topology.Topology // as it was told
	view  *topology.Topology // as it is used
	old   topology.RingSet   // rings that are used as before the change
	askAt int64
}

func newMapping(t *topology.Topology) mapping {
	m := mapping{view: t}
	m.load(t)
	return m
}

// load takes a topology that differs in numbers of coordinators, shards and caches only. Rings whose map is the new one already stay there.
func (m *mapping) load(t *topology.Topology) {
	var old topology.RingSet
	for r := range t.Rings {
		if id := topology.RingID(r); t.Changing().Has(id) && (m.file == nil || m.view.Map(id) != t.Map(id)) {
			old = old.With(id)
		}
	}
	m.file, m.old, m.view = t, old, t.Before(old)
}

// heard takes what a message of a middleman tells of its map, and reports whether a ring is used by the new one from here on.
func (m *mapping) heard(msg *Message) (topology.RingID, bool) {
	if msg.Map == 0 || m.old == 0 || msg.From.Part != topology.Middleman {
		return topology.NoRing, false
	}
	r := m.file.RingOf(msg.From.DC)
	if !m.old.Has(r) || msg.Map != m.file.Map(r) {
		return topology.NoRing, false
	}
	m.old = m.old.Without(r)
	m.view = m.file.Before(m.old)
	return r, true
}

// askMapEvery is how often the middlemen of a ring that changes are asked which map they use.
const askMapEvery = 500 * time.Millisecond

// ask asks the middlemen that own slots in the end. Those that do not yet say nothing, or name the old map.
func (m *mapping) ask(now Now, self topology.Node, send func(Message)) {
	if m.old == 0 || now.Mono < m.askAt {
		return
	}
	m.askAt = now.Mono + int64(askMapEvery)
	for r := range m.file.Rings {
		if id := topology.RingID(r); m.old.Has(id) {
			for _, n := range m.file.Members(id) {
				if n != self {
					send(Message{Kind: KindPing, From: self, To: n})
				}
			}
		}
	}
}

// SetTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
func (s *Sidecar) SetTopology(t *topology.Topology) {
	for n := range s.suspect {
		if n.Index >= uint64(s.cfg.Topology.DCs[n.DC].Coordinators) {
			delete(s.suspect, n) // one of that name that comes now is another one
		}
	}
	s.maps.load(t)
	s.useMap()
}

func (s *Sidecar) useMap() { s.cfg.Topology, s.routes.topo = s.maps.view, s.maps.view }

// SetTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
func (c *Cache) SetTopology(t *topology.Topology) {
	c.maps.load(t)
	c.useMap()
}

func (c *Cache) useMap() { c.cfg.Topology, c.routes.topo = c.maps.view, c.maps.view }

// SetTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
func (c *Coordinator) SetTopology(now Now, t *topology.Topology) {
	was, wanted := c.maps.view, c.wanted()
	c.maps.load(t)
	if c.leader != nil {
		c.leader.topo = t
	}
	c.cfg.Topology = c.maps.view
	c.changeWish(wanted)
	for r := range t.Rings {
		if id := topology.RingID(r); was.Map(id) != c.maps.view.Map(id) {
			c.remap(now, id)
		}
	}
}

// Before returns the rings that are used as before a change of shards.
func (c *Coordinator) Before() topology.RingSet { return c.maps.old }

// remap makes the lanes to a ring anew, by the map that is in use from here on, and sends all that the ring has not
// acknowledged again.
//
// The middlemen forget what they have received by another map, so nothing of the old lanes counts but acknowledgements. A
// write named for each old lane up to where it is in its past; of the new lanes it names the newest write at or below the
// newest of these: perhaps more than is in its past, never less, and never itself.
func (c *Coordinator) remap(now Now, r topology.RingID) {
	c.cfg.Topology = c.maps.view
	was := c.laneOrder
	at := make([]int, len(was)) // where the lanes of the other rings stood
	var complete []Version
	c.laneOrder = nil
	for i, l := range was {
		if l.ring == r {
			complete = append(complete, l.complete...)
			delete(c.lanes, l.mm)
			continue
		}
		at[len(c.laneOrder)], l.index = i, len(c.laneOrder)
		c.laneOrder = append(c.laneOrder, l)
	}
	kept := len(c.laneOrder)
	c.makeLanes(r)
	for _, l := range c.laneOrder[kept:] {
		l.base = c.newest
		if len(c.writes) > 0 {
			l.base = c.writes[0].rec.Version.HLC - 1
		}
		l.complete = slices.Clone(complete) // which of the keys are whose does not matter to the marks
	}
	for _, w := range c.writes {
		if w.released {
			l := c.laneTo(r, w.slot)
			l.queue = append(l.queue, w)
		}
	}
	c.nameAnew(r, was, at[:kept])
	c.pumpAll(now)
}

// nameAnew says for every write up to where the lanes carry writes in its past: was are the lanes that it named before, at is
// where those stood that are kept, which are the first now.
func (c *Coordinator) nameAnew(r topology.RingID, was []*lane, at []int) {
	fresh := make([][]HLC, len(c.laneOrder)-len(at)) // all writes of each new lane
	for _, w := range c.writes {
		i := c.laneTo(r, w.slot).index - len(at)
		fresh[i] = append(fresh[i], w.rec.Version.HLC)
	}
	for _, w := range c.writes {
		if w.need == nil {
			continue
		}
		var newest HLC
		for i, h := range w.need {
			if was[i].ring == r {
				newest = max(newest, h)
			}
		}
		need := make([]HLC, len(c.laneOrder))
		for i := range at {
			need[i] = w.need[at[i]]
		}
		for i, hlcs := range fresh {
			if n, found := slices.BinarySearch(hlcs, newest); found {
				need[len(at)+i] = newest
			} else if n > 0 {
				need[len(at)+i] = hlcs[n-1]
			}
		}
		w.need = need
	}
}
