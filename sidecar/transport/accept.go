package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// linkID identifies a link across reconnects: one dialer of one incarnation of a process.
type linkID struct {
	process     string
	incarnation uint64
	link        uint64
}

// acceptor is one stream of a link that another process has opened.
type acceptor struct {
	g          *GRPC
	remoteAddr string
	out        *outbox
	peer       *wire.Hello
	identity   *peerIdentity // nil without TLS
	ownerName  string        // of identity
	heard      atomic.Uint64 // frames that have arrived
	meter      *meter        // of a sidecar's connection; else nil
	roots      roots

	stop         chan struct{} // closed when the stream is to end
	stopOnce     sync.Once
	stopped      error             // why, once stop is closed
	drained      chan struct{}     // closed when all received messages have been handled
	predecessors []<-chan struct{} // drained of the earlier streams of this link, unless closed
	renewed      atomic.Bool       // a later stream has taken over, and this one ends in order
	before       *acceptor         // which this one renews
}

// serveStream serves one stream. The stream ends only when it returns, so it leaves receiving and sending, which may
// block, to goroutines that end soon afterwards.
func (g *GRPC) serveStream(stream grpc.ServerStream) error {
	a := &acceptor{g: g, out: newOutbox(&g.counters, g.config.QueueBytes, new(atomic.Int64)), stop: make(chan struct{}),
		drained: make(chan struct{})}
	if err := a.identify(stream); err != nil {
		return g.refuse(a, err)
	}
	greeted, proceed := make(chan helloResult, 1), make(chan struct{})
	if err := g.spawn(func() { a.receive(stream, greeted, proceed) }); err != nil {
		return err
	}
	defer g.unregister(a)

	select {
	case got := <-greeted:
		if got.err != nil {
			return g.refuse(a, status.Errorf(codes.InvalidArgument, "no hello received: %v", got.err))
		}
		a.peer = got.hello
	case <-time.After(g.timing.hello):
		return g.refuse(a, status.Errorf(codes.DeadlineExceeded, "no hello within %v", g.timing.hello))
	}
	if err := a.peer.Compatible(); err != nil {
		return g.refuse(a, status.Error(codes.FailedPrecondition, err.Error()))
	}
	if err := g.checkManifest(a.peer); err != nil {
		_ = stream.SendMsg(g.hello(a.peer.Link, a.identity)) // by which the dialer sees what differs, and does the same
		return g.refuseViolation(a, ViolationManifest, err)
	}
	if err := g.checkHello(a.peer, a.identity); err != nil {
		return g.refuseViolation(a, ViolationIdentity, err)
	}
	switch err := g.checkPlaces(a.peer); {
	case errors.Is(err, errRemoved):
		return g.refuse(a, status.Error(codes.FailedPrecondition, err.Error()))
	case err != nil:
		return g.refuseViolation(a, ViolationIdentity, err)
	}
	if err := g.checkDuplicate(stream.Context(), a.peer, a.remoteAddr); err != nil {
		return g.refuse(a, err)
	}
	a.out.speak(a.peer.Protocol)
	hello := g.hello(a.peer.Link, a.identity)
	a.roots.start(a.peer.Roots, hello.Roots)
	if err := g.register(a); err != nil {
		return err
	}
	if a.before == nil {
		if err := a.awaitPredecessors(stream.Context()); err != nil {
			return err
		}
	}
	hello.Announcement = g.ownAnnouncement() // registered streams get later ones by their outbox
	if err := stream.SendMsg(hello); err != nil {
		return err
	}
	g.opened.Add(1)
	g.acceptedLog.add(peerLine{linkLogLevel(a.peer.Renews), "link accepted", "", a.who()},
		[]any{"from", a.remoteAddr, "process", a.peer.Process, "epoch", a.peer.TopologyEpoch, "version",
			a.peer.Version}, time.Now(), g.config.Log)
	g.wakeDialers(a.peer)
	if a.before == nil {
		g.hearHello(a.peer) // that of a renewal has nothing new: announcements come on the stream before
		close(proceed)
	} else if err := g.spawn(func() { a.takeOver(stream.Context(), proceed) }); err != nil {
		return err
	}
	return a.sendQueued(stream)
}

