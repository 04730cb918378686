package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/gate"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/sidecar/transport/authorize"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// maxFrame is the largest frame: one that is not quite full, plus the largest message, and what is no message. Readers
// of earlier versions take as much.
const maxFrame = wire.MaxMessage + frameBytes + 64<<10

// GRPC connects this process to others by gRPC streams. To send to a process, it dials it; it sends to a process that
// cannot be dialed, such as a sidecar, over the stream that the process has opened.
//
// Messages to one process use one stream, which preserves their order and batches them while it is busy. When the
// stream breaks, its queue is dropped, and so are messages that are sent before the next attempt: the protocol
// retransmits them.
type GRPC struct {
	counters
	// by the data center of the peer; the last one is for peers of none that exists
	traffic    [topology.MaxDCs + 1]traffic
	config     Config
	timing     timings
	names      *nameCache
	localNodes map[topology.Node]locality
	// incarnation distinguishes this start of the process from earlier ones.
	incarnation uint64
	startedAt   time.Time
	duplicates  duplicates
	violations  violations
	acceptedLog peerLog
	keys        *keyring   // nil for plain TCP
	admission   *admission // of connections with TLS
	// of frames from all links
	decodingOfSidecars, decodingOfParts *decoding
	server                              *grpc.Server
	line                                *wan.Line[causal.Message] // nil without emulation
	calls                               *gate.Gate                // of Handlers
	answered                            atomic.Bool

	ctx     context.Context // cancelled when Close stops waiting
	cancel  context.CancelFunc
	closing chan struct{}  // closed at the start of Close
	wg      sync.WaitGroup // goroutines of links; increases only under mu while closed is false

	mu           sync.RWMutex
	closed       bool
	dialed       map[string]*dialer          // by address
	accepted     map[linkID]*acceptor        // links that peers have opened
	linksOf      map[string]int              // of those, by the identity of the peer
	sidecarLinks int                         // of those, by sidecars
	acceptedFrom map[topology.Node]*acceptor // the latest link from the process of a node
	groups       map[topology.Node]*group

	announcing sync.Mutex // held while an announcement is queued for all links
	announced  atomic.Pointer[wire.Announcement]
}

// NewGRPC returns a network that can send. It accepts links once Serve is called.
func NewGRPC(c Config) (*GRPC, error) { return newGRPC(c, defaultTimings) }

func newGRPC(c Config, t timings) (*GRPC, error) {
	switch {
	case c.Process == "" || len(c.Process) > wire.MaxProcessName:
		return nil, fmt.Errorf("transport: Process has %d bytes; set a name of 1 to %d bytes", len(c.Process),
			wire.MaxProcessName)
	case len(c.Nodes) == 0 || len(c.Nodes) > wire.MaxNodes:
		return nil, fmt.Errorf("transport: %d Nodes; set 1 to %d", len(c.Nodes), wire.MaxNodes)
	case c.Handler == nil || c.Resolve == nil:
		return nil, errors.New("transport: Handler and Resolve are required")
	}
	if c.TLS != nil && c.Topology == nil {
		return nil, errors.New("transport: TLS requires Topology")
	}
	if len(c.Version) > wire.MaxVersion {
		return nil, fmt.Errorf("transport: Version has %d bytes; set at most %d", len(c.Version), wire.MaxVersion)
	}
	if c.QueueBytes == 0 {
		c.QueueBytes = 32 << 20
	}
	limits := limitsFor(c.MaxLinks, c.MaxLinksPerIdentity, memoryLimit())
	c.MaxLinks, c.MaxLinksPerIdentity = limits.links, limits.linksPerIdentity
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.lookupHost == nil {
		c.lookupHost = net.DefaultResolver.LookupHost
	}
	names := newNameCache(c.lookupHost, t.lookup, c.Log)
	if c.dialTCP == nil {
		c.dialTCP = names.dialTCP(t.connect)
	}
	g := &GRPC{
		config: c, timing: t, names: names, incarnation: rand.Uint64(), startedAt: time.Now(),
		duplicates: duplicates{memory: t.refusal}, calls: gate.New(), closing: make(chan struct{}),
		acceptedLog:  peerLog{burst: acceptedLines},
		localNodes:   make(map[topology.Node]locality, len(c.Nodes)),
		dialed:       make(map[string]*dialer),
		accepted:     make(map[linkID]*acceptor),
		linksOf:      make(map[string]int),
		acceptedFrom: make(map[topology.Node]*acceptor),
		groups:       make(map[topology.Node]*group),
	}
	for _, n := range c.Nodes {
		g.localNodes[n] = local
		if isMember(n) {
			g.localNodes[n.Group()] = localIfServing
		}
	}
	g.decodingOfSidecars, g.decodingOfParts = newDecoding(limits.receive/2), newDecoding(limits.receive/2)
	g.announced.Store(&wire.Announcement{})
	if c.TLS != nil {
		var err error
		check := func(id contract.Identity) error { return identity.CheckNodes(id, c.Nodes, c.Topology()) }
		if g.keys, err = newKeyring(*c.TLS, check, c.Log); err != nil {
			return nil, err
		}
	}
	g.admission = newAdmission(limits, func(who string, err error) {
		g.violations.note(ViolationLimit, who, err, c.Log)
	})
	g.ctx, g.cancel = context.WithCancel(context.Background())
	if g.keys != nil {
		g.wg.Go(g.watchKeys)
	}
	if c.Topology != nil {
		g.wg.Go(g.keepNames)
	}
	g.server = newServer(g)
	if c.WAN != nil {
		g.line = wan.NewLine(c.WAN, func(ms []causal.Message) {
			for i := range ms {
				g.route(ms[i : i+1])
			}
		}, func(ms []causal.Message) {
			for i := range ms {
				g.countDropped(ms[i].Kind, DropCut)
			}
		})
	}
	return g, nil
}

