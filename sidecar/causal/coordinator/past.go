package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A part whose disk is empty asks others whether it had data before, because to start empty then would lose
// acknowledged writes in silence (PROTOCOL DISK). Coordinators answer middlemen from what their checkpoints
// hold; a coordinator asks the middlemen, and the leader of its data center.

// pastInquiry is what a coordinator with an empty log does before it takes its origin into use. It does nothing else
// meanwhile.
type pastInquiry struct {
	active   bool
	askAt    int64
	answered map[topology.Node]bool // middlemen
	above    causal.HLC
	// leaderTerm is the answer of the leader, of another coordinator's inquiry.
	leaderTerm     MembershipTerm
	leaderAnswered bool
	// knownTo are the middlemen that know of writes of this origin. That is no loss if the leader knows that an earlier
	// log has left: what it held is complete.
	knownTo []topology.Node
	// lostTo are the parts that know of a past that the log does not hold. Once there is one, the coordinator never
	// starts.
	lostTo []topology.Node
}

const pastQueryInterval = 100 * time.Millisecond

// DataLost returns the parts that know of writes of this origin which the log does not hold; none unless the log was
// lost.
func (c *Coordinator) DataLost() []topology.Node { return c.past.lostTo }

// Unanswered returns the parts that this coordinator has to hear before it starts with an empty log.
func (c *Coordinator) Unanswered() (nodes []topology.Node) {
	if !c.past.active {
		return nil
	}
	if c.leader == nil && !c.past.leaderAnswered {
		nodes = append(nodes, c.cfg.Topology.Leader(c.cfg.Self.DC))
	}
	for n := range c.middlemen() {
		if !c.past.answered[n] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// isEstablished reports whether the log has a past that this coordinator may speak of.
func (c *Coordinator) isEstablished() bool {
	return !c.past.active && !c.isRetired && c.log.checkpointIndex > 0
}

// askPast repeats the questions that are not answered.
func (c *Coordinator) askPast(now causal.Now) {
	if len(c.past.lostTo) > 0 || now.Mono < c.past.askAt {
		return
	}
	c.past.askAt = now.Mono + int64(pastQueryInterval)
	for _, n := range c.Unanswered() {
		if n.Part == topology.Coordinator {
			c.Send(causal.Term{ID: c.cfg.Incarnation, New: true}.Message(c.cfg.Self, n))
		} else {
			c.Send(causal.PastQuery{ID: c.cfg.Incarnation}.Message(c.cfg.Self, n))
		}
	}
	c.finishInquiry(now)
}

// handlePastReply takes what a middleman knows of this origin, or that it has all of its data.
func (c *Coordinator) handlePastReply(now causal.Now, m *causal.Message) {
	from, r := m.From, m.PastReply()
	if r.HasAll {
		c.noteCopy(now, from, r, m.Exclusions())
	}
	p := &c.past
	if !p.active || r.ID != c.cfg.Incarnation || from.Part != topology.Middleman {
		return
	}
	p.answered[from] = true
	p.above = max(p.above, r.Above)
	if r.HadData && !slices.Contains(p.knownTo, from) {
		p.knownTo = append(p.knownTo, from)
	}
	c.finishInquiry(now)
}

// handleLeaderTerm takes which term the leader knows. An odd one is in use: the log that had it is lost.
func (c *Coordinator) handleLeaderTerm(now causal.Now, from topology.Node, term MembershipTerm) {
	c.past.leaderAnswered, c.past.leaderTerm = true, term
	if term.IsInUse() {
		c.past.lostTo = []topology.Node{from}
	}
	c.finishInquiry(now)
}

// finishInquiry starts the log, if it is sure that there was none before. If the leader knows that an earlier one has
// left, its writes are complete, so the middlemen need not be asked, and what they know is no loss. Hence their word
// counts only once the leader has spoken.
func (c *Coordinator) finishInquiry(now causal.Now) {
	p := &c.past
	hasLeft := p.leaderAnswered && p.leaderTerm > 0 && !p.leaderTerm.IsInUse()
	if !hasLeft && (c.leader != nil || p.leaderAnswered) {
		for _, n := range p.knownTo {
			if !slices.Contains(p.lostTo, n) {
				p.lostTo = append(p.lostTo, n)
			}
		}
	}
	switch {
	case len(p.lostTo) > 0, len(c.Unanswered()) > 0 && !hasLeft:
		return
	case p.above.WallMs() > now.WallMs+c.cfg.ClockBoundMs:
		return // nothing could be written above it yet
	}
	p.active = false
	if !c.cfg.Broken.Has(causal.JoinBelow) {
		c.clock.Raise(p.above)
	}
	c.log.pending.Term = p.leaderTerm
	if hasLeft { // an earlier log was perhaps given up before it left: shards refuse puts of lower generations
		c.log.pending.Generation = uint64(now.WallMs)
	}
	if c.leader != nil {
		c.log.pending.Term = 1 // a leader is always in use
	}
	c.forgetAll(now)
	c.writeCheckpoint(now)
}

// pastAnswer is the answer to a middleman's query. A query that is repeated gets the same one.
type pastAnswer struct {
	id   uint64
	mark causal.ShardMark
}

// handlePastQuery tells a middleman with an empty storage what is known of its past.
func (c *Coordinator) handlePastQuery(from topology.Node, q causal.PastQuery) {
	if from.Part != topology.Middleman {
		return
	}
	if len(c.past.lostTo) > 0 { // what this log knew of the shard is lost with it
		c.Send(causal.PastReply{ID: q.ID, HadData: true}.Message(c.cfg.Self, from))
		return
	}
	if !c.isEstablished() {
		return
	}
	a, ok := c.pastAnswers[from]
	if !ok || a.id != q.ID {
		a = pastAnswer{q.ID, c.log.pending.mark(from)}
		c.pastAnswers[from] = a
		c.log.pending.note(causal.ShardMark{DC: from.DC, Index: from.Index, Incarnation: a.mark.Incarnation + 1})
	}
	c.Send(causal.PastReply{ID: q.ID, HadData: a.mark.HasData, Incarnation: a.mark.Incarnation,
		Away: c.awayBits()}.Message(c.cfg.Self, from))
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

// isPlausibleIncarnation reports whether a shard can have come to an incarnation by now.
func (c *Coordinator) isPlausibleIncarnation(now causal.Now, n uint64) bool {
	return causal.IsPlausible(n, causal.IncarnationBits, c.limit.At(now))
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
