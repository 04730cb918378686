package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/nearcopy"
	"github.com/causalstore/causalstore/topology"
)

// Sidecar is the machine: the sessions of one pod.
type Sidecar struct {
	causal.Outbox
	cfg       Config
	maps      causal.SlotMaps
	readable  topology.RingSet // the rings that sessions may read from, by Config.Binding
	stability *causal.Stability
	routes    *causal.Routes

	sessions map[uint64]*session
	active   []*session // those that new vectors may change

	calls     []*call // oldest first: all unfinished ones, and finished ones that are not removed yet
	blocked   []*call // unfinished ones that wait for vectors or a DepStatus, and not for the reply to a request
	freeCalls []*call
	requests  requestTable
	results   []Result
	// leftPipelines are those of which gets were answered, and that may go on.
	leftPipelines []*getPipeline
	leftWindows   []*homeWindow // the same of windows
	mgetBytes     int           // of the keys of MGETs in progress, and of the values that they have read
	aheadBytes    int           // of the values that pipelined gets have read, until ReleaseAhead
	homes         causal.Homes  // the newest number of homes that a coordinator has told
	// unshipped are keys of which a home has refused an operation, and until when none is sent; monotonic
	unshipped map[string]int64
	written   writtenKeys
	awaits    awaits

	coordinators coordinatorStates
	readers      readers
	cuts         cutSchedule
	limit        causal.TimeLimit
	near         *nearcopy.Store
	keyBytes     []byte // scratch space

	subscribeAt int64 // monotonic: when to subscribe to the vectors again
	tickedAt    int64 // monotonic: the last tick
	bound       bool  // a session was bound at the last tick, or has been since
	stats       Stats

	// exclusions are what it applies, and knownExclusions also what its configuration declares.
	exclusions, knownExclusions causal.Exclusions

	// lateReplies is used by the mutation LateReply only: the last reply to each key that came too late.
	lateReplies map[string]causal.GetReply
}

// New returns a sidecar without sessions.
func New(cfg Config) *Sidecar {
	maps := causal.NewSlotMaps(cfg.Topology)
	cfg.Topology = maps.View()
	cfg.Level = cfg.Level.Or(causal.Latest)
	if cfg.PutRecovery == 0 {
		cfg.PutRecovery = cfg.PutTimeout * 4 / 5
	}
	if cfg.LeftOut == 0 {
		cfg.LeftOut = causal.LeftOut(len(cfg.Topology.DCs))
	}
	s := &Sidecar{
		cfg: cfg, maps: maps, readable: cfg.Binding.Rings(cfg.Topology, cfg.Self.DC),
		stability: causal.NewStability(cfg.Topology),
		routes:    causal.NewRoutes(cfg.Topology, cfg.Self.DC), sessions: map[uint64]*session{},
		requests: requestTable{byID: map[uint64]request{}}, unshipped: map[string]int64{},
		awaits:       newAwaits(),
		coordinators: newCoordinatorStates(), readers: readers{}, knownExclusions: causal.ExclusionsOf(cfg.Topology),
	}
	s.near = nearcopy.New(nearcopy.Config{Self: cfg.Self, MaxBytes: cfg.MaxNearBytes, HotReads: cfg.NearHotReads,
		HotWindow: cfg.NearHotWindow, Broken: cfg.Broken}, &s.Outbox)
	s.cuts.used = s.levelOf(causal.DefaultLevel).usesCuts()
	if cfg.Broken.Has(causal.LateReply) {
		s.lateReplies = map[string]causal.GetReply{}
	}
	return s
}

// Do starts an operation. Its Result may be there when Do returns, or after a later Step or Tick.
func (s *Sidecar) Do(now causal.Now, op Op) {
	ss := s.sessions[op.Session]
	if ss == nil {
		s.results = append(s.results, Result{ID: op.ID, Err: causal.ErrUnavailable})
		return
	}
	if op.Kind == OpGet && s.answerNear(now, &op) {
		return
	}
	c := s.newCall(now, op, ss)
	s.calls = append(s.calls, c)
	switch op.Kind {
	case OpGet:
		s.startGet(now, c)
	case OpMGet:
		s.startMGet(now, c)
	case OpPut:
		s.startPut(now, c)
	case OpToken:
		s.finish(c, Result{Token: s.exportToken(ss)})
	case OpResume:
		s.startResume(now, c)
	case OpWait:
		s.startWait(c)
	case OpCount:
		s.startCount(now, c)
	case OpScan:
		s.startScan(now, c)
	}
	s.reap()
}