// Serve accepts links from l until Close is called, and then returns nil.
func (g *GRPC) Serve(l net.Listener) error {
	if g.keys != nil {
		l = g.admission.listen(l)
	}
	if err := g.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("accept links on %v: %w", l.Addr(), err)
	}
	return nil
}

// Send implements Network.
func (g *GRPC) Send(m causal.Message) {
	if err := wire.Check(&m); err != nil {
		g.countDropped(m.Kind, DropInvalid)
		g.config.Log.Error("dropping a message that cannot be encoded", "to", m.To, "error", err)
		return
	}
	if g.line != nil && m.From.DC != m.To.DC {
		g.countWANResult(m.Kind, g.line.Send(m.From.DC, m.To.DC, wire.EstimateSize(&m), m))
		return
	}
	one := [1]causal.Message{m}
	g.route(one[:])
}

// SendAll implements BatchSender.
func (g *GRPC) SendAll(ms []causal.Message) {
	for first := 0; first < len(ms); {
		end := first
		for end < len(ms) && ms[end].To == ms[first].To && g.line == nil && wire.Check(&ms[end]) == nil {
			end++
		}
		if end == first { // it goes over the emulated WAN, or is dropped
			g.Send(ms[first])
			end++
		} else {
			g.route(ms[first:end])
		}
		first = end
	}
}

// route passes messages to one node to the handler, or to the outbox of a link.
func (g *GRPC) route(ms []causal.Message) {
	if g.localNodes[ms[0].To] != remote {
		for i := range ms {
			g.deliverLocally(&ms[i])
		}
		return
	}
	for again := true; len(ms) > 0; {
		n, reason := g.queue(ms)
		ms = ms[n:]
		switch {
		case reason == notDropped:
		case reason == DropClosed && again:
			// the link may have been closed as idle in this moment; the second time opens a new one
			again = false
		default:
			g.countDropped(ms[0].Kind, reason)
			g.reportUnsent(&ms[0])
			ms = ms[1:]
		}
	}
}

// queue passes messages to one node to the outbox of the link to it. It returns how many, and why the next one is
// dropped.
func (g *GRPC) queue(ms []causal.Message) (queued int, reason DropReason) {
	var out *outbox
	to := ms[0].To
	if g.config.Members != nil && to.Member == 0 && to.HasGroup() {
		out, reason = g.groupOutbox(to)
	} else {
		out, reason = g.outboxFor(to)
	}
	if out == nil {
		return 0, reason
	}
	return out.push(ms)
}

// reportUnsent tells the sender of a put that it was not sent.
func (g *GRPC) reportUnsent(m *causal.Message) {
	if m.Kind.IsPut() && g.config.Unsent != nil {
		g.config.Unsent(*m)
	}
}

// outboxFor returns the outbox of the link to the process of a node, and opens a link if necessary. A dialed link takes
// precedence over an accepted one, whichever was opened first: switching while both are up could reorder messages.
func (g *GRPC) outboxFor(n topology.Node) (*outbox, DropReason) {
	addr, ok := g.config.Resolve(n)
	g.mu.RLock()
	d, a, closed := g.dialed[addr], g.acceptedFrom[n], g.closed
	g.mu.RUnlock()
	switch {
	case closed:
		return nil, DropClosed
	case ok && d != nil:
		return d.out, notDropped
	case ok:
		return g.dial(n, addr)
	case a != nil:
		return a.out, notDropped
	}
	return nil, DropNoRoute
}

// QueuedBytes implements Queues.
func (g *GRPC) QueuedBytes() int64 { return g.queued.Load() }

// Room implements Queues. It opens no link.
func (g *GRPC) Room(n topology.Node) int64 {
	addr, ok := g.config.Resolve(n)
	g.mu.RLock()
	d, a := g.dialed[addr], g.acceptedFrom[n]
	g.mu.RUnlock()
	switch {
	case ok && d != nil:
		return d.out.room()
	case !ok && a != nil:
		return a.out.room()
	}
	return max(maxFrame, int64(g.config.QueueBytes))
}

