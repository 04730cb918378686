package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// SetTopology takes a topology that differs from the one in use in the numbers of coordinators, shards and caches only.
func (c *Coordinator) SetTopology(now causal.Now, t *topology.Topology) {
	before, wasInTopology := c.maps.View(), c.isInTopology()
	c.maps.Load(t)
	if c.leader != nil {
		c.leader.topo, c.leader.relay.topo = t, t
	}
	c.cfg.Topology = c.maps.View()
	c.exclusion.learn(now, causal.ExclusionsOf(t))
	if c.isInTopology() != wasInTopology {
		c.member.renewIntent()
	}
	c.stayActive(now)
	for _, l := range c.laneOrder {
		l.flow.setMax(c.windowBound())
	}
	for r := range t.Rings {
		if id := topology.RingID(r); before.Map(id) != c.maps.View().Map(id) {
			c.remap(now, id)
		}
	}
}

// PendingRings returns the rings whose slot map from before a resharding is still in use here.
func (c *Coordinator) PendingRings() topology.RingSet { return c.maps.Pending() }

// remap makes new lanes to a ring, by the slot map that is in use from here on, and sends again everything that the
// ring has not acknowledged.
//
// The middlemen forget what they have received under another map, so nothing of the old lanes counts but
// acknowledgements. A write named, for each old lane, up to where the lane carries its past. For each new lane it names
// the newest write at or below the newest of these: perhaps more than its past, never less, and never itself.
func (c *Coordinator) remap(now causal.Now, r topology.RingID) {
	c.noteReaches()
	c.cfg.Topology = c.maps.View()
	before := c.laneOrder
	oldIndex := make([]int, len(before)) // of the lanes to the other rings, by their new index
	var marks []causal.Version
	c.laneOrder = nil
	for i, l := range before {
		if l.ring == r {
			marks = append(marks, l.stableMarks...)
			delete(c.lanes, l.mm)
			continue
		}
		oldIndex[len(c.laneOrder)], l.index = i, len(c.laneOrder)
		c.laneOrder = append(c.laneOrder, l)
	}
	kept := len(c.laneOrder)
	c.makeLanes(r)
	for _, l := range c.laneOrder[kept:] {
		l.base = c.newest
		if len(c.writes) > 0 {
			l.base = c.writes[0].rec.Version.HLC - 1
		}
		c.log.pending.note(causal.ShardMark{DC: l.mm.DC, Index: l.mm.Index, HasData: true}) // it was given slots
		// marks of keys that the shard does not own are harmless
		l.stableMarks = slices.Clone(marks)
	}
	for _, w := range c.writes {
		l := c.laneTo(r, w.slot) // the map of another ring may have changed, too, and its lanes are made next
		l.note(w)
		if w.released {
			l.queue = append(l.queue, queued{w: w})
		}
	}
	c.remapLaneDeps(r, before, oldIndex[:kept])
	for _, l := range c.laneOrder {
		c.pump(now, l)
	}
}

// remapLaneDeps translates the lane dependencies of every write from the lanes before to the present ones. The lanes
// that were kept come first now; oldIndex says where they were.
func (c *Coordinator) remapLaneDeps(r topology.RingID, before []*lane, oldIndex []int) {
	fresh := make([][]causal.HLC, len(c.laneOrder)-len(oldIndex)) // the writes of each new lane
	for _, w := range c.writes {
		i := c.laneTo(r, w.slot).index - len(oldIndex)
		fresh[i] = append(fresh[i], w.rec.Version.HLC)
	}
	for _, w := range c.writes {
		if w.laneDeps == nil {
			continue
		}
		var newest causal.HLC
		for i, h := range w.laneDeps {
			if before[i].ring == r {
				newest = max(newest, h)
			}
		}
		deps := make([]causal.HLC, len(c.laneOrder))
		for i := range oldIndex {
			deps[i] = w.laneDeps[oldIndex[i]]
		}
		for i, hlcs := range fresh {
			if n, found := slices.BinarySearch(hlcs, newest); found {
				deps[len(oldIndex)+i] = newest
			} else if n > 0 {
				deps[len(oldIndex)+i] = hlcs[n-1]
			}
		}
		w.laneDeps = deps
	}
}
