package node

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/topology"
)

// acknowledging is a network with one shard, which acknowledges every put and does nothing else.
type acknowledging struct {
	recorder
	c        *Coordinator
	answered sync.WaitGroup
}

func (n *acknowledging) Send(m causal.Message) {
	switch m.Kind {
	case causal.KindPastQuery:
		n.recorder.Send(m)
	case causal.KindPutReply:
		n.answered.Done()
	case causal.KindPutAfter:
		ack := causal.PutAck{Incarnation: 1, Versions: []causal.Version{m.PutAfter().Record.Version}}.Message(m.To,
			m.From)
		n.c.Handle([]causal.Message{ack})
	}
}

// BenchmarkPut measures the way of puts through a coordinator and its log, without the disk: b.N puts, 64 at a time.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}},
				[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
			if err != nil {
				b.Fatal(err)
			}
			net := &acknowledging{recorder: recorder{news: make(chan struct{}, 1)}}
			c, err := NewCoordinator(
				CoordinatorOptions{Config: coordinator.DefaultConfig(topo, topology.Node{Part: topology.Coordinator}),
					Clock: NewClock(), Net: net,
					Dir: "/log", FS: vfs.NewMem(), Logger: discard, OnFailure: func(err error) {
						b.Errorf("the log failed: %v", err)
					}})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			net.c = c
			answered := 0
			for c.Membership() != coordinator.Serving {
				c.Tick()
				for ; answered < len(net.sent); answered++ {
					m := net.sent[answered]
					c.Handle([]causal.Message{causal.PastReply{ID: m.PastQuery().ID}.Message(m.To, m.From)})
				}
			}
			value, leadership := make([]byte, size), c.Leadership()
			app := topology.Node{Part: topology.Sidecar, Index: 7}
			const batch = 64
			b.ReportAllocs()
			b.SetBytes(int64(size))
			b.ResetTimer()
			for i := 0; i < b.N; i += batch {
				net.answered.Add(batch)
				for j := range batch {
					seq := uint64(i + j + 1)
					c.Handle([]causal.Message{causal.Put{ID: seq, Session: 1, Seq: seq, Leadership: leadership,
						Key: "key", Value: causal.Value{Data: value}}.Message(app, c.ID())})
				}
				net.answered.Wait()
				if i%(batch*64) == 0 {
					c.Tick()
				}
			}
		})
	}
}
