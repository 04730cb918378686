package coordinator

import (
	"slices"
	"sort"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// logState is what a coordinator knows of its log.
type logState struct {
	appends      []LogRecord // to be made durable
	nextIndex    uint64      // of the next record
	durableIndex uint64      // of the last durable record

	durable         State              // in the newest durable checkpoint
	pending         State              // in the newest checkpoint, durable or not
	checkpoints     []loggedCheckpoint // not durable yet, oldest first
	checkpointIndex uint64             // of the newest durable checkpoint
	needed          uint64             // the first record that it does not cover

	truncateBefore uint64
	full           bool
	replayed       bool // writes that may be incomplete were in it at the start

	retired   bool            // it was given up
	givenUpBy []topology.Node // which shards say so
}

// loggedCheckpoint is a checkpoint that was handed to the log.
type loggedCheckpoint struct {
	index uint64
	state State
	// needs is the index of the first record that the checkpoint does not cover: all writes before it are complete, and
	// at or below Checkpoint.Complete.
	needs uint64
}

// isEstablished reports whether the log has a past that the coordinator may speak of.
func (l *logState) isEstablished() bool { return !l.retired && l.checkpointIndex > 0 }

// isInUse reports whether the coordinator publishes for its origin. A leader always does.
func (l *logState) isInUse() bool {
	return l.durable.Term.IsInUse() && l.pending.Term == l.durable.Term && !l.retired
}

// forgetPuts makes puts undecidable that an earlier log of the origin may have held, up to a timestamp.
func (l *logState) forgetPuts(upTo causal.HLC) { l.pending.Forgotten = max(l.pending.Forgotten, upTo) }

// restore rebuilds the write buffer. Everything in the log was acknowledged, so all of it is propagated again, except
// for what the newest checkpoint knew to be complete.
func (c *Coordinator) restore(now causal.Now, replay []Logged) {
	if !slices.ContainsFunc(replay, func(r Logged) bool { return r.Checkpoint != nil }) {
		return // it is empty, or its beginning was interrupted
	}
	var complete causal.HLC
	var answers []Answer // of the newest checkpoint
	var generation uint64
	for i := range replay {
		if cp := replay[i].Checkpoint; cp != nil {
			complete, answers, generation = max(complete, cp.Complete), cp.Answers, cp.Generation
		}
	}
	for _, l := range c.laneOrder {
		l.base = complete // what the log no longer holds, or holds as complete, was acknowledged by all rings
	}
	for _, a := range answers {
		c.restoreAnswer(now, a, 0)
	}
	for i := range replay {
		index := replay[i].Index
		if cp := replay[i].Checkpoint; cp != nil {
			c.log.durable, c.log.checkpointIndex = cp.State, index
			if !c.cfg.Broken.Has(causal.DecisionForgotten) {
				c.locks.restoreDecisions(now, cp.Decisions)
			}
			continue
		}
		if lock := replay[i].Lock; lock != nil && lock.Part != nil {
			c.locks.restore(now, lock, index)
			continue
		}
		writes := replay[i].Writes()
		for j := range writes {
			c.restoreWrite(now, &writes[j], index, complete, generation, j == len(writes)-1)
		}
		if lock := replay[i].Lock; lock != nil {
			c.restorePart(now, lock, writes, index)
		}
	}
	if c.cfg.Broken.Has(causal.ForgetTerms) {
		c.log.durable.Terms = Terms{}
	}
	c.home.restore(complete, c.log.durable.Ceiling)
	c.home.leases.restore(now)
	c.log.pending, c.log.replayed, c.log.needed = c.log.durable, len(c.writes) > 0, c.log.checkpointIndex
	if len(c.writes) > 0 {
		c.log.needed = c.writes[0].index
	}
	c.known.Merge([]causal.VectorEntry{{Origin: c.origin, SV: complete}}, causal.NoLimit)
	if !c.cfg.Broken.Has(causal.ReuseHLC) {
		// PROTOCOL COO-11: never issue an HLC at or below a published SV, also across restarts
		c.clock.Raise(c.log.durable.Ceiling)
	}
}

func (c *Coordinator) restoreWrite(now causal.Now, r *LoggedWrite, index uint64, complete causal.HLC,
	generation uint64, isLast bool) {
	c.clock.Raise(r.Record.Version.HLC)
	if r.Salvaged != 0 {
		if r.Record.Version.HLC > complete && r.Salvaged == generation {
			c.addRecovered(r, index).durable = true
		}
		return
	}
	if isLast { // the put, or the commit, is answered with it
		a := Answer{Sidecar: r.Sidecar, Session: r.Session, Seq: r.Seq, HLC: r.Record.Version.HLC}
		if c.home.enabled {
			a.Outcome = outcomeOf(&write{rec: r.Record, foreignPast: r.Record.Version.HLC - 1})
		}
		c.restoreAnswer(now, a, r.Unanswered)
	}
	if r.Record.Version.HLC <= complete {
		return
	}
	w := &write{rec: r.Record, key: r.Key, slot: topology.SlotOf(r.Key), index: index, durable: true,
		session: r.Session, sidecar: r.Sidecar}
	for _, d := range r.Deps {
		if c.cfg.Topology.HasOrigin(d.Version.Origin) {
			// earlier versions accepted puts that wait for what cannot exist
			w.deps = append(w.deps, d)
		}
	}
	c.flattenDeps(w, r.OwnDeps, r.FollowsAll)
	c.add(w)
	c.noteInLanes(w)
	c.home.accept(w, w.rec.Version.HLC-1) // what is in its past is not known, but it has smaller timestamps
	c.home.publish(w)
	if !c.isRecovering() {
		c.release(w)
	}
	tail := c.restoredSession(now, sessionKey{r.Sidecar, r.Session})
	tail.last, tail.slot, tail.foreign = r.Record.Version, w.slot, w.foreignPast
}

// logWrite returns what the log holds of a write that directly follows own, which are of this origin.
func logWrite(w *write, p *causal.Put, own []causal.Dep, followsAll bool) LoggedWrite {
	// The record shares w.deps, which does not change any more; its capacity is cut so that no append can write into
	// it.
	return LoggedWrite{Key: w.key, Record: w.rec, Sidecar: w.sidecar, Session: w.session, Seq: p.Seq,
		Unanswered: min(p.Unanswered, p.Seq),
		Deps:       w.deps[:len(w.deps):len(w.deps)], OwnDeps: own, FollowsAll: followsAll}
}

func (l *logState) append(r LogRecord) {
	l.appends = append(l.appends, r)
	l.nextIndex++
}

// Appends appends the records that the log must make durable, in order, to dst and empties the list.
func (c *Coordinator) Appends(dst []LogRecord) []LogRecord {
	dst = append(dst, c.log.appends...)
	clear(c.log.appends)
	c.log.appends = c.log.appends[:0]
	return dst
}

// Appended reports that the records up to index are durable: their puts are acknowledged and propagated. With a home,
// that waits until no lease on their keys runs.
func (c *Coordinator) Appended(now causal.Now, index uint64) {
	index = c.publishable(now, index)
	durable := c.writes[c.firstFrom(c.log.durableIndex+1):]
	durable = durable[:sort.Search(len(durable), func(i int) bool { return durable[i].index > index })]
	for _, w := range durable {
		w.durable = true
		if w.committedWith && c.cfg.Broken.Has(causal.CommitPublishedApart) {
			c.home.unpublished = append(c.home.unpublished, w)
			continue
		}
		c.home.publish(w)
		if w.lock != nil {
			c.locks.published(now, w.lock, w)
		}
	}
	for _, w := range durable {
		c.home.answerQuiet(now, w)
		if w.recovered {
			continue // nobody waits for it, and releaseRecovered sends it
		}
		if w.committedWith {
			if !w.released {
				c.release(w)
			}
			continue // the last one is answered
		}
		c.answerPut(w)
		if !w.released {
			c.release(w)
		}
	}
	c.undurable.release(index)
	l := &c.log
	l.durableIndex = max(l.durableIndex, index)
	for len(l.checkpoints) > 0 && l.checkpoints[0].index <= index {
		l.durable, l.checkpointIndex, l.needed = l.checkpoints[0].state, l.checkpoints[0].index, l.checkpoints[0].needs
		l.checkpoints = l.checkpoints[1:]
		c.updateTruncation()
	}
	c.locks.grantDue(now)
	for _, w := range durable {
		if w.lock != nil {
			c.locks.answerKept(now, w.lock)
			w.lock = nil
		}
	}
	c.applyExclusions(now)
	for _, lane := range c.laneOrder {
		c.pump(now, lane)
	}
}

// answerPut acknowledges a put.
func (c *Coordinator) answerPut(w *write) {
	reply := causal.PutReply{ID: w.putID, Session: w.session, Version: w.rec.Version}
	if w.isOutcome {
		c.home.addOutcome(&reply, w)
	}
	c.Send(reply.Message(c.cfg.Self, w.sidecar))
}

// handleLogGet serves the value of an own write that no longer fits into the session's memory.
func (c *Coordinator) handleLogGet(from topology.Node, g causal.LogGet) {
	reply := causal.LogReply{ID: g.ID, Err: causal.ErrNotFound}
	if w := c.incomplete[g.Version.HLC]; w != nil && g.Version.Origin == c.origin {
		reply.Err, reply.Record = causal.OK, w.rec
	}
	c.Send(reply.Message(c.cfg.Self, from))
}

// SetLogFull makes the coordinator refuse puts while the log has no room. Complete writes behind an incomplete one
// still take room.
func (c *Coordinator) SetLogFull(full bool) { c.log.full = full }

// TruncateBefore returns the log index below which nothing is needed any more.
func (c *Coordinator) TruncateBefore() uint64 { return c.log.truncateBefore }

// updateTruncation computes what the log may drop. The newest checkpoint is kept, so that a restart finds its state.
func (c *Coordinator) updateTruncation() {
	c.log.truncateBefore = c.log.checkpointIndex
	if len(c.writes) > 0 {
		c.log.truncateBefore = min(c.log.truncateBefore, c.writes[0].index)
	}
	if c.home.enabled && !c.cfg.Broken.Has(causal.HomeForgetsMark) { // what is complete since is to be found there
		c.log.truncateBefore = min(c.log.truncateBefore, c.log.needed)
	}
	c.log.truncateBefore = c.locks.firstIndex(c.log.truncateBefore)
}

// renewCeiling keeps the durable ceiling ahead of the clock, so that an idle coordinator may publish its clock as SV
// and yet never issues such a timestamp after a restart (PROTOCOL COO-11).
func (c *Coordinator) renewCeiling(now causal.Now) {
	ceiling := c.log.pending.Ceiling
	if !c.log.isInUse() || ceiling > c.clock.Peek(now) && ceiling > causal.HLCAt(now.WallMs+causal.CeilingMs/2) {
		return
	}
	c.writeCheckpoint(now)
}

// writeCheckpoint makes the pending state durable, with a renewed ceiling.
func (c *Coordinator) writeCheckpoint(now causal.Now) {
	c.noteReaches()
	s := &c.log.pending
	// Counted from the wall clock: after a restart the clock is at the old ceiling, and must not drift away with each
	// restart.
	s.Ceiling = max(s.Ceiling, causal.HLCAt(now.WallMs+causal.CeilingMs),
		c.clock.Peek(now)+causal.HLCAt(causal.CeilingMs/20))
	if s.LostUpTo <= c.known.SV(c.origin) {
		s.LostUpTo = 0
	}
	s.Decisions = c.locks.loggedDecisions()
	answers := c.collectAnswers(now)
	complete, needs := c.home.completeMark(c.known.SV(c.origin), c.writes), c.log.nextIndex
	if len(c.writes) > 0 {
		needs = c.writes[0].index
	}
	c.log.checkpoints = append(c.log.checkpoints, loggedCheckpoint{c.log.nextIndex, *s, needs})
	c.log.append(LogRecord{Checkpoint: &Checkpoint{Complete: complete, Answers: answers, State: *s}})
}
