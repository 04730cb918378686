package transport

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// maxLinks bounds the links that others may open to one process: it is about the sidecars of a whole region.
const maxLinks = 1 << 14

// linkID names a link through its reconnections: a dialer of one life of a process.
type linkID struct {
	process     string
	incarnation uint64
	link        uint64
}

// acceptor is a link that another process has opened.
type acceptor struct {
	g    *GRPC
	from string
	out  *outbox
	peer *wire.Hello

	stop     chan struct{} // closed when the stream must end
	stopOnce sync.Once
	gone     chan struct{}     // closed when everything that came in has been handled
	before   []<-chan struct{} // gone of the streams of this link that came before, as far as they are not
}

// serviceDesc is what generated code would say of the service in wire.proto.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: wire.Service,
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Stream", ClientStreams: true, ServerStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*GRPC).accept(stream) },
	}},
	Metadata: "wire.proto",
}

func newServer(g *GRPC) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(maxFrame), grpc.MaxSendMsgSize(maxFrame),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: g.timing.keepalive, Timeout: g.timing.keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: g.timing.keepalive / 2, PermitWithoutStream: true}),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer), grpc.WriteBufferSize(ioBuffer),
		grpc.ConnectionTimeout(g.timing.hello),
		grpc.MaxConcurrentStreams(16), // a dialer opens one
	}
	if g.keys != nil {
		options = append(options, grpc.Creds(g.keys.server()))
	}
	s := grpc.NewServer(options...)
	s.RegisterService(&serviceDesc, g)
	return s
}

// accept serves one stream. Only its return ends the stream, so it neither receives nor sends but leaves that to
// goroutines, which end soon after it.
func (g *GRPC) accept(stream grpc.ServerStream) error {
	a := &acceptor{g: g, out: newOutbox(&g.counters, g.config.QueueBytes), stop: make(chan struct{}), gone: make(chan struct{})}
	if p, ok := peer.FromContext(stream.Context()); ok {
		a.from = p.Addr.String()
	}
	greeted, proceed := make(chan greeting, 1), make(chan struct{})
	if err := g.spawn(func() { a.receive(stream, greeted, proceed) }); err != nil {
		return err
	}
	defer g.leave(a)

	select {
	case got := <-greeted:
		if got.err != nil {
			return g.refuse(a, status.Errorf(codes.InvalidArgument, "no hello: %v", got.err))
		}
		a.peer = got.hello
	case <-time.After(g.timing.hello):
		return g.refuse(a, status.Errorf(codes.DeadlineExceeded, "no hello within %v", g.timing.hello))
	}
	if err := a.peer.Compatible(); err != nil {
		return g.refuse(a, status.Error(codes.FailedPrecondition, err.Error()))
	}
	if err := g.seat(stream.Context(), a); err != nil {
		return err
	}
	if err := stream.SendMsg(g.hello(a.peer.Link)); err != nil {
		return err
	}
	g.opened.Add(1)
	g.config.Log.Info("link accepted", "from", a.from, "process", a.peer.Process, "epoch", a.peer.TopologyEpoch)
	g.heard(a.peer)
	close(proceed)
	return a.carry(stream)
}

// greeting is what came of waiting for a hello.
type greeting struct {
	hello *wire.Hello
	err   error
}

// carry sends until the stream must end; nil means that all is said.
func (a *acceptor) carry(stream grpc.ServerStream) error {
	sent := make(chan error, 1)
	if err := a.g.spawn(func() { sent <- a.g.pump(a.out, stream, a.stop, 0) }); err != nil {
		return err
	}
	select {
	case err := <-sent:
		if err != nil {
			return status.Error(codes.Aborted, "the stream is broken")
		}
		return nil
	case <-a.stop:
		return status.Error(codes.Aborted, "the stream is broken, or a later one of the same link is here")
	}
}

// spawn runs a goroutine of a link that Close waits for.
func (g *GRPC) spawn(f func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return status.Error(codes.Unavailable, "this process is about to end")
	}
	g.wg.Go(f)
	return nil
}

func (g *GRPC) refuse(a *acceptor, err error) error {
	g.failed.Add(1)
	g.config.Log.Error("link refused", "from", a.from, "error", err)
	return err
}

// seat makes the link the one to use for the nodes behind it. If the dialer had streams before, they end first, and all
// of them: what came over one of them must not be handled after what comes over this one.
func (g *GRPC) seat(ctx context.Context, a *acceptor) error {
	id := a.id()
	g.mu.Lock()
	switch {
	case g.closed:
		g.mu.Unlock()
		return status.Error(codes.Unavailable, "this process is about to end")
	case len(g.links) >= maxLinks:
		g.mu.Unlock()
		return g.refuse(a, status.Errorf(codes.ResourceExhausted, "this process has %d links already", maxLinks))
	}
	if old := g.links[id]; old != nil {
		old.end()
		a.before = slices.DeleteFunc(append(old.before, old.gone), closed)
	}
	g.links[id] = a
	for _, n := range a.peer.Nodes {
		g.behind[n] = a
	}
	before := a.before
	g.mu.Unlock()
	for _, gone := range before {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		case <-a.stop:
			return status.Error(codes.Aborted, "a later stream of the same link is here")
		}
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// leave undoes seat, as far as a later stream has not.
func (g *GRPC) leave(a *acceptor) {
	a.end()
	a.out.shut()
	a.out.fail()
	if a.peer == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.links[a.id()] == a {
		delete(g.links, a.id())
	}
	for _, n := range a.peer.Nodes {
		if g.behind[n] == a {
			delete(g.behind, n)
		}
	}
}

func (a *acceptor) id() linkID { return linkID{a.peer.Process, a.peer.Incarnation, a.peer.Link} }

func (a *acceptor) end() { a.stopOnce.Do(func() { close(a.stop) }) }

// receive takes the hello, and then messages until the stream ends.
func (a *acceptor) receive(stream grpc.ServerStream, greeted chan<- greeting, proceed <-chan struct{}) {
	defer close(a.gone)
	in := &inbox{}
	err := stream.RecvMsg(in)
	greeted <- greeting{in.hello, err}
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
		case errors.Is(err, io.EOF): // the dialer has sent everything: answer what there is, and end
			a.out.shut()
			return
		case err != nil:
			a.end()
			return
		}
		a.g.deliver(in)
	}
}

func (a *acceptor) stats() LinkStats {
	return LinkStats{
		Process: a.peer.Process, Address: a.from, Up: true, TopologyEpoch: a.peer.TopologyEpoch, Nodes: a.peer.Nodes,
		QueuedBytes: a.out.queued(),
	}
}
