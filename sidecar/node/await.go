package node

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
)

// await is the wait of a client for elements. It implements front.Waiting.
type await struct {
	sidecar *Sidecar
	id      uint64
	turns   chan front.Turn
}

// Await implements front.Session.
func (c *clientSession) Await(keys []string) front.Waiting {
	s := c.sidecar
	w := &await{sidecar: s, turns: make(chan front.Turn, 2)}
	isAtHome := c.IsExact()
	s.step(func(now causal.Now, m *session.Sidecar) {
		s.lastAwait++
		w.id = s.lastAwait
		s.awaits[w.id] = w
		m.Await(now, w.id, keys, isAtHome)
	})
	return w
}

// Turns implements front.Waiting.
func (w *await) Turns() <-chan front.Turn { return w.turns }

// Looked implements front.Waiting.
func (w *await) Looked(failed bool) {
	w.sidecar.step(func(now causal.Now, m *session.Sidecar) { m.Looked(now, w.id, failed) })
}

// End implements front.Waiting.
func (w *await) End() {
	w.sidecar.step(func(now causal.Now, m *session.Sidecar) {
		delete(w.sidecar.awaits, w.id)
		m.EndAwait(now, w.id)
	})
}

// deliverTurns tells clients that it is their turn. A client that has one gets no other before it has looked, but for
// an error. The caller holds the lock.
func (s *Sidecar) deliverTurns(m *session.Sidecar) {
	s.turns = m.TakeTurns(s.turns[:0])
	for _, t := range s.turns {
		w := s.awaits[t.ID]
		if w == nil {
			continue
		}
		select {
		case w.turns <- front.Turn{Told: t.Told, Err: awaitError(t.Err)}:
		default:
		}
	}
}

// awaitError returns why a client cannot wait.
func awaitError(code causal.ErrCode) error {
	switch code {
	case causal.OK:
		return nil
	case causal.ErrBusy:
		return front.Errorf(front.Busy, "too many clients of the data center wait for elements; try again later")
	}
	return clientError(code, "wait")
}
