package sim

import (
	"time"

	"github.com/causalstore/causalstore/lab/sim/groups"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/topology"
)

// groupMember is the machine of one member of a group: of a coordinator, or of a shard.
type groupMember interface {
	machine
	Leadership() causal.Leadership
	Status() group.Status
	process.LogMember
	RegisterOps(dst []group.RegisterOp) []group.RegisterOp
	RegisterDone(now causal.Now, res group.RegisterResult)
}

// group returns the machine of a member of a group; nil if the node is down, or is not one.
func (n *node) group() groupMember {
	m, _ := n.m.(groupMember)
	return m
}

// claim says in which leadership a member serves from a time on; none: it does not.
type claim struct {
	at int64
	l  causal.Leadership
}

// noteClaim notes when a member begins or ends to serve.
func (w *World) noteClaim(n *node, l causal.Leadership) {
	if last := len(n.claims) - 1; last < 0 && !l.IsZero() || last >= 0 && n.claims[last].l != l {
		n.claims = append(n.claims, claim{w.now, l})
		if n.id.Part == topology.Coordinator {
			w.links.leadershipChanged(n, l)
		}
	}
}

// claimed returns the leadership that another node has heard of: the news takes some time.
func (n *node) claimed(now, delay int64) causal.Leadership {
	for i := len(n.claims) - 1; i >= 0; i-- {
		if n.claims[i].at+delay <= now {
			return n.claims[i].l
		}
	}
	return causal.Leadership{}
}

// process returns the process that serves a node, as nobody in particular sees it; the first member of its group if
// none does.
func (w *World) process(id topology.Node) *node {
	if n := w.nodes[id]; n != nil {
		return n
	}
	return w.route(nil, id)
}

// route returns the process to which a message to a node goes: that with the greatest leadership which the sender has
// heard of and can reach.
func (w *World) route(from *node, id topology.Node) (best *node) {
	if n := w.nodes[id]; n != nil || !id.HasGroup() {
		return n
	}
	var greatest causal.Leadership
	for _, m := range w.topo.MembersOf(id) {
		n := w.nodes[m]
		if n == nil {
			continue // not started yet
		}
		delay := int64(0)
		if from != nil {
			delay = int64(w.topo.RTT[from.id.DC][id.DC]/2*1e6) + int64(time.Millisecond)
		}
		if l := n.claimed(w.now, delay); best == nil || l.Compare(greatest) > 0 &&
			(from == nil || !w.net.isCut(pair{from.id, m}) && !w.net.isCut(pair{m, from.id})) {
			best, greatest = n, l
		}
	}
	return best
}

// serving returns the process that serves a coordinator, or a shard with several members; nil: none does.
func (w *World) serving(id topology.Node) *node {
	for _, n := range w.order {
		if n.id.Group() != id {
			continue
		}
		if m := n.group(); m != nil && !m.Leadership().IsZero() {
			return n
		}
	}
	return nil
}

// hasServers reports whether every group is served by one of its members.
func (w *World) hasServers() bool {
	for _, n := range w.order {
		if n.id.Member != 0 && !n.removed && w.serving(n.id.Group()) == nil {
			return false
		}
	}
	return true
}

// request carries out a request of a member to the register of its group, some time later.
func (w *World) request(n *node, op group.RegisterOp) {
	s := w.registers[n.id.Group()]
	if s == nil {
		s = &groups.Store{Number: 1}
		w.registers[n.id.Group()] = s
	}
	inst := n.instance
	reply := func(after int64, res group.RegisterResult) {
		res.ID = op.ID
		w.schedule(after, func() {
			if n.instance == inst {
				n.group().RegisterDone(w.clock(n), res)
				w.flush(n)
			}
		})
	}
	upTo := func(d time.Duration) int64 { return 1 + w.rng.Int64N(int64(d)) }
	if w.now < n.registerCutTill {
		outcome := group.Failed
		if op.Swap && w.rng.IntN(2) == 0 {
			outcome = group.Unknown
		}
		reply(upTo(time.Second), group.RegisterResult{Outcome: outcome})
		return
	}
	if op.Swap && w.settings.FaultsPerMillion > 0 && w.rng.IntN(8) == 0 {
		// its outcome is not told, and it may be done late
		w.countFault(UnknownSwap)
		reply(upTo(time.Second), group.RegisterResult{Outcome: group.Unknown})
		if w.rng.IntN(3) > 0 {
			w.swaps[n.id.Group()]++
			w.schedule(upTo(4*time.Second), func() {
				w.swaps[n.id.Group()]--
				s.Swap(op)
			})
		}
		return
	}
	if op.Swap {
		w.swaps[n.id.Group()]++
	}
	w.schedule(upTo(20*time.Millisecond), func() {
		if op.Swap {
			w.swaps[n.id.Group()]--
		}
		res := s.Read()
		if op.Swap && !s.Swap(op) {
			res.Outcome = group.Failed
		}
		reply(upTo(20*time.Millisecond), res)
	})
}
