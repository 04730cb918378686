package sim

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// coordinatorLinks are what sidecars are told of their links to coordinators, as a transport tells it: late, but in
// order. A link is down when the process that served has ceased to, or when it has lost, delayed or reordered a put or
// an answer. It comes up when one serves and both ends reach each other.
type coordinatorLinks struct {
	w   *World
	rng *rand.Rand // of its own, so that the other schedules of a seed do not depend on it
	// readerRNG draws when sidecars learn of links to shards and caches.
	readerRNG *rand.Rand
	links     map[pair]*coordinatorLink
	// lost are the requests of which a put or an answer was lost though the link has stayed up.
	lost map[lostRequest]bool
}

// lostRequest names a put as its sidecar does.
type lostRequest struct {
	sidecar topology.Node
	id      uint64
}

// coordinatorLink is the link from a sidecar to whoever serves a coordinator, as the sidecar knows it.
type coordinatorLink struct {
	sidecar     *node
	coordinator topology.Node
	connecting  bool
	up          causal.Leadership // zero: the link is down
}

func (ls *coordinatorLinks) init(w *World) {
	*ls = coordinatorLinks{w: w, rng: rand.New(rand.NewPCG(w.settings.Seed, 0x6c62272e07bb0142)),
		readerRNG: rand.New(rand.NewPCG(w.settings.Seed, 0x27d4eb2f165667c5)), links: map[pair]*coordinatorLink{},
		lost: map[lostRequest]bool{}}
}

// delay draws how late a sidecar learns of something.
func (ls *coordinatorLinks) delay(atMost time.Duration) int64 {
	if ls.w.settings.NoRandomness {
		return int64(time.Millisecond)
	}
	return ls.rng.Int64N(int64(atMost))
}

// addSidecar connects a new sidecar, before it does anything.
func (ls *coordinatorLinks) addSidecar(s *node) {
	for _, c := range ls.w.order {
		if c.id.Part == topology.Coordinator {
			ls.connect(ls.link(s, c.id.Group()))
		}
	}
}

func (ls *coordinatorLinks) link(s *node, coordinator topology.Node) *coordinatorLink {
	l := ls.links[pair{s.id, coordinator}]
	if l == nil {
		l = &coordinatorLink{sidecar: s, coordinator: coordinator}
		ls.links[pair{s.id, coordinator}] = l
	}
	return l
}

// leadershipChanged tells all sidecars, late, that a process begins to serve, or ceases to.
func (ls *coordinatorLinks) leadershipChanged(n *node, l causal.Leadership) {
	for _, s := range ls.w.order {
		if s.id.Part != topology.Sidecar {
			continue
		}
		link := ls.link(s, n.id.Group())
		if !l.IsZero() {
			ls.reconnect(link)
			continue
		}
		was := link.up
		ls.w.schedule(ls.delay(300*time.Millisecond), func() {
			if link.up == was {
				ls.breakLink(link)
			}
		})
	}
}

// met takes that a message has met a fault of its link. If it was a put or its answer, the link breaks.
func (ls *coordinatorLinks) met(m *causal.Message) {
	sidecar, coordinator := m.From, m.To
	if m.Kind == causal.KindPutReply {
		sidecar, coordinator = coordinator, sidecar
	} else if !m.Kind.IsPut() {
		ls.metReader(m)
		return
	}
	l := ls.link(ls.w.nodes[sidecar], coordinator)
	ls.w.schedule(ls.delay(100*time.Millisecond), func() { ls.breakLink(l) })
}

// losesPut draws whether a message is lost and its link stays up: a put, or an answer to one. The next copy of it
// arrives, and is answered.
func (ls *coordinatorLinks) losesPut(m *causal.Message) bool {
	var r lostRequest
	switch m.Kind {
	case causal.KindPut:
		r = lostRequest{m.From, m.Put().ID}
	case causal.KindPutReply:
		r = lostRequest{m.To, m.PutReply().ID}
	default:
		return false
	}
	if ls.lost[r] || ls.rng.IntN(100) >= ls.w.settings.PutLossPercent {
		return false
	}
	ls.lost[r] = true
	return true
}

// delayCopy delivers another copy of a put to whoever serves the coordinator then, some times.
func (ls *coordinatorLinks) delayCopy(at int64, m *causal.Message) {
	if ls.rng.IntN(20) == 0 {
		ls.w.net.push(at+ls.rng.Int64N(int64(3*time.Second)), delivery{msg: *m})
		ls.w.countFault(Duplicate)
	}
}

func (ls *coordinatorLinks) breakLink(l *coordinatorLink) {
	if !l.up.IsZero() {
		l.up = causal.Leadership{}
		withMachine(ls.w, l.sidecar.id, func(m *session.Sidecar, now causal.Now) { m.LinkDown(now, l.coordinator) })
	}
	ls.reconnect(l)
}

// reconnect connects a link after a while.
func (ls *coordinatorLinks) reconnect(l *coordinatorLink) {
	if l.connecting {
		return
	}
	l.connecting = true
	ls.w.schedule(int64(time.Millisecond)+ls.delay(200*time.Millisecond), func() {
		l.connecting = false
		ls.connect(l)
	})
}

// connect brings a link up if a process serves and both ends reach each other, and otherwise tries again later, or when
// one begins to serve.
func (ls *coordinatorLinks) connect(l *coordinatorLink) {
	n := ls.w.serving(l.coordinator)
	if n == nil {
		return
	}
	serves := n.m.(*member.Coordinator).Leadership()
	switch {
	case !l.up.IsZero() && serves.Compare(l.up) <= 0:
	case ls.w.net.isCut(pair{l.sidecar.id, n.id}) || ls.w.net.isCut(pair{n.id, l.sidecar.id}):
		ls.reconnect(l)
	default:
		l.up = serves
		withMachine(ls.w, l.sidecar.id, func(m *session.Sidecar, now causal.Now) {
			m.LinkUp(now, l.coordinator, serves)
		})
	}
}
