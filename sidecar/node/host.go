// Package node runs the machines of package causal on real time, disks and sockets.
//
// A Host owns one machine behind one lock. Whoever brings input (a message, a tick, a finished I/O, a client's operation)
// steps the machine and then carries out what it left in its outbox, after the lock is released. Within one process that
// makes a read that the DC cache answers one chain of calls in the goroutine of the client's connection: no channel, no
// other goroutine, no serialisation.
//
// Failure model: a message that cannot be sent is lost, and the machines send it again. A coordinator whose log fails, or a
// middleman whose storage fails for good, stops serving and reports it; it never guesses.
package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// Clock gives the machines their time.
type Clock func() causal.Now

// wallEvery is how often the wall clock is looked at; between two looks it goes on with the monotonic one, which is read
// for every step. So a jump of the wall clock is seen that much late, and machines take jumps at any time.
const wallEvery = 5 * time.Millisecond

// NewClock returns the clock of this process.
func NewClock() Clock {
	start := time.Now()
	var ahead, dueAt atomic.Int64 // nanoseconds that the wall clock is ahead of the monotonic one; when to look again
	return func() causal.Now {
		mono := int64(time.Since(start)) + 1
		if mono >= dueAt.Load() {
			ahead.Store(time.Now().UnixNano() - mono)
			dueAt.Store(mono + int64(wallEvery))
		}
		return causal.Now{Mono: mono, WallMs: (mono + ahead.Load()) / int64(time.Millisecond)}
	}
}

// machine is what the parts have in common.
type machine interface {
	Step(now causal.Now, m *causal.Message)
	Tick(now causal.Now)
	Take(dst []causal.Message) []causal.Message
}

// Host is one node: a machine, and the lock that owns it.
type Host struct {
	ID    topology.Node
	clock Clock
	net   transport.Network

	mu      sync.Mutex
	m       machine
	collect func()           // takes what else the machine left, under mu
	queue   []causal.Message // to be sent, in order
	spare   []causal.Message
	sending bool
	stopped bool
}

func newHost(id topology.Node, clock Clock, net transport.Network) *Host {
	return &Host{ID: id, clock: clock, net: net, collect: func() {}}
}

// Handle takes messages; it is the node's transport.Handler.
func (h *Host) Handle(batch []causal.Message) {
	h.do(func(now causal.Now) {
		for i := range batch {
			h.m.Step(now, &batch[i])
		}
	})
}

// Tick lets the machine do what is due.
func (h *Host) Tick() { h.do(func(now causal.Now) { h.m.Tick(now) }) }

// do runs f on the machine and then sends what it left.
func (h *Host) do(f func(now causal.Now)) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return
	}
	before := len(h.queue)
	f(h.clock())
	h.release(before)
}

// release gives the lock up and sends what a step left. The queue held before messages when the step began.
//
// A read or its answer that is all there is to send goes out at once, in this goroutine: nothing is ordered after or before
// it, because an answer finds its question by the id, and a read takes effect where it arrives. So reads do not queue up
// behind whoever is sending, and nobody has to be woken for their answers.
func (h *Host) release(before int) {
	h.queue = h.m.Take(h.queue)
	h.collect()
	if len(h.queue) == before+1 && (h.queue[before].Kind == causal.KindGet || h.queue[before].Kind == causal.KindGetReply) {
		m := h.queue[before]
		h.queue[before] = causal.Message{}
		h.queue = h.queue[:before]
		h.mu.Unlock()
		h.net.Send(m)
		return
	}
	h.pump()
	h.mu.Unlock()
}

// pump sends the queue, in order (reads and their answers may overtake it, see release). One goroutine at a time does; what
// others add meanwhile, also by being called back from Send, it takes along. It is called with the lock held and gives it up
// while it sends.
func (h *Host) pump() {
	if h.sending {
		return
	}
	h.sending = true
	for len(h.queue) > 0 {
		batch := h.queue
		h.queue = h.spare[:0]
		h.mu.Unlock()
		for i := range batch {
			h.net.Send(batch[i])
		}
		clear(batch)
		h.mu.Lock()
		h.spare = batch[:0]
	}
	h.sending = false
}

// View runs f on the machine without sending anything; f must not change it.
func (h *Host) View(f func(m any)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.m)
}

// stop ends the machine: later input is dropped.
func (h *Host) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
}

// Ticker ticks any number of hosts from one goroutine.
type Ticker struct {
	mu    sync.Mutex
	hosts []*Host
	done  chan struct{}
	ended chan struct{}
}

// tickEvery is the period of ticks; the machines' own periods are multiples of it.
const tickEvery = 5 * time.Millisecond

// NewTicker starts a ticker.
func NewTicker() *Ticker {
	t := &Ticker{done: make(chan struct{}), ended: make(chan struct{})}
	go t.run()
	return t
}

func (t *Ticker) run() {
	defer close(t.ended)
	tick := time.NewTicker(tickEvery)
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
func (t *Ticker) Add(h *Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hosts = append(t.hosts[:len(t.hosts):len(t.hosts)], h)
}

// Remove ticks h no more.
func (t *Ticker) Remove(h *Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []*Host
	for _, o := range t.hosts {
		if o != h {
			kept = append(kept, o)
		}
	}
	t.hosts = kept
}

// Stop ends the ticker.
func (t *Ticker) Stop() {
	close(t.done)
	<-t.ended
}
