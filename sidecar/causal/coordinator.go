package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// CoordinatorConfig is what a coordinator is told at its start.
type CoordinatorConfig struct {
	Topology *topology.Topology
	Self     topology.Node
	// Incarnation differs from that of every earlier start.
	Incarnation uint64
	// MaxBytes bounds keys and values of incomplete writes; beyond it puts are answered ErrBusy.
	MaxBytes int
	// ClockBoundMs is how far ahead of the wall clock a timestamp may be.
	ClockBoundMs int64
	// Window bounds the unacknowledged puts on their way to one shard.
	Window int
	// MaxDeps bounds the dependencies that a put takes over from the puts that it follows; beyond it, it waits for these.
	MaxDeps int
	// PublishEvery and IdleEvery are the periods of the vectors while writes complete and while nothing happens.
	PublishEvery, IdleEvery time.Duration
	// ResendAfter is when an unacknowledged put is sent again.
	ResendAfter time.Duration
	// DepsByID lets a ring ask for the put that another one follows at its shard, and so costs a round trip inside the ring for
	// each of a burst.
	DepsByID bool
	Broken   Faults
}

// DefaultCoordinatorConfig returns the defaults for a coordinator of t.
func DefaultCoordinatorConfig(t *topology.Topology, self topology.Node) CoordinatorConfig {
	return CoordinatorConfig{
		Topology: t, Self: self, MaxBytes: 256 << 20, ClockBoundMs: 10_000, Window: 1024, MaxDeps: 128,
		PublishEvery: 5 * time.Millisecond, IdleEvery: 100 * time.Millisecond, ResendAfter: time.Second,
	}
}

// ceilingMs is how far ahead of the clock the durable ceiling is laid: one log record per this time when idle.
const ceilingMs = 2000

// write is one accepted put until it is complete.
type write struct {
	rec  Record
	key  string
	slot topology.Slot
	// deps are writes in its past that are not known complete, each to be asked for by its id.
	deps []Dep
	// need says up to which HLC each lane carries writes of this origin in its past; 0 is none.
	need     []HLC
	session  uint64
	sidecar  topology.Node // who to tell; zero after a restart
	id       uint64        // of the put
	index    uint64        // in the log
	acked    topology.RingSet
	durable  bool
	released bool // on its way to the rings
	size     int  // bytes it counts for in the bound
}

// Coordinator is a client coordinator: write buffer, propagation to every ring at its own pace, and completion
// (PROTOCOL §4).
//
// Invariants: writes are in HLC order; everything below head is complete; what was published as SV is below every
// timestamp issued later, also across restarts, because it is never above ceiling or the HLC of a durable write.
type Coordinator struct {
	outbox
	cfg    CoordinatorConfig
	maps   mapping
	origin topology.Origin
	rings  topology.RingSet
	clock  Clock
	known  *Stability

	writes    []*write // from the oldest incomplete one on
	byHLC     map[HLC]*write
	bytes     int
	cursor    []int // by ring: writes[:cursor] are acknowledged by it
	sessions  map[client]*lineage
	lanes     map[topology.Node]*lane
	laneOrder []*lane // by lane.index

	appends     []Message
	nextIndex   uint64   // of the next append
	durable     uint64   // index of the last durable append
	held        standing // durable
	laid        standing // being made durable
	heldAt      uint64   // index of the newest durable checkpoint
	checkpoints []checkpoint
	truncate    uint64
	logFull     bool
	forgetAt    int64
	newest      HLC // of all accepted writes

	refusing bool
	left     bool   // the leader knows that this coordinator has left
	wish     uint64 // another one with each change of whether it is to be there, and each start
	attendAt int64

	publishAt int64
	progress  bool
	leader    *Leader // if this is the DC's first coordinator
}

type checkpoint struct {
	index uint64
	standing
}

// client names a session: sidecars number theirs independently.
type client struct {
	sidecar topology.Node
	session uint64
}

// lineage is what a coordinator knows of one session: its newest put, which the next one is ordered after.
type lineage struct {
	seq    uint64
	last   Version
	slot   topology.Slot
	usedAt int64
}

const maxLineages = 1 << 16

