package coordinator

import (
	"cmp"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A part whose disk is empty asks others whether it had data before, because to start empty then would lose
// acknowledged writes in silence (PROTOCOL DISK). Coordinators answer middlemen from what their checkpoints
// hold. What a coordinator asks itself is in inquiry.go.

// pastAnswer is the answer to a middleman's query. A query that is repeated gets the same one.
type pastAnswer struct {
	id   uint64
	mark causal.ShardMark
}

// pastAnswers answers middlemen.
type pastAnswers struct {
	*shared
	log   *logState
	terms *termKeeper
	given map[topology.Node]pastAnswer // the last one of each
}

// answer tells a middleman with an empty storage what is known of its past. isLost says that the log here has lost it.
func (p *pastAnswers) answer(from topology.Node, q causal.PastQuery, isLost bool) {
	if from.Part != topology.Middleman {
		return
	}
	if isLost {
		p.Send(causal.PastReply{ID: q.ID, HadData: true}.Message(p.cfg.Self, from))
		return
	}
	if !p.log.isEstablished() {
		return
	}
	a, ok := p.given[from]
	if !ok || a.id != q.ID {
		a = pastAnswer{q.ID, p.log.pending.mark(from)}
		p.given[from] = a
		p.log.pending.note(causal.ShardMark{DC: from.DC, Index: from.Index, Incarnation: a.mark.Incarnation + 1})
	}
	p.Send(causal.PastReply{ID: q.ID, HadData: a.mark.HasData, Incarnation: a.mark.Incarnation,
		Away: p.terms.awayBits()}.Message(p.cfg.Self, from))
}

func compareShards(m causal.ShardMark, shard topology.Node) int {
	return cmp.Or(cmp.Compare(m.DC, shard.DC), cmp.Compare(m.Index, shard.Index))
}

// mark returns what is known of a shard.
func (s *State) mark(shard topology.Node) causal.ShardMark {
	if i, found := slices.BinarySearchFunc(s.Shards, shard, compareShards); found {
		return s.Shards[i]
	}
	return causal.ShardMark{DC: shard.DC, Index: shard.Index}
}

// maxMarks is more than all shards that a deployment has and had. Each checkpoint has all marks, and has to fit the
// log.
const maxMarks = 8192

// noteTold is note for what another coordinator tells, unless the shard cannot be. That a shard has lost its data
// counts only up to the incarnation that it has told this coordinator itself, which it does before it goes on: beyond,
// no acknowledgement of the shard would count any more.
func (c *Coordinator) noteTold(now causal.Now, m causal.ShardMark) bool {
	s := &c.log.pending
	heard := uint64(0)
	if l := c.lanes[topology.Node{DC: m.DC, Part: topology.Middleman, Index: m.Index}]; l != nil {
		heard = l.incarnation
	}
	m.Lost = min(m.Lost, heard)
	if !c.isPlausibleIncarnation(now, m.Incarnation) {
		return false
	}
	if _, found := slices.BinarySearchFunc(s.Shards, topology.Node{DC: m.DC, Index: m.Index}, compareShards); !found {
		if int(m.DC) >= len(c.cfg.Topology.DCs) || len(s.Shards) >= maxMarks {
			return false
		}
	}
	return s.note(m)
}

// note adds to what is known of a shard, and reports whether that is new. It is durable with the next checkpoint. That
// is in time: the log keeps every write until a later checkpoint says that it is complete.
func (s *State) note(m causal.ShardMark) bool {
	i, found := slices.BinarySearchFunc(s.Shards, topology.Node{DC: m.DC, Index: m.Index}, compareShards)
	if found {
		m.Incarnation, m.HasData = max(m.Incarnation, s.Shards[i].Incarnation), m.HasData || s.Shards[i].HasData
		m.Lost = max(m.Lost, s.Shards[i].Lost)
		if m == s.Shards[i] {
			return false
		}
		s.Shards = slices.Clone(s.Shards)
		s.Shards[i] = m
		return true
	}
	s.Shards = slices.Insert(slices.Clone(s.Shards), i, m)
	return true
}
