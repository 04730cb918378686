package transport

import (
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/topology"
)

func TestDownAndUnreachedAreDistinct(t *testing.T) {
	d := newDirectory()
	var mu sync.Mutex
	down, up, unreached := map[string]int{}, map[string]int{}, map[string]int{}
	a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) {
		count := func(of map[string]int) func(string) {
			return func(addr string) {
				mu.Lock()
				defer mu.Unlock()
				of[addr]++
			}
		}
		c.Down, c.Up, c.Unreached = count(down), count(up), count(unreached)
	})
	const nowhere = "127.0.0.1:1"
	d.set(nowhere, middlemanA)
	b := start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanA, 1))
	a.Send(put(coordinatorA, middlemanB, 1))
	b.wait(t, 1)
	b.Close()
	waitFor(t, "the break, and a failed attempt after it, to be reported", func() bool {
		a.Send(put(coordinatorA, middlemanA, 2))
		mu.Lock()
		defer mu.Unlock()
		return down[b.addr] >= 2 && unreached[nowhere] > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if down[nowhere] > 0 || up[nowhere] > 0 {
		t.Errorf("a process that was never reached was reported down %d times and up %d times", down[nowhere], up[nowhere])
	}
	if up[b.addr] != 1 || unreached[b.addr] > 0 {
		t.Errorf("a process that was reached once was reported up %d times and unreached %d times", up[b.addr], unreached[b.addr])
	}
}
