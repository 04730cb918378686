package transport

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// maxLinks bounds the links that peers may open to one process, for about the sidecars of a whole region.
const maxLinks = 1 << 14

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
	heard      atomic.Uint64 // frames that have arrived

	stop         chan struct{} // closed when the stream is to end
	stopOnce     sync.Once
	drained      chan struct{}     // closed when all received messages have been handled
	predecessors []<-chan struct{} // drained of the earlier streams of this link, unless closed
}

// serveStream serves one stream. The stream ends only when it returns, so it leaves receiving and sending, which may block,
// to goroutines that end soon afterwards.
func (g *GRPC) serveStream(stream grpc.ServerStream) error {
	a := &acceptor{g: g, out: newOutbox(&g.counters, g.config.QueueBytes), stop: make(chan struct{}), drained: make(chan struct{})}
	if p, ok := peer.FromContext(stream.Context()); ok {
		a.remoteAddr = p.Addr.String()
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
	if err := g.checkDuplicate(stream.Context(), a.peer, a.remoteAddr); err != nil {
		return g.refuse(a, err)
	}
	if err := g.register(stream.Context(), a); err != nil {
		return err
	}
	if err := stream.SendMsg(g.hello(a.peer.Link)); err != nil {
		return err
	}
	g.opened.Add(1)
	g.config.Log.Info("link accepted", "from", a.remoteAddr, "process", a.peer.Process, "epoch", a.peer.TopologyEpoch)
	g.wakeDialers(a.peer)
	close(proceed)
	return a.sendQueued(stream)
}

// helloResult is a received hello, or the error instead of it.
type helloResult struct {
	hello *wire.Hello
	err   error
}

// sendQueued sends the outbox until the stream is to end. It returns nil, which tells the dialer that no reply is missing, if
// everything was sent and the dialer or this process has said that nothing follows.
func (a *acceptor) sendQueued(stream grpc.ServerStream) error {
	sent := make(chan error, 1)
	if err := a.g.spawn(func() { sent <- a.g.pump(a.out, stream, a.stop, 0) }); err != nil {
		return err
	}
	select {
	case err := <-sent:
		if err != nil {
			return status.Error(codes.Aborted, "the stream is broken")
		}
		if isClosed(a.g.closing) && !a.g.answered.Load() {
			return status.Error(codes.Unavailable, "this process is shutting down")
		}
		return nil
	case <-a.stop:
		return status.Error(codes.Aborted, "the stream is broken or has been replaced by a later one of the same link")
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

func (g *GRPC) refuse(a *acceptor, err error) error {
	g.failed.Add(1)
	g.config.Log.Error("link refused", "from", a.remoteAddr, "error", err)
	return err
}

// register makes the stream the one to use for the nodes of its process. If the link has earlier streams, register waits
// until all of them have ended: what arrived on them must be handled before anything on this stream.
func (g *GRPC) register(ctx context.Context, a *acceptor) error {
	id := a.id()
	g.mu.Lock()
	switch {
	case g.closed:
		g.mu.Unlock()
		return status.Error(codes.Unavailable, "this process is shutting down")
	case len(g.accepted) >= maxLinks:
		g.mu.Unlock()
		return g.refuse(a, status.Errorf(codes.ResourceExhausted, "this process has reached its limit of %d links", maxLinks))
	}
	if old := g.accepted[id]; old != nil {
		old.terminate()
		a.predecessors = slices.DeleteFunc(append(old.predecessors, old.drained), isClosed)
	}
	g.accepted[id] = a
	for _, n := range a.peer.Nodes {
		g.acceptedFrom[n] = a
	}
	before := a.predecessors
	g.mu.Unlock()
	for _, gone := range before {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		case <-a.stop:
			return status.Error(codes.Aborted, "replaced by a later stream of the same link")
		}
	}
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
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.accepted[a.id()] == a {
		delete(g.accepted, a.id())
	}
	for _, n := range a.peer.Nodes {
		if g.acceptedFrom[n] == a {
			delete(g.acceptedFrom, n)
		}
	}
}

func (a *acceptor) id() linkID { return linkID{a.peer.Process, a.peer.Incarnation, a.peer.Link} }

func (a *acceptor) terminate() { a.stopOnce.Do(func() { close(a.stop) }) }

// receive receives the hello and, once the stream is registered, messages until the stream ends.
func (a *acceptor) receive(stream grpc.ServerStream, greeted chan<- helloResult, proceed <-chan struct{}) {
	defer close(a.drained)
	in := &receivedFrame{}
	err := stream.RecvMsg(in)
	greeted <- helloResult{in.hello, err}
	if err != nil {
		return
	}
	select {
	case <-proceed:
	case <-stream.Context().Done():
		return
	}
	for {
		switch err := stream.RecvMsg(in); {
		case errors.Is(err, io.EOF): // the dialer has sent everything: send the rest of the outbox, and end
			a.out.close()
			return
		case err != nil:
			a.terminate()
			return
		}
		a.heard.Add(1)
		a.out.answerProbe(in.probe)
		a.g.deliver(in)
	}
}

func (a *acceptor) stats() LinkStats {
	return LinkStats{
		Process: a.peer.Process, Address: a.remoteAddr, Up: true, TopologyEpoch: a.peer.TopologyEpoch, Nodes: a.peer.Nodes,
		QueuedBytes: a.out.queuedBytes(),
	}
}