// NewCoordinator makes a coordinator from what its log holds: replay are the appended messages in order, and nextIndex is
// the index that the log gives to the next append.
func NewCoordinator(cfg CoordinatorConfig, now Now, replay []Message, nextIndex uint64) *Coordinator {
	maps := newMapping(cfg.Topology)
	cfg.Topology = maps.view
	t := cfg.Topology
	c := &Coordinator{
		cfg: cfg, maps: maps, origin: t.OriginOf(cfg.Self), rings: t.AllRings(), known: NewStability(t),
		byHLC: map[HLC]*write{}, cursor: make([]int, len(t.Rings)), sessions: map[client]*lineage{},
		lanes: map[topology.Node]*lane{}, nextIndex: nextIndex, durable: nextIndex - 1, wish: cfg.Incarnation,
	}
	for r := range t.Rings {
		c.makeLanes(topology.RingID(r))
	}
	if t.Leader(cfg.Self.DC) == cfg.Self {
		c.leader = newLeader(cfg, c.known)
	}
	c.restore(replay)
	if c.leader != nil {
		c.held.term, c.laid.term = 1, 1 // it is always there
	}
	c.publishAt = now.Mono
	return c
}

// restore rebuilds the write buffer. Everything in the log was acknowledged, so all of it goes on propagating; what the
// newest checkpoint knew to be complete does not.
func (c *Coordinator) restore(replay []Message) {
	var complete HLC
	for _, m := range replay {
		if m.Kind == KindStable {
			complete = max(complete, m.HLC)
		}
	}
	for _, l := range c.laneOrder {
		l.base = complete // what the log no longer holds, or holds as complete, was acknowledged by all
	}
	first := c.nextIndex - uint64(len(replay))
	for i, m := range replay {
		switch m.Kind {
		case KindStable:
			c.held, c.heldAt = standingOf(&m), first+uint64(i)
		case KindPutAfter:
			c.clock.Raise(m.Record.Version.HLC)
			if m.Record.Version.HLC <= complete {
				continue
			}
			w := &write{rec: m.Record, key: m.Key, slot: topology.SlotOf(m.Key), index: first + uint64(i), durable: true,
				session: m.Session, sidecar: m.From}
			byID := max(len(m.Deps)-int(m.Epoch), 0)
			w.deps = append(w.deps, m.Deps[:byID]...)
			c.follow(w, m.Deps[byID:])
			c.insert(w)
			c.release(w)
			c.sessions[client{m.From, m.Session}] = &lineage{seq: m.Seq, last: m.Record.Version, slot: w.slot}
		}
	}
	if c.cfg.Broken.has(ForgetTerms) {
		c.held.terms = terms{}
	}
	c.laid = c.held
	c.known.Merge([]VectorEntry{{Origin: c.origin, SV: complete}})
	if !c.cfg.Broken.has(ReuseHLC) {
		c.clock.Raise(c.held.ceiling) // PROTOCOL §4: never issue an HLC at or below a published SV, also across restarts
	}
}

func (c *Coordinator) insert(w *write) {
	c.writes = append(c.writes, w)
	c.byHLC[w.rec.Version.HLC] = w
	c.newest = max(c.newest, w.rec.Version.HLC)
	w.size = len(w.key) + w.rec.Value.Size() + 16*len(w.deps) + 8*len(w.need)
	c.bytes += w.size
}

// Step takes one message.
func (c *Coordinator) Step(now Now, m *Message) {
	if ring, switched := c.maps.heard(m); switched {
		c.remap(now, ring)
	}
	switch m.Kind {
	case KindPut:
		c.put(now, m)
	case KindPutAck:
		c.acknowledged(now, m)
	case KindVectors:
		c.learn(m.Vectors)
		if c.leader != nil && m.From.DC == c.cfg.Self.DC {
			c.leader.urgent = true
		}
	case KindLogGet:
		c.logGet(m)
	case KindLaneHello:
		c.introduce(now, m)
	case KindTerm:
		c.admit(now, m)
	case KindTermReply:
		c.admitted(now, m)
	case KindSubscribe, KindPong:
		if c.leader != nil {
			c.leader.step(now, m)
		}
	}
}

// learn takes over vectors.
func (c *Coordinator) learn(entries []VectorEntry) {
	if !c.known.Merge(entries) {
		return
	}
	if c.leader != nil {
		c.leader.changed = true
	}
}

