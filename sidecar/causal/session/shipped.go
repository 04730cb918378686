package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
	"github.com/causalstore/causalstore/topology"
)

// Operations that the home of a key executes (PROTOCOL HOO). They are puts in everything: in their order, in what they
// follow, in how they are sent again. Their answer has the value that was written, and with it what that depends on.

const (
	// unshippedFor is how long after a home has refused an operation of a key none of it is sent, unless the sidecar
	// has put the key meanwhile: the home need not know it any more, and asking costs a message.
	unshippedFor = 100 * time.Millisecond
	maxUnshipped = 4096
)

// isOperation reports whether a call asks the home to execute an operation.
func (c *call) isOperation() bool { return c.op.Kind == OpPut && c.op.Value.Type == causal.Operation }

// mayShip reports whether an operation may be sent to the home: that knows operations, and has not refused one of the
// key a moment ago, and the session has seen nothing that only some rings have.
func (s *Sidecar) mayShip(now causal.Now, ss *session, key string, slot topology.Slot) bool {
	return s.levelOf(causal.DefaultLevel).asksHome() && now.Mono >= s.unshipped[key] && s.unbound(ss) &&
		s.coordinators.executes[s.homeOf(slot)]
}

// PutsMerge reports whether the homes of the data center that have answered lately accept values that merge.
func (s *Sidecar) PutsMerge() bool {
	for _, merges := range s.coordinators.merges {
		if !merges {
			return false
		}
	}
	return len(s.coordinators.merges) > 0
}

// startOperation reports whether an operation is started: it may be sent, and so might the one that it follows.
func (s *Sidecar) startOperation(now causal.Now, c *call) bool {
	p := &c.session.pipeline
	p.unstarted = p.unstarted && operation.Follows(c.op.Value) ||
		!s.mayShip(now, c.session, c.op.Key, c.slot)
	return !p.unstarted
}

// noteUnexecuted notes that the home has refused an operation: not because of the one that it follows.
func (s *Sidecar) noteUnexecuted(now causal.Now, c *call) {
	c.session.pipeline.unexecuted = true
	if !c.isOperation() || operation.Follows(c.op.Value) {
		return
	}
	s.written.forget(c.op.Key)
	if !operation.HasFound(c.op.Value) {
		return // with what is found elsewhere it may be executed
	}
	s.unship(now, c.op.Key)
}

// unship makes the sidecar send no operation of a key for a moment.
func (s *Sidecar) unship(now causal.Now, key string) {
	if len(s.unshipped) >= maxUnshipped {
		clear(s.unshipped)
	}
	s.unshipped[key] = now.Mono + int64(unshippedFor)
}

// follow reports whether an operation may be sent now. One that follows another is not sent if that is known not to be
// executed. If that is known to be executed, the home need not know it: it may be another one.
func (p *putPipeline) follow(c *call) bool {
	if !operation.Follows(c.op.Value) {
		p.unexecuted = false
	}
	if p.unexecuted {
		return false
	}
	if p.inFlight.oldest(c.session, 0) == 0 {
		c.op.Value = operation.Alone(c.op.Value)
	}
	return true
}

// acknowledgeOperation takes that an operation was executed. It was executed on what others have written at the home,
// which has all that the session has seen, and which depends on nothing in other data centers that the session does not
// know.
func (s *Sidecar) acknowledgeOperation(c *call, r *causal.PutReply) {
	ss := c.session
	c.op.Value = r.Value
	c.level.acknowledge(s, c, r.Version)
	if s.stability.Complete(r.Version) {
		ss.localDone = max(ss.localDone, r.Version.HLC)
	} else {
		s.takeOverIncomplete(ss, r.Version, &causal.HomeReply{Deps: r.Deps})
	}
	ss.floor = max(ss.floor, r.Past)
	ss.seen = max(ss.seen, r.Past)
	ss.past.raise(r.Past)
}

// handleUnwritten takes the answer to an operation that has written nothing: what it was executed on, which its session
// has read.
func (s *Sidecar) handleUnwritten(now causal.Now, c *call, r causal.HomeReply) {
	s.coordinators.answered(c.target)
	switch {
	case r.Err != causal.OK:
		s.fail(c, r.Err)
	case max(r.Record.Version.HLC, r.Past, r.From) > s.timeLimit(now):
		s.stats.ClockRefused++
		s.fail(c, causal.ErrClock)
	case !r.Record.Version.Written() && !operation.HasFound(c.op.Value), !s.takeOver(now, c.session, &r):
		c.session.pipeline.unexecuted = true
		s.fail(c, causal.ErrConflict)
	default:
		c.session.pipeline.remove(c)
		s.finish(c, Result{Record: r.Record, Unwritten: true, Outcome: Outcome{Version: r.Record.Version,
			Source: SourceHome, Ring: topology.NoRing}})
	}
	s.concludePut(now, c)
}
