package sim

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// reshape changes the numbers of shards and caches of a deployment while it runs, one change after the other, as an operator does: it
// tells everybody of the change, each in his own time, waits until all middlemen have gone over, and tells everybody that
// it is over; those that have left are stopped for good then.
type reshape struct {
	w       *World
	c       *chaos
	every   time.Duration
	caches  bool // it is about caches
	stopped bool
	told    map[*node]bool // of what is current
	under   bool           // a change is under way
	begun   int
}

func newReshape(w *World, c *chaos, every time.Duration, caches bool) *reshape {
	r := &reshape{w: w, c: c, every: every, caches: caches}
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
		if r.caches {
			r.beginCaches(dc, 1+w.rng.IntN(3))
		} else {
			r.begin(dc, 1+w.rng.IntN(3))
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
	}
	return true
}

// begin changes the number of shards of a data centre.
func (r *reshape) begin(dc topology.DC, shards int) {
	t := r.w.topo
	if shards == t.DCs[dc].Shards {
		return
	}
	dcs := append([]topology.DataCenter(nil), t.DCs...)
	dcs[dc].ShardsBefore, dcs[dc].Shards = dcs[dc].Shards, shards
	r.under = true
	r.begun++
	r.spread(dcs)
	for i := t.DCs[dc].Shards; i < shards; i++ {
		r.join(topology.Node{DC: dc, Part: topology.Middleman, Index: uint64(i)})
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

// join starts a middleman or a cache; a middleman that was here before has its old disk.
func (r *reshape) join(id topology.Node) {
	n := r.w.nodes[id]
	if n == nil {
		n = r.w.add(id)
		r.c.adopt(n)
	}
	n.gone, n.topo = false, r.w.topo
	r.w.restart(n)
}

// finish says that there is no change any more.
func (r *reshape) finish() {
	dcs := append([]topology.DataCenter(nil), r.w.topo.DCs...)
	for i := range dcs {
		dcs[i].ShardsBefore = 0
	}
	r.under = false
	for _, n := range r.w.order {
		tooMany := n.id.Part == topology.Cache && n.id.Index >= uint64(r.w.topo.DCs[n.id.DC].Caches)
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
	if n.topo == r.w.topo || n.gone {
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
	}
}
