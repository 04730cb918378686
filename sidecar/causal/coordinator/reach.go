package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// A coordinator remembers of each shard how far its storage had come, so that an older copy of that is noticed
// (PROTOCOL OLD).

// ShardReach is how far the storage of a shard had come, as the shard has said.
type ShardReach struct {
	DC    topology.DC
	Index uint64
	Reach causal.Reach
}

// noteReaches adds what shards have said since the start to what the next checkpoint makes durable. Whatever that says
// is complete, it also has how far the shards were that have acknowledged it.
func (c *Coordinator) noteReaches() {
	for _, l := range c.laneOrder {
		c.log.pending.noteReach(l.mm, l.reached)
	}
}

// reachOf returns how far the storage of the shard of a lane had come before a start. If its data were lost since, that
// is what counts: what it had before is an older copy, too. That this start has lost some does not: what it has kept
// may be of an older copy.
func (c *Coordinator) reachOf(l *lane, incarnation uint64) causal.Reach {
	s := &c.log.pending
	r := s.reachOf(l.mm).Max(l.reached)
	if lost := s.mark(l.mm).Lost; lost != incarnation {
		r = r.Max(causal.Reach{Incarnation: lost})
	}
	return r
}

// answerWithReach tells a shard what is remembered of its storage, and nothing of a lane:
//   - a shard under another slot map moves slots only when it has heard that, and until it has moved them it goes on
//     under that map;
//   - a log that is lost remembers nothing, and knows nothing of what was sent. The shard is not to wait for it.
func (c *Coordinator) answerWithReach(shard topology.Node, l *lane, h *causal.LaneHello) {
	answer := causal.LaneSync{Incarnation: h.Incarnation, Round: h.Round, Map: h.Map, Recovering: true}
	switch {
	case h.Lost, int(shard.DC) >= len(c.cfg.Topology.DCs):
		return // a shard that has lost its data asks until it is answered in full
	case !c.log.isEstablished():
		if len(c.DataLost()) == 0 {
			return // it is not known yet whether the log is lost
		}
	case l != nil:
		answer.Reached = c.reachOf(l, h.Incarnation)
	default:
		answer.Reached = c.log.pending.reachOf(shard)
	}
	c.Send(answer.Message(c.cfg.Self, shard))
}

// noteLostReach remembers the loss before this one of the shard of a lane, which the mark of this one replaces.
func (c *Coordinator) noteLostReach(l *lane, incarnation uint64) {
	if before := c.log.pending.mark(l.mm).Lost; before != incarnation {
		c.log.pending.noteReach(l.mm, causal.Reach{Incarnation: before})
	}
}

// isUnsureOf reports whether an earlier life of this coordinator may have heard that the shard had come further: of
// writes that were not complete by its last checkpoint, and are in the log.
func (c *Coordinator) isUnsureOf(l *lane) bool {
	return c.log.replayed && l.reached == (causal.Reach{})
}

func (s *State) findReach(shard topology.Node) (i int, found bool) {
	return slices.BinarySearchFunc(s.Reaches, shard, func(r ShardReach, n topology.Node) int {
		return compareShards(causal.ShardMark{DC: r.DC, Index: r.Index}, n)
	})
}

func (s *State) reachOf(shard topology.Node) causal.Reach {
	if i, found := s.findReach(shard); found {
		return s.Reaches[i].Reach
	}
	return causal.Reach{}
}

func (s *State) noteReach(shard topology.Node, r causal.Reach) {
	before := s.reachOf(shard)
	if r = r.Max(before); r == before {
		return
	}
	i, found := s.findReach(shard)
	s.Reaches = slices.Clone(s.Reaches)
	if !found {
		s.Reaches = slices.Insert(s.Reaches, i, ShardReach{DC: shard.DC, Index: shard.Index})
	}
	s.Reaches[i].Reach = r
}