// OwnerOf returns the identity behind a node that has opened a link to this process; "" if there is none, or without
// TLS.
func (g *GRPC) OwnerOf(n topology.Node) string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if a := g.acceptedFrom[n]; a != nil {
		return a.owner()
	}
	return ""
}

// deliverLocally passes a message between two nodes of this process to the handler.
func (g *GRPC) deliverLocally(m *causal.Message) {
	if reason := g.refusal(m.To); reason != notDropped {
		g.countDropped(m.Kind, reason)
		g.reportUnsent(m)
		return
	}
	if !g.calls.Enter() {
		g.countDropped(m.Kind, DropClosed)
		return
	}
	defer g.calls.Leave()
	g.countSent(m.Kind)
	g.countReceived(m.Kind)
	callWithOne(g.config.Handler, m)
}

// deliver passes received messages to the handler. It returns an error if the peer, known as who, has sent a message
// that it must not send: the messages before it are handled, and the link must end.
func (g *GRPC) deliver(in *receivedFrame, peer *wire.Hello, who string) (violation error) {
	defer in.release()
	g.framesReceived.Add(1)
	g.bytesReceived.Add(uint64(in.size))
	g.trafficOf(peer).received.Add(uint64(in.size))
	if !g.calls.Enter() {
		return nil
	}
	defer g.calls.Leave()
	admitted, violation := g.admit(*in.messages, peer, who)
	if len(admitted) > 0 {
		g.config.Handler(admitted)
	}
	return violation
}

// admit returns the messages that the handler may have, in the room of messages. It drops those for nodes that do not
// run here, which arrive if the address that the sender uses is outdated, and those that a later version may send. With
// an error, those before the first that the peer must not send are returned.
//
// A panic costs the peer the link, and the process goes on: nothing but the frame has been touched. That ends where a
// machine begins.
func (g *GRPC) admit(messages []causal.Message, peer *wire.Hello, who string) (admitted []causal.Message,
	violation error) {
	n := 0
	defer func() {
		if r := recover(); r != nil {
			admitted, violation = messages[:n], g.refuseFrame(panicked(r), who)
		}
	}()
	for i := range messages {
		m := &messages[i]
		if reason := g.refusal(m.To); reason != notDropped {
			g.countDropped(m.Kind, reason)
			continue
		}
		switch reason := g.authorize(m, peer); reason {
		case authorize.Permitted:
		case authorize.Unknown:
			g.countDropped(m.Kind, DropInvalid)
			continue
		default:
			return messages[:n], g.refuseMessage(m, reason, who)
		}
		g.countReceived(m.Kind)
		if n != i {
			messages[n] = *m
		}
		n++
	}
	return messages[:n], nil
}

// hello returns the hello of this process for a link with a peer, which is nil without TLS.
func (g *GRPC) hello(link uint64, to *peerIdentity) *wire.Hello {
	h := &wire.Hello{
		Protocol: wire.Protocol, MinProtocol: wire.MinProtocol, Process: g.config.Process,
		Incarnation: g.incarnation, StartedMs: uint64(g.startedAt.UnixMilli()), Link: link, Nodes: g.config.Nodes,
	}
	h.Version, h.Announcement = g.config.Version, g.ownAnnouncement()
	if g.config.Topology != nil {
		h.Manifest = manifestOf(g.config.Topology(), g.config.Binding)
	}
	if g.config.Epoch != nil {
		h.TopologyEpoch = g.config.Epoch()
	}
	if to != nil {
		h.Roots = g.keys.load().rootsFor(to)
	}
	return h
}

// Answered makes Close tell the peers that the replies to all requests that had an effect have been passed to Send, and
// that no later request has one. A peer to which a reply to a put was dropped is not told. Without it, peers must
// assume that requests without a reply had an effect.
func (g *GRPC) Answered() { g.answered.Store(true) }

// Close implements Network. It waits up to timings.flush for queued messages to be sent.
func (g *GRPC) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	close(g.closing)
	for _, d := range g.dialed {
		d.out.close()
	}
	for _, a := range g.accepted {
		a.out.close()
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
	g.names.close()
	g.calls.Close()
	return nil
}

// Stats returns the counters and the links of the network.
func (g *GRPC) Stats() Stats {
	s := g.snapshot()
	s.IsDuplicate = g.Duplicate() != nil
	g.duplicates.mu.Lock()
	s.RefusedDuplicates = g.duplicates.count
	g.duplicates.mu.Unlock()
	s.Violations = g.violations.snapshot()
	for dc := range topology.DC(topology.MaxDCs) {
		if t := &g.traffic[dc]; t.sent.Load()+t.received.Load() > 0 {
			s.Traffic = append(s.Traffic, TrafficStats{dc, t.sent.Load(), t.received.Load()})
		}
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, d := range g.dialed {
		s.Links = append(s.Links, d.stats())
	}
	for _, a := range g.accepted {
		s.Links = append(s.Links, a.stats())
	}
	return s
}
