package causal

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// put sends a write to the session's coordinator.
func (s *Sidecar) put(now Now, c *call) {
	s.stats.Puts++
	ss := c.s
	c.slot = topology.SlotOf(c.op.Key)
	if ss.outstanding == 0 || ss.cc.Part == topology.PartNone {
		// Only between puts: the coordinator orders a session's puts that are under way.
		ss.cc, _ = s.coordinatorFor(now, ss)
	}
	ss.outstanding++
	c.bound = !s.unbound(ss)
	s.sendPut(c)
}

func (s *Sidecar) sendPut(c *call) {
	ss := c.s
	ss.seq++
	c.target, c.held = ss.cc, false
	c.req = s.ask(c, 0, Message{Kind: KindPut, To: c.target, Session: ss.id, Seq: ss.seq, Key: c.op.Key,
		Record: Record{Value: c.op.Value}, HLC: ss.floor, Deps: s.depsFor(ss)})
}

// coordinatorFor picks a coordinator of the own DC, or while none answers, of the nearest DC. It reports false if none does at all.
func (s *Sidecar) coordinatorFor(now Now, ss *session) (topology.Node, bool) {
	t, spread := s.cfg.Topology, s.cfg.Self.Index+ss.id // pods number their sessions alike
	best := topology.Node{DC: s.cfg.Self.DC, Part: topology.Coordinator, Index: spread % uint64(t.DCs[s.cfg.Self.DC].Coordinators)}
	var bestMs float64
	found := false
	for dc := range t.DCs {
		for i := range t.DCs[dc].Coordinators {
			n := topology.Node{DC: topology.DC(dc), Part: topology.Coordinator, Index: (spread + uint64(i)) % uint64(t.DCs[dc].Coordinators)}
			if s.suspect[n] > now.Mono || n.DC == s.cfg.Self.DC && s.writers != 0 && s.writers&(1<<n.Index) == 0 {
				continue
			}
			ms := s.routes.Ms(now, n.DC)
			if n.DC == s.cfg.Self.DC {
				ms = -1
			}
			if !found || ms < bestMs {
				best, bestMs, found = n, ms, true
			}
		}
	}
	return best, found
}

func (s *Sidecar) putDone(now Now, c *call, m *Message) {
	switch {
	case c.done:
		return
	case m.Err == ErrUnavailable:
		s.refused(now, c)
		return
	case m.Err == ErrStale:
		s.fail(c, ErrUnknown) // a duplicate of it may have been taken
	case m.Err != OK:
		s.fail(c, m.Err)
	default:
		c.s.outstanding--
		s.wrote(c.s, c, m.Record.Version)
		s.finish(c, Result{Record: Record{Version: m.Record.Version}, Outcome: Outcome{Version: m.Record.Version, Ring: topology.NoRing}})
	}
	s.settled(now, c)
}

// refusalSuspicion is how long a coordinator that refused a put is passed over.
const refusalSuspicion = time.Second

// refused takes note that a coordinator does not take puts, because it comes or leaves. Nothing was done, so the put goes to
// another one; but the session's puts keep their order, so not before it is known of all of them.
func (s *Sidecar) refused(now Now, c *call) {
	s.suspect[c.target] = max(s.suspect[c.target], now.Mono+int64(refusalSuspicion))
	c.held, c.target = true, topology.Node{}
	c.s.held = append(c.s.held, c)
	s.elsewhere(now, c.s)
}

// Unreached says that a node cannot be reached and nothing was ever sent to it: puts that were to go there go elsewhere.
func (s *Sidecar) Unreached(now Now, node topology.Node) {
	if node.Part != topology.Coordinator {
		return // it has not started yet
	}
	s.suspect[node] = now.Mono + int64(coordinatorSuspicion)
	for _, c := range slices.Clone(s.calls) {
		if !c.done && c.target == node && c.op.Kind == OpPut {
			delete(s.requests, c.req)
			s.refused(now, c)
		}
	}
}

// settled: it is known of a put that it was taken, or not known whether. What the session has put before it and was refused must not
// come after it.
func (s *Sidecar) settled(now Now, c *call) {
	for _, h := range slices.Clone(c.s.held) {
		if h.issued < c.issued {
			s.fail(h, ErrUnavailable)
		}
	}
	s.elsewhere(now, c.s)
}

// elsewhere sends the refused puts to another coordinator, once no other put is under way.
func (s *Sidecar) elsewhere(now Now, ss *session) {
	if len(ss.held) == 0 || len(ss.held) < ss.outstanding {
		return
	}
	held := ss.held
	ss.held = nil
	slices.SortFunc(held, func(a, b *call) int { return cmp.Compare(a.issued, b.issued) })
	var found bool
	if ss.cc, found = s.coordinatorFor(now, ss); !found {
		for _, c := range held {
			s.fail(c, ErrUnavailable)
		}
		return
	}
	for _, c := range held {
		s.sendPut(c)
	}
}
