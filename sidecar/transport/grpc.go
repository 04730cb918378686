package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// Config of a GRPC network.
type Config struct {
	// Process is how this process calls itself in the logs and the status of its peers, such as a pod's name.
	Process string
	// Nodes are those that this process runs. Messages to them do not leave it; others that arrive here are dropped.
	Nodes []topology.Node
	// Handler takes what arrives for Nodes. A message between two of them is handed over within Send, as Local does.
	Handler Handler
	// Resolve returns the address (host:port) of the process that runs a node, false if it cannot be dialed. It is asked
	// at every Send, so it must be quick, and may change its answers.
	Resolve func(topology.Node) (addr string, ok bool)
	// Down is told the address of a dialed process when the stream to it breaks, and again after every attempt to reach it
	// anew that fails: what was under way there will not be answered. Down must be quick. It may be nil.
	Down func(addr string)
	// Up is told the address of a dialed process when a stream to it is open. It must be quick. It may be nil.
	Up func(addr string)
	// Unreached is told the address of a process after every attempt to reach it that fails, as long as none has succeeded:
	// nothing was sent there. It must be quick. It may be nil.
	Unreached func(addr string)
	// Epoch returns the epoch of the topology in use, for the status of the peers. It may be nil.
	Epoch func() uint64
	// WAN delays and cuts what goes to other data centres; nil does not.
	WAN *wan.Emulator
	// TLS turns on mutual TLS; nil is plain TCP.
	TLS *TLSFiles
	// QueueBytes bounds what waits for one peer; 0 is 32 MiB.
	QueueBytes int
	// Log is where links are reported; nil is slog.Default().
	Log *slog.Logger

	// dialTCP opens a connection to host:port; nil is the real one. It must end with its context.
	dialTCP func(context.Context, string) (net.Conn, error)
}

// timings of links. They are no configuration: only tests change them.
type timings struct {
	hello            time.Duration // for connection, TLS and hellos together
	connect          time.Duration // for one address of a name to answer at all; long enough to repeat a lost packet
	callback         time.Duration // for the address that the process calls from
	backoff          time.Duration // before the first new attempt; doubles with each
	maxBackoff       time.Duration
	keepalive        time.Duration // of silence before a ping
	keepaliveTimeout time.Duration // for the answer, and for TCP to have data acknowledged
	flush            time.Duration // for Close to send what is queued
	idle             time.Duration // without use before a dialed link is given up
}

var defaultTimings = timings{
	hello: 5 * time.Second, connect: 2 * time.Second, callback: 500 * time.Millisecond,
	backoff: 50 * time.Millisecond, maxBackoff: 3 * time.Second,
	keepalive: 10 * time.Second, keepaliveTimeout: 5 * time.Second, // gRPC allows no shorter keepalive
	flush: 2 * time.Second, idle: 10 * time.Minute,
}

// maxFrame is the greatest frame: one that is not quite full, with the greatest message added.
const maxFrame = wire.MaxMessage + 2*frameBytes

// GRPC joins this process to others by gRPC streams. It dials a process to send to it; a process that cannot be dialed,
// as those with sidecars, is sent to over the stream that it has opened.
//
// To one process there is one stream in use in each direction. On it, order is kept, and batches form by themselves when
// it is busy. When it breaks, what waits for it is dropped, and what is sent until the next attempt as well: by then the
// protocol has sent it again.
type GRPC struct {
	counters
	config Config
	timing timings
	here   map[topology.Node]bool
	// incarnation tells this start of the process from the one before.
	incarnation uint64
	keys        *keyring // nil: plain TCP
	server      *grpc.Server
	line        *wan.Line[causal.Message] // nil: no emulation
	calls       calls

	ctx    context.Context // ends when Close has waited long enough
	cancel context.CancelFunc
	ending chan struct{}  // closed when Close begins
	wg     sync.WaitGroup // goroutines of links; goes up only under mu and before closed

	mu     sync.RWMutex
	closed bool
	dialed map[string]*dialer          // by address
	links  map[linkID]*acceptor        // that others have opened
	behind map[topology.Node]*acceptor // by the nodes at their other end; the latest one wins
}

// NewGRPC returns a network that can send at once; Serve lets others in.
func NewGRPC(c Config) (*GRPC, error) { return newGRPC(c, defaultTimings) }

