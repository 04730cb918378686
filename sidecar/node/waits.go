package node

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// Waits are the operations in progress that have taken longer than a time.
type Waits struct {
	// Number is how many wait for each.
	Number map[session.WaitsFor]int
	All    int
	// Longest is the one that has taken longest. It has no Op.
	Longest session.Wait
	Kind    session.OpKind // of the longest
}

// Waits returns the operations in progress that have taken longer than a time.
func (s *Sidecar) Waits(longer time.Duration) Waits {
	w := Waits{Number: map[session.WaitsFor]int{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.EachWait(s.clock(), longer, func(one session.Wait) {
		w.All++
		w.Number[one.For]++
		if one.Taken > w.Longest.Taken {
			w.Kind = one.Op.Kind
			one.Op = nil // it may end, and be another one
			w.Longest = one
		}
	})
	return w
}
