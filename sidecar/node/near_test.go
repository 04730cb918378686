package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/topology"
)

// nearNet is a network with a cache that answers each GET with a near copy of its key, and grants every lease.
type nearNet struct {
	to    *Sidecar
	asked []string
	pos   causal.StreamPosition
}

func (n *nearNet) Close() error { return nil }

func (n *nearNet) Send(m causal.Message) {
	var answer causal.Message
	switch m.Kind {
	case causal.KindGet:
		g := m.Get()
		n.asked = append(n.asked, g.Key)
		answer = causal.GetReply{ID: g.ID, Key: g.Key, Status: causal.Stable, Hit: true, Ring: topology.NoRing,
			Record: causal.Record{Version: causal.Version{HLC: 1, Origin: 1},
				Value: causal.Value{Data: []byte(g.Key)}}}.Message(m.To, m.From)
	case causal.KindLease:
		answer = causal.LeaseGrant{ID: m.LeaseRenewal().ID, Duration: time.Hour}.Message(m.To, m.From)
	default:
		return
	}
	n.pos.Epoch, n.pos.Seq = 7, n.pos.Seq+1
	answer.SetStreamPosition(n.pos)
	n.to.Handle([]causal.Message{answer})
}

func newNearSidecar(t *testing.T) (*nearNet, front.Session) {
	t.Helper()
	topo, err := topology.Parse([]byte("epoch: 1\ndataCenters: [{name: a}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := session.DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1})
	cfg.MaxNearBytes, cfg.NearHotReads = 1<<20, 1
	n := &nearNet{}
	n.to = NewSidecar(SidecarOptions{Config: cfg, Clock: NewClock(), Net: n, Scope: ScopePod})
	t.Cleanup(n.to.Close)
	completeWrites(n.to)
	return n, connect(t, n.to)
}

func TestPipelinedReadsAskForWhatHasNoNearCopy(t *testing.T) {
	n, c := newNearSidecar(t)
	for _, keys := range []string{"a", "a b", "a b c b a d", "d c b a"} {
		if got := getEach(t, c, strings.Fields(keys)...); strings.Join(got, " ") != keys {
			t.Errorf("%s: got %q", keys, got)
		}
	}
	if got := strings.Join(n.asked, " "); got != "a b c d" {
		t.Errorf("asked for %s", got)
	}
	if s := c.(*clientSession).lastOutcome.Source; s != session.SourceNear {
		t.Errorf("the last read is from %s", s)
	}
}

func TestPipelinedReadsWaitForATransactionAlsoWithNearCopies(t *testing.T) {
	n, c := newNearSidecar(t)
	getEach(t, c, "a", "b")
	release := connect(t, n.to).Isolate("b")
	done := make(chan []string, 1)
	go func() { done <- getEach(t, c, "a", "b") }()
	select {
	case got := <-done:
		t.Errorf("got %q while a transaction holds a key", got)
	case <-time.After(20 * time.Millisecond): // it cannot be seen to wait for ever
	}
	release()
	if got := <-done; strings.Join(got, " ") != "a b" {
		t.Errorf("got %q", got)
	}
}

func TestReadsOfNearCopiesDoNotAllocate(t *testing.T) {
	_, c := newNearSidecar(t)
	getEach(t, c, "a", "b")
	keys, results := [][]byte{[]byte("a"), []byte("b")}, make([]front.GetResult, 2)
	if n := testing.AllocsPerRun(100, func() { c.GetEach(context.Background(), keys, results) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
