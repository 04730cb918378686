package transport

import (
	"slices"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func TestDownAndUpAreReported(t *testing.T) {
	d := newDirectory()
	var mu sync.Mutex
	down, up := map[topology.Node]int{}, map[topology.Node]int{}
	a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) {
		count := func(of map[topology.Node]int, n topology.Node) {
			mu.Lock()
			defer mu.Unlock()
			of[n]++
		}
		c.Down, c.Up = func(n topology.Node) { count(down, n) }, func(n topology.Node, _ causal.Leadership) {
			count(up, n)
		}
	})
	const nowhere = "127.0.0.1:1"
	d.set(nowhere, middlemanA)
	b := start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanA, 1))
	a.Send(put(coordinatorA, middlemanB, 1))
	b.wait(t, 1)
	b.Close()
	waitFor(t, "the break, and failed attempts, to be reported", func() bool {
		a.Send(put(coordinatorA, middlemanA, 2))
		mu.Lock()
		defer mu.Unlock()
		return down[middlemanB] >= 2 && down[middlemanA] >= 1
	})
	mu.Lock()
	defer mu.Unlock()
	if up[middlemanA] > 0 || up[middlemanB] != 1 {
		t.Errorf("reported up %v", up)
	}
}

// Each put either arrives or, if it was certainly not sent, is reported, whether the link was never there, breaks, or
// is full.
func TestPutsThatWereNotSentAreReported(t *testing.T) {
	d := newDirectory()
	var mu sync.Mutex
	var unsent []uint64
	a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) {
		c.QueueBytes = 1000
		c.Unsent = func(m causal.Message) {
			mu.Lock()
			defer mu.Unlock()
			unsent = append(unsent, m.Put().Seq)
		}
	})
	const nowhere = "127.0.0.1:1"
	d.set(nowhere, middlemanA)
	const n = 300 // more than the queue holds, and more than one attempt
	for i := range uint64(n) {
		a.Send(put(coordinatorA, middlemanA, i))
	}
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(unsent) == n
	}
	waitFor(t, "all puts to be reported", all)
	slices.Sort(unsent)
	if len(slices.Compact(unsent)) != n {
		t.Errorf("some puts were reported twice: %v", unsent)
	}
	unsent = nil
	b := start(t, d, []topology.Node{middlemanB})
	for i := range uint64(5) {
		a.Send(put(coordinatorA, middlemanB, i))
	}
	b.wait(t, 5)
	if len(unsent) > 0 {
		t.Errorf("puts that arrived were reported: %v", unsent)
	}
}

func TestAPeerThatHasAnsweredEverythingEndsItsLinks(t *testing.T) {
	for _, answered := range []bool{false, true} {
		d := newDirectory()
		reports := make(chan bool, 10)
		a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) {
			c.Down = func(topology.Node) { reports <- false }
			c.Ended = func(topology.Node) { reports <- true }
		})
		b := start(t, d, []topology.Node{middlemanB})
		a.Send(put(coordinatorA, middlemanB, 1))
		b.wait(t, 1)
		if answered {
			b.Answered()
		}
		b.Close()
		if got := <-reports; got != answered {
			t.Errorf("a peer that has answered everything: %v, and its link is reported as ended: %v", answered, got)
		}
	}
}

// The put of which an answer was dropped may be in a log: it must not go elsewhere.
func TestAPeerThatHasDroppedAnAnswerDoesNotEndItsLinkInOrder(t *testing.T) {
	d := newDirectory()
	reports := make(chan bool, 10)
	a := start(t, d, []topology.Node{sidecarA}, func(c *Config, _ *timings) {
		c.Down = func(topology.Node) { reports <- false }
		c.Ended = func(topology.Node) { reports <- true }
	})
	b := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) { c.QueueBytes = 1 })
	a.Send(put(sidecarA, coordinatorA, 1))
	b.wait(t, 1)
	waitFor(t, "an answer to be dropped", func() bool {
		var answers []causal.Message
		for i := range uint64(100) {
			answers = append(answers, causal.PutReply{ID: i}.Message(coordinatorA, sidecarA))
		}
		b.SendAll(answers)
		return dropped(b.Stats(), DropOverflow) > 0
	})
	b.Answered()
	b.Close()
	if <-reports {
		t.Error("the link is reported as ended in order")
	}
}
