package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Who begins to apply an exclusion must know that other rings have the data: the shards of the data center remove
// theirs. All others follow without knowing it.

// copyInquiry asks the shards whether they have all of their data.
type copyInquiry struct {
	round uint64 // 0: none has begun
	until int64  // monotonic: when the round ends
	askAt int64
	// the shards that have said so in this round, and the exclusion of their data center by which they went
	hasAll map[topology.Node]uint32
}

const (
	// copyRound is how long the word of a shard that it has its data counts at most.
	copyRound = 2 * time.Second
	// copyQueryInterval is how often a shard is asked that has not answered.
	copyQueryInterval = 500 * time.Millisecond
	// copyQueryID, times the round and added to the incarnation, gives an ID that no start and no other round has.
	copyQueryID = 1 << 48
)

func (e *exclusion) copyQuery() causal.PastQuery {
	return causal.PastQuery{ID: e.cfg.Incarnation + e.copies.round*copyQueryID}
}

// mayExclude reports whether this coordinator may begin to apply exclusions that its configuration declares. One that
// is not in use does not hear from shards what has become of their data.
func (e *exclusion) mayExclude() bool {
	return !e.active.Covers(e.known) && (e.log.isInUse() || e.cfg.Broken.Has(causal.ExcludeUnasked))
}

// tick begins to apply what the configuration declares, once others know of it, and other rings have said that
// they have the data.
func (e *exclusion) tick(now causal.Now) {
	if e.active.Covers(e.known) {
		e.blocked = -1
	}
	if !e.mayExclude() || now.Mono-e.learnedAt < int64(e.cfg.ExclusionDelay) {
		return
	}
	q := &e.copies
	if now.Mono >= q.until {
		blocked := e.begin(now)
		if q.round > 0 { // all had the time to answer
			e.blocked = blocked
		}
		q.round, q.until, q.askAt = q.round+1, now.Mono+int64(copyRound), now.Mono
		q.hasAll = map[topology.Node]uint32{}
	}
	if now.Mono < q.askAt {
		return
	}
	q.askAt = now.Mono + int64(copyQueryInterval)
	for _, l := range e.lanes.laneOrder {
		if _, answered := q.hasAll[l.mm]; !answered && !l.excluded && e.known.Of(l.mm.DC) <= e.active.Of(l.mm.DC) {
			e.Send(e.copyQuery().Message(e.cfg.Self, l.mm))
		}
	}
}

// nextTick returns when tick has something to do next.
func (e *exclusion) nextTick() int64 {
	if !e.mayExclude() {
		return causal.Never
	}
	return max(e.learnedAt+int64(e.cfg.ExclusionDelay), min(e.copies.until, e.copies.askAt))
}

// noteCopy takes a shard's word that it has all of its data.
func (e *exclusion) noteCopy(now causal.Now, from topology.Node, r causal.PastReply, its causal.Exclusions) {
	l, q := e.lanes.lanes[from], &e.copies
	if l == nil || r.ID != e.copyQuery().ID || r.Map != e.cfg.Topology.Map(l.ring) || now.Mono >= q.until {
		return
	}
	if _, answered := q.hasAll[from]; !answered && e.mayExclude() {
		q.hasAll[from] = its.Of(from.DC)
		e.begin(now)
	}
}

// begin begins to apply those exclusions without whose data centers the data are elsewhere. It returns a data
// center that may have the last copy of some slot, or -1.
func (e *exclusion) begin(now causal.Now) (blocked int) {
	blocked = -1
	next := e.active
	for dc := range topology.DC(len(e.known)) {
		switch {
		case e.known.Of(dc) <= e.active.Of(dc):
		case !e.hasCopiesWithout(dc, e.known):
			// of two that need each other, another coordinator may have chosen the other one
			blocked = int(dc)
		default:
			one := make(causal.Exclusions, dc+1)
			one[dc] = e.known.Of(dc)
			next = next.With(one)
		}
	}
	if !e.active.Covers(next) {
		e.exclude(now, next)
	}
	return blocked
}

// hasCopiesWithout reports whether for each slot of the shards of a data center another ring has a shard that has its
// data, if those of further data centers are excluded too. Otherwise the shards of dc may have the only copy, which
// they would remove.
func (e *exclusion) hasCopiesWithout(dc topology.DC, further causal.Exclusions) bool {
	t := e.cfg.Topology
	if e.cfg.Broken.Has(causal.ExcludeLastCopy) {
		return true
	}
	for slot := range topology.Slot(topology.Slots) {
		if t.Owner(t.RingOf(dc), slot).DC != dc {
			continue
		}
		hasCopy := func(r topology.Ring) bool {
			n := t.Owner(t.RingOf(r.DCs[0]), slot)
			return n.DC != dc && further.Of(n.DC) <= e.active.Of(n.DC) && e.hasCopy(n)
		}
		if !slices.ContainsFunc(t.Rings, hasCopy) {
			return false
		}
	}
	return true
}

// hasCopy reports whether a shard has its data. That nothing is known of a loss is not enough: this coordinator may
// have come into use since, or may have heard nothing of the shard for long.
func (e *exclusion) hasCopy(shard topology.Node) bool {
	m := e.log.pending.mark(shard)
	if e.log.pending.isExcluded(shard) || m.Lost != 0 && m.Incarnation <= m.Lost {
		return false
	}
	under, said := e.copies.hasAll[shard]
	return said && under >= e.active.Of(shard.DC) || e.cfg.Broken.Has(causal.ExcludeUnasked)
}
