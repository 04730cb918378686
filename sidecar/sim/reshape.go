package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// reshape changes the numbers of shards, caches and coordinators of a deployment while it runs, one change after the other, as an operator does: it
// tells everybody of the change, each in his own time, waits until all middlemen have gone over, and tells everybody that
// it is over; those that have left are stopped for good then.
type reshape struct {
	w       *World
	c       *chaos
	every   time.Duration
	what    changing
	stopped bool
	deaf    *node // hears of no change: for scenarios
	under   bool  // a change is under way
}

// changing is whose number changes.
type changing uint8

const (
	shards changing = iota
	caches
	coordinators // and now and then shards
)

func newReshape(w *World, c *chaos, every time.Duration, what changing) *reshape {
	r := &reshape{w: w, c: c, every: every, what: what}
	if every > 0 {
		w.after(w.rng.Int64N(int64(every)), r.turn)
	}
	return r
}

// turn goes on when it can, and looks again later.
func (r *reshape) turn() {
	w := r.w
	switch {
	case !r.settled():
	case r.under:
		r.finish()
	case r.stopped:
		return
	default:
		dc := topology.DC(w.rng.IntN(len(w.topo.DCs)))
		switch {
		case r.what == caches:
			r.beginCaches(dc, 1+w.rng.IntN(3))
		case r.what == coordinators && w.rng.IntN(4) > 0:
			if w.rng.IntN(2) == 0 {
				dc = 0 // to and fro
			}
			r.beginCoordinators(dc, 1+w.rng.IntN(3))
		default:
			change := map[topology.DC]int{dc: 1 + w.rng.IntN(3)}
			for other := range w.topo.DCs { // and of others at the same time
				if w.rng.IntN(3) == 0 {
					change[topology.DC(other)] = 1 + w.rng.IntN(3)
				}
			}
			r.begin(change)
		}
	}
	w.after(1+w.rng.Int64N(int64(r.every)/2), r.turn)
}

// stop begins no further change and lets the one that is under way come to its end.
func (r *reshape) stop() {
	r.stopped = true
	for _, n := range append([]*node(nil), r.w.order...) {
		r.tell(n)
	}
}

// settled reports whether everybody knows what is current, and all middlemen have gone over.
func (r *reshape) settled() bool {
	for _, n := range r.w.order {
		if n.gone {
			continue
		}
		if n.topo != r.w.topo || n.id.Part == topology.Middleman && (!n.up() || n.mover != nil && !n.mover.Done()) {
			return false
		}
		if n.id.Part != topology.Coordinator {
			continue
		}
		if c, ok := n.m.(*causal.Coordinator); !ok || c.Membership() != causal.Serving && c.Membership() != causal.Left {
			return false
		}
	}
	return true
}

// begin changes the numbers of shards of data centres.
func (r *reshape) begin(shards map[topology.DC]int) {
	was := r.w.topo.DCs
	dcs := append([]topology.DataCenter(nil), was...)
	for dc, n := range shards {
		if n != was[dc].Shards {
			dcs[dc].ShardsBefore, dcs[dc].Shards = was[dc].Shards, n
			r.under = true
		}
	}
	if !r.under {
		return
	}
	r.spread(dcs)
	for dc := range dcs {
		for i := was[dc].Shards; i < dcs[dc].Shards; i++ {
			r.join(topology.Node{DC: topology.DC(dc), Part: topology.Middleman, Index: uint64(i)})
		}
	}
}

// beginCaches changes the number of caches of a data centre. Those that are too many are stopped once everybody knows.
func (r *reshape) beginCaches(dc topology.DC, caches int) {
	t := r.w.topo
	dcs := append([]topology.DataCenter(nil), t.DCs...)
	dcs[dc].Caches = caches
	r.under = true
	r.spread(dcs)
	for i := t.DCs[dc].Caches; i < caches; i++ {
		r.join(topology.Node{DC: dc, Part: topology.Cache, Index: uint64(i)})
	}
}

// beginCoordinators changes the number of coordinators of a data centre.
func (r *reshape) beginCoordinators(dc topology.DC, n int) {
	t := r.w.topo
	was := t.DCs[dc].Coordinators
	dcs := append([]topology.DataCenter(nil), t.DCs...)
	if dcs[dc].Coordinators = n; n < was {
		dcs[dc].CoordinatorsBefore = was
	}
	r.under = true
	r.spread(dcs)
	for i := was; i < n; i++ {
		id := topology.Node{DC: dc, Part: topology.Coordinator, Index: uint64(i)}
		if old := r.w.nodes[id]; old != nil && !r.w.set.Quiet && r.w.rng.IntN(4) > 0 {
			old.disk = newDisk() // it has left its old one
		}
		r.join(id)
	}
}

// join starts a node; one that was here before has its old disk.
func (r *reshape) join(id topology.Node) {
	n := r.w.nodes[id]
	if n == nil {
		n = r.w.add(id)
		r.c.adopt(n)
	}
	if id.Part == topology.Coordinator && !r.w.set.Quiet {
		n.skewMs = r.w.rng.Int64N(2000) - 1900
	}
	n.gone, n.topo = false, r.w.topo
	r.w.restart(n)
}

// finish says that there is no change any more.
func (r *reshape) finish() {
	dcs := append([]topology.DataCenter(nil), r.w.topo.DCs...)
	for i := range dcs {
		dcs[i].ShardsBefore, dcs[i].CoordinatorsBefore = 0, 0
	}
	r.under = false
	for _, n := range r.w.order {
		dc := &r.w.topo.DCs[n.id.DC]
		tooMany := n.id.Part == topology.Cache && n.id.Index >= uint64(dc.Caches) ||
			n.id.Part == topology.Coordinator && n.id.Index >= uint64(dc.Coordinators)
		if n.mover != nil && n.mover.Gone() || tooMany {
			r.w.crash(n)
			n.gone = true
		}
	}
	r.spread(dcs)
}

// spread makes a topology the current one and tells everybody, sooner or later.
func (r *reshape) spread(dcs []topology.DataCenter) {
	w := r.w
	t, err := topology.New(w.topo.Epoch+1, dcs, w.topo.Rings, w.topo.RTT)
	if err != nil {
		panic(err) // it differs from one that was good in a number between 1 and 3
	}
	w.topo = t
	for _, n := range w.order {
		late := int64(0)
		if !w.set.Quiet && !r.stopped {
			late = w.rng.Int64N(int64(r.every))
			if n.id.Part == topology.Sidecar {
				late *= 4 // there are many, and nobody waits for them
			}
		}
		w.after(late, func() {
			if w.topo == t {
				r.tell(n)
			}
		})
	}
}

// tell gives a node what is current. One that is down reads it when it starts.
func (r *reshape) tell(n *node) {
	if n.topo == r.w.topo || n.gone || n == r.deaf {
		return
	}
	n.topo = r.w.topo
	switch m := n.m.(type) {
	case *causal.Sidecar:
		m.SetTopology(n.topo)
	case *causal.Cache:
		m.SetTopology(n.topo)
	case *causal.Coordinator:
		m.SetTopology(r.w.clock(n), n.topo)
		r.w.drain(n)
	}
	if n.id.Part == topology.Middleman && n.up() {
		r.w.startMover(n)
		r.w.serve(n)
		if m, ok := n.m.(*causal.Middleman); ok {
			m.SetCoordinators(n.topo)
		}
	}
}