// Step takes one message.
func (s *Sidecar) Step(now causal.Now, m *causal.Message) {
	switch s.exclusions.Check(m, s.knownExclusions, s.cfg.Broken) {
	case causal.ExclusionsRefuse:
		return
	case causal.ExclusionsNew:
		s.applyExclusions(m.Exclusions())
	}
	if _, switched := s.maps.Observe(m); switched {
		s.useSlotMaps()
	}
	s.readers.heard(now, m)
	if s.near.Step(now, m, s.timeLimit(now)) {
		return
	}
	if m.Kind == causal.KindHomeReply && m.From.Part == topology.Coordinator && m.HomeReply().Withdrawn != 0 {
		s.handleWithdrawal(now, m.From, m.HomeReply())
		return
	}
	switch m.Kind {
	case causal.KindGetReply, causal.KindLogReply, causal.KindPutReply, causal.KindCountReply, causal.KindScanReply,
		causal.KindHomeReply:
		s.handleReply(now, m)
	case causal.KindComplete:
		s.handleComplete(now, m.Complete())
	case causal.KindVectors:
		s.handleVectors(now, m.From, m.Vectors())
	case causal.KindDepStatus:
		s.handleDepStatus(now, m.From, m.DepStatus())
	case causal.KindHomeWake:
		s.handleWake(now, m.From, m.HomeWake())
	case causal.KindHomes:
		s.handleHomes(now, m.From, m.Homes())
	case causal.KindLatencies:
		s.routes.Update(m.Latencies())
	case causal.KindPong:
		s.routes.Suspects.Answered(now, m.From, m.Pong().ID)
	}
}

// handleReply passes a reply to the call that asked. A reply that nobody waits for any more is dropped.
func (s *Sidecar) handleReply(now causal.Now, m *causal.Message) {
	r, ok := s.requests.take(m.RequestID())
	if !ok {
		if s.lateReplies != nil && m.Kind == causal.KindGetReply {
			s.keepLateReply(m.GetReply())
		}
		return
	}
	if m.Kind == causal.KindHomeReply {
		s.noteHome(m.From, m.HomeReply())
	}
	switch {
	case !r.isAwaited() && (!s.cfg.Broken.Has(causal.RequestKept) || r.call.finished):
	case r.key == lockRequest:
		s.handleLockReply(now, r.call, m.PutReply())
	case m.Kind == causal.KindHomeReply && r.call.op.Kind == OpGet && r.key == homeKeyRequest:
		s.handleHomeReply(now, r.call, m.HomeReply())
	case m.Kind == causal.KindHomeReply && r.call.op.Kind == OpMGet && r.key >= homeKeyRequest:
		s.handleKeyAtHome(now, r.call, r.key-homeKeyRequest, m.HomeReply())
	case m.Kind == causal.KindHomeReply && r.call.isOperation():
		s.handleUnwritten(now, r.call, m.HomeReply())
	case r.key >= homeKeyRequest || m.Kind == causal.KindHomeReply:
	case r.call.op.Kind == OpGet && m.Kind == causal.KindGetReply:
		reply := m.GetReply()
		s.refuseIfAhead(now, r.call, &reply)
		s.takeGetReply(now, r.call, &reply)
	case r.call.op.Kind == OpGet && m.Kind == causal.KindLogReply:
		s.handleLogReply(now, r.call, m.LogReply())
	case r.call.op.Kind == OpMGet:
		reply := m.GetReply()
		s.refuseIfAhead(now, r.call, &reply)
		s.handleKeyReply(now, r.call, r.key, m.From, &reply)
	case r.call.op.Kind == OpPut:
		s.handlePutReply(now, r.call, m.PutReply())
	case r.call.op.Kind == OpCount:
		s.handleCountReply(now, r.call, m.From, m.CountReply())
	case r.call.op.Kind == OpScan:
		s.handleScanReply(now, r.call, m.ScanReply())
	}
	s.advancePipelines(now)
	s.reap()
}

// timeLimit returns the greatest timestamp of another part to believe.
func (s *Sidecar) timeLimit(now causal.Now) causal.HLC {
	if s.cfg.Broken.Has(causal.AnyClock) {
		return causal.NoLimit
	}
	return s.limit.At(now)
}

// refuseIfAhead turns a reply whose timestamp is too far ahead of the clock into an error, so that the key is read
// elsewhere. A session that had seen it could not write any more: no coordinator goes so far ahead of its clock.
func (s *Sidecar) refuseIfAhead(now causal.Now, c *call, r *causal.GetReply) {
	if r.Err == causal.OK && r.Record.Version.HLC > s.timeLimit(now) {
		s.stats.ClockRefused++
		c.refusedAhead = true
		*r = causal.GetReply{ID: r.ID, Ring: r.Ring, Key: r.Key, Err: causal.ErrClock}
	}
}

