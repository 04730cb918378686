// Package sim runs whole deployments of the protocol in virtual time.
//
// A World holds the machines of package causal, a network, disks and clocks. Everything random comes from one seed, and
// everything happens in one goroutine, so a seed is a schedule that can be run again exactly. The network delays,
// reorders across connections, loses and cuts; nodes crash with what their disks had acknowledged, and perhaps a little
// more; clocks are skewed and jump; parts are slow for a while.
package sim

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// tick is the period in which machines are ticked.
const tick = 10 * time.Millisecond

// machine is what all parts have in common.
type machine interface {
	Step(now causal.Now, m *causal.Message)
	Tick(now causal.Now)
	Take(dst []causal.Message) []causal.Message
}

// node is one process of the deployment.
type node struct {
	id      topology.Node
	m       machine            // nil while it is down, and of a middleman while it must not serve
	mover   *causal.Mover      // of a middleman whose ring changes
	topo    *topology.Topology // that it was told last
	view    *topology.Topology // of a middleman: by which it serves
	gone    bool               // for good
	moves   uint64             // counts movers
	life    uint64             // counts starts
	inst    uint64             // counts machines: a middleman starts a new one to go over to another map
	skewMs  int64              // of the wall clock
	drift   float64            // of the monotonic clock, relative
	slow    int64              // added to everything it handles, ns
	disk    *disk              // of a coordinator or middleman
	results func([]causal.Result)
	slowTil int64
}

// Settings shape a World beyond its topology.
type Settings struct {
	Seed   uint64
	Static bool
	Cache  bool
	// Snapshot is the mode of reads.
	Snapshot      bool
	SnapshotEvery time.Duration
	// OneRing, AskEach and DepsByID switch off what goes beyond Karma.
	OneRing, AskEach, DepsByID bool
	Lease                      time.Duration
	KeepMs                     int64
	// MaxDeps and MaxOwnBytes make rare paths common when small.
	MaxDeps, MaxOwnBytes int
	// MaxBufferBytes bounds what a coordinator holds of incomplete writes; 0: the default.
	MaxBufferBytes int
	Broken         causal.Faults
	// BreakLinks is how many of a million messages meet each sort of harm to a connection, and how many storage requests
	// fail, roughly.
	BreakLinks int
	// Quiet switches off all randomness of delays and clocks: for scenarios.
	Quiet bool
}

// World is a deployment in virtual time.
type World struct {
	set    Settings
	topo   *topology.Topology
	rng    *rand.Rand
	now    int64
	events queue
	nodes  map[topology.Node]*node
	order  []*node
	net    network
	batch  []causal.Message
	ops    []causal.StorageOp
	harms  Harms
	steps  int
}

// startMs is the wall clock at virtual time 0.
const startMs = 1_700_000_000_000

// NewWorld starts every coordinator, middleman and cache of t.
func NewWorld(t *topology.Topology, set Settings) *World {
	w := &World{set: set, topo: t, rng: rand.New(rand.NewPCG(set.Seed, 0x9e3779b97f4a7c15)), nodes: map[topology.Node]*node{}}
	w.net.init(w)
	t.Nodes(func(id topology.Node) { w.start(w.add(id)) })
	return w
}

// add makes the node without starting it.
func (w *World) add(id topology.Node) *node {
	n := &node{id: id, topo: w.topo}
	if !w.set.Quiet {
		n.skewMs = int64(w.rng.IntN(400)) - 200
		n.drift = (w.rng.Float64() - 0.5) * 0.01
	}
	if id.Part == topology.Coordinator || id.Part == topology.Middleman {
		n.disk = newDisk()
	}
	w.nodes[id] = n
	w.order = append(w.order, n)
	return n
}

// start makes the node's machine from what its disk holds.
func (w *World) start(n *node) {
	n.life++
	if n.id.Part == topology.Middleman {
		w.startMiddleman(n)
		return
	}
	n.inst++
	now := w.clock(n)
	switch n.id.Part {
	case topology.Coordinator:
		cfg := causal.DefaultCoordinatorConfig(n.topo, n.id)
		cfg.Broken, cfg.DepsByID, cfg.Incarnation = w.set.Broken, w.set.DepsByID, n.life<<32
		cfg.PublishEvery = 20 * time.Millisecond
		if w.set.MaxDeps > 0 {
			cfg.MaxDeps = w.set.MaxDeps
		}
		if w.set.MaxBufferBytes > 0 {
			cfg.MaxBytes = w.set.MaxBufferBytes
		}
		n.m = causal.NewCoordinator(cfg, now, n.disk.log, n.disk.firstIndex+uint64(len(n.disk.log)))
	case topology.Cache:
		cfg := causal.DefaultCacheConfig(n.topo, n.id)
		cfg.Broken, cfg.Incarnation = w.set.Broken, n.life
		if w.set.Static {
			cfg.Rings = topology.RingsOf(w.topo.RingOf(n.id.DC))
		}
		n.m = causal.NewCache(cfg)
	}
	w.startTicking(n)
}

