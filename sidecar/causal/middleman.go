package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// MiddlemanConfig is what a middleman is told at its start.
type MiddlemanConfig struct {
	Topology *topology.Topology
	Self     topology.Node
	// Incarnation is not zero and differs from that of every earlier start.
	Incarnation uint64
	// Horizon is the durable tombstone horizon: every put at or below it has been processed.
	Horizon HLC
	// Fresh says that the storage has never been used, so that no cache can hold anything of it.
	Fresh bool
	// Inherited says that caches may hold copies of which nothing is known here, and cannot be told, until the leases of before
	// have run out: slots were taken in from others, or the numbers of caches were other ones.
	Inherited bool
	// Lease is how long a cache may use what it got without hearing from the middleman again. It must be the same for all
	// parts, and may be lowered only while no middleman runs.
	Lease time.Duration
	// AskAgain is when an unanswered question for a dependency is repeated.
	AskAgain time.Duration
	// KeepMs is for how long below SV old versions and tombstones are kept, for snapshot cuts that are in use.
	KeepMs int64
	// MaxHistoryBytes bounds the memory of old versions.
	MaxHistoryBytes int
	Broken          Faults
}

// DefaultLease is the default of MiddlemanConfig.Lease.
const DefaultLease = 3 * time.Second

// DefaultMiddlemanConfig returns the defaults for a middleman of t.
func DefaultMiddlemanConfig(t *topology.Topology, self topology.Node) MiddlemanConfig {
	return MiddlemanConfig{
		Topology: t, Self: self, Lease: DefaultLease, AskAgain: 500 * time.Millisecond, KeepMs: 3000,
		MaxHistoryBytes: 64 << 20,
	}
}

// maxMarked bounds the stable marks above SV.
const maxMarked = 1 << 20

// StorageOp is one request of a middleman to its storage; StorageDone answers it.
type StorageOp struct {
	ID     uint64
	Kind   StorageKind
	Key    string
	Record Record
	// Horizon is the value for StorageHorizon.
	Horizon HLC
}

// StorageKind is what a StorageOp does.
type StorageKind uint8

// The storage requests. Write, Delete and Horizon must be durable before they are answered.
const (
	StorageRead StorageKind = iota
	StorageWrite
	StorageDelete
	StorageHorizon
	StorageCount
)

// StorageResult answers a StorageOp.
type StorageResult struct {
	ID     uint64
	Record Record
	Found  bool
	Failed bool
	// Foreign says that the value has no valid envelope: somebody else wrote it. Record.Value is then what stands there.
	Foreign bool
	// Count answers StorageCount.
	Count int64
}

// done is a processed write that RV does not cover yet.
type done struct {
	clean bool
	key   string // for the StatusPerKey fault and for reports
}

// Middleman stands before one storage replica and decides what may be written, read and cached (PROTOCOL §5).
//
// Invariants: a write is processed only after all its dependencies are processed in this ring; it is acknowledged only
// when it and, recursively, its dependencies are out of every cache that held older values; everything a key's queue does
// is atomic for that key.
type Middleman struct {
	outbox
	cfg   MiddlemanConfig
	ring  topology.RingID
	known *Stability

	puts      map[Version]*put
	processed map[Version]*done // not covered by RV
	marked    map[Version]struct{}
	needs     map[Version]*need
	watchers  map[Version][]watcher
	watched   []Version // the keys of watchers, in order of arrival; some may be gone
	asking    []*need   // the order for repeated questions
	acks      map[topology.Node][]Version
	ackOrder  []topology.Node

	lanes      []*inlane          // by origin
	allSynced  bool               // of the lanes; once they are, they stay so
	writers    *topology.Topology // says which coordinators there are
	fronts     map[frontKey]*front
	frontOrder []*front
	peers      []topology.Node // the other shards of the ring
	gossip     bool
	gossipAt   int64
	helloAt    int64
	staged     map[string][]*put // here, and not on their way to storage
	parked     int
	failed     []*keyOp // whose storage request failed, to be tried again

	keys    map[string]*keyQueue
	ops     []StorageOp
	nextOp  uint64
	waiting map[uint64]*keyOp // by storage op

	at *cachedAt
	// olderAt are, by key hash, the DCs with copies that are older than what stands in storage.
	olderAt    map[uint64]olderCopies
	olderWhole HLC   // up to where the ring had everything when they were last gone through
	olderUntil int64 // somebody reads them
	// held are puts that are not acknowledged before others' leases have run out.
	held      []*put
	heldUntil int64
	// invalidating counts, by key hash, the waits in all streams' pending.
	invalidating map[uint64]int
	streams      map[topology.Node]*stream
	caches       []topology.Node // of all DCs, in order

	hist        history
	tombs       []tomb
	horizon     HLC
	horizonAsk  uint64 // storage op under way
	horizonNext HLC

	purgeAt   int64
	solicited bool
	stats     MiddlemanStats

	faultLatest map[string]Version // only for seeded faults
	faultMarked map[string]bool
	faultLate   []lateRegistration
}

