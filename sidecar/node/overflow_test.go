package node

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// The coordinator commits puts together, and passes their answers to the network together: the queue of its link holds
// few.
func TestWritesWhoseAnswersOverflowAQueueAreAnsweredInTheEnd(t *testing.T) {
	topo, err := topology.Parse([]byte(`{epoch: 1, dataCenters: [{name: a}], rings: [{name: one, dataCenters: [a]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node, app := topology.Node{Part: topology.Coordinator}, topology.Node{Part: topology.Sidecar, Index: 9}
	join := func(c transport.Config) *transport.GRPC {
		t.Helper()
		c.Process, c.Members, c.Log = c.Nodes[0].String(), topo.MembersOf, slog.New(slog.DiscardHandler)
		n, err := transport.NewGRPC(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	var c *Coordinator
	var s *Sidecar
	ready := make(chan struct{}) // closed when both are there
	up := make(chan struct{})
	upOnce := sync.OnceFunc(func() { close(up) })
	served := join(transport.Config{Nodes: []topology.Node{node.WithMember(1)}, QueueBytes: 1000,
		Resolve: func(topology.Node) (string, bool) { return "", false },
		Handler: func(batch []causal.Message) { <-ready; c.Handle(batch) }})
	dialed := join(transport.Config{Nodes: []topology.Node{app},
		Resolve: func(n topology.Node) (string, bool) { return listener.Addr().String(), n == node.WithMember(1) },
		Handler: func(batch []causal.Message) { <-ready; s.Handle(batch) },
		Up:      func(n topology.Node, l causal.Leadership) { <-ready; s.LinkUp(n, l); upOnce() },
		Down:    func(n topology.Node) { <-ready; s.LinkDown(n) },
		Unsent:  func(put causal.Message) { s.Unsent(put) },
	})
	c, err = NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(topo, node), Clock: NewClock(),
		Net: withoutPast{served, func(m causal.Message) { go c.Handle([]causal.Message{m}) }}, Dir: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close() })
	config := session.DefaultConfig(topo, app)
	config.PutTimeout = time.Minute
	s = NewSidecar(SidecarOptions{Config: config, Clock: NewClock(), Net: dialed, Scope: ScopeConnection})
	t.Cleanup(s.Close)
	close(ready)
	served.SetLeadership(c.Leadership())
	go func() { _ = served.Serve(listener) }() // until Close
	ticker := NewTicker()
	t.Cleanup(ticker.Stop)
	ticker.Add(c)
	ticker.Add(s)
	dialed.Open(node)
	<-up

	for round := 0; lostAnswers(served) == 0; round++ {
		if round == 20 {
			t.Fatal("no answer was dropped")
		}
		var writes sync.WaitGroup
		for i := range 100 {
			client := connect(t, s)
			writes.Go(func() {
				defer client.Close()
				if err := client.Put(t.Context(), fmt.Sprint(i), causal.Value{Data: []byte("v")}); err != nil {
					t.Errorf("write %d: %v", i, err)
				}
			})
		}
		writes.Wait()
	}
	t.Logf("%d answers were dropped", lostAnswers(served))
}

func lostAnswers(n *transport.GRPC) (dropped uint64) {
	for _, d := range n.Stats().Drops {
		if d.Kind == causal.KindPutReply && d.Reason == transport.DropOverflow {
			dropped += d.Count
		}
	}
	return dropped
}

// withoutPast is a network whose shards have never heard of the coordinator.
type withoutPast struct {
	*transport.GRPC
	answer func(causal.Message)
}

func (n withoutPast) Send(m causal.Message) { n.SendAll([]causal.Message{m}) }

func (n withoutPast) SendAll(ms []causal.Message) {
	n.GRPC.SendAll(ms)
	for i := range ms {
		if m := &ms[i]; m.Kind == causal.KindPastQuery {
			n.answer(causal.PastReply{ID: m.PastQuery().ID}.Message(m.To, m.From))
		}
	}
}
