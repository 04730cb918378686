package causal

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// call is an operation under way.
type call struct {
	op       Op
	s        *session
	issued   uint64
	slot     topology.Slot
	own      *ownWrite
	started  int64
	deadline int64
	dueAt    int64 // when the request under way is given up
	req      uint64
	target   topology.Node
	ring     topology.RingID
	tried    topology.RingSet
	tries    int
	noCache  bool
	answered bool // the target did answer, only not with what can be used
	bound    bool
	done     bool
	held     bool // a put that was refused, and is to go elsewhere
	multi    *multi
	total    int64
	resume   *resumption
}

// request finds the call of an answer.
type request struct {
	c *call
	i int // of the key, for MGET
}

// Sidecar holds the sessions of one pod (PROTOCOL §3).
type Sidecar struct {
	outbox
	cfg       SidecarConfig
	maps      mapping
	home      topology.RingSet // the rings that sessions may read
	known     *Stability
	routes    *Routes
	sessions  map[uint64]*session
	active    []*session
	requests  map[uint64]request
	nextReq   uint64
	calls     []*call
	parked    []*call // waiting for vectors, not for an answer
	free      []*call
	results   []Result
	suspect   map[topology.Node]int64 // coordinators, until when
	writers   uint64                  // bits of those of the own DC that are in use; 0: not heard yet
	askAt     int64
	cut       HLC   // that sessions read at, with Snapshot
	cutAt     int64 // when it moved
	cutBehind bool  // it is so old that nobody should read at it
	announced HLC   // of the newest of cuts
	cuts      []nextCut
	tickedAt  int64
	stats     SidecarStats

	faultKeys map[string]Message // only for the LateReply fault: the last answer that came too late, by key
}

// NewSidecar makes a sidecar without sessions.
func NewSidecar(cfg SidecarConfig) *Sidecar {
	maps := newMapping(cfg.Topology)
	cfg.Topology = maps.view
	s := &Sidecar{
		cfg: cfg, maps: maps, home: cfg.Topology.AllRings(), known: NewStability(cfg.Topology), routes: NewRoutes(cfg.Topology, cfg.Self.DC),
		sessions: map[uint64]*session{}, requests: map[uint64]request{}, suspect: map[topology.Node]int64{},
	}
	if cfg.Static {
		s.home = topology.RingsOf(cfg.Topology.RingOf(cfg.Self.DC))
	}
	if cfg.Broken.has(LateReply) {
		s.faultKeys = map[string]Message{}
	}
	return s
}

// Open starts a session. The id must be new.
func (s *Sidecar) Open(id uint64) {
	s.sessions[id] = &session{id: id, own: map[string]*ownWrite{}, pending: map[Version]*ownWrite{}}
}

// Close ends a session; operations under way fail.
func (s *Sidecar) Close(now Now, id uint64) {
	ss := s.sessions[id]
	if ss == nil {
		return
	}
	ss.closed = true
	delete(s.sessions, id)
	for _, c := range append(append([]*call(nil), s.calls...), s.parked...) {
		if c.s != ss || c.done {
			continue
		}
		if c.op.Kind == OpPut {
			s.fail(c, ErrUnknown)
		} else {
			s.fail(c, ErrUnavailable)
		}
	}
}

// Do starts an operation; its Result may be there at once or after later steps.
func (s *Sidecar) Do(now Now, op Op) {
	ss := s.sessions[op.Session]
	if ss == nil {
		s.results = append(s.results, Result{ID: op.ID, Err: ErrUnavailable})
		return
	}
	c := s.newCall()
	*c = call{op: op, s: ss, started: now.Mono, ring: topology.NoRing}
	timeout := op.Timeout
	if timeout == 0 {
		timeout = s.cfg.ReadTimeout
		if op.Kind == OpPut {
			timeout = s.cfg.PutTimeout
		}
	}
	c.deadline = now.Mono + int64(timeout)
	ss.ops++
	c.issued = ss.ops
	s.calls = append(s.calls, c)
	switch op.Kind {
	case OpGet:
		s.get(now, c)
	case OpMGet:
		s.mget(now, c)
	case OpPut:
		s.put(now, c)
	case OpToken:
		s.finish(c, Result{Token: s.export(ss)})
	case OpResume:
		s.resume(now, c)
	case OpWait:
		s.wait(c)
	case OpCount:
		s.count(c)
	}
	s.reap()
}

