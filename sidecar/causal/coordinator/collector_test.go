package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// newParts returns what a machine of the leader of two rings shares with the others.
func newParts(t *testing.T) *shared {
	cfg := DefaultConfig(twoRings(t, 2), topology.Node{Part: topology.Coordinator})
	cfg.Incarnation = 1
	s := newShared(cfg)
	return &s
}

type collectedAt causal.HLC

func (h collectedAt) hlc() causal.HLC { return causal.HLC(h) }

func TestACollectorAsksEachShardUntilItsLastPageHasCome(t *testing.T) {
	s := newParts(t)
	c := collector[string, collectedAt]{shared: s, origin: 1, interval: time.Second,
		question: func(of *source[string], n topology.Node) causal.Message {
			return causal.Salvage{After: of.after}.Message(s.cfg.Self, n)
		}}
	c.restart()
	now := causal.Now{Mono: 1}
	asked := func() (after []string) {
		c.ask(now)
		for _, m := range s.Take(nil) {
			after = append(after, m.To.String()+" "+m.Salvage().After)
		}
		return after
	}
	a, b := shardsA.String()+" ", shardsB.String()+" "
	if got := asked(); !slices.Equal(got, []string{a, b}) {
		t.Fatalf("asked at first: %q", got)
	}
	if got := asked(); got != nil {
		t.Errorf("asked again at once: %q", got)
	}
	c.source(shardsA).after, c.source(shardsA).askAt = "2", 0
	c.source(shardsB).done = true
	if got := asked(); !slices.Equal(got, []string{a + "2"}) {
		t.Errorf("asked for the next page: %q", got)
	}
	if now.Mono += int64(time.Second); !slices.Equal(asked(), []string{a + "2"}) {
		t.Error("a page that has not come is not asked for again")
	}
	if got := c.unread(); !slices.Equal(got, []topology.Node{shardsA}) {
		t.Errorf("waiting for %v", got)
	}
	if c.restart(); len(c.unread()) != 2 {
		t.Error("after a restart a shard counts as read")
	}
}

func TestWhatWasCollectedIsInTheOrderOfTimestamps(t *testing.T) {
	c := collector[string, collectedAt]{shared: newParts(t), origin: 1}
	c.restart()
	for _, h := range []collectedAt{20, 40, 10, 30} {
		c.add(h)
	}
	if got := c.ascending(); !slices.Equal(got, []collectedAt{10, 20, 30, 40}) {
		t.Errorf("collected %v", got)
	}
	c.add(5)
	if got := c.dropUpTo(20); !slices.Equal(got, []collectedAt{5, 10, 20}) || len(c.writes) != 2 {
		t.Errorf("dropped %v, %d are left", got, len(c.writes))
	}
	for v, want := range map[causal.Version]bool{{HLC: 9, Origin: 1}: true, {HLC: 11, Origin: 1}: false,
		{HLC: 9, Origin: 2}: false} {
		if c.collects(v, 10) != want {
			t.Errorf("collects %v: %v", v, !want)
		}
	}
}
