package sim

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// scaler changes the numbers of shards, caches and coordinators of a running deployment, one change at a time, as an
// operator does: it delivers the new topology to all nodes, each after a delay of its own, waits until the nodes have
// converged, removes the nodes that are no longer needed, and delivers the topology without the numbers from before.
type scaler struct {
	w          *World
	injector   *faultInjector
	every      time.Duration
	part       scaledPart
	stopped    bool
	withheld   []*node   // receive no topology
	inProgress bool      // a change has started and has not been finished
	divided    *division // two sides have excluded each other
}

// scaledPart is the part whose number changes.
type scaledPart uint8

const (
	shardCount scaledPart = iota
	cacheCount
	coordinatorCount // and sometimes shards
)

func newScaler(w *World, c *faultInjector, every time.Duration, what scaledPart) *scaler {
	r := &scaler{w: w, injector: c, every: every, part: what}
	c.scaler = r
	if every > 0 {
		w.schedule(w.rng.Int64N(int64(every)), r.step)
	}
	return r
}

// step starts or finishes a change if it can, and schedules the next step.
func (r *scaler) step() {
	w := r.w
	switch {
	case !r.hasConverged():
	case r.inProgress:
		r.finishChange()
	case r.stopped:
		return
	default:
		dc := topology.DC(w.rng.IntN(len(w.topo.DCs)))
		switch {
		case r.part == cacheCount:
			r.scaleCaches(dc, 1+w.rng.IntN(3))
		case r.part == coordinatorCount && w.rng.IntN(4) > 0:
			if w.rng.IntN(2) == 0 {
				dc = 0 // scale the same data center up and down
			}
			r.scaleCoordinators(dc, 1+w.rng.IntN(3))
		default:
			change := map[topology.DC]int{dc: 1 + w.rng.IntN(3)}
			for other := range w.topo.DCs { // others change at the same time
				if w.rng.IntN(3) == 0 {
					change[topology.DC(other)] = 1 + w.rng.IntN(3)
				}
			}
			r.scaleShards(change)
		}
	}
	w.schedule(1+w.rng.Int64N(int64(r.every)/2), r.step)
}

// stop starts no further change. It delivers the current topology to all nodes at once, so that the last change can
// complete.
func (r *scaler) stop() {
	r.stopped = true
	if r.divided != nil {
		r.merge()
	}
	for _, n := range append([]*node(nil), r.w.order...) {
		r.deliver(n)
	}
}

// hasConverged reports whether all nodes have the current topology and have completed the change.
func (r *scaler) hasConverged() bool {
	for _, n := range r.w.order {
		if n.removed {
			continue
		}
		if n.topo != r.w.topo || n.id.Part == topology.Middleman && !r.w.hasResharded(n) {
			return false
		}
		if n.id.Part != topology.Coordinator {
			continue
		}
		c := n.coordinator()
		if c == nil && n.id.Member != 0 && r.w.serving(n.id.Group()) != nil {
			continue
		}
		if c == nil {
			return false
		}
		switch c.Membership() {
		case coordinator.Serving:
			if n.id.Index >= uint64(r.w.topo.DCs[n.id.DC].Coordinators) {
				return false // it is the home of keys that it has to give up
			}
		case coordinator.Left:
		case coordinator.LogLost:
			if r.w.givesUp {
				return false
			}
		default:
			if !r.w.hasLostLog(r.w.topo.Leader(n.id.DC)) { // otherwise nobody admits it
				return false
			}
		}
	}
	return true
}

// hasResharded reports whether a middleman, or the one of its members that serves, has the current topology and has
// done what that asks for.
func (w *World) hasResharded(n *node) bool {
	if n.id.Member == 0 {
		return n.hasResharded()
	}
	s := w.serving(n.id.Group())
	return s != nil && s.topo == w.topo && s.hasResharded()
}

// hasLostLog reports whether a coordinator has lost its log.
func (w *World) hasLostLog(id topology.Node) bool {
	c := w.process(id).coordinator()
	return c != nil && c.Membership() == coordinator.LogLost
}

// scaleShards starts a change of the numbers of shards of data centers.
func (r *scaler) scaleShards(shards map[topology.DC]int) {
	was := r.w.topo.DCs
	dcs := append([]topology.DataCenter(nil), was...)
	for dc, n := range shards {
		if n != was[dc].Shards {
			dcs[dc].ShardsBefore, dcs[dc].Shards = was[dc].Shards, n
			r.inProgress = true
		}
	}
	if !r.inProgress {
		return
	}
	r.propagate(dcs)
	for dc := range dcs {
		for i := was[dc].Shards; i < dcs[dc].Shards; i++ {
			for _, id := range r.w.processesOf(topology.Node{DC: topology.DC(dc), Part: topology.Middleman,
				Index: uint64(i)}) {
				r.startNode(id)
			}
		}
	}
}

