package transport

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/gate"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// Local connects the nodes of a deployment that runs in one process.
//
// Inside a data centre, and everywhere without WAN emulation, Send calls the receiver's Handler and returns when it returns.
// So the caller must not hold a lock that a Handler acquires, and its own Handler may be called before Send returns, because
// the receiver may answer at once. If a node sends several messages and its Handler may send to the same receiver, the node
// must ensure itself that the remaining messages are sent before those of the nested call. Concurrent senders call a Handler
// concurrently.
//
// With WAN emulation, one goroutine per receiving data centre calls the Handlers for messages from other data centres.
type Local struct {
	counters
	line *wan.Line[wanItem] // nil without emulation

	mu        sync.Mutex // serializes updates of endpoints
	endpoints atomic.Pointer[map[topology.Node]*endpoint]
	calls     *gate.Gate // of Handlers
}

// endpoint is one registration of a node. A message is for a registration, not for a node: it is lost if the node is
// deregistered, even if the node is registered again before the message arrives.
type endpoint struct {
	handler      Handler
	deregistered atomic.Bool
}

// wanItem is a message on the emulated WAN.
type wanItem struct {
	message causal.Message
	to      *endpoint
}

// NewLocal returns a network without nodes. If e is not nil, it delays the messages between data centres.
func NewLocal(e *wan.Emulator) *Local {
	l := &Local{calls: gate.New()}
	l.endpoints.Store(&map[topology.Node]*endpoint{})
	if e != nil {
		l.line = wan.NewLine(e, l.deliverFromWAN, l.countLost)
	}
	return l
}

// Register adds node n. It returns an error if n is already registered.
func (l *Local) Register(n topology.Node, h Handler) error {
	return l.updateEndpoints(func(m map[topology.Node]*endpoint) error {
		if m[n] != nil {
			return fmt.Errorf("register %v: already registered; deregister it first", n)
		}
		m[n] = &endpoint{handler: h}
		return nil
	})
}

// Deregister removes node n, like a crash: messages on their way to it are lost, even if it is registered again. Running
// calls of its Handler continue.
func (l *Local) Deregister(n topology.Node) {
	_ = l.updateEndpoints(func(m map[topology.Node]*endpoint) error {
		if ep := m[n]; ep != nil {
			ep.deregistered.Store(true)
			delete(m, n)
		}
		return nil
	})
}

// updateEndpoints replaces the map of endpoints by a copy that f has modified, so that Send can read it without a lock.
func (l *Local) updateEndpoints(f func(map[topology.Node]*endpoint) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := maps.Clone(*l.endpoints.Load())
	if err := f(m); err != nil {
		return err
	}
	l.endpoints.Store(&m)
	return nil
}

// Send implements Network. Local describes what it does before it returns.
func (l *Local) Send(m causal.Message) {
	ep := (*l.endpoints.Load())[m.To]
	switch {
	case ep == nil:
		l.countDropped(m.Kind, DropNoRoute)
	case l.line != nil && m.From.DC != m.To.DC:
		size := wire.EstimateSize(&m)
		result := l.line.Send(m.From.DC, m.To.DC, size, wanItem{m, ep})
		if result == wan.Queued {
			l.countSent(m.Kind)
			l.countWAN(&m, size)
		}
		l.countWANResult(m.Kind, result)
	default:
		if !l.enterHandler(ep) {
			l.countDropped(m.Kind, DropClosed)
			return
		}
		defer l.calls.Leave()
		l.countSent(m.Kind)
		l.countReceived(m.Kind)
		callWithOne(ep.handler, &m)
	}
}

// enterHandler reports whether the Handler of an endpoint may be called. If so, calls.Leave must follow.
func (l *Local) enterHandler(ep *endpoint) bool { return !ep.deregistered.Load() && l.calls.Enter() }

// deliverFromWAN passes items from the emulated WAN to their Handlers: consecutive ones for the same node in one batch.
func (l *Local) deliverFromWAN(items []wanItem) {
	batch := batches.Get().(*[]causal.Message)
	for len(items) > 0 {
		to, n := items[0].to, 0
		for n < len(items) && items[n].to == to {
			*batch = append(*batch, items[n].message)
			n++
		}
		l.deliverBatch(to, *batch)
		clear(*batch)
		*batch, items = (*batch)[:0], items[n:]
	}
	batches.Put(batch)
}

func (l *Local) deliverBatch(to *endpoint, batch []causal.Message) {
	if !l.enterHandler(to) {
		for i := range batch {
			l.countDropped(batch[i].Kind, DropClosed)
		}
		return
	}
	defer l.calls.Leave()
	for i := range batch {
		l.countReceived(batch[i].Kind)
	}
	to.handler(batch)
}

func (l *Local) countLost(items []wanItem) {
	for i := range items {
		l.countDropped(items[i].message.Kind, DropCut)
	}
}

// Stats returns the counters of the network.
func (l *Local) Stats() Stats { return l.snapshot() }

// Close implements Network.
func (l *Local) Close() error {
	l.calls.Close()
	if l.line != nil {
		l.line.Close()
	}
	return nil
}
