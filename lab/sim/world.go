// Package sim runs whole deployments of the protocol in virtual time and injects faults.
//
// A World holds the machines of the protocol, a network, disks and clocks. All randomness comes from one seed, and
// everything runs in one goroutine, so that a seed determines the schedule and a failure can be reproduced. The network
// delays messages, reorders them across connections, loses them and partitions. Nodes crash; their disks keep what they
// had acknowledged, and possibly some of what they had not. Clocks are skewed and jump; nodes and disks are slow at
// times.
package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/lab/sim/groups"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// tick is the period of a machine's ticks.
const tick = 10 * time.Millisecond

// machine is the interface that the machines of all parts share.
type machine interface {
	Step(now causal.Now, m *causal.Message)
	Tick(now causal.Now)
	NextTick(now causal.Now) int64
	Take(dst []causal.Message) []causal.Message
}

// node is one process of the deployment.
type node struct {
	id        topology.Node
	number    int                // in the order of the world
	links     []link             // by the number of the receiver
	m         machine            // nil while it is down
	topo      *topology.Topology // the last one that was delivered to it
	removed   bool               // by a scale down
	life      uint64             // counts starts
	startedAt int64              // when this life began: its monotonic clock begins then
	instance  uint64             // counts machines
	skewMs    int64              // of the wall clock
	drift     float64            // of the monotonic clock, relative
	slowBy    int64              // upper bound of the delay that is added to all it handles until slowUntil, ns
	disk      *disk              // of a coordinator or middleman
	onResults func([]session.Result)
	onTurns   func([]session.Turn)
	slowUntil int64
	isOlder   bool // it knows registers only
	// Of a member of a coordinator's group: in which leaderships it has served, and until when it does not reach the
	// register.
	claims          []claim
	registerCutTill int64
	session         uint64                   // of a member of a shard: in which it serves
	announced       causal.Leadership        // of a member of a shard
	writer          *process.LogWriter       // of the log of a member of a group
	writerWaits     int64                    // until then, before it tries again what has failed
	salvages        *coordinator.Coordinator // its machine, while that gives up a lost log
}

// Settings configures a World beyond its topology.
type Settings struct {
	Seed    uint64
	Binding causal.Binding
	Cache   bool
	// Level is that of the sessions, and SnapshotEvery the step of their cuts.
	Level         causal.Level
	SnapshotEvery time.Duration
	// LateAfter is how long the least SV must stand still before cuts move on without a data center; 0: the default.
	LateAfter time.Duration
	// LeftOut is how many data centers cuts leave out; 0: the default.
	LeftOut int
	// WithoutRingSets, AskEach and DepsByID disable improvements on Karma, for comparison.
	WithoutRingSets, WithoutSVLifting, DepsByID bool
	Lease                                       time.Duration
	KeepMs                                      int64
	// ExpiredMs is how long values are kept that have expired; 0: the default.
	ExpiredMs int64
	// MaxDeps, MaxOwnBytes and MaxCopies make rare paths frequent if they are small; 0: the defaults.
	MaxDeps, MaxOwnBytes, MaxCopies int
	// NearBytes bounds the near copies of a sidecar; 0: there are none. NearReads is how many reads make a key hot, and
	// CacheBytes bounds a cache, 0: the defaults.
	NearBytes, NearReads, CacheBytes int
	// ProductionPace makes parts publish, and cuts move, as often as in production.
	ProductionPace bool
	// QuietAfter is how long after the last write coordinators publish rarely; 0: the default.
	QuietAfter time.Duration
	// MaxBufferBytes bounds the incomplete writes in a coordinator's memory; 0: the default.
	MaxBufferBytes int
	// ShardRegister gives a register to shards with one member, too.
	ShardRegister bool
	// RetainBytes and MaxFrameBytes make the logs of shards collect more, and their followers lag, if they are small;
	// 0: the defaults.
	RetainBytes, MaxFrameBytes int
	Broken                     causal.Mutations
	// Tallies makes the type of tallies known. With Older, coordinators and middlemen are of a version that does not
	// know it at first, and sidecars of the later one.
	Tallies, Older bool
	// FaultsPerMillion is roughly how many of a million messages meet each kind of link fault, and how many of a
	// million storage requests fail.
	FaultsPerMillion int
	// PutLossPercent is how many of a hundred puts, and of their answers, are lost on links that stay up: each once.
	PutLossPercent int
	// ExclusionDelay is that of coordinators.
	ExclusionDelay time.Duration
	// OpTimeout is how long operations may take until they fail; 0: the default.
	OpTimeout time.Duration
	// NoRandomness makes delays fixed, clocks right and crashes predictable. Scenarios use it.
	NoRandomness bool
}