func (w *World) startTicking(n *node) {
	inst := n.inst
	phase := int64(0)
	if !w.set.Quiet {
		phase = w.rng.Int64N(int64(tick))
	}
	w.after(phase, func() { w.ticking(n, inst) })
}

// AddSidecar starts a sidecar in dc.
func (w *World) AddSidecar(dc topology.DC, index uint64, results func([]causal.Result)) topology.Node {
	id := topology.Node{DC: dc, Part: topology.Sidecar, Index: index}
	n := w.add(id)
	n.results = results
	cfg := causal.DefaultSidecarConfig(w.topo, id)
	cfg.Static, cfg.UseCache, cfg.Snapshot, cfg.Broken = w.set.Static, w.set.Cache, w.set.Snapshot, w.set.Broken
	cfg.SnapshotEvery, cfg.SnapshotAhead, cfg.MaxSnapshotLag = w.set.SnapshotEvery, w.set.SnapshotEvery/2, 2*time.Second
	cfg.OneRing, cfg.AskEach = w.set.OneRing, w.set.AskEach
	cfg.LagBound = 500 * time.Millisecond
	cfg.TokenKey = []byte("simulation")
	if w.set.MaxOwnBytes > 0 {
		cfg.MaxOwnBytes = w.set.MaxOwnBytes
	}
	n.m = causal.NewSidecar(cfg)
	n.life++
	n.inst++
	inst := n.inst
	w.after(0, func() { w.ticking(n, inst) })
	return id
}

// clock is the time as the node has it.
func (w *World) clock(n *node) causal.Now {
	return causal.Now{Mono: int64(float64(w.now)*(1+n.drift)) + 1, WallMs: startMs + w.now/1e6 + n.skewMs}
}

func (w *World) after(d int64, f func()) { w.events.push(event{at: w.now + d, do: f}) }

func (w *World) ticking(n *node, inst uint64) {
	if n.m == nil || n.inst != inst {
		return
	}
	n.m.Tick(w.clock(n))
	w.drain(n)
	w.after(int64(tick), func() { w.ticking(n, inst) })
}

// Run lets the world go on for d of virtual time, or until stop, if given, holds.
func (w *World) Run(d time.Duration, stop func() bool) bool {
	end := w.now + int64(d)
	for len(w.events.heap) > 0 && w.events.heap[0].at <= end {
		e := w.events.pop()
		w.now = e.at
		w.steps++
		if e.msg != nil {
			w.deliver(e.msg)
		} else {
			e.do()
		}
		if stop != nil && stop() {
			return true
		}
	}
	w.now = end
	return false
}

func (w *World) deliver(d *delivery) {
	n := w.nodes[d.msg.To]
	if n == nil || n.life != d.life {
		return
	}
	switch d.msg.Kind {
	case causal.KindPull, causal.KindPulled:
		w.stepMover(n, &d.msg)
		return
	case causal.KindPong:
		w.stepMover(n, &d.msg)
	}
	if n.m != nil {
		n.m.Step(w.clock(n), &d.msg)
		w.drain(n)
	}
}

// drain sends what a machine has left in its outbox, and starts its I/O.
func (w *World) drain(n *node) {
	w.batch = n.m.Take(w.batch[:0])
	for i := range w.batch {
		w.net.send(n, w.batch[i])
	}
	switch m := n.m.(type) {
	case *causal.Middleman:
		w.ops = m.Ops(w.ops[:0])
		for _, op := range w.ops {
			n.wrote(op)
			w.storage(n, op)
		}
	case *causal.Coordinator:
		w.appendLog(n, m)
	case *causal.Sidecar:
		if rs := m.Results(nil); len(rs) > 0 && n.results != nil {
			n.results(rs)
		}
	}
}

// do runs f on the machine of a node that is up.
func (w *World) do(id topology.Node, f func(machine, causal.Now)) {
	if n := w.nodes[id]; n != nil && n.m != nil {
		f(n.m, w.clock(n))
		w.drain(n)
	}
}

// harm counts an injected fault.
func (w *World) harm(h Harm) { w.harms[h]++ }

// crash stops a node. What its disk had not acknowledged may be there or not.
func (w *World) crash(n *node) {
	if !n.up() {
		return
	}
	n.m, n.mover = nil, nil
	n.life++
	n.inst++
	if n.disk != nil {
		n.disk.crash(w.rng, w.set.Quiet)
	}
}

// restart starts a crashed node again.
func (w *World) restart(n *node) {
	if !n.up() && !n.gone {
		w.start(n)
	}
}
