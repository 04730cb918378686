package causal

import (
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// replayed returns a coordinator of one ring with one shard, restarted with n puts in its log.
func replayed(t *testing.T, n int, change func(*CoordinatorConfig)) *Coordinator {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}}, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultCoordinatorConfig(topo, topology.Node{Part: topology.Coordinator})
	change(&cfg)
	var log []Message
	for i := range n {
		log = append(log, Message{Kind: KindPutAfter, Key: "k", Record: Record{Version: Version{HLC: HLC(i + 1), Origin: 1}}})
	}
	return NewCoordinator(cfg, Now{}, log, uint64(n)+1)
}

// putsSent returns the HLCs of the put-afters among the messages.
func putsSent(c *Coordinator) (hlcs []HLC) {
	for _, m := range c.Take(nil) {
		if m.Kind == KindPutAfter {
			hlcs = append(hlcs, m.Record.Version.HLC)
		}
	}
	return hlcs
}

// A late acknowledgement of a put that an earlier life sent must not be counted for one that this life has sent: the lane
// would take itself for idle, and a lost put would never be sent again.
func TestAnAcknowledgementOfAPutThatWasNotSentAgainYetKeepsTheLaneGoing(t *testing.T) {
	c := replayed(t, 3, func(cfg *CoordinatorConfig) { cfg.Window = 1 })
	c.Tick(Now{})
	if got := putsSent(c); len(got) != 1 || got[0] != 1 {
		t.Fatalf("sent %v; want the first", got)
	}
	ack := func(now Now, hlc HLC) {
		c.Step(now, &Message{Kind: KindPutAck, From: topology.Node{Part: topology.Middleman}, Epoch: 1, Versions: []Version{{HLC: hlc, Origin: 1}}})
	}
	ack(Now{}, 2) // of what the life before this one had sent
	if got := putsSent(c); len(got) != 0 {
		t.Fatalf("sent %v; the window is full with the first", got)
	}
	later := Now{Mono: int64(time.Minute)}
	c.Tick(later)
	if got := putsSent(c); len(got) != 1 || got[0] != 1 {
		t.Fatalf("sent %v again; want the first, which was not acknowledged", got)
	}
	ack(later, 1)
	if got := putsSent(c); !slices.Contains(got, 3) {
		t.Fatalf("sent %v; want the third, since there is room again", got)
	}
	ack(later, 3)
	if writes, _ := c.Pending(); writes != 0 {
		t.Fatalf("%d writes are incomplete; want none", writes)
	}
}
