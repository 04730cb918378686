package sim

import (
	"math/rand/v2"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// coordinatorLinks are what sidecars are told of their links to coordinators, as a transport tells it: late, but in order. A link is
// down when its coordinator has crashed, or when it has lost, delayed or reordered a put or an answer. It comes up again when both
// ends reach each other.
type coordinatorLinks struct {
	w     *World
	rng   *rand.Rand // of its own, so that the other schedules of a seed do not depend on it
	links map[pair]*coordinatorLink
}

// coordinatorLink is the link from a sidecar to a coordinator, as the sidecar knows it.
type coordinatorLink struct {
	sidecar, coordinator *node
	up, connecting       bool
	life                 uint64 // of the coordinator, when the link came up
}

// leadership is under which a coordinator serves: no other start has the same one.
func (n *node) leadership() causal.Leadership { return causal.Leadership{Epoch: 1, Life: n.life} }

func (ls *coordinatorLinks) init(w *World) {
	*ls = coordinatorLinks{w: w, rng: rand.New(rand.NewPCG(w.settings.Seed, 0x6c62272e07bb0142)), links: map[pair]*coordinatorLink{}}
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
			ls.connect(ls.link(s, c))
		}
	}
}

func (ls *coordinatorLinks) link(s, c *node) *coordinatorLink {
	l := ls.links[pair{s.id, c.id}]
	if l == nil {
		l = &coordinatorLink{sidecar: s, coordinator: c}
		ls.links[pair{s.id, c.id}] = l
	}
	return l
}

// each calls f with the link of every sidecar to a coordinator.
func (ls *coordinatorLinks) each(c *node, f func(*coordinatorLink)) {
	for _, s := range ls.w.order {
		if s.id.Part == topology.Sidecar && c.id.Part == topology.Coordinator {
			f(ls.link(s, c))
		}
	}
}

func (ls *coordinatorLinks) coordinatorCrashed(c *node) {
	ls.each(c, func(l *coordinatorLink) {
		ls.w.schedule(ls.delay(300*time.Millisecond), func() {
			if l.life != c.life {
				ls.breakLink(l)
			}
		})
	})
}

func (ls *coordinatorLinks) coordinatorStarted(c *node) { ls.each(c, ls.reconnect) }

// met takes that a message has met a fault of its link. If it was a put or its answer, the link breaks.
func (ls *coordinatorLinks) met(m *causal.Message) {
	from, to := ls.w.nodes[m.From], ls.w.nodes[m.To]
	if m.Kind == causal.KindPutReply {
		from, to = to, from
	} else if m.Kind != causal.KindPut {
		return
	}
	ls.w.schedule(ls.delay(100*time.Millisecond), func() { ls.breakLink(ls.link(from, to)) })
}

// delayCopy delivers another copy of a put to whoever serves the coordinator then, some times.
func (ls *coordinatorLinks) delayCopy(at int64, m causal.Message) {
	if ls.rng.IntN(20) == 0 {
		ls.w.events.push(event{at: at + ls.rng.Int64N(int64(3*time.Second)), msg: &delivery{msg: m}})
		ls.w.countFault(Duplicate)
	}
}

func (ls *coordinatorLinks) breakLink(l *coordinatorLink) {
	if l.up {
		l.up = false
		withMachine(ls.w, l.sidecar.id, func(m *session.Sidecar, now causal.Now) { m.LinkDown(now, l.coordinator.id) })
	}
	ls.reconnect(l)
}

// reconnect connects a link that is down, after a while.
func (ls *coordinatorLinks) reconnect(l *coordinatorLink) {
	if l.up || l.connecting {
		return
	}
	l.connecting = true
	ls.w.schedule(int64(time.Millisecond)+ls.delay(200*time.Millisecond), func() {
		l.connecting = false
		ls.connect(l)
	})
}

// connect brings a link up if both ends reach each other, and otherwise tries again later; or when the coordinator is started.
func (ls *coordinatorLinks) connect(l *coordinatorLink) {
	there := pair{l.sidecar.id, l.coordinator.id}
	switch {
	case l.up || !l.coordinator.isUp():
	case ls.w.net.isCut(there) || ls.w.net.isCut(pair{there.to, there.from}):
		ls.reconnect(l)
	default:
		l.up, l.life = true, l.coordinator.life
		withMachine(ls.w, l.sidecar.id, func(m *session.Sidecar, now causal.Now) {
			m.LinkUp(now, l.coordinator.id, l.coordinator.leadership())
		})
	}
}