// reap frees the newest calls if they are answered: most are, long before the next tick.
func (s *Sidecar) reap() {
	for n := len(s.calls) - 1; n >= 0 && s.calls[n].done; n-- {
		s.recycle(s.calls[n])
		s.calls[n] = nil
		s.calls = s.calls[:n]
	}
}

// recycle keeps a call for the next operation, if nothing can point to it any more.
func (s *Sidecar) recycle(c *call) {
	if c.op.Kind == OpGet || c.op.Kind == OpPut {
		s.free = append(s.free, c)
	}
}

func (s *Sidecar) newCall() *call {
	if n := len(s.free); n > 0 {
		c := s.free[n-1]
		s.free = s.free[:n-1]
		return c
	}
	return &call{}
}

// Results appends the finished operations to dst and empties the list.
func (s *Sidecar) Results(dst []Result) []Result {
	dst = append(dst, s.results...)
	clear(s.results)
	s.results = s.results[:0]
	return dst
}

// finish answers a call.
func (s *Sidecar) finish(c *call, r Result) {
	if c.done {
		return
	}
	c.done = true
	delete(s.requests, c.req)
	if c.multi != nil { // of MGET and counts
		for _, id := range c.multi.reqs {
			delete(s.requests, id)
		}
	}
	r.ID, r.Outcome.Bound = c.op.ID, c.bound
	c.s.latest = r.Outcome
	s.results = append(s.results, r)
}

func (s *Sidecar) fail(c *call, err ErrCode) {
	if err == ErrUnavailable {
		s.stats.Unavailable++
	}
	if c.op.Kind == OpPut && !c.done {
		c.s.outstanding--
		c.s.held = slices.DeleteFunc(c.s.held, func(h *call) bool { return h == c })
		if err == ErrUnknown {
			s.stats.Unknown++
		}
	}
	s.finish(c, Result{Err: err})
}

// ask sends a request of c and remembers whose answer it is.
func (s *Sidecar) ask(c *call, i int, m Message) uint64 {
	s.nextReq++
	m.ID, m.From = s.nextReq, s.cfg.Self
	s.requests[m.ID] = request{c, i}
	s.send(m)
	return m.ID
}

// Step takes one message.
func (s *Sidecar) Step(now Now, m *Message) {
	if _, switched := s.maps.heard(m); switched {
		s.useMap()
	}
	switch m.Kind {
	case KindGetReply, KindLogReply, KindPutReply, KindCountReply:
		r, ok := s.requests[m.ID]
		if !ok {
			s.lateReply(m)
			return
		}
		delete(s.requests, m.ID)
		switch r.c.op.Kind {
		case OpGet:
			s.gotten(now, r.c, m)
		case OpMGet:
			s.collected(now, r.c, r.i, m)
		case OpPut:
			s.putDone(now, r.c, m)
		case OpCount:
			s.counted(r.c, m)
		}
		s.reap()
	case KindComplete:
		s.completed(now, m)
	case KindVectors:
		delete(s.suspect, m.From) // it is there again
		s.writers = m.Seq
		if s.known.Merge(m.Vectors) {
			s.vectorsMoved(now)
		}
	case KindDepStatus:
		s.depStatus(now, m)
	case KindLatencies:
		s.routes.Update(m.Latencies)
	}
}

// completed takes a coordinator's word that own writes are complete.
func (s *Sidecar) completed(now Now, m *Message) {
	ss := s.sessions[m.Session]
	if ss == nil {
		return
	}
	for _, v := range m.Versions {
		if w := ss.pending[v]; w != nil {
			s.completeOwn(ss, w)
		}
	}
	s.compact(ss)
	s.unpark(now)
}

// compact drops what is complete from the middle of the list of own writes, once it is most of it.
func (s *Sidecar) compact(ss *session) {
	if len(ss.order) > 2*len(ss.pending)+64 {
		ss.order = slices.DeleteFunc(ss.order, func(w *ownWrite) bool { return ss.pending[w.version] != w })
	}
}

// vectorsMoved applies new vectors to every session that they may matter to.
func (s *Sidecar) vectorsMoved(now Now) {
	s.advanceCut(now)
	kept := s.active[:0]
	for _, ss := range s.active {
		if !ss.closed && s.sweep(ss) {
			kept = append(kept, ss)
		} else {
			ss.active = false
		}
	}
	clear(s.active[len(kept):])
	s.active = kept
	s.unpark(now)
}

