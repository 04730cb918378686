// Package node runs the machines of the protocol on real time, disks and sockets.
//
// A host owns one machine and its lock. The goroutine that brings an input (a message, a tick, a completed I/O, a
// client's operation) steps the machine, releases the lock, and then sends the messages in the machine's outbox. Within
// one process, a read that the DC cache answers is therefore a chain of calls in the goroutine of the client's
// connection, without channels, other goroutines or serialization.
//
// Failure model: a message that cannot be sent is lost, and the machines resend it. A coordinator whose log fails, and
// a middleman whose storage fails permanently, stop serving and report it.
package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// Clock returns the time for a step of a machine.
type Clock func() causal.Now

// wallClockInterval is the period in which the wall clock is read. In between it is extrapolated from the monotonic
// clock, which is read for every step. Machines therefore see a jump of the wall clock late by up to this period; they
// tolerate jumps at any time.
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
	// NextTick returns when Tick has something to do next if no input comes before, on the monotonic clock; until then
	// it does nothing.
	NextTick(now causal.Now) int64
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
	// SetAlarm makes the host call f with the time until it needs the next Tick: after every Tick, and when an input
	// needs an earlier one.
	SetAlarm(f func(in time.Duration))
	// Probe acquires and releases the machine's lock. It blocks if the machine is stuck.
	Probe()
}

// host runs one machine under one lock.
type host[M machine] struct {
	id    topology.Node
	clock Clock
	net   transport.Network
	// sendAll passes messages to net.
	sendAll func([]causal.Message)

	mu              sync.Mutex
	m               M
	collectRequests func()           // takes the machine's other outputs after a step; called with mu held
	queue           []causal.Message // to be sent, in order
	spare           []causal.Message
	// notices are called in order by the goroutine that sends, without the lock, before it sends what is queued then.
	notices []func()
	sending bool
	stopped bool

	alarm   func(in time.Duration)
	tickAt  int64 // monotonic: when the next tick is due, as the alarm has said
	askedAt int64 // monotonic: when the machine was last asked for that
}

// maxTickWait bounds the time between two ticks. Machines need none more often while they have nothing to do; so if one
// is wrong about that, it is late by this time at most.
const maxTickWait = time.Second

func newHost[M machine](id topology.Node, clock Clock, net transport.Network, m M) *host[M] {
	h := &host[M]{id: id, clock: clock, net: net, m: m, collectRequests: func() {}, alarm: func(time.Duration) {}}
	h.sendAll = func(ms []causal.Message) {
		for i := range ms {
			net.Send(ms[i])
		}
	}
	if batches, ok := net.(transport.BatchSender); ok {
		h.sendAll = batches.SendAll
	}
	return h
}

// ID implements Host.
func (h *host[M]) ID() topology.Node { return h.id }

// Probe implements Host.
func (h *host[M]) Probe() { h.Inspect(func(M) {}) }

// Handle implements Host.
func (h *host[M]) Handle(batch []causal.Message) { h.handleWhile(batch, nil) }

// handleWhile is Handle up to the first message to which next says no; nil: for all.
func (h *host[M]) handleWhile(batch []causal.Message, next func(now causal.Now, m M, i int) bool) {
	h.step(func(now causal.Now, m M) {
		i := 0
		defer func() {
			if r := recover(); r != nil {
				panic(brokenMachine(h.id, &batch[i], r))
			}
		}()
		for i = range batch {
			if next != nil && !next(now, m, i) {
				return
			}
			m.Step(now, &batch[i])
		}
	})
}

// brokenMachine returns what a process ends with whose machine has panicked at a message. What precedes the machine may
// panic without harm. But a machine may have changed half of its state, such as a put that has its place in a lane and
// no dependencies: what it would do from then on may lose writes or break their order. What it has promised is on disk,
// so the process ends and starts again from there.
func brokenMachine(id topology.Node, m *causal.Message, value any) error {
	return fmt.Errorf(
		"%v ends, because handling %s from %v panicked; it starts again from its disk. This is a bug: please report "+
			"it with the stack that follows: %v", id, m.Kind, m.From, value)
}

