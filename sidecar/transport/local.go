package transport

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/gate"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// Local connects the nodes of a deployment that runs in one process.
//
// Inside a data center, and everywhere without WAN emulation, Send calls the receiver's Handler and returns when it
// returns. So the caller must not hold a lock that a Handler acquires, and its own Handler may be called before Send
// returns, because the receiver may answer at once. If a node sends several messages and its Handler may send to the
// same receiver, the node must ensure itself that the remaining messages are sent before those of the nested call.
// Concurrent senders call a Handler concurrently.
//
// With WAN emulation, one goroutine per receiving data center calls the Handlers for messages from other data centers.
type Local struct {
	counters
	line *wan.Line[wanItem] // nil without emulation

	topology  atomic.Pointer[topology.Topology] // nil: messages are not validated
	mu        sync.Mutex                        // serializes updates of endpoints and guards watchers
	endpoints atomic.Pointer[map[topology.Node]*endpoint]
	calls     *gate.Gate // of Handlers
	watchers
}

// endpoint is one registration of a node. A message is for a registration, not for a node: it is lost if the node is
// deregistered, even if the node is registered again before the message arrives.
type endpoint struct {
	handler      Handler
	deregistered atomic.Bool
	// leadership is that in which a member serves its node, unless it is below floor, the greatest one of another
	// member since this one was registered. The node has an endpoint of its own for each leadership. Local.mu guards
	// both.
	leadership, floor causal.Leadership
}

// wanItem is a message on the emulated WAN.
type wanItem struct {
	message causal.Message
	to      *endpoint
}

// NewLocal returns a network without nodes. If e is not nil, it delays the messages between data centers.
func NewLocal(e *wan.Emulator) *Local {
	l := &Local{calls: gate.New()}
	l.endpoints.Store(&map[topology.Node]*endpoint{})
	if e != nil {
		l.line = wan.NewLine(e, l.deliverFromWAN, l.countLost)
	}
	return l
}

// Register adds node n, or a member of a group. It returns an error if n is already registered.
func (l *Local) Register(n topology.Node, h Handler) error {
	return l.updateEndpoints(func(m map[topology.Node]*endpoint) error {
		if m[n] != nil {
			return fmt.Errorf("register %v: already registered; deregister it first", n)
		}
		m[n] = &endpoint{handler: h}
		if n.Member == 0 {
			l.noteUp(n, causal.Leadership{})
		}
		return nil
	})
}

// SetLeadership says in which leadership a registered member serves its node, as GRPC.SetLeadership does; zero: it does
// not. Messages for the node go to the member with the greatest one.
func (l *Local) SetLeadership(member topology.Node, leadership causal.Leadership) {
	_ = l.updateEndpoints(func(m map[topology.Node]*endpoint) error {
		if ep := m[member]; ep != nil {
			ep.leadership = leadership
			for i := uint8(1); i <= topology.MaxMembers; i++ {
				if other := m[member.WithMember(i)]; other != nil && other != ep &&
					other.floor.Compare(leadership) < 0 {
					other.floor = leadership
				}
			}
			l.routeToServing(member.Group(), m)
		}
		return nil
	})
}

// Deregister removes node n, like a crash: messages on their way to it are lost, even if it is registered again.
// Running calls of its Handler continue.
func (l *Local) Deregister(n topology.Node) {
	_ = l.updateEndpoints(func(m map[topology.Node]*endpoint) error {
		if ep := m[n]; ep != nil {
			ep.deregistered.Store(true)
			delete(m, n)
			if n.Member != 0 {
				l.routeToServing(n.Group(), m)
			} else {
				l.noteDown(n)
			}
		}
		return nil
	})
}

// routeToServing makes the endpoint of a node that of the member that serves it. It needs mu.
func (l *Local) routeToServing(n topology.Node, m map[topology.Node]*endpoint) {
	var serving *endpoint
	for i := uint8(1); i <= topology.MaxMembers; i++ {
		if ep := m[n.WithMember(i)]; ep != nil && !ep.leadership.IsZero() && ep.leadership.Compare(ep.floor) >= 0 &&
			(serving == nil || ep.leadership.Compare(serving.leadership) > 0) {
			serving = ep
		}
	}
	before := m[n]
	if before != nil && serving != nil && before.leadership == serving.leadership {
		return
	}
	if before != nil {
		before.deregistered.Store(true)
		delete(m, n)
	}
	if serving != nil {
		m[n] = &endpoint{handler: serving.handler, leadership: serving.leadership}
		l.noteUp(n, serving.leadership)
	} else if before != nil {
		l.noteDown(n)
	}
}

// updateEndpoints replaces the map of endpoints by a copy that f has modified, so that Send can read it without a lock.
// Then it tells the watchers.
func (l *Local) updateEndpoints(f func(map[topology.Node]*endpoint) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := maps.Clone(*l.endpoints.Load())
	if err := f(m); err != nil {
		return err
	}
	l.endpoints.Store(&m)
	l.tell(&l.mu)
	return nil
}

// Validate makes the network drop messages that would cost a link between processes (causal.Validate), so that a
// machine meets no other ones here. The data centers and rings of a deployment do not change.
func (l *Local) Validate(t *topology.Topology) { l.topology.Store(t) }

// Send implements Network. Local describes what it does before it returns.
func (l *Local) Send(m causal.Message) {
	if t := l.topology.Load(); t != nil && !isValid(m, t) {
		l.countDropped(m.Kind, DropInvalid)
		return
	}
	ep := (*l.endpoints.Load())[m.To]
	switch {
	case ep == nil && m.To.HasGroup() && m.To.Member == 0:
		l.countDropped(m.Kind, DropNotServing)
		l.reportUnsent(&m)
	case ep == nil:
		l.countDropped(m.Kind, DropNoRoute)
		l.reportUnsent(&m)
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

// isValid judges a copy of the message in memory that is used again. Else each message would go to the heap.
func isValid(m causal.Message, t *topology.Topology) bool {
	batch := batches.Get().(*[]causal.Message)
	*batch = append(*batch, m)
	v, _ := causal.Validate(&(*batch)[0], t)
	clear(*batch)
	*batch = (*batch)[:0]
	batches.Put(batch)
	return v == causal.Valid
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
