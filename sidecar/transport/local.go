package transport

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// Local joins the nodes of a deployment that runs in one process.
//
// Inside a data centre, and everywhere without WAN emulation, Send calls the receiver's Handler and returns when that does.
// So the caller must hold no lock that a Handler takes, and must expect that its own Handler is called before Send
// returns: a receiver that answers at once calls back. A node that sends several messages, and whose Handler may send to
// the same receiver, must itself see to it that the second of the first lot goes out before what the call back adds.
// A Handler is called by as many goroutines at a time as send to it.
//
// Between data centres with WAN emulation, one goroutine for each receiving data centre calls the Handlers there.
type Local struct {
	counters
	line *wan.Line[parcel] // nil: no emulation

	mu        sync.Mutex // for changes of endpoints
	endpoints atomic.Pointer[map[topology.Node]*endpoint]
	calls     calls
}

// endpoint is one life of a node. A message goes to a life, not to a node: what was sent to the last one dies with it.
type endpoint struct {
	handler Handler
	dead    atomic.Bool
}

// parcel is a message under way between data centres.
type parcel struct {
	message causal.Message
	to      *endpoint
}

// NewLocal returns a network without nodes. With an Emulator messages between data centres take their time, without one
// (nil) none do.
func NewLocal(e *wan.Emulator) *Local {
	l := &Local{calls: newCalls()}
	l.endpoints.Store(&map[topology.Node]*endpoint{})
	if e != nil {
		l.line = wan.NewLine(e, l.arrive, l.lose)
	}
	return l
}

// Register starts a life of node n. It is an error if n is registered already.
func (l *Local) Register(n topology.Node, h Handler) error {
	return l.change(func(m map[topology.Node]*endpoint) error {
		if m[n] != nil {
			return fmt.Errorf("register %v: it is registered already; deregister it first", n)
		}
		m[n] = &endpoint{handler: h}
		return nil
	})
}

// Deregister ends the life of node n, as a crash does: what is under way to it is lost, also if it is registered again.
// Calls of its Handler that are running go on to their end.
func (l *Local) Deregister(n topology.Node) {
	_ = l.change(func(m map[topology.Node]*endpoint) error {
		if ep := m[n]; ep != nil {
			ep.dead.Store(true)
			delete(m, n)
		}
		return nil
	})
}

// change replaces the table of endpoints, so that Send reads it without a lock.
func (l *Local) change(f func(map[topology.Node]*endpoint) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := maps.Clone(*l.endpoints.Load())
	if err := f(m); err != nil {
		return err
	}
	l.endpoints.Store(&m)
	return nil
}

// Send implements Network; see Local for what it does before it returns.
func (l *Local) Send(m causal.Message) {
	ep := (*l.endpoints.Load())[m.To]
	switch {
	case ep == nil:
		l.drop(m.Kind, DropNoRoute)
	case l.line != nil && m.From.DC != m.To.DC:
		size := wire.EstimateSize(&m)
		v := l.line.Send(m.From.DC, m.To.DC, size, parcel{m, ep})
		if v == wan.Queued {
			l.send(m.Kind)
			l.cross(&m, size)
		}
		l.verdict(m.Kind, v)
	default:
		if !l.enter(ep) {
			l.drop(m.Kind, DropClosed)
			return
		}
		defer l.calls.leave()
		l.send(m.Kind)
		l.receive(m.Kind)
		single(ep.handler, &m)
	}
}

// enter reports whether the Handler of a life of a node may be called; then calls.leave must follow.
func (l *Local) enter(ep *endpoint) bool { return !ep.dead.Load() && l.calls.enter() }

// arrive hands over what the emulated WAN delivers: neighbours for the same node in one batch.
func (l *Local) arrive(items []parcel) {
	batch := batches.Get().(*[]causal.Message)
	for len(items) > 0 {
		to, n := items[0].to, 0
		for n < len(items) && items[n].to == to {
			*batch = append(*batch, items[n].message)
			n++
		}
		l.hand(to, *batch)
		clear(*batch)
		*batch, items = (*batch)[:0], items[n:]
	}
	batches.Put(batch)
}

func (l *Local) hand(to *endpoint, batch []causal.Message) {
	if !l.enter(to) {
		for i := range batch {
			l.drop(batch[i].Kind, DropClosed)
		}
		return
	}
	defer l.calls.leave()
	for i := range batch {
		l.receive(batch[i].Kind)
	}
	to.handler(batch)
}

func (l *Local) lose(items []parcel) {
	for i := range items {
		l.drop(items[i].message.Kind, DropCut)
	}
}

// Stats returns what the network has done so far.
func (l *Local) Stats() Stats { return l.snapshot() }

// Close implements Network.
func (l *Local) Close() error {
	l.calls.end()
	if l.line != nil {
		l.line.Close()
	}
	return nil
}