// put accepts one put: from here on it has its place in the order, but it is acknowledged only when the log holds it.
func (c *Coordinator) put(now Now, m *Message) {
	reply := Message{Kind: KindPutReply, From: c.cfg.Self, To: m.From, ID: m.ID}
	line := c.lineageOf(now, client{m.From, m.Session})
	stale := m.Seq <= line.seq
	line.seq = max(line.seq, m.Seq) // a duplicate of a refused put must not be taken
	switch {
	case stale:
		reply.Err = ErrStale // a late arrival from a broken connection, or a duplicate: the session has gone on
	case c.refusing || c.Membership() != Serving:
		reply.Err = ErrUnavailable
	case c.logFull || c.bytes+len(m.Key)+m.Record.Value.Size() > c.cfg.MaxBytes:
		reply.Err = ErrBusy
	}
	after := m.HLC
	for _, d := range m.Deps {
		after = max(after, d.Version.HLC)
	}
	if c.cfg.Broken.has(FloorWithoutOwn) {
		after = 0
	}
	if reply.Err == OK {
		hlc, ok := c.clock.Next(now, after, c.cfg.ClockBoundMs)
		if !ok {
			reply.Err = ErrClock
		} else {
			reply.Record.Version = Version{HLC: hlc, Origin: c.origin}
		}
	}
	if reply.Err != OK {
		c.send(reply)
		return
	}
	w := &write{
		rec: Record{Version: reply.Record.Version, Value: m.Record.Value}, key: m.Key, slot: topology.SlotOf(m.Key),
		session: m.Session, sidecar: m.From, id: m.ID, index: c.nextIndex,
	}
	direct := c.depsOf(m, line)
	c.follow(w, direct)
	line.last, line.slot = w.rec.Version, w.slot
	c.insert(w)
	c.append(c.logged(w, m.Seq, direct))
	if c.cfg.Broken.has(PropagateBeforeDurable) {
		c.release(w)
	}
}

func (c *Coordinator) append(m Message) {
	c.appends = append(c.appends, m)
	c.nextIndex++
}

// depsOf returns the dependencies that still matter: what the session says, and the session's put before this one, so
// that a session's puts may be pipelined.
func (c *Coordinator) depsOf(m *Message, line *lineage) []Dep {
	if c.cfg.Broken.has(SkipDeps) {
		return nil
	}
	var deps []Dep
	previous := false
	for _, d := range m.Deps {
		if !c.complete(d.Version) {
			deps = append(deps, d)
			previous = previous || d.Version == line.last
		}
	}
	if !previous && !line.last.IsZero() && !c.complete(line.last) {
		deps = append(deps, Dep{Version: line.last, Slot: line.slot})
	}
	return deps
}

// follow puts w after direct. What it follows is flattened: of this origin, w names for each shard the newest write in its
// past; of other origins, the writes that it follows itself or through these. So a burst of puts becomes visible in a ring
// as soon as all of it has arrived there, and not one hop after the other. A list that gets too long is begun anew: w then
// asks for the writes of this origin by their ids, and so waits one hop.
func (c *Coordinator) follow(w *write, direct []Dep) {
	var foreign, own []Dep
	for _, d := range direct {
		if d.Version.Origin != c.origin {
			foreign = append(foreign, d)
		} else if c.byHLC[d.Version.HLC] != nil {
			own = append(own, d)
		}
	}
	w.follow(c, foreign)
	if len(own) == 0 {
		return
	}
	byID := slices.Clone(w.deps)
	w.need = make([]HLC, len(c.laneOrder))
	for _, d := range own {
		u := c.byHLC[d.Version.HLC]
		w.follow(c, u.deps)
		for i, h := range u.need {
			w.need[i] = max(w.need[i], h)
		}
		for r := range c.cfg.Topology.Rings {
			l := c.laneTo(topology.RingID(r), u.slot)
			w.need[l.index] = max(w.need[l.index], u.rec.Version.HLC)
		}
	}
	if len(w.deps) > c.cfg.MaxDeps || c.cfg.DepsByID {
		w.need, w.deps = nil, append(byID, own...)
	}
}

// follow adds the deps that are not known complete, each once.
func (w *write) follow(c *Coordinator, deps []Dep) {
	for _, d := range deps {
		if !c.complete(d.Version) && !slices.Contains(w.deps, d) {
			w.deps = append(w.deps, d)
		}
	}
}

// logged is what the log keeps of a write. Epoch says how many of the last Deps are those that it follows directly, to be
// flattened again.
func (c *Coordinator) logged(w *write, seq uint64, direct []Dep) Message {
	var own []Dep
	for _, d := range direct {
		if d.Version.Origin == c.origin {
			own = append(own, d)
		}
	}
	return Message{Kind: KindPutAfter, From: w.sidecar, Session: w.session, Seq: seq, Key: w.key, Record: w.rec,
		Deps: append(slices.Clone(w.deps), own...), Epoch: uint64(len(own))}
}