// scaleCaches starts a change of the number of caches of a data center. Surplus caches are stopped once all nodes have
// the new topology.
func (r *scaler) scaleCaches(dc topology.DC, caches int) {
	t := r.w.topo
	dcs := append([]topology.DataCenter(nil), t.DCs...)
	dcs[dc].Caches = caches
	r.inProgress = true
	r.propagate(dcs)
	for i := t.DCs[dc].Caches; i < caches; i++ {
		r.startNode(topology.Node{DC: dc, Part: topology.Cache, Index: uint64(i)})
	}
}

// scaleCoordinators starts a change of the number of coordinators of a data center.
func (r *scaler) scaleCoordinators(dc topology.DC, n int) {
	t := r.w.topo
	was := t.DCs[dc].Coordinators
	dcs := append([]topology.DataCenter(nil), t.DCs...)
	if dcs[dc].Coordinators = n; n < was {
		dcs[dc].CoordinatorsBefore = was
	}
	r.inProgress = true
	r.propagate(dcs)
	for i := was; i < n; i++ {
		members := r.w.processesOf(topology.Node{DC: dc, Part: topology.Coordinator, Index: uint64(i)})
		fresh := r.w.nodes[members[0]] != nil && !r.w.settings.NoRandomness && r.w.rng.IntN(4) > 0
		for _, id := range members {
			if fresh {
				r.w.nodes[id].disk = newDisk() // it has drained its old one
			}
			r.startNode(id)
		}
	}
}

// startNode starts a new node, or one that was removed, with its old disk.
func (r *scaler) startNode(id topology.Node) {
	n := r.w.nodes[id]
	if n == nil {
		n = r.w.add(id)
		r.injector.addTarget(n)
	}
	if id.Part == topology.Coordinator && !r.w.settings.NoRandomness {
		n.skewMs = r.w.rng.Int64N(2000) - 1900
	}
	n.removed, n.topo = false, r.w.topo
	r.w.restart(n)
}

// finishChange ends the change: it removes the nodes that have left, and propagates a topology without the numbers from
// before.
func (r *scaler) finishChange() {
	dcs := append([]topology.DataCenter(nil), r.w.topo.DCs...)
	for i := range dcs {
		dcs[i].ShardsBefore, dcs[i].CoordinatorsBefore = 0, 0
	}
	r.inProgress = false
	hasLeft := map[topology.Node]bool{}
	for _, n := range r.w.order {
		if n.mover() != nil && n.mover().HasLeft() {
			hasLeft[n.id.Group()] = true
		}
	}
	for _, n := range r.w.order {
		dc := &r.w.topo.DCs[n.id.DC]
		surplus := n.id.Part == topology.Cache && n.id.Index >= uint64(dc.Caches) ||
			n.id.Part == topology.Coordinator && n.id.Index >= uint64(dc.Coordinators)
		if hasLeft[n.id.Group()] || surplus {
			r.w.crash(n)
			n.removed = true
		}
	}
	r.propagate(dcs)
}

// propagate makes a topology the current one and delivers it to each node after a delay.
func (r *scaler) propagate(dcs []topology.DataCenter) {
	w, t := r.w, r.mustMake(dcs)
	w.topo = t
	for _, n := range w.order {
		delay := int64(0)
		if !w.settings.NoRandomness && !r.stopped {
			delay = w.rng.Int64N(int64(max(r.every, minSpread)))
			if n.id.Part == topology.Sidecar {
				delay *= 4 // there are many, and no change waits for them
			}
		}
		w.schedule(delay, func() {
			if w.topo == t {
				r.deliver(n)
			}
		})
	}
}

// mustMake makes a topology that is newer than all others.
func (r *scaler) mustMake(dcs []topology.DataCenter) *topology.Topology {
	t, err := topology.New(r.newestEpoch()+1, dcs, r.w.topo.Rings, r.w.topo.RTT)
	if err != nil {
		// it differs from a valid one only by numbers between 1 and 3, and exclusions where there are several rings
		panic(err)
	}
	return t
}

// newestEpoch returns the greatest epoch of the topology of a node.
func (r *scaler) newestEpoch() uint64 {
	epoch := r.w.topo.Epoch
	for _, n := range r.w.order {
		epoch = max(epoch, n.topo.Epoch)
	}
	return epoch
}

// minSpread is within what time a topology reaches all nodes at least.
const minSpread = 200 * time.Millisecond

// deliver gives a node the current topology. A node that is down reads it when it starts.
func (r *scaler) deliver(n *node) {
	if n.topo == r.w.topo || n.removed || slices.Contains(r.withheld, n) {
		return
	}
	r.give(n, r.w.topo)
}

// give makes a topology that of a node.
func (r *scaler) give(n *node, t *topology.Topology) {
	n.topo = t
	switch m := n.m.(type) {
	case *session.Sidecar:
		m.SetTopology(n.topo)
	case *cache.Cache:
		m.SetTopology(n.topo)
	case *member.Coordinator:
		m.SetTopology(r.w.clock(n), n.topo)
		r.w.flush(n)
	case shardProcess:
		r.w.flush(n)
	}
}
