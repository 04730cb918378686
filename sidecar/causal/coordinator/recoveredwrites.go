package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// The writes with which a log begins that has taken the place of a lost one (PROTOCOL LOG). What
// precedes them is not known, but it has smaller timestamps.

// hasLeftTerm is the term that a leader with a new log takes for one of a coordinator that the topology does not have:
// an even one that is not the first, since it may have been in use before.
const hasLeftTerm MembershipTerm = 2

// beginRecoveredLog begins a log with what was recovered of a lost one. Each write follows the one before it, as if one
// session had written them all: which of them precede which is not known.
func (c *Coordinator) beginRecoveredLog(now causal.Now, log recoveredLog) {
	p := &c.log.pending
	c.clock.Raise(log.above)
	c.home.noteForgotten(log.above)
	p.Homes = Homes{}
	if c.isLeader() && c.home.enabled {
		// What the lost log has decided may be known to sidecars only. The generation is a time, and greater than any
		// number of before.
		p.Homes = Homes{Number: max(log.homes.Number+1, log.generation), Count: log.homes.Count, UpTo: log.above}
	}
	c.known.Merge([]causal.VectorEntry{{Origin: c.origin, SV: log.sv}}, causal.NoLimit)
	p.LostUpTo, p.Generation, p.Term = log.above, log.generation, c.past.leaderTerm
	if c.isLeader() {
		p.Term = 1
		for i := range p.Terms {
			p.Terms[i] = hasLeftTerm
		}
		for i, term := range log.terms {
			p.Terms[i] = term
		}
	}
	for n, incarnation := range log.shards { // what was acknowledged before may have been lost since: the lost log knew
		p.note(causal.ShardMark{DC: n.DC, Index: n.Index, Incarnation: incarnation, HasData: true, Lost: incarnation})
	}
	c.log.forgetPuts(c.clock.Peek(now))
	sv := c.known.SV(c.origin)
	for _, l := range c.laneOrder {
		l.base = max(l.base, sv)
	}
	var previous []causal.Dep
	for _, m := range log.writes {
		r := LoggedWrite{Key: m.Key, Record: m.Record, Salvaged: log.generation, OwnDeps: previous}
		w := c.addRecovered(&r, c.log.nextIndex)
		c.log.append(LogRecord{Write: r})
		previous = []causal.Dep{{Version: w.rec.Version, Slot: w.slot}}
	}
	c.past, c.recovery, c.log.givenUpBy = pastInquiry{shared: &c.shared}, nil, nil
	c.writeCheckpoint(now)
}

// addRecovered puts a recovered write into the buffer.
func (c *Coordinator) addRecovered(r *LoggedWrite, index uint64) *write {
	w := &write{rec: r.Record, key: r.Key, slot: topology.SlotOf(r.Key), index: index, recovered: true}
	c.flattenDeps(w, r.OwnDeps, false)
	c.add(w)
	c.noteInLanes(w)
	c.home.accept(w, w.rec.Version.HLC-1)
	return w
}

// hasLostAboveSV reports whether SV has not passed all writes that may be lost.
func (c *Coordinator) hasLostAboveSV() bool { return c.log.pending.LostUpTo > c.known.SV(c.origin) }

// isRecovering reports whether a recovered write is incomplete. They are the oldest ones.
func (b *buffer) isRecovering() bool { return len(b.writes) > 0 && b.writes[0].recovered }

// Recovered returns the recovered writes that are incomplete.
func (b *buffer) Recovered() (vs []causal.Version) {
	for _, w := range b.writes {
		if w.recovered {
			vs = append(vs, w.rec.Version)
		}
	}
	return vs
}

// Recovering returns how many recovered writes are incomplete, and the coordinators that have to complete older writes
// before the next of them is sent.
func (b *buffer) Recovering() (waiting []topology.Node, left int) {
	need := causal.HLC(0) // every write below it is to be settled
	for i := len(b.writes) - 1; i >= 0; i-- {
		if w := b.writes[i]; w.recovered {
			left++
			if !w.released {
				need = w.rec.Version.HLC
			}
		}
	}
	t := b.cfg.Topology
	for o := topology.Origin(1); int(o) <= t.Origins(); o++ {
		if b.known.Settled(o)+1 >= need {
			continue
		}
		n := t.CoordinatorOf(o)
		if int(n.Index) >= t.DCs[n.DC].RunningCoordinators() {
			n = t.Leader(n.DC)
		}
		if n != b.cfg.Self && !slices.Contains(waiting, n) {
			waiting = append(waiting, n)
		}
	}
	return waiting, left
}

// releaseRecovered sends recovered writes once everything of other origins that may precede them is complete. What has
// the same timestamp does not count: two logs that are given up at once would wait for each other. After a restart the
// log may hold later writes behind them: a lane carries all of them in order.
func (c *Coordinator) releaseRecovered() {
	if !c.isRecovering() || !c.log.isEstablished() {
		return
	}
	upTo := c.settledElsewhere()
	if c.cfg.Broken.Has(causal.AdoptUnordered) {
		upTo = causal.NoLimit
	}
	for _, w := range c.writes {
		if !w.durable || w.recovered && w.rec.Version.HLC-1 > upTo {
			return
		}
		if !w.released {
			c.release(w)
		}
	}
}