func (c *Coordinator) complete(v Version) bool {
	if v.Origin == c.origin {
		_, pending := c.byHLC[v.HLC]
		return !pending
	}
	return c.known.Complete(v)
}

func (c *Coordinator) lineageOf(now Now, who client) *lineage {
	l := c.sessions[who]
	if l == nil {
		if len(c.sessions) >= maxLineages {
			c.forgetLineages(now)
		}
		l = &lineage{}
		c.sessions[who] = l
	}
	l.usedAt = now.Mono
	return l
}

// forgetLineages drops the sessions that have been silent for long: no message of theirs is still on its way, and the
// session itself names its newest put with the next one.
func (c *Coordinator) forgetLineages(now Now) {
	if now.Mono < c.forgetAt {
		return
	}
	c.forgetAt = now.Mono + int64(time.Second)
	for id, l := range c.sessions {
		if now.Mono-l.usedAt > int64(time.Minute) {
			delete(c.sessions, id)
		}
	}
}

// Appends appends the records that the log must make durable, in order, to dst and empties the list.
func (c *Coordinator) Appends(dst []Message) []Message {
	dst = append(dst, c.appends...)
	clear(c.appends)
	c.appends = c.appends[:0]
	return dst
}

// Appended says that the log holds the records up to index.
func (c *Coordinator) Appended(now Now, index uint64) {
	for _, w := range c.writes[c.firstAt(c.durable+1):] {
		if w.index > index {
			break
		}
		w.durable = true
		c.send(Message{Kind: KindPutReply, From: c.cfg.Self, To: w.sidecar, ID: w.id, Session: w.session, Record: Record{Version: w.rec.Version}})
		if !w.released {
			c.release(w)
		}
	}
	c.durable = max(c.durable, index)
	for len(c.checkpoints) > 0 && c.checkpoints[0].index <= index {
		c.held, c.heldAt = c.checkpoints[0].standing, c.checkpoints[0].index
		c.checkpoints = c.checkpoints[1:]
		c.trim()
	}
	c.pumpAll(now)
}

// firstAt returns the position in writes of the first one at or after a log index.
func (c *Coordinator) firstAt(index uint64) int {
	lo, hi := 0, len(c.writes)
	for lo < hi {
		if mid := (lo + hi) / 2; c.writes[mid].index < index {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// logGet serves the value of an own write that fell out of the session's memory.
func (c *Coordinator) logGet(m *Message) {
	reply := Message{Kind: KindLogReply, From: c.cfg.Self, To: m.From, ID: m.ID, Err: ErrNotFound}
	if w := c.byHLC[m.Record.Version.HLC]; w != nil && m.Record.Version.Origin == c.origin {
		reply.Err, reply.Record = OK, w.rec
	}
	c.send(reply)
}

// Refuse lets no further put in, because the coordinator is about to stop.
func (c *Coordinator) Refuse() { c.refusing = true }

// SetLogFull refuses puts while the log has no room: complete writes behind an incomplete one still take some.
func (c *Coordinator) SetLogFull(full bool) { c.logFull = full }

// TruncateBefore returns the log index below which nothing is needed any more.
func (c *Coordinator) TruncateBefore() uint64 { return c.truncate }

// Take appends the messages to be sent to dst and empties the outbox.
func (c *Coordinator) Take(dst []Message) []Message {
	dst = c.outbox.Take(dst)
	if c.leader != nil {
		dst = c.leader.Take(dst)
	}
	return dst
}

// Pending returns the number and bytes of incomplete writes.
func (c *Coordinator) Pending() (writes, bytes int) { return len(c.writes), c.bytes }

// Known returns the vectors as this coordinator has them; for the leader of a DC that is all there is to know.
func (c *Coordinator) Known() *Stability { return c.known }

// RoundTrips calls f for each DC that a leader has probed, with milliseconds, or less than 0 if that DC does not answer.
func (c *Coordinator) RoundTrips(f func(dc topology.DC, ms float64)) {
	if c.leader != nil {
		c.leader.roundTrips(f)
	}
}

// Drained reports whether every accepted put is complete and that has been told, so that the coordinator may leave.
func (c *Coordinator) Drained() bool {
	if len(c.writes) > 0 || len(c.appends) > 0 || c.known.sv[c.origin] < c.newest {
		return false
	}
	return !slices.ContainsFunc(c.laneOrder, func(l *lane) bool { return len(l.complete) > 0 })
}
