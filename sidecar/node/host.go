// Package node runs the machines of the protocol on real time, disks and sockets.
//
// A host owns one machine and its lock. The goroutine that brings an input (a message, a tick, a completed I/O, a client's
// operation) steps the machine, releases the lock, and then sends the messages in the machine's outbox. Within one process, a
// read that the DC cache answers is therefore a chain of calls in the goroutine of the client's connection, without channels,
// other goroutines or serialization.
//
// Failure model: a message that cannot be sent is lost, and the machines resend it. A coordinator whose log fails, and a
// middleman whose storage fails permanently, stop serving and report it.
package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// Clock returns the time for a step of a machine.
type Clock func() causal.Now

// wallClockInterval is the period in which the wall clock is read. In between it is extrapolated from the monotonic clock,
// which is read for every step. Machines therefore see a jump of the wall clock late by up to this period; they tolerate jumps
// at any time.
const wallClockInterval = 5 * time.Millisecond

// NewClock returns the clock of this process.
func NewClock() Clock {
	start := time.Now()
	var ahead, dueAt atomic.Int64 // wall minus monotonic clock, in nanoseconds; when to read the wall clock again
	return func() causal.Now {
		mono := int64(time.Since(start)) + 1
		if mono >= dueAt.Load() {
			ahead.Store(time.Now().UnixNano() - mono)
			dueAt.Store(mono + int64(wallClockInterval))
		}
		return causal.Now{Mono: mono, WallMs: (mono + ahead.Load()) / int64(time.Millisecond)}
	}
}

// machine is the interface that the machines of all parts share.
type machine interface {
	Step(now causal.Now, m *causal.Message)
	Tick(now causal.Now)
	Take(dst []causal.Message) []causal.Message
}

// Host is the interface that the hosts of all machines share.
type Host interface {
	// ID returns the node.
	ID() topology.Node
	// Handle delivers messages to the machine; it is the node's transport.Handler.
	Handle(batch []causal.Message)
	// Tick advances the machine's timers.
	Tick()
	// Probe acquires and releases the machine's lock. It blocks if the machine is stuck.
	Probe()
}

// host runs one machine under one lock.
type host[M machine] struct {
	id    topology.Node
	clock Clock
	net   transport.Network

	mu              sync.Mutex
	m               M
	collectRequests func()           // takes the machine's other outputs after a step; called with mu held
	queue           []causal.Message // to be sent, in order
	spare           []causal.Message
	sending         bool
	stopped         bool
}

func newHost[M machine](id topology.Node, clock Clock, net transport.Network, m M) *host[M] {
	return &host[M]{id: id, clock: clock, net: net, m: m, collectRequests: func() {}}
}

// ID implements Host.
func (h *host[M]) ID() topology.Node { return h.id }

// Probe implements Host.
func (h *host[M]) Probe() { h.Inspect(func(M) {}) }

// Handle implements Host.
func (h *host[M]) Handle(batch []causal.Message) {
	h.step(func(now causal.Now, m M) {
		for i := range batch {
			m.Step(now, &batch[i])
		}
	})
}

// Tick implements Host.
func (h *host[M]) Tick() { h.step(func(now causal.Now, m M) { m.Tick(now) }) }

// step calls f with the machine and then sends the messages in its outbox.
func (h *host[M]) step(f func(now causal.Now, m M)) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return
	}
	before := len(h.queue)
	f(h.clock(), h.m)
	h.unlockAndSend(before)
}

// unlockAndSend releases the lock and sends the messages of a step. The queue had length before when the step started.
//
// If a step's only message is a read or a reply to one, this goroutine sends it at once. No order is needed: a reply names its
// request by id, and a read takes effect where it arrives. So reads do not wait for the goroutine that sends the queue.
func (h *host[M]) unlockAndSend(before int) {
	h.queue = h.m.Take(h.queue)
	h.collectRequests()
	if len(h.queue) == before+1 && (h.queue[before].Kind == causal.KindGet || h.queue[before].Kind == causal.KindGetReply) {
		m := h.queue[before]
		h.queue[before] = causal.Message{}
		h.queue = h.queue[:before]
		h.mu.Unlock()
		h.net.Send(m)
		return
	}
	h.sendQueue()
	h.mu.Unlock()
}

// sendQueue sends the queue in order; reads and their replies may overtake it, see unlockAndSend. One goroutine at a time does
// so, and also sends what others add meanwhile, including callbacks from Send. The caller holds the lock; sendQueue releases it
// while it sends.
func (h *host[M]) sendQueue() {
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
		batch = causal.Recycle(batch)
		h.mu.Lock()
		h.spare = batch
	}
	h.sending = false
}

// Inspect calls f with the machine, under the lock. f must not change the machine.
func (h *host[M]) Inspect(f func(M)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h.m)
}

// awaitSent waits until all messages have been passed to the network. The host must have been stopped.
func (h *host[M]) awaitSent() {
	for pending := true; pending; {
		h.mu.Lock()
		pending = h.sending || len(h.queue) > 0
		h.mu.Unlock()
		if pending {
			time.Sleep(time.Millisecond) // Send does not block
		}
	}
}

// stop makes the host drop all later input.
func (h *host[M]) stop() {
	h.mu.Lock()
	h.stopped = true
	h.mu.Unlock()
}
