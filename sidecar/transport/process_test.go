package transport

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

func TestMain(m *testing.M) {
	if os.Getenv(stopEnv) != "" {
		if err := runMember(); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of a test. A test that passes does not reach it.
const patience = 30 * time.Second

// quick returns timings for short tests of failures.
func quick() timings {
	t := defaultTimings
	t.backoff, t.maxBackoff = time.Millisecond, 20*time.Millisecond
	return t
}

// directory maps nodes to the addresses of the processes of a test.
type directory struct {
	mu    sync.Mutex
	addrs map[topology.Node]string
}

func newDirectory() *directory { return &directory{addrs: map[topology.Node]string{}} }

func (d *directory) set(addr string, nodes ...topology.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range nodes {
		if addr == "" {
			delete(d.addrs, n)
		} else {
			d.addrs[n] = addr
		}
	}
}

func (d *directory) resolve(n topology.Node) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	addr, ok := d.addrs[n]
	return addr, ok
}

// testProcess is a GRPC network with its inbox and, if it listens, its address.
type testProcess struct {
	*GRPC
	*recorder
	addr string
	log  *capture.Buffer
}

type change func(*Config, *timings)

// start starts a process that runs nodes. Unless it is a sidecar, it listens and is added to the directory. If it has a
// topology, a coordinator is the only member of its group, and serves.
func start(t testing.TB, d *directory, nodes []topology.Node, changes ...change) *testProcess {
	t.Helper()
	p := &testProcess{recorder: newRecorder(), log: &capture.Buffer{}}
	tm := quick()
	c := Config{
		Process: nodes[0].String(), Nodes: nodes, Handler: p.handle, Resolve: d.resolve,
		Epoch: func() uint64 { return 5 }, Log: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	for _, f := range changes {
		f(&c, &tm)
	}
	sole := c.Topology != nil && nodes[0].HasGroup() && nodes[0].Member == 0
	if sole {
		nodes = []topology.Node{nodes[0].WithMember(1)}
		c.Nodes = nodes
	}
	if c.Topology != nil {
		c.Members = func(n topology.Node) []topology.Node { return c.Topology().MembersOf(n) }
	}
	var err error
	if p.GRPC, err = newGRPC(c, tm); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	if sole {
		p.SetLeadership(causal.Leadership{Epoch: 1, Life: 1})
	}
	if nodes[0].Part != topology.Sidecar {
		p.listen(t, "127.0.0.1:0")
		d.set(p.addr, nodes...)
	}
	return p
}

func (p *testProcess) listen(t testing.TB, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		p.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// waitFor waits until cond holds.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timed out after %s waiting for %s", patience, what)
		}
	}
}

// awaitServing waits until a process has a link to the member that serves a node, which it opens.
func awaitServing(t testing.TB, p *testProcess, n topology.Node) {
	t.Helper()
	waitFor(t, "a member to serve", func() bool {
		out, _ := p.groupOutbox(n)
		return out != nil
	})
}

// wait waits until n messages have arrived.
func (p *testProcess) wait(t testing.TB, n int) []causal.Message {
	t.Helper()
	waitFor(t, "messages to arrive", func() bool {
		p.mu().Lock()
		defer p.mu().Unlock()
		return len(p.got) >= n
	})
	return p.all()
}

func (p *testProcess) mu() *sync.Mutex { return &p.recorder.mu }

// link opens a raw stream to a process, for tests of behavior that GRPC does not show.
func link(t testing.TB, addr string) grpc.ClientStream {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s, err := conn.NewStream(ctx, &serviceDesc.Streams[0], wire.Method)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func frameOf(ms ...causal.Message) *frame {
	f := newFrame()
	f.from = &outbox{count: new(counters)}
	for i := range ms {
		f.batch.Add(&ms[i])
		f.kinds = append(f.kinds, ms[i].Kind)
	}
	return f
}

// dropped returns the number of messages of all kinds that were dropped for a reason.
func dropped(s Stats, r DropReason) (n uint64) {
	for _, d := range s.Drops {
		if d.Reason == r {
			n += d.Count
		}
	}
	return n
}
