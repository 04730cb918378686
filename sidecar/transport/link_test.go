package transport

import (
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

func TestIncompatibleDialerIsRefusedAndToldWhy(t *testing.T) {
	b := start(t, newDirectory(), []topology.Node{middlemanB})
	s := link(t, b.addr)
	if err := s.SendMsg(&wire.Hello{Protocol: 99, MinProtocol: 98, Process: "future"}); err != nil {
		t.Fatal(err)
	}
	err := s.RecvMsg(&receivedFrame{})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), `process \"future\" speaks 99`) &&
		!strings.Contains(err.Error(), `process "future" speaks 99`) {
		t.Errorf("the dialer receives %v", err)
	}
	waitFor(t, "an error in the log", func() bool {
		return strings.Contains(b.log.String(), "level=ERROR") && strings.Contains(b.log.String(), "speaks 99")
	})
}

// fakeServer serves streams with the given function.
func fakeServer(t *testing.T, serve func(grpc.ServerStream) error) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	desc := serviceDesc
	desc.Streams = []grpc.StreamDesc{{StreamName: "Stream", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error { return serve(s) }}}
	s := grpc.NewServer(grpc.ForceServerCodecV2(codec{}))
	s.RegisterService(&desc, nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return l.Addr().String()
}

func TestDialerRefusesAnIncompatibleServer(t *testing.T) {
	d := newDirectory()
	d.set(fakeServer(t, func(s grpc.ServerStream) error {
		_ = s.SendMsg(&wire.Hello{Protocol: 99, MinProtocol: 98, Process: "future"})
		<-s.Context().Done()
		return nil
	}), middlemanB)
	a := start(t, d, []topology.Node{coordinatorA})
	a.Send(put(coordinatorA, middlemanB, 1))
	waitFor(t, "an error in the log", func() bool {
		return strings.Contains(a.log.String(), "level=ERROR") && strings.Contains(a.log.String(), "speaks 99")
	})
	waitFor(t, "the message to be dropped", func() bool { s := a.Stats(); return dropped(s, DropBroken) == 1 })
}

func TestDialerGivesUpOnASilentServer(t *testing.T) {
	d := newDirectory()
	d.set(fakeServer(t, func(s grpc.ServerStream) error { <-s.Context().Done(); return nil }), middlemanB)
	a := start(t, d, []topology.Node{coordinatorA}, func(_ *Config, tm *timings) { tm.hello = tm.maxBackoff })
	a.Send(put(coordinatorA, middlemanB, 1))
	waitFor(t, "the attempt to end", func() bool {
		s := a.Stats()
		return s.Failed > 1 && len(s.Links) == 1 && strings.Contains(s.Links[0].LastError, "no hello within")
	})
}

