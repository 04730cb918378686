package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// replayed returns a coordinator of one ring with one shard, restarted with n puts in its log.
func replayed(t *testing.T, n int, change func(*Config)) *Coordinator {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig(topo, topology.Node{Part: topology.Coordinator})
	change(&cfg)
	var log []LogRecord
	for i := range n {
		log = append(log,
			LogRecord{Write: LoggedWrite{Key: "k",
				Record: causal.Record{Version: causal.Version{HLC: causal.HLC(i + 1), Origin: 1}}}})
	}
	log = append(log, LogRecord{Checkpoint: &Checkpoint{}}) // its log is not new
	return New(cfg, causal.Now{}, logged(log), uint64(n)+2)
}

// putsSent returns the HLCs of the put-afters among the messages.
func putsSent(c *Coordinator) (hlcs []causal.HLC) {
	for _, m := range c.Take(nil) {
		if m.Kind == causal.KindPutAfter {
			hlcs = append(hlcs, m.PutAfter().Record.Version.HLC)
		}
	}
	return hlcs
}

// A late acknowledgement of a put that an earlier life sent must not be counted for one that this life has sent: the
// lane would take itself for idle, and a lost put would never be sent again.
func TestAnAcknowledgementOfAPutThatWasNotSentAgainYetKeepsTheLaneGoing(t *testing.T) {
	c := replayed(t, 3, func(cfg *Config) { cfg.Window = 1 })
	c.Tick(causal.Now{})
	if got := putsSent(c); len(got) != 1 || got[0] != 1 {
		t.Fatalf("sent %v; want the first", got)
	}
	ack := func(now causal.Now, hlc causal.HLC) {
		m := causal.PutAck{Incarnation: 1, Versions: []causal.Version{{HLC: hlc, Origin: 1}}}.Message(
			topology.Node{Part: topology.Middleman}, c.cfg.Self)
		c.Step(now, &m)
	}
	ack(causal.Now{}, 2) // of what the life before this one had sent
	if got := putsSent(c); len(got) != 0 {
		t.Fatalf("sent %v; the window is full with the first", got)
	}
	later := causal.Now{Mono: int64(time.Minute)}
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

func oneShard(t testing.TB) *topology.Topology {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, [][]float64{{0}})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// A lane that is never idle sends again what was sent a moment ago.
func TestABusyLaneDoesNotSendAgainWhatIsNotLate(t *testing.T) {
	topo := oneShard(t)
	nSide, nCC, nMM := topology.Node{Part: topology.Sidecar, Index: 1}, topology.Node{Part: topology.Coordinator},
		topology.Node{Part: topology.Middleman}
	c := New(DefaultConfig(topo, nCC), causal.Now{Mono: 1, WallMs: 1000}, nil, 1)
	type ack struct {
		at int64
		v  causal.Version
	}
	var acks []ack
	sent, again := map[causal.Version]int{}, 0
	var index uint64
	for i := range 10_000 { // a put a millisecond, answered after 200 ms
		now := causal.Now{Mono: int64(i) * 1e6, WallMs: 1000 + int64(i)}
		put := causal.Put{Session: uint64(i), Seq: 1, Key: fmt.Sprint(i)}.Message(nSide, nCC)
		c.Step(now, &put)
		for len(acks) > 0 && acks[0].at <= now.Mono {
			m := causal.PutAck{Incarnation: 1, Versions: []causal.Version{acks[0].v}}.Message(nMM, nCC)
			c.Step(now, &m)
			acks = acks[1:]
		}
		if i%10 == 0 {
			c.Tick(now)
		}
		if n := len(c.Appends(nil)); n > 0 {
			index += uint64(n)
			c.Appended(now, index)
		}
		for _, m := range c.Take(nil) {
			if m.Kind == causal.KindPutAfter {
				v := m.PutAfter().Record.Version
				if sent[v]++; sent[v] > 1 {
					again++
				} else {
					acks = append(acks, ack{now.Mono + 200e6, v})
				}
			}
		}
	}
	if again > 0 {
		t.Errorf("%d of %d puts were sent again", again, len(sent))
	}
}
