package transport

import (
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/topology"
)

func TestALinkThatBreaksIsReportedButNotAProcessThatWasNeverReached(t *testing.T) {
	d := newDirectory()
	var mu sync.Mutex
	down := map[string]int{}
	a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) {
		c.Down = func(addr string) {
			mu.Lock()
			defer mu.Unlock()
			down[addr]++
		}
	})
	const nowhere = "127.0.0.1:1"
	d.set(nowhere, middlemanA)
	b := start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanA, 1))
	a.Send(put(coordinatorA, middlemanB, 1))
	b.wait(t, 1)
	b.Close()
	eventually(t, "the break, and a failed attempt after it, to be reported", func() bool {
		a.Send(put(coordinatorA, middlemanA, 2))
		mu.Lock()
		defer mu.Unlock()
		return down[b.addr] >= 2 && a.Stats().Failed > uint64(down[b.addr])
	})
	mu.Lock()
	defer mu.Unlock()
	if down[nowhere] > 0 {
		t.Error("a process that was never reached was reported")
	}
}