func TestSilentAndMalformedClientsAreDisconnected(t *testing.T) {
	b := start(t, newDirectory(), []topology.Node{middlemanB}, func(_ *Config, tm *timings) {
		tm.hello = tm.maxBackoff
	})
	if err := link(t, b.addr).RecvMsg(&receivedFrame{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("silent: %v", err)
	}
	s := link(t, b.addr)
	_ = s.SendMsg(frameOf(put(coordinatorA, middlemanB, 1)))
	if err := s.RecvMsg(&receivedFrame{}); err == nil || !strings.Contains(err.Error(), "no hello") {
		t.Errorf("no hello: %v", err)
	}
	s = greet(t, b.addr, 1)
	f := frameOf()
	f.batch.Buf = append(f.batch.Buf, 0xff, 0xff, 0xff)
	_ = s.SendMsg(f)
	if err := s.RecvMsg(&receivedFrame{hello: &wire.Hello{}}); err == nil {
		t.Error("a malformed frame after the hello was accepted")
	}
	same(t, "handled", b.all(), nil)
}

// greet opens a raw stream as the process "raw" and exchanges hellos.
func greet(t *testing.T, addr string, id uint64) grpc.ClientStream {
	t.Helper()
	s := link(t, addr)
	if err := s.SendMsg(&wire.Hello{Protocol: wire.Protocol, MinProtocol: wire.MinProtocol, Process: "raw", Link: id,
		Nodes: []topology.Node{sidecarA}}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&receivedFrame{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLaterStreamWaitsUntilEarlierMessagesAreHandled(t *testing.T) {
	begun, free := make(chan struct{}, 10), make(chan struct{})
	got := newRecorder()
	b := start(t, newDirectory(), []topology.Node{middlemanB}, func(c *Config, _ *timings) {
		c.Handler = func(batch []causal.Message) {
			begun <- struct{}{}
			if batch[0].Put().Seq == 1 {
				<-free
			}
			got.handle(batch)
		}
	})
	first := greet(t, b.addr, 7)
	_ = first.SendMsg(frameOf(put(sidecarA, middlemanB, 1)))
	<-begun

	// Each of the next streams replaces the one before. None may be registered while the first message is being
	// handled.
	var replies []chan error
	for seq := range uint64(3) {
		s := link(t, b.addr)
		_ = s.SendMsg(&wire.Hello{Protocol: wire.Protocol, Process: "raw", Link: 7})
		_ = s.SendMsg(frameOf(put(sidecarA, middlemanB, 2+seq)))
		reply := make(chan error, 1)
		go func() { reply <- s.RecvMsg(&receivedFrame{}) }()
		replies = append(replies, reply)
		if seq > 0 {
			if err := <-replies[seq-1]; status.Code(err) != codes.Aborted {
				t.Errorf("the previous stream ended with %v", err)
			}
		} else if err := first.RecvMsg(&receivedFrame{hello: &wire.Hello{}}); status.Code(err) != codes.Aborted {
			t.Errorf("the first stream ended with %v", err)
		}
	}
	same(t, "messages handled too early", got.seqs(), nil)
	close(free)
	if err := <-replies[2]; err != nil {
		t.Errorf("the last stream: %v", err)
	}
	waitFor(t, "both messages to be handled", func() bool { return len(got.all()) == 2 })
	same(t, "handled", got.seqs(), []uint64{1, 4})
}

func TestProcessMayHaveTwoLinks(t *testing.T) {
	b := start(t, newDirectory(), []topology.Node{middlemanB})
	one, two := greet(t, b.addr, 1), greet(t, b.addr, 2)
	_ = one.SendMsg(frameOf(put(sidecarA, middlemanB, 1)))
	b.wait(t, 1)
	_ = two.SendMsg(frameOf(put(sidecarA, middlemanB, 2)))
	b.wait(t, 2)
	b.Send(put(middlemanB, sidecarA, 3)) // goes to the later one
	in := &receivedFrame{hello: &wire.Hello{}}
	if err := two.RecvMsg(in); err != nil || (*in.messages)[0].Put().Seq != 3 {
		t.Errorf("%v, %v", in.messages, err)
	}
	if n := len(b.Stats().Links); n != 2 {
		t.Errorf("%d links", n)
	}
}

// relay is a TCP proxy whose connections a test can break.
type relay struct {
	net.Listener
	mu    sync.Mutex
	ended bool
	conns []net.Conn
	wg    sync.WaitGroup
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	r.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			ended := r.ended
			r.mu.Unlock()
			if ended {
				r.sever()
			}
			r.wg.Go(func() { _, _ = io.Copy(out, in); out.Close() })
			r.wg.Go(func() { _, _ = io.Copy(in, out); in.Close() })
		}
	})
	t.Cleanup(func() {
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
		l.Close()
		r.sever()
		r.wg.Wait()
	})
	return r
}

func (r *relay) sever() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

func TestBrokenConnectionsLoseButNeverReorderMessages(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	r := newRelay(t, b.addr)
	d.set(r.Addr().String(), middlemanB)
	rng := rand.New(rand.NewPCG(1, 1))
	seq := uint64(0)
	for range 20 {
		before := len(b.all())
		waitFor(t, "messages to get through again", func() bool {
			for range 1 + rng.IntN(300) {
				seq++
				a.Send(put(coordinatorA, middlemanB, seq))
			}
			return len(b.all()) > before
		})
		r.sever()
	}
	last := uint64(0)
	for _, m := range b.all() {
		if m.Put().Seq <= last {
			t.Fatalf("%d was handled after %d", m.Put().Seq, last)
		}
		last = m.Put().Seq
	}
	if s := a.Stats(); s.Opened < 5 {
		t.Errorf("%d streams", s.Opened)
	}
}