type tomb struct {
	version Version
	key     string
}

type lateRegistration struct {
	hash uint64
	dc   topology.DC
}

// MiddlemanStats counts since the start.
type MiddlemanStats struct {
	Gets, Fills, Puts, Superseded, InFlightReads, Invalidations, DepWaits, OlderReads, StorageErrors, CutsTooOld, Foreign uint64
}

// NewMiddleman makes a middleman.
func NewMiddleman(cfg MiddlemanConfig, now Now) *Middleman {
	t := cfg.Topology
	m := &Middleman{
		cfg: cfg, ring: t.RingOf(cfg.Self.DC), known: NewStability(t),
		puts: map[Version]*put{}, processed: map[Version]*done{}, marked: map[Version]struct{}{}, needs: map[Version]*need{},
		watchers: map[Version][]watcher{}, acks: map[topology.Node][]Version{}, keys: map[string]*keyQueue{},
		waiting: map[uint64]*keyOp{}, at: newCachedAt(len(t.DCs)), olderAt: map[uint64]olderCopies{}, invalidating: map[uint64]int{}, fronts: map[frontKey]*front{},
		staged: map[string][]*put{}, lanes: make([]*inlane, t.Origins()+1), streams: map[topology.Node]*stream{}, horizon: cfg.Horizon,
	}
	m.writers = t
	m.hist.init(cfg.MaxHistoryBytes)
	for o := range m.lanes {
		m.lanes[o] = &inlane{cleaned: map[HLC]struct{}{}, synced: cfg.Fresh || cfg.Broken.has(SyncInUse) && o > 0 && t.CoordinatorOf(topology.Origin(o)).Index > 0}
	}
	for _, n := range t.Members(m.ring) {
		if n != cfg.Self {
			m.peers = append(m.peers, n)
		}
	}
	t.Nodes(func(n topology.Node) {
		if n.Part != topology.Cache {
			return
		}
		s := &stream{cache: n}
		if !cfg.Fresh && !cfg.Broken.has(RestartForgetsCaches) {
			// PROTOCOL §6: after a restart every cache may hold anything, until its lease has run out or it starts anew.
			s.unknownUntil = now.Mono + int64(cfg.Lease)
		}
		m.streams[n] = s
		m.caches = append(m.caches, n)
	})
	if cfg.Inherited && !cfg.Broken.has(JoinFresh) {
		m.heldUntil = now.Mono + int64(cfg.Lease)
	}
	if cfg.Broken != 0 {
		m.faultLatest, m.faultMarked = map[string]Version{}, map[string]bool{}
	}
	return m
}

// Step takes one message.
func (m *Middleman) Step(now Now, msg *Message) {
	switch msg.Kind {
	case KindGet, KindFill:
		m.read(now, msg)
	case KindPutAfter:
		m.putAfter(now, msg)
	case KindDepCheck:
		m.depCheck(now, msg)
	case KindDepStatus:
		m.resolve(now, msg.Versions[0], msg.Clean)
	case KindStable:
		m.stable(now, msg)
	case KindLaneSync:
		m.laneSync(now, msg)
	case KindFrontier:
		m.frontier(now, msg)
	case KindVectors:
		if m.known.Merge(msg.Vectors) {
			m.vectorsMoved(now)
		}
	case KindStreamOpen:
		m.streamOpen(now, msg)
	case KindLease:
		m.lease(now, msg)
	case KindInvalidateAck:
		m.invalidated(now, msg)
	case KindCount:
		m.request(StorageOp{Kind: StorageCount}, &keyOp{msg: *msg})
	case KindPing:
		m.send(Message{Kind: KindPong, From: m.cfg.Self, To: msg.From, ID: msg.ID, Map: m.slots()})
	}
}

// SetCoordinators takes note of the coordinators that another topology has.
func (m *Middleman) SetCoordinators(t *topology.Topology) { m.writers = t }

// slots names the map from slots to middlemen by which this one owns what it does. As long as it runs that is the same.
func (m *Middleman) slots() topology.MapID { return m.cfg.Topology.Map(m.ring) }

// sameSlots reports whether a message was sent by the map that is in use here. What follows the lanes of another map says
// nothing about these: a write that has come before on the one may not have on the other.
func (m *Middleman) sameSlots(msg *Message) bool {
	return msg.Map == m.slots() || m.cfg.Broken.has(AnyMap)
}

// Take appends the messages to be sent to dst and empties the outbox. Acknowledgements go out as one message per
// coordinator.
func (m *Middleman) Take(dst []Message) []Message {
	for _, cc := range m.ackOrder {
		m.send(Message{Kind: KindPutAck, From: m.cfg.Self, To: cc, Epoch: m.cfg.Incarnation, Versions: m.acks[cc]})
		delete(m.acks, cc)
	}
	m.ackOrder = m.ackOrder[:0]
	return m.outbox.Take(dst)
}

