package node

import (
	"sync"
	"time"
)

// Ticker ticks hosts from one goroutine.
type Ticker struct {
	mu      sync.Mutex
	hosts   []Host
	done    chan struct{}
	stopped chan struct{}
}

// tickInterval is the period of ticks. The machines' periods are multiples of it.
const tickInterval = 5 * time.Millisecond

// NewTicker starts a ticker.
func NewTicker() *Ticker {
	t := &Ticker{done: make(chan struct{}), stopped: make(chan struct{})}
	go t.run()
	return t
}

func (t *Ticker) run() {
	defer close(t.stopped)
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-tick.C:
		}
		t.mu.Lock()
		hosts := t.hosts
		t.mu.Unlock()
		for _, h := range hosts {
			h.Tick()
		}
	}
}

// Add ticks h from now on.
func (t *Ticker) Add(h Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = append(t.hosts[:len(t.hosts):len(t.hosts)], h)
}

// Remove stops ticking h.
func (t *Ticker) Remove(h Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []Host
	for _, o := range t.hosts {
		if o != h {
			kept = append(kept, o)
		}
	}
	t.hosts = kept
}

// Stop stops the ticker and waits for its last tick.
func (t *Ticker) Stop() {
	close(t.done)
	<-t.stopped
}