// World is a deployment in virtual time.
type World struct {
	settings  Settings
	types     *value.Types // nil: registers only
	topo      *topology.Topology
	rng       *rand.Rand
	now       int64
	events    queue
	nodes     map[topology.Node]*node
	order     []*node
	net       network
	claims    *claims
	links     coordinatorLinks
	batch     []causal.Message
	ops       []middleman.StorageOp
	registers map[topology.Node]*groups.Store // by coordinator or shard
	swaps     map[topology.Node]int           // of registers, on their way
	volumes   uint64                          // the last id that was given to the volume of a member of a group
	starts    uint64                          // of shards with members
	faults    FaultCounts
	members   MemberCounts
	served    map[topology.Node]topology.Node // by shard: the member that has served it last
	steps     int
	// lostWrites says that a log with incomplete writes was lost: rings may differ for good, and writes that depend on
	// these wait.
	lostWrites bool
	lostLogs   []lostLog
	givesUp    bool // lost logs are given up
	// idleTick, if not nil, is called in place of a tick that a machine has no need of.
	idleTick func(n *node, now causal.Now)
	// delivered, if not nil, sees each message before the machine does.
	delivered func(*causal.Message)
	// refused says what was sent by parts that follow the protocol, and would have cost them the link.
	refused []string
	// unreadable says which values have come to parts that cannot read them.
	unreadable []string
	// executedOn has on which increments of a tally each one was executed last that a home has executed, by its name.
	executedOn map[string][]history.Part
}

// startMs is the wall clock at virtual time 0, in milliseconds since the epoch.
const startMs = 1_700_000_000_000

// NewWorld starts every coordinator, middleman and cache of t.
func NewWorld(t *topology.Topology, set Settings) *World {
	w := &World{settings: set, topo: t, rng: rand.New(rand.NewPCG(set.Seed, 0x9e3779b97f4a7c15)),
		nodes:     map[topology.Node]*node{},
		registers: map[topology.Node]*groups.Store{}, served: map[topology.Node]topology.Node{},
		swaps: map[topology.Node]int{}, executedOn: map[string][]history.Part{}}
	if set.Tallies {
		w.types = tallyTypes(formatOfTallies(&set), set.Broken, w.executedOn)
	}
	w.net.init(w)
	w.claims = newClaims(w)
	w.links.init(w)
	t.Nodes(func(id topology.Node) {
		for _, m := range w.processesOf(id) {
			w.start(w.add(m))
		}
	})
	return w
}

// processesOf returns the processes of a node. One that serves alone goes by the name of the node, unless it has a
// register.
func (w *World) processesOf(id topology.Node) []topology.Node {
	members := w.topo.MembersOf(id)
	if len(members) == 1 && (id.Part != topology.Middleman || !w.settings.ShardRegister) {
		members[0] = id
	}
	return members
}