func newGRPC(c Config, t timings) (*GRPC, error) {
	switch {
	case c.Process == "" || len(c.Process) > 256:
		return nil, errors.New("transport: Process must be a name of 1 to 256 bytes")
	case len(c.Nodes) == 0 || len(c.Nodes) > wire.MaxNodes:
		return nil, fmt.Errorf("transport: a process runs 1 to %d nodes, not %d", wire.MaxNodes, len(c.Nodes))
	case c.Handler == nil || c.Resolve == nil:
		return nil, errors.New("transport: Handler and Resolve must be given")
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 32 << 20
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.dialTCP == nil {
		c.dialTCP = dialTCP(t.connect)
	}
	g := &GRPC{
		config: c, timing: t, incarnation: rand.Uint64(), calls: newCalls(), ending: make(chan struct{}),
		here:   make(map[topology.Node]bool, len(c.Nodes)),
		dialed: make(map[string]*dialer),
		links:  make(map[linkID]*acceptor),
		behind: make(map[topology.Node]*acceptor),
	}
	for _, n := range c.Nodes {
		g.here[n] = true
	}
	if c.TLS != nil {
		var err error
		if g.keys, err = newKeyring(*c.TLS, c.Log); err != nil {
			return nil, err
		}
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = newServer(g)
	if c.WAN != nil {
		g.line = wan.NewLine(c.WAN, func(ms []causal.Message) {
			for i := range ms {
				g.route(&ms[i])
			}
		}, func(ms []causal.Message) {
			for i := range ms {
				g.drop(ms[i].Kind, DropCut)
			}
		})
	}
	return g, nil
}

// Serve accepts links from l until Close, and then returns nil.
func (g *GRPC) Serve(l net.Listener) error {
	if err := g.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("accept links on %v: %w", l.Addr(), err)
	}
	return nil
}

// Send implements Network.
func (g *GRPC) Send(m causal.Message) {
	if err := wire.Check(&m); err != nil {
		g.drop(m.Kind, DropInvalid)
		g.config.Log.Error("a message cannot be sent", "to", m.To, "error", err)
		return
	}
	if g.line != nil && m.From.DC != m.To.DC {
		g.verdict(m.Kind, g.line.Send(m.From.DC, m.To.DC, wire.EstimateSize(&m), m))
		return
	}
	g.route(&m)
}

// route brings m to the handler or to the outbox of a link.
func (g *GRPC) route(m *causal.Message) {
	if g.here[m.To] {
		g.deliverHere(m)
		return
	}
	why := dropNone
	for range 2 { // a link that was given up as idle this very moment is shut, and another look opens a new one
		var out *outbox
		if out, why = g.outboxTo(m.To); out == nil {
			break
		}
		if why = out.push(m); why != DropClosed {
			break
		}
	}
	if why != dropNone {
		g.drop(m.Kind, why)
	}
}

// outboxTo returns the outbox of the link to use for a node, and opens a link if need be. An address comes before a link
// from there, whichever was first: the choice must not change while both are up, or messages would overtake.
func (g *GRPC) outboxTo(n topology.Node) (*outbox, Reason) {
	addr, ok := g.config.Resolve(n)
	g.mu.RLock()
	d, a, closed := g.dialed[addr], g.behind[n], g.closed
	g.mu.RUnlock()
	switch {
	case closed:
		return nil, DropClosed
	case ok && d != nil:
		return d.out, dropNone
	case ok:
		return g.dial(addr)
	case a != nil:
		return a.out, dropNone
	}
	return nil, DropNoRoute
}

func (g *GRPC) deliverHere(m *causal.Message) {
	if !g.calls.enter() {
		g.drop(m.Kind, DropClosed)
		return
	}
	defer g.calls.leave()
	g.send(m.Kind)
	g.receive(m.Kind)
	single(g.config.Handler, m)
}

// deliver hands over what has come in, without what is for a node that does not run here: an address may be out of date.
func (g *GRPC) deliver(in *inbox) {
	defer in.reset()
	g.framesReceived.Add(1)
	g.bytesReceived.Add(uint64(in.size))
	if !g.calls.enter() {
		return
	}
	defer g.calls.leave()
	messages, n := *in.messages, 0
	for i := range messages {
		m := &messages[i]
		if !g.here[m.To] {
			g.drop(m.Kind, DropMisrouted)
			continue
		}
		g.receive(m.Kind)
		if n != i {
			messages[n] = *m
		}
		n++
	}
	if n > 0 {
		g.config.Handler(messages[:n])
	}
}

// hello is what this process says on a link.
func (g *GRPC) hello(link uint64) *wire.Hello {
	h := &wire.Hello{
		Protocol: wire.Protocol, MinProtocol: wire.MinProtocol, Process: g.config.Process,
		Incarnation: g.incarnation, Link: link, Nodes: g.config.Nodes,
	}
	if g.config.Epoch != nil {
		h.TopologyEpoch = g.config.Epoch()
	}
	return h
}

// Close implements Network. What is queued still goes out, if that takes no more than 2 s.
func (g *GRPC) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	close(g.ending)
	for _, d := range g.dialed {
		d.out.shut()
	}
	for _, a := range g.links {
		a.out.shut()
	}
	g.mu.Unlock()
	if g.line != nil {
		g.line.Close()
	}

	flushed := make(chan struct{})
	go func() {
		g.server.GracefulStop()
		g.wg.Wait()
		close(flushed)
	}()
	select {
	case <-flushed:
	case <-time.After(g.timing.flush):
	}
	g.cancel()
	g.server.Stop()
	<-flushed
	g.calls.end()
	return nil
}

// Stats returns what the network has done so far, and its links.
func (g *GRPC) Stats() Stats {
	s := g.snapshot()
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, d := range g.dialed {
		s.Links = append(s.Links, d.stats())
	}
	for _, a := range g.links {
		s.Links = append(s.Links, a.stats())
	}
	return s
}
