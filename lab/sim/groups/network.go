package groups

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// pair is a direction between two hosts.
type pair struct{ from, to string }

// link delivers in order, unless the world's links reorder.
type link struct {
	lastAt  int64
	cutTill int64
	broken  int // counts the times that it broke: what is on it then is lost
}

func (w *world) link(p pair) *link {
	l := w.links[p]
	if l == nil {
		l = &link{}
		w.links[p] = l
	}
	return l
}

func (w *world) hostNamed(name string) *host {
	for _, h := range w.hosts {
		if h.name == name {
			return h
		}
	}
	return nil
}

// happens draws whether something that is rare happens now.
func (w *world) happens(perMille int, f Fault) bool {
	if !w.faulty || perMille == 0 || w.rng.IntN(1000) >= perMille {
		return false
	}
	w.Faults[f]++
	return true
}

func (w *world) transmit(from *host, m group.Message) {
	w.Messages++
	p := pair{from.name, m.To.Name}
	l := w.link(p)
	if w.now < l.cutTill || w.happens(w.perMille/4, LoseMessage) {
		return
	}
	at := w.now + int64(w.latency/4) + int64(w.upTo(w.latency))
	if !w.reorders {
		at = max(at, l.lastAt)
		l.lastAt = at
	}
	again := w.perMille / 4
	switch b := m.Body.(type) {
	case *group.Frame:
		if b.Reset {
			again = max(again, w.repeatedResets)
		}
	case *group.Ack:
		for range w.repeatedAcks {
			if w.happens(500, RepeatMessage) {
				w.deliver(l, m, w.upTo(3*time.Second), false)
			}
		}
	}
	if w.happens(again, RepeatMessage) {
		w.deliver(l, m, time.Duration(at-w.now)+w.upTo(w.upTo(5*time.Second)), false)
	}
	if w.happens(w.perMille/4, DelayMessage) {
		w.deliver(l, m, w.upTo(5*time.Second), false)
		return
	}
	w.deliver(l, m, time.Duration(at-w.now), true)
}

// deliver delivers a message after some time, unless it is on a connection that breaks before.
func (w *world) deliver(l *link, m group.Message, d time.Duration, connected bool) {
	broken := l.broken
	w.after(d, func() {
		h := w.hostNamed(m.To.Name)
		if h == nil || connected && l.broken != broken {
			return
		}
		h.with(func(g *group.Group, now causal.Now) { g.Step(now, &m) })
	})
}

// breakLink loses what is on a connection; both ends notice.
func (w *world) breakLink(p pair) {
	w.link(p).broken++
	w.after(w.latency, func() {
		if h := w.hostNamed(p.from); w.link(p).cutTill <= w.now {
			h.with(func(g *group.Group, now causal.Now) { g.LinkUp(now, p.to) })
		}
	})
}
