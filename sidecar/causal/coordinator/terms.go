package coordinator

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// termKeeper is the leader's part in what membership.go describes: it knows the terms of the other coordinators of the
// data center, admits them, and publishes for those that are away.
type termKeeper struct {
	*shared
	host termHost
	log  *logState
}

// termHost is what a termKeeper asks of its coordinator.
type termHost interface {
	// noteTold notes what a coordinator that leaves knows of a shard, and reports whether that is new.
	noteTold(now causal.Now, m causal.ShardMark) bool
	mergeVectors(entries []causal.VectorEntry, limit causal.HLC)
	writeCheckpoint(now causal.Now)
}

// keeps reports whether this is the leader of another coordinator.
func (k *termKeeper) keeps(n topology.Node) bool {
	return k.isLeader() && k.log.isEstablished() && n.DC == k.cfg.Self.DC && n.Part == topology.Coordinator &&
		n.Index > 0 && n.Index < topology.MaxCoordinators
}

// takeTerm takes that another coordinator is away, has no incomplete write, and everything that it has published or
// written is at or below t.UpTo. Perhaps it wants to join.
func (k *termKeeper) takeTerm(now causal.Now, from topology.Node, t causal.Term) {
	if !k.keeps(from) {
		return
	}
	i, terms := from.Index, &k.log.pending.Terms
	if t.New {
		k.Send(causal.TermReply{ID: t.ID, Term: uint64(terms[i]), New: true}.Message(k.cfg.Self, from))
		return
	}
	changed := false
	for _, m := range t.Shards {
		changed = k.host.noteTold(now, m) || changed
	}
	term, told := terms[i], MembershipTerm(t.Term)
	if !told.isReachableFrom(term) {
		return
	}
	if k.cfg.Broken.Has(causal.LeaveAnyTerm) && term.IsInUse() && (term > told+1 || term > told && !t.Join) {
		terms[i] = told
		k.host.writeCheckpoint(now)
		return
	}
	if term < told {
		if t.UpTo.WallMs() > now.WallMs+k.cfg.ClockBoundMs {
			return // what is published for it from now on must be above UpTo: wait until the clock is nearer
		}
		k.clock.Raise(t.UpTo)
		k.host.mergeVectors([]causal.VectorEntry{{Origin: k.originAt(int(i)), SV: t.UpTo}}, causal.NoLimit)
		term = told
	}
	counted := i < uint64(k.cfg.Topology.DCs[k.cfg.Self.DC].Coordinators)
	if term == told && t.Join && counted {
		term++
	}
	if term != terms[i] || changed {
		terms[i] = term // from here on nothing is published for it; it is answered once the log has this
		k.host.writeCheckpoint(now)
		return
	}
	if k.log.durable.Terms[i] == term && (len(t.Shards) == 0 || len(k.log.checkpoints) == 0) {
		k.Send(causal.TermReply{ID: t.ID, Term: uint64(term), Above: k.clock.Peek(now),
			Counted: counted}.Message(k.cfg.Self, from))
	}
}

// termOf returns the term of another coordinator; known is false if this one is not its leader, or has no log that says
// it.
func (k *termKeeper) termOf(n topology.Node) (term MembershipTerm, known bool) {
	if !k.keeps(n) {
		return 0, false
	}
	return k.log.pending.Terms[n.Index], true
}

// appendAwayEntries appends what the leader publishes for the origins that are away.
func (k *termKeeper) appendAwayEntries(dst []causal.VectorEntry, bound causal.HLC) []causal.VectorEntry {
	if !k.isLeader() {
		return dst
	}
	for i := 1; i < topology.MaxCoordinators; i++ {
		if !k.isAway(i) && !k.cfg.Broken.Has(causal.VouchInUse) {
			continue
		}
		o := k.originAt(i)
		if last := len(dst) - 1; last >= 0 && dst[last].Last == o-1 {
			dst[last].Last = o
		} else {
			dst = append(dst, causal.VectorEntry{Origin: o, Last: o, SV: bound})
		}
	}
	return dst
}

// isAway reports whether the leader publishes for another coordinator.
func (k *termKeeper) isAway(i int) bool {
	return i > 0 && !k.log.pending.Terms[i].IsInUse() && !k.log.durable.Terms[i].IsInUse()
}

// allCoordinators has a bit for each coordinator that a data center may have.
const allCoordinators = 1<<topology.MaxCoordinators - 1

// inUse returns a bit for each coordinator of the data center that is in use, or about to be; 0 if this one is not the
// leader.
func (k *termKeeper) inUse() uint64 {
	if !k.isLeader() || !k.log.isEstablished() {
		return 0
	}
	return allCoordinators &^ k.awayBits()
}

// awayBits returns, for a middleman, a bit for each coordinator that is away: none of its writes is incomplete, and
// what it writes later it sends later.
func (k *termKeeper) awayBits() (bits uint64) {
	for i := 1; k.isLeader() && i < topology.MaxCoordinators; i++ {
		if k.isAway(i) {
			bits |= 1 << i
		}
	}
	return bits
}
