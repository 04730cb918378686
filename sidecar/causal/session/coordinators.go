package session

import (
	"maps"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

const (
	// coordinatorSuspicion is how long a coordinator that did not answer is not chosen.
	coordinatorSuspicion = 10 * time.Second
	// coordinatorMargin is how much longer than a shard a coordinator may take to answer, until others are preferred:
	// its disk has to take the put.
	coordinatorMargin = 750 * time.Millisecond
	// owingMs ranks a coordinator that owes an answer behind all that do not.
	owingMs = 1e7
	// refusalSuspicion is how long a coordinator that refused a put, or to which none can be sent, is not chosen.
	refusalSuspicion = time.Second
)

// coordinatorStates is what the sidecar knows of the coordinators that may take puts.
type coordinatorStates struct {
	suspectUntil map[topology.Node]int64 // monotonic
	owingUntil   map[topology.Node]int64 // monotonic: when the put is given up whose answer is overdue
	serving      map[topology.Node]causal.Leadership
	down         map[topology.Node]bool  // its link is down
	toldHomes    map[topology.Node]int64 // monotonic: when it has last said how many homes there are
	allowances   map[topology.Node]*copyAllowance
	executes     map[topology.Node]bool // it is known to execute operations
	commits      map[topology.Node]bool // it is known to take puts of several keys
	locks        map[topology.Node]bool // it is known to take part in commits of several homes
	merges       map[topology.Node]bool // it is known to accept values that merge
	inUse        uint64                 // a bit for each coordinator of the own data center in use; 0: unknown
}

func newCoordinatorStates() coordinatorStates {
	return coordinatorStates{suspectUntil: map[topology.Node]int64{}, owingUntil: map[topology.Node]int64{},
		serving: map[topology.Node]causal.Leadership{}, down: map[topology.Node]bool{},
		toldHomes:  map[topology.Node]int64{},
		allowances: map[topology.Node]*copyAllowance{}, executes: map[topology.Node]bool{},
		commits: map[topology.Node]bool{}, locks: map[topology.Node]bool{},
		merges: map[topology.Node]bool{}}
}

// forgetRemoved forgets coordinators that the topology in use does not have: if a new topology has one of the same
// name, that is another process.
func (cs *coordinatorStates) forgetRemoved(inUse *topology.Topology) {
	removed := func(n topology.Node) bool { return n.Index >= uint64(inUse.DCs[n.DC].Coordinators) }
	maps.DeleteFunc(cs.suspectUntil, func(n topology.Node, _ int64) bool { return removed(n) })
	maps.DeleteFunc(cs.owingUntil, func(n topology.Node, _ int64) bool { return removed(n) })
	for _, knows := range []map[topology.Node]bool{cs.executes, cs.commits, cs.locks, cs.merges} {
		maps.DeleteFunc(knows, func(n topology.Node, _ bool) bool { return removed(n) })
	}
	maps.DeleteFunc(cs.allowances, func(n topology.Node, _ *copyAllowance) bool { return removed(n) })
}

// overdue makes puts prefer others to a coordinator, until it answers one or the put that it has not answered is given
// up. It may hang, or its disk: what else it sends says nothing about that. It may also have accepted the put, which
// therefore goes nowhere else.
func (cs *coordinatorStates) overdue(n topology.Node, deadline int64) {
	cs.owingUntil[n] = max(cs.owingUntil[n], deadline)
}

// answered takes that a coordinator has answered a put.
func (cs *coordinatorStates) answered(n topology.Node) { delete(cs.owingUntil, n) }

// owes reports whether a coordinator owes an answer.
func (cs *coordinatorStates) owes(now causal.Now, n topology.Node) bool {
	return now.Mono < cs.owingUntil[n]
}

// heardOf says that a coordinator is there.
func (cs *coordinatorStates) heardOf(n topology.Node) { delete(cs.suspectUntil, n) }

// refused makes puts go round a coordinator for a moment.
func (cs *coordinatorStates) refused(now causal.Now, n topology.Node, moment time.Duration) {
	cs.suspectUntil[n] = max(cs.suspectUntil[n], now.Mono+int64(moment))
}

// usable reports whether a put may be sent to a coordinator.
func (cs *coordinatorStates) usable(now causal.Now, n topology.Node, ownDC topology.DC) bool {
	away := n.DC == ownDC && cs.inUse != 0 && cs.inUse&(1<<n.Index) == 0
	return !away && cs.suspectUntil[n] <= now.Mono
}

// chooseCoordinator returns the coordinator for a session's puts: one of the own data center, or while none of these is
// usable, of the nearest data center that has one. Those that owe an answer come last. Sessions are spread over the
// coordinators of a data center. It returns false if no coordinator at all is usable, with the one that comes first.
//
// Where the key has a home, that takes the put.
func (s *Sidecar) chooseCoordinator(now causal.Now, ss *session, slot topology.Slot) (topology.Node, bool) {
	t, self := s.cfg.Topology, s.cfg.Self.DC
	if s.putsAtHome(ss) {
		home := s.homeOf(slot)
		return home, s.coordinators.usable(now, home, self)
	}
	spread := s.cfg.Self.Index + ss.id // every pod counts its sessions from 1
	candidate := func(dc topology.DC, i int) topology.Node {
		n := uint64(t.DCs[dc].Coordinators)
		return topology.Node{DC: dc, Part: topology.Coordinator, Index: (spread + uint64(i)) % n}
	}
	best, bestMs, found := candidate(self, 0), 0.0, false
	for dc := range t.DCs {
		ms := s.routes.Ms(now, topology.DC(dc))
		if topology.DC(dc) == self {
			ms = -1 // nearer than any other
		}
		for i := range t.DCs[dc].Coordinators {
			n, rank := candidate(topology.DC(dc), i), ms
			if s.coordinators.owes(now, n) {
				rank += owingMs
			}
			if s.coordinators.usable(now, n, self) && (!found || rank < bestMs) {
				best, bestMs, found = n, rank, true
			}
		}
	}
	return best, found
}

// putsAtHome reports whether the puts of a session go to the homes of their keys.
func (s *Sidecar) putsAtHome(ss *session) bool {
	return s.levelOf(causal.DefaultLevel).asksHome() || len(ss.local.upTo) > 0 && !s.hasSeveralHomes()
}

// LinkUp says that a node can be reached, and under which leadership it serves; zero if it has none. What is in flight
// to it is sent again: the requests, or their answers, may be lost.
func (s *Sidecar) LinkUp(now causal.Now, node topology.Node, serving causal.Leadership) {
	if node.Part == topology.Coordinator {
		s.coordinators.serving[node] = serving
		delete(s.coordinators.down, node)
		s.coordinators.heardOf(node)
		delete(s.coordinators.commits, node) // it may be another version
		delete(s.coordinators.executes, node)
		delete(s.coordinators.locks, node)
		delete(s.coordinators.merges, node)
		s.resendPuts(now, node)
		s.askHomeAgain(now, node)
		s.awaitAgain(now, func(home topology.Node) bool { return home == node })
	}
	s.routes.Suspects.LinkUp(now, node)
	if node.Part == topology.Middleman {
		s.readAgain(now, node)
	}
	if node == s.cfg.Topology.Leader(s.cfg.Self.DC) {
		s.subscribeAt = now.Mono
	}
}

// LinkDown says that no request in flight to node will be answered. Its puts wait until it serves again, its reads are
// retried at the next tick.
func (s *Sidecar) LinkDown(now causal.Now, node topology.Node) {
	s.avoid(now, node)
	if node.Part == topology.Coordinator {
		s.coordinators.down[node] = true
	}
	for _, c := range s.calls {
		switch {
		case c.finished:
		case c.op.Kind == OpMGet:
			s.readKeysElsewhere(now, c, node)
		case c.target != node:
		case c.op.Kind == OpPut:
			s.awaitCoordinator(now, c)
		case c.op.Kind == OpGet, c.op.Kind == OpScan:
			c.lost, c.retryAt = true, now.Mono
		}
	}
}

// LinkEnded says that a node has stopped in order. Puts that were sent to it once and that it has not answered were not
// accepted, and go to another coordinator.
func (s *Sidecar) LinkEnded(now causal.Now, node topology.Node) {
	s.avoid(now, node)
	for _, c := range s.calls {
		if !c.finished && c.target == node && c.op.Kind == OpPut && !c.put.resent && c.put.copies == 0 {
			s.requests.drop(c.requestID)
			s.deferPut(now, c)
		}
	}
	s.LinkDown(now, node)
}

// Unsent says that a put was dropped before it was sent, because there is no link to its coordinator or the link's
// queue is full. If it was not sent before, no coordinator has accepted it, and it goes to another one.
func (s *Sidecar) Unsent(now causal.Now, put *causal.Message) {
	id := put.Put().ID
	if put.Kind == causal.KindHomeCommit {
		id = put.HomeCommit().ID
	}
	r, ok := s.requests.byID[id]
	switch {
	case !ok || !r.isAwaited(), r.key == lockRequest: // it is asked again
		return
	case r.call.put.copies > 0: // an earlier copy is on its way, or its answer
		s.coordinators.allowance(put.To).spend(now, s.answerWait(put.To))
		return
	}
	s.requests.drop(id)
	if r.call.put.resent {
		s.awaitCoordinator(now, r.call)
		return
	}
	s.coordinators.refused(now, put.To, refusalSuspicion)
	s.deferPut(now, r.call)
}

// avoid makes requests go round a node that cannot be reached.
func (s *Sidecar) avoid(now causal.Now, node topology.Node) {
	switch node.Part {
	case topology.Coordinator:
		s.coordinators.suspectUntil[node] = now.Mono + int64(coordinatorSuspicion)
	case topology.Cache:
		s.avoidCache(now, node)
	case topology.Middleman:
		s.routes.Suspects.Add(now, node, 0)
	}
}
