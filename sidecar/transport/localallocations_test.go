//go:build !race

package transport

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// The validation takes a pointer to the message, and must not move each one to the heap for it.
func TestASendWithinAProcessAllocatesNothing(t *testing.T) {
	l := NewLocal(nil)
	defer l.Close()
	received := 0
	_ = l.Register(middlemanA, func(batch []causal.Message) { received += len(batch) })
	m := put(coordinatorA, middlemanA, 1)
	if n := testing.AllocsPerRun(1000, func() { l.Send(m) }); n >= 1 || received == 0 {
		t.Errorf("%v allocations for a message, %d received", n, received)
	}
}