// Tick implements Host.
func (h *host[M]) Tick() {
	h.step(func(now causal.Now, m M) {
		m.Tick(now)
		h.tickAt, h.askedAt = causal.Never, 0
	})
}

// SetAlarm implements Host.
func (h *host[M]) SetAlarm(f func(in time.Duration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarm = f
}

// scheduleTick raises the alarm if the step at now needs a tick earlier than the alarm has said. Under load it mostly
// costs a comparison: a machine that was asked in this interval already is not asked again, but gets a tick at once.
func (h *host[M]) scheduleTick(now causal.Now) {
	if h.tickAt-now.Mono <= int64(tickInterval) {
		return
	}
	at := now.Mono
	if h.askedAt == 0 || now.Mono-h.askedAt >= int64(tickInterval) {
		h.askedAt = now.Mono
		at = max(min(h.m.NextTick(now), now.Mono+int64(maxTickWait)), now.Mono)
	}
	if at < h.tickAt {
		h.tickAt = at
		h.alarm(time.Duration(at - now.Mono))
	}
}

// step calls f with the machine and then sends the messages in its outbox. If the host is stopped, it does nothing.
func (h *host[M]) step(f func(now causal.Now, m M)) {
	h.mu.Lock()
	if h.stopped {
		h.mu.Unlock()
		return
	}
	before, now := len(h.queue), h.clock()
	f(now, h.m)
	h.unlockAndSend(now, before)
}

// unlockAndSend releases the lock and sends the messages of the step at now. The queue had length before when the step
// started.
//
// If a step's only messages are reads or replies to reads, this goroutine sends them at once. No order is needed: a
// reply names its request by id, and a read takes effect where it arrives. So reads do not wait for the goroutine that
// sends the queue.
func (h *host[M]) unlockAndSend(now causal.Now, before int) {
	h.queue = h.m.Take(h.queue)
	h.collectRequests()
	h.scheduleTick(now)
	switch reads := h.queue[before:]; {
	case len(h.notices) > 0: // what is sent from now on comes after them
	case len(reads) == 1 && isRead(&reads[0]):
		m := reads[0]
		reads[0] = causal.Message{}
		h.queue = h.queue[:before]
		h.mu.Unlock()
		h.net.Send(m)
		return
	case len(reads) > 1 && areReads(reads):
		batch := readBatches.Get().(*[]causal.Message)
		*batch = append(*batch, reads...)
		clear(reads)
		h.queue = h.queue[:before]
		h.mu.Unlock()
		h.sendAll(*batch)
		*batch = causal.Recycle(*batch)
		readBatches.Put(batch)
		return
	}
	h.sendQueue()
	h.mu.Unlock()
}

// readBatches are empty batches for reads that are being sent.
var readBatches = sync.Pool{New: func() any { return new([]causal.Message) }}

// isRead reports whether a message is a read or the reply to one, and has no place in an order.
func isRead(m *causal.Message) bool {
	return m.Kind == causal.KindGet || m.Kind == causal.KindGetReply && m.StreamPosition().Epoch == 0
}

func areReads(ms []causal.Message) bool {
	for i := range ms {
		if !isRead(&ms[i]) {
			return false
		}
	}
	return true
}

// sendQueue sends the queue in order; reads and their replies may overtake it, see unlockAndSend. One goroutine at a
// time does so, and also sends what others add meanwhile, including callbacks from Send. The caller holds the lock;
// sendQueue releases it while it sends.
func (h *host[M]) sendQueue() {
	if h.sending {
		return
	}
	h.sending = true
	for len(h.queue) > 0 || len(h.notices) > 0 {
		batch, notices := h.queue, h.notices
		h.queue, h.notices = h.spare[:0], nil
		h.mu.Unlock()
		for _, notice := range notices {
			notice()
		}
		h.sendAll(batch)
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
