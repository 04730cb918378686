package node

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

func TestRefusePutsFailsNewPutsAndAnswersOtherMessages(t *testing.T) {
	topo, err := topology.Parse([]byte(`{epoch: 1, dataCenters: [{name: a}], rings: [{name: one, dataCenters: [a]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	net := transport.NewLocal(nil)
	defer net.Close()
	self, sidecar := topology.Node{Part: topology.Coordinator}, topology.Node{Part: topology.Sidecar, Index: 9}
	c, err := NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(topo, self), Clock: NewClock(),
		Net: net, Dir: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var mu sync.Mutex
	var got []causal.Message
	if err := net.Register(sidecar, func(batch []causal.Message) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, batch...)
	}); err != nil {
		t.Fatal(err)
	}
	c.RefusePuts()
	c.Handle([]causal.Message{
		{Kind: causal.KindSubscribe, From: sidecar, To: self},
		causal.Put{ID: 5, Session: 1, Seq: 1, Leadership: c.Leadership(), Key: "k"}.Message(sidecar, self),
	})
	mu.Lock()
	defer mu.Unlock()
	var refused, answered bool
	for _, m := range got {
		refused = refused || m.Kind == causal.KindPutReply && m.PutReply().ID == 5 &&
			m.PutReply().Err == causal.ErrUnavailable
		answered = answered || m.Kind == causal.KindVectors
	}
	if !refused || !answered || !c.IsDrained() {
		t.Errorf("refused %v, other messages answered %v, drained %v: %+v", refused, answered, c.IsDrained(), got)
	}
}