// handleVectors takes the vectors from the leader of the data center.
func (s *Sidecar) handleVectors(now causal.Now, leader topology.Node, v causal.Vectors) {
	s.coordinators.heardOf(leader)
	s.coordinators.inUse = v.InUse
	if s.stability.Merge(v.Entries, s.timeLimit(now)) {
		s.applyVectors(now)
	}
}

// Tick does what is due: it fails calls that are past their deadline, tries other ways for requests that were not
// answered, asks nodes that did not answer whether they are back, asks for restrictions that SV does not lift, and
// keeps the subscription to the vectors alive.
func (s *Sidecar) Tick(now causal.Now) {
	if s.cuts.used {
		s.applyVectors(now) // one may be due
	}
	s.maps.Poll(now, s.cfg.Self, s.Send)
	s.routes.Suspects.Tick(now, s.cfg.Self, s.Send)
	if now.Mono >= s.subscribeAt {
		s.subscribeAt = now.Mono + int64(subscribeInterval)
		s.Send(causal.Subscribe{}.Message(s.cfg.Self, s.cfg.Topology.Leader(s.cfg.Self.DC)))
	}
	s.near.Tick(now)
	s.tickCalls(now)
	s.tickAwaits(now)
	s.advancePipelines(now)
	elapsed := uint64(max(now.Mono-s.tickedAt, 0))
	s.tickedAt, s.bound = now.Mono, false
	for _, ss := range s.active {
		if len(ss.restrictions.list) > 0 && !ss.closed {
			s.stats.BoundNs += elapsed
			s.bound = true
		}
		s.askOverdueRestrictions(now, ss)
	}
}

// NextTick returns when Tick has something to do next, if no input comes before: now.Mono or earlier while operations
// are in progress or a session is bound.
func (s *Sidecar) NextTick(now causal.Now) int64 {
	if len(s.calls) > 0 || s.bound || s.cfg.Broken.Any() {
		return now.Mono
	}
	return min(s.subscribeAt, s.maps.NextPoll(), s.routes.Suspects.NextTick(), s.near.NextTick(), s.nextCutAt(now),
		s.awaits.nextAt)
}

// subscribeInterval is how often a subscription is renewed: a leader that has restarted does not know of any.
const subscribeInterval = time.Second

// tickCalls fails or retries calls that are due, and removes finished ones.
func (s *Sidecar) tickCalls(now causal.Now) {
	kept := s.calls[:0]
	for _, c := range s.calls {
		if !c.finished {
			s.tickCall(now, c)
		}
		if c.finished {
			s.recycle(c)
			continue
		}
		kept = append(kept, c)
	}
	clear(s.calls[len(kept):])
	s.calls = kept
}

func (s *Sidecar) tickCall(now causal.Now, c *call) {
	s.tickHome(now, c)
	switch {
	case c.isLocking():
		s.tickLocks(now, c)
	case c.op.Kind == OpPut && !c.put.refused:
		s.tickPut(now, c)
	case now.Mono >= c.deadline && c.refusedAhead:
		if c.op.Kind == OpResume { // replies are counted when they arrive
			s.stats.ClockRefused++
		}
		c.expired = true
		s.fail(c, causal.ErrClock)
	case now.Mono >= c.deadline:
		c.expired, c.late.Taken = true, time.Duration(now.Mono-c.startedAt)
		c.late.For, c.late.On = s.waitOf(now, c)
		s.fail(c, c.timeoutError())
	case c.op.Kind == OpPut:
		s.resendRefused(now, c.session)
	case c.op.Kind == OpMGet && c.mget.atHome.isDue(now):
		s.askHomeOfKeys(now, c)
	case now.Mono < c.retryAt:
	case c.op.Kind == OpGet:
		s.retryGet(now, c)
	case c.op.Kind == OpMGet:
		s.retryMGet(now, c)
	case c.op.Kind == OpResume:
		if !s.tryResume(now, c) { // the clock goes on
			s.askForResume(now, c)
		}
	case c.op.Kind == OpScan:
		s.retryScan(now, c)
	case c.op.Kind == OpCount:
		s.retryCount(now, c)
	}
}

// SetTopology takes a topology that differs from the one in use in numbers of coordinators, shards and caches only.
func (s *Sidecar) SetTopology(t *topology.Topology) {
	s.coordinators.forgetRemoved(s.cfg.Topology)
	s.maps.Load(t)
	s.knownExclusions = s.knownExclusions.With(causal.ExclusionsOf(t))
	s.useSlotMaps()
}

// useSlotMaps takes the topology with the slot maps that are in use.
func (s *Sidecar) useSlotMaps() {
	s.cfg.Topology = s.maps.View()
	s.routes.SetTopology(s.cfg.Topology)
}