// add creates a node without starting it.
func (w *World) add(id topology.Node) *node {
	n := &node{id: id, number: len(w.order), topo: w.topo}
	n.isOlder = w.settings.Older && id.HasGroup() && w.now == 0 // what is added later is of the later version
	if !w.settings.NoRandomness {
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

// start creates the node's machine from the content of its disk.
func (w *World) start(n *node) {
	n.begin(w.now)
	switch n.id.Part {
	case topology.Middleman:
		w.startShard(n)
	case topology.Coordinator:
		w.startMember(n)
	case topology.Cache:
		cfg := cache.DefaultConfig(n.topo, n.id)
		cfg.Broken, cfg.Incarnation = w.settings.Broken, n.life
		if w.settings.NearBytes > 0 {
			cfg.NearLease = min(w.settings.Lease/3, cache.DefaultNearLease)
		}
		if w.settings.CacheBytes > 0 {
			cfg.MaxBytes = w.settings.CacheBytes
		}
		cfg.Rings = w.settings.Binding.Rings(w.topo, n.id.DC)
		n.m = cache.New(cfg)
	}
	w.scheduleTicks(n)
}

func (w *World) scheduleTicks(n *node) {
	phase := int64(0)
	if !w.settings.NoRandomness {
		phase = w.rng.Int64N(int64(tick))
	}
	w.startTicks(n, phase)
}

// startTicks ticks the machine that a node has now, from some time on.
func (w *World) startTicks(n *node, after int64) {
	inst := n.instance
	var next func() // the same for all ticks: there are more of them than of anything else
	next = func() {
		if n.m != nil && n.instance == inst {
			w.tick(n)
			w.schedule(int64(tick), next)
		}
	}
	w.schedule(after, next)
}

// AddSidecar starts a sidecar in dc.
func (w *World) AddSidecar(dc topology.DC, index uint64, results func([]session.Result)) topology.Node {
	id := topology.Node{DC: dc, Part: topology.Sidecar, Index: index}
	n := w.add(id)
	n.onResults = results
	cfg := session.DefaultConfig(w.topo, id)
	cfg.Types = w.types
	cfg.Binding, cfg.UseCache, cfg.Level, cfg.Broken = w.settings.Binding, w.settings.Cache, w.settings.Level,
		w.settings.Broken
	if !w.settings.ProductionPace {
		cfg.SnapshotInterval, cfg.SnapshotLead, cfg.MaxSnapshotLag = w.settings.SnapshotEvery,
			w.settings.SnapshotEvery/2, 2*time.Second
	}
	if w.settings.LateAfter > 0 {
		cfg.LateAfter = w.settings.LateAfter
	}
	if w.settings.LeftOut > 0 {
		cfg.LeftOut = w.settings.LeftOut
	}
	cfg.Comparison = session.Comparison{WithoutRingSets: w.settings.WithoutRingSets,
		WithoutSVLifting: w.settings.WithoutSVLifting}
	cfg.NotifyAfterDelay = 500 * time.Millisecond
	cfg.MaxAheadBytes = 1 << 30 // never reached: what pipelined gets hold is counted
	cfg.MaxNearBytes = w.settings.NearBytes
	if w.settings.NearReads > 0 {
		cfg.NearHotReads = uint8(min(w.settings.NearReads, 255))
	}
	if w.settings.OpTimeout > 0 {
		cfg.ReadTimeout, cfg.PutTimeout = w.settings.OpTimeout, w.settings.OpTimeout
	}
	if w.settings.MaxOwnBytes > 0 {
		cfg.MaxOwnBytes = w.settings.MaxOwnBytes
	}
	n.m = session.New(cfg)
	n.begin(w.now)
	w.links.addSidecar(n)
	w.startTicks(n, 0)
	return id
}

// begin begins a life of a node.
func (n *node) begin(now int64) {
	n.life++
	n.instance++
	n.startedAt = now
}

// clock returns the time on the node's clocks. The monotonic one begins anew with each life, as that of a process does.
func (w *World) clock(n *node) causal.Now {
	return causal.Now{Mono: int64(float64(w.now-n.startedAt)*(1+n.drift)) + 1, WallMs: startMs + w.now/1e6 + n.skewMs}
}

func (w *World) schedule(d int64, f func()) { w.events.push(event{at: w.now + d, do: f}) }

func (w *World) tick(n *node) {
	if now := w.clock(n); n.m.NextTick(now) <= now.Mono {
		n.m.Tick(now)
	} else if w.idleTick != nil {
		w.idleTick(n, now)
	}
	w.flush(n)
}

// Run advances the world by d of virtual time, or until stop returns true. It reports whether stop did; stop may be
// nil.
func (w *World) Run(d time.Duration, stop func() bool) bool {
	end := w.now + int64(d)
	for len(w.events.heap) > 0 && w.events.heap[0].at <= end {
		e := w.events.pop()
		w.now = e.at
		w.steps++
		if e.msg != nil {
			w.deliver(e.msg)
			w.net.release(e.msg)
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
	n := d.to
	switch {
	case n == nil:
		if n = w.process(d.msg.To); n == nil {
			return
		}
	case n.life != d.life:
		return
	}
	if n.m != nil && (!n.isOlder || w.canRead(n, &d.msg)) {
		w.validate(&d.msg)
		if w.delivered != nil {
			w.delivered(&d.msg)
		}
		n.m.Step(w.clock(n), &d.msg)
		w.flush(n)
	}
}

// maxRefused bounds the messages that are noted as refused.
const maxRefused = 3

// validate notes a message that a transport would not pass on. Parts that break a rule may send anything.
func (w *World) validate(m *causal.Message) {
	if v, field := causal.Validate(m, w.topo); v != causal.Valid && len(w.refused) < maxRefused &&
		!w.settings.Broken.Any() {
		w.refused = append(w.refused, fmt.Sprintf("%s from %v to %v would be refused for its field %s: %+v %+v",
			m.Kind, m.From, m.To, field, *m.Fields(), m.Body()))
	}
}

// flush sends the messages in a machine's outbox and starts the I/O that it requests.
func (w *World) flush(n *node) {
	w.send(n)
	switch m := n.m.(type) {
	case *process.Shard:
		w.drive(n, m)
		w.send(n)
		if err := m.Failure(); err != nil {
			w.replaceProcess(n, err)
		}
	case *process.Member:
		w.driveMember(n, m)
	case *member.Coordinator:
		w.flushGroup(n, m)
		w.noteSalvage(n)
	case *session.Sidecar:
		if rs := m.TakeResults(nil); len(rs) > 0 && n.onResults != nil {
			for i := range rs {
				m.ReleaseAhead(rs[i].Ahead)
			}
			n.onResults(rs)
		}
		if ts := m.TakeTurns(nil); len(ts) > 0 && n.onTurns != nil {
			n.onTurns(ts)
		}
	}
}

// send sends the messages that a machine has to send.
func (w *World) send(n *node) {
	w.batch = n.m.Take(w.batch[:0])
	for i := range w.batch {
		w.net.send(n, &w.batch[i])
	}
}

// flushGroup starts the I/O that a member of a group requests.
func (w *World) flushGroup(n *node, m groupMember) {
	w.noteClaim(n, m.Leadership())
	for _, op := range m.RegisterOps(nil) {
		w.request(n, op)
	}
	w.appendLog(n)
}

// withMachine calls f with the machine of a node, if the node is up, and then flushes the machine.
func withMachine[M machine](w *World, id topology.Node, f func(m M, now causal.Now)) {
	if n := w.nodes[id]; n != nil && n.m != nil {
		f(n.m.(M), w.clock(n))
		w.flush(n)
	}
}

// countFault counts an injected fault.
func (w *World) countFault(h InjectedFault) { w.faults[h]++ }

// crash stops a node. Each write that its disk had not acknowledged may be lost or kept.
func (w *World) crash(n *node) {
	if !n.isUp() {
		return
	}
	n.m = nil
	if len(n.claims) > 0 {
		w.noteClaim(n, causal.Leadership{})
	}
	n.life++
	n.instance++
	if n.disk != nil {
		n.disk.crash(w.rng, w.settings.NoRandomness)
	}
}

// restart starts a node that has crashed, unless it was removed.
func (w *World) restart(n *node) {
	if !n.isUp() && !n.removed {
		w.start(n)
	}
}