// depStatus takes a middleman's answer to notify-after.
func (s *Sidecar) depStatus(now Now, m *Message) {
	v := m.Versions[0]
	for _, ss := range s.active {
		for _, r := range ss.restrict {
			if r.version == v {
				s.noted(r, m)
				ss.boundOK = false
			}
		}
		ss.lift(func(r *restriction) bool { return r.clean == s.cfg.Topology.AllRings() })
	}
	for _, c := range s.parked {
		if c.resume != nil && !c.done {
			for i := range c.resume.restrict {
				if r := &c.resume.restrict[i]; r.version == v {
					s.noted(r, m)
				}
			}
		}
	}
	s.unpark(now)
}

func (s *Sidecar) noted(r *restriction, m *Message) {
	if !s.cfg.OneRing {
		r.rings = r.rings.With(m.Ring)
	}
	if m.Clean {
		r.clean = r.clean.With(m.Ring)
	}
}

// Tick gives up what has waited too long, tries other ways, and asks for restrictions that SV does not lift.
func (s *Sidecar) Tick(now Now) {
	if s.cfg.Snapshot {
		s.vectorsMoved(now) // a cut may be due
	}
	s.maps.ask(now, s.cfg.Self, s.send)
	if now.Mono >= s.askAt {
		s.askAt = now.Mono + int64(subscription/4)
		s.send(Message{Kind: KindSubscribe, From: s.cfg.Self, To: s.cfg.Topology.Leader(s.cfg.Self.DC)})
	}
	kept := s.calls[:0]
	for _, c := range s.calls {
		if !c.done {
			s.overdue(now, c)
		}
		if c.done {
			s.recycle(c)
			continue
		}
		kept = append(kept, c)
	}
	clear(s.calls[len(kept):])
	s.calls = kept
	elapsed := uint64(max(now.Mono-s.tickedAt, 0))
	s.tickedAt = now.Mono
	for _, ss := range s.active {
		if len(ss.restrict) > 0 && !ss.closed {
			s.stats.BoundNs += elapsed
		}
		for _, r := range ss.restrict {
			if now.Mono-r.since >= int64(s.cfg.LagBound) {
				r.since = now.Mono
				s.notifyAfter(r, r.clean)
			}
		}
	}
}

// notifyAfter asks every ring that is not in known to tell when it has processed r.
func (s *Sidecar) notifyAfter(r *restriction, known topology.RingSet) {
	for ring := range s.cfg.Topology.Rings {
		if id := topology.RingID(ring); !known.Has(id) {
			s.send(Message{Kind: KindDepCheck, From: s.cfg.Self, To: s.cfg.Topology.Owner(id, r.slot),
				Versions: []Version{r.version}, Seq: uint64(r.slot)})
		}
	}
}

func (s *Sidecar) overdue(now Now, c *call) {
	switch {
	case now.Mono >= c.deadline:
		if c.op.Kind == OpPut && !c.held {
			s.LinkDown(now, c.target)
		} else {
			s.fail(c, ErrUnavailable)
		}
	case c.op.Kind == OpGet && now.Mono >= c.dueAt:
		s.getOverdue(now, c)
	case c.op.Kind == OpMGet && now.Mono >= c.dueAt:
		s.mgetOverdue(now, c)
	case c.op.Kind == OpResume && now.Mono >= c.dueAt:
		s.askForResume(now, c)
	}
}

// coordinatorSuspicion is how long a coordinator that did not answer is passed over.
const coordinatorSuspicion = 10 * time.Second

// LinkUp says that a node can be reached.
func (s *Sidecar) LinkUp(node topology.Node) { delete(s.suspect, node) }

// LinkDown says that nothing that is under way to node will be answered.
func (s *Sidecar) LinkDown(now Now, node topology.Node) {
	if node.Part == topology.Coordinator {
		s.suspect[node] = now.Mono + int64(coordinatorSuspicion)
	}
	for _, c := range s.calls {
		switch {
		case c.done || c.target != node:
		case c.op.Kind == OpPut:
			s.fail(c, ErrUnknown)
			s.settled(now, c)
		case c.op.Kind == OpGet:
			c.dueAt = now.Mono
		}
	}
}