func (m *Middleman) ack(cc topology.Node, v Version) {
	if _, ok := m.acks[cc]; !ok {
		m.ackOrder = append(m.ackOrder, cc)
	}
	m.acks[cc] = append(m.acks[cc], v)
}

// Ops appends the storage requests to dst and empties the list.
func (m *Middleman) Ops(dst []StorageOp) []StorageOp {
	dst = append(dst, m.ops...)
	clear(m.ops)
	m.ops = m.ops[:0]
	return dst
}

// status says what is known of a version, now.
func (m *Middleman) status(key string, v Version) Status {
	if m.cfg.Broken != 0 {
		if s, broken := m.brokenStatus(key, v); broken {
			return s
		}
	}
	if !v.Written() || m.known.Complete(v) {
		return Stable
	}
	if _, ok := m.marked[v]; ok {
		return Stable
	}
	return InFlight
}

func (m *Middleman) brokenStatus(key string, v Version) (Status, bool) {
	switch {
	case m.cfg.Broken.has(StatusPerKey):
		if m.faultMarked[key] {
			return Stable, true
		}
	case m.cfg.Broken.has(RestartStable):
		if _, known := m.processed[v]; !known {
			return Stable, true
		}
	}
	return InFlight, false
}

// stable takes a coordinator's word that writes are complete.
func (m *Middleman) stable(now Now, msg *Message) {
	if len(msg.Versions) == 0 {
		return
	}
	for _, v := range msg.Versions {
		m.marked[v] = struct{}{}
		m.settled(now, v)
		if d := m.processed[v]; d != nil && m.faultMarked != nil {
			m.faultMarked[d.key] = true
		}
	}
	if m.known.Merge([]VectorEntry{{Origin: msg.Versions[0].Origin, SV: msg.HLC}}) {
		m.vectorsMoved(now)
	}
}

// cleanHere reports whether v is processed in this ring with all its dependencies, and out of the ring's caches.
func (m *Middleman) cleanHere(v Version, slot topology.Slot) bool {
	if m.known.ProcessedIn(m.ring, v) || v.HLC <= m.horizon {
		return true
	}
	if _, complete := m.marked[v]; complete {
		return true
	}
	if int(v.Origin) < len(m.lanes) && v.HLC <= m.lanes[v.Origin].base && m.local(slot) {
		return true // acknowledged by this shard, perhaps before it restarted
	}
	d := m.processed[v]
	return d != nil && d.clean
}

// vectorsMoved settles what was waited for and forgets what the vectors now cover.
func (m *Middleman) vectorsMoved(now Now) {
	for i := 0; i < len(m.asking); i++ {
		if n := m.asking[i]; !n.clean && m.known.ProcessedIn(m.ring, n.version) {
			m.resolve(now, n.version, true)
		}
	}
	for _, f := range m.frontOrder {
		if done := m.known.rv[m.ring][f.key.origin]; done > f.clean {
			m.raise(now, f, done, done)
		}
	}
	for _, v := range m.watched {
		if m.known.ProcessedIn(m.ring, v) {
			m.tell(v, true)
		}
	}
	m.watched = slices.DeleteFunc(m.watched, func(v Version) bool { return m.watchers[v] == nil })
}

// Tick does what is due.
func (m *Middleman) Tick(now Now) {
	if !m.solicited {
		m.solicit()
	}
	m.expireLeases(now)
	m.letGo(now)
	m.askAgain(now)
	m.hello(now)
	m.tellRing(now)
	failed := m.failed
	m.failed = nil
	for _, o := range failed {
		m.requestWrite(o)
	}
	for _, l := range m.faultLate {
		m.at.add(l.hash, l.dc)
	}
	m.faultLate = m.faultLate[:0]
	if now.Mono-m.purgeAt < int64(100*time.Millisecond) {
		return
	}
	m.purgeAt = now.Mono
	for v, d := range m.processed {
		if _, complete := m.marked[v]; d.clean && (complete || m.known.ProcessedIn(m.ring, v)) {
			delete(m.processed, v)
		}
	}
	for v := range m.marked {
		if m.known.Complete(v) {
			delete(m.marked, v)
		}
	}
	m.dropParked(now)
	m.forgetOlder()
	if len(m.marked) > maxMarked {
		clear(m.marked) // at any time: they then count as in-flight until SV passes them
	}
	keepFrom := m.known.MinSV() - min(m.known.MinSV(), HLCAt(m.cfg.KeepMs))
	m.hist.prune(keepFrom)
	m.dropTombstones(now, keepFrom)
}

// Stats returns the counters.
func (m *Middleman) Stats() MiddlemanStats { return m.stats }

// Depth returns what is kept in memory: puts waiting or in work, processed writes above RV, bytes of cached-at, bytes of
// old versions.
func (m *Middleman) Depth() (puts, processed, cachedAtBytes, historyBytes int) {
	return len(m.puts), len(m.processed), m.at.bytes(), m.hist.bytes
}

// Known returns the vectors as this middleman has them.
func (m *Middleman) Known() *Stability { return m.known }