// linkLogLevel is that of the log lines about a link that has come up: renewals are not news.
func linkLogLevel(renews bool) slog.Level {
	if renews {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// takeOver lets the stream receive once the one that it renews has ended. That one does not take for ever.
func (a *acceptor) takeOver(ctx context.Context, proceed chan<- struct{}) {
	late := time.AfterFunc(a.g.timing.hello, a.before.terminate)
	defer late.Stop()
	if a.awaitPredecessors(ctx) == nil {
		close(proceed)
	}
}

// helloResult is a received hello, or the error instead of it.
type helloResult struct {
	hello *wire.Hello
	err   error
}

// sendQueued sends the outbox until the stream is to end. It returns nil, which tells the dialer that no reply is
// missing, if everything was sent and the dialer or this process has said that nothing follows.
func (a *acceptor) sendQueued(stream grpc.ServerStream) error {
	sent := make(chan error, 1)
	if err := a.g.spawn(func() { sent <- a.g.pump(a.out, stream, a.peer, a.stop, 0) }); err != nil {
		return err
	}
	select {
	case err := <-sent:
		if err != nil {
			break
		}
		if !a.renewed.Load() {
			if isClosed(a.g.closing) && !a.g.answered.Load() {
				return status.Error(codes.Unavailable, "this process is shutting down")
			}
			if a.out.hasDroppedAnswers() {
				return status.Error(codes.DataLoss,
					"this process has dropped answers to puts, because the queue of the link was full")
			}
			return nil
		}
		select { // the dialer may still be sending on this stream
		case <-a.drained:
			return nil
		case <-a.stop:
		}
	case <-a.stop:
	}
	select {
	case <-a.stop:
		return a.stopped
	default:
		return status.Error(codes.Aborted, "the stream is broken")
	}
}

// spawn starts a goroutine of a link. Close waits for it.
func (g *GRPC) spawn(f func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return status.Error(codes.Unavailable, "this process is shutting down")
	}
	g.wg.Go(f)
	return nil
}

// refuse refuses a stream for a reason that is no violation.
func (g *GRPC) refuse(a *acceptor, err error) error {
	g.failed.Add(1)
	line := peerLine{slog.LevelError, "link refused", status.Code(err).String(), a.who()}
	g.violations.log.add(line, []any{"from", a.remoteAddr, "error", err}, time.Now(), g.config.Log)
	return err
}

// register makes the stream the one to use for the nodes of its process. An earlier stream of the link ends: at once,
// or in order if this one renews it.
func (g *GRPC) register(a *acceptor) error {
	id := a.id()
	g.mu.Lock()
	old, isSidecar := g.accepted[id], a.isSidecar()
	v, err := g.checkRegistration(a, old, isSidecar)
	switch {
	case g.closed:
		g.mu.Unlock()
		return status.Error(codes.Unavailable, "this process is shutting down")
	case err != nil && v == numViolations:
		g.mu.Unlock()
		return g.refuse(a, err)
	case err != nil:
		g.mu.Unlock()
		return g.refuseViolation(a, v, err)
	}
	defer g.mu.Unlock()
	if old == nil {
		g.linksOf[a.owner()]++
		if isSidecar {
			g.sidecarLinks++
		}
	} else {
		// A copy: the earlier stream may be waiting for those before it.
		a.predecessors = slices.DeleteFunc(append(slices.Clone(old.predecessors), old.drained), isClosed)
		if a.peer.Renews && !isClosed(old.stop) && !isClosed(old.drained) {
			a.before = old
			old.renewed.Store(true)
			old.out.close()
			a.out.renew(old.out)
		} else {
			for ; old != nil; old = old.before {
				old.terminate()
			}
		}
	}
	g.accepted[id] = a
	for _, n := range a.peer.Nodes {
		g.acceptedFrom[n] = a
	}
	return nil
}

// checkRegistration returns why a stream may not be registered, and which violation that is; numViolations: none. Only
// the identity that has a link or a node replaces it.
func (g *GRPC) checkRegistration(a, old *acceptor, isSidecar bool) (Violation, error) {
	if old != nil && old.owner() != a.owner() {
		return ViolationIdentity, fmt.Errorf("the link of process %q is that of another identity", a.peer.Process)
	}
	for _, n := range a.peer.Nodes {
		if other := g.acceptedFrom[n]; other != nil && other.owner() != a.owner() {
			return ViolationIdentity, fmt.Errorf("%v is linked under another identity", n)
		}
	}
	switch {
	case old != nil:
	case a.identity != nil && g.linksOf[a.owner()] >= g.config.MaxLinksPerIdentity:
		return ViolationLimit, fmt.Errorf("this process has reached its limit of %d links for one identity",
			g.config.MaxLinksPerIdentity)
	case isSidecar && g.sidecarLinks >= g.config.MaxLinks: // the others are few, by their certificates
		return numViolations, status.Errorf(codes.ResourceExhausted, "this process has reached its limit of %d links",
			g.config.MaxLinks)
	}
	return numViolations, nil
}

// awaitPredecessors waits until all earlier streams of the link have ended: what arrived on them must be handled before
// anything on this stream.
func (a *acceptor) awaitPredecessors(ctx context.Context) error {
	for _, gone := range a.predecessors {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		case <-a.stop:
			return a.stopped
		}
	}
	a.g.mu.Lock()
	a.before, a.predecessors = nil, nil
	a.g.mu.Unlock()
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// unregister undoes register, unless a later stream has taken over.
func (g *GRPC) unregister(a *acceptor) {
	a.terminate()
	a.out.close()
	a.out.markBroken()
	if a.peer == nil {
		return
	}
	defer g.reviseGroups(a.peer.Nodes)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.accepted[a.id()] == a {
		delete(g.accepted, a.id())
		if owner := a.owner(); g.linksOf[owner] > 1 {
			g.linksOf[owner]--
		} else {
			delete(g.linksOf, owner)
		}
		if a.isSidecar() {
			g.sidecarLinks--
		}
	}
	for _, n := range a.peer.Nodes {
		if g.acceptedFrom[n] == a {
			delete(g.acceptedFrom, n)
		}
	}
}

func (a *acceptor) id() linkID { return linkID{a.peer.Process, a.peer.Incarnation, a.peer.Link} }

// owner returns the identity that the link belongs to; empty without TLS.
func (a *acceptor) owner() string {
	return a.ownerName
}

// who returns the name of the peer in the log.
func (a *acceptor) who() string {
	if a.identity == nil {
		return a.remoteAddr
	}
	return a.identity.String()
}

func (a *acceptor) isSidecar() bool {
	return len(a.peer.Nodes) == 0 || a.peer.Nodes[0].Part == topology.Sidecar
}

var errReplaced = status.Error(codes.Aborted,
	"the stream is broken or has been replaced by a later one of the same link")

func (a *acceptor) terminate() { a.end(errReplaced) }

// end ends the stream with a status.
func (a *acceptor) end(err error) {
	a.stopOnce.Do(func() {
		a.stopped = err
		close(a.stop)
	})
}

// identify takes the identity in the certificate of the peer.
func (a *acceptor) identify(stream grpc.ServerStream) error {
	p, ok := peer.FromContext(stream.Context())
	if !ok {
		return status.Error(codes.Internal, "the stream has no connection")
	}
	a.remoteAddr = p.Addr.String()
	if a.g.keys == nil {
		return nil
	}
	info, ok := p.AuthInfo.(meteredInfo)
	if !ok {
		return status.Error(codes.Unauthenticated, "the connection has no TLS")
	}
	if a.meter = info.meter; info.fromSidecar {
		a.out.charge(a.g.admission.send.account(a.meter.account.who))
	}
	var err error
	if a.identity, err = newPeerIdentity(info.State, a.g.keys.load(), x509.ExtKeyUsageClientAuth); err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	a.ownerName = a.identity.String()
	return nil
}

// receive receives the hello and, once the stream is registered, messages until the stream ends.
func (a *acceptor) receive(stream grpc.ServerStream, greeted chan<- helloResult, proceed <-chan struct{}) {
	defer close(a.drained)
	in := &receivedFrame{} // a hello does not count
	err := stream.RecvMsg(in)
	greeted <- helloResult{in.hello, err}
	if err != nil {
		return
	}
	a.meter.delivered(in.size)
	select {
	case <-proceed:
	case <-a.stop:
		return
	case <-stream.Context().Done():
		return
	}
	who := a.who()
	in.decoding = decodingRoom{a.g.decodingOfParts, a.owner()}
	if a.isSidecar() {
		in.decoding.d = a.g.decodingOfSidecars
	}
	for {
		switch err := stream.RecvMsg(in); {
		case errors.Is(err, io.EOF): // the dialer has sent everything: send the rest of the outbox, and end
			a.out.close()
			return
		case in.malformed != nil:
			a.end(a.g.refuseFrame(in.malformed, who))
			return
		case err != nil:
			a.terminate()
			return
		}
		a.heard.Add(1)
		a.out.answerProbe(in.control.Probe)
		a.roots.hear(in.control.Roots)
		a.g.hearAnnouncement(a.peer, in.control.Announcement)
		err := a.g.deliver(in, a.peer, who)
		a.meter.delivered(in.size)
		if err != nil {
			a.end(err)
			return
		}
	}
}

func (a *acceptor) stats() LinkStats {
	s := LinkStats{
		Process: a.peer.Process, Address: a.remoteAddr, Up: true, TopologyEpoch: a.peer.TopologyEpoch,
		Version: a.peer.Version, Nodes: a.peer.Nodes,
		QueuedBytes: a.out.queuedBytes(),
	}
	s.describeTrust(a.identity, &a.roots)
	return s
}
