package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// shardModel is one shard and the network to it, in virtual time: it takes puts in the order in which they arrive, at a
// rate, and acknowledges each.
type shardModel struct {
	t            *testing.T
	topo         *topology.Topology
	coordinators []*modelCoordinator
	now          causal.Now
	oneWay       time.Duration
	perPut       time.Duration // that the shard takes; 0: none
	toShard      bool          // what goes to the shard is lost
	fromShard    bool          // what comes from the shard is lost
	silent       bool          // the shard acknowledges nothing
	incarnation  uint64
	arriving     []modelPut
	acks         []modelAck
	busyUntil    int64
	sent, again  int // put-afters, and those of puts that were sent before
	sentBytes    int
	maxQueue     int // puts that have arrived and wait
}

type modelCoordinator struct {
	c         *Coordinator
	index     uint64 // of the log
	session   uint64
	sent      map[causal.Version]int
	sentAt    map[causal.Version]int64
	completed int
	slowest   time.Duration // of all acknowledgements, since the first sending
}

type modelPut struct {
	at   int64
	from topology.Node
	v    causal.Version
}

type modelAck struct {
	at int64
	to int
	v  causal.Version
}

func newShardModel(t *testing.T, coordinators int, roundTrip, perPut time.Duration) *shardModel {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a", Coordinators: coordinators, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, [][]float64{{0}})
	if err != nil {
		t.Fatal(err)
	}
	m := &shardModel{t: t, topo: topo, now: causal.Now{Mono: 1, WallMs: 1_000_000}, oneWay: roundTrip / 2,
		perPut: perPut, incarnation: 1}
	for i := range coordinators {
		cfg := DefaultConfig(topo, topology.Node{Part: topology.Coordinator, Index: uint64(i)})
		c := New(cfg, m.now, logged([]LogRecord{{Checkpoint: &Checkpoint{State: State{Term: 1}}}}), 2) // it has joined
		m.coordinators = append(m.coordinators, &modelCoordinator{c: c, index: 1, sent: map[causal.Version]int{},
			sentAt: map[causal.Version]int64{}})
	}
	return m
}

// put accepts n puts at a coordinator.
func (m *shardModel) put(to, n int) {
	x := m.coordinators[to]
	for range n {
		x.session++
		p := causal.Put{Session: x.session, Seq: 1, Key: fmt.Sprint("key", x.session),
			Value: causal.Value{Data: make([]byte, 20)}}.Message(app, x.c.cfg.Self)
		x.c.Step(m.now, &p)
	}
	m.exchange()
}

// advance lets a time go by, in ticks of 5 ms.
func (m *shardModel) advance(d time.Duration) {
	for end := m.now.Mono + int64(d); m.now.Mono < end; {
		m.now.Mono += 5e6
		m.now.WallMs += 5
		m.deliver()
		for _, x := range m.coordinators {
			x.c.Tick(m.now)
		}
		m.exchange()
	}
}

// until advances until a condition holds, and returns how long that took.
func (m *shardModel) until(what string, holds func() bool) time.Duration {
	m.t.Helper()
	start := m.now.Mono
	for !holds() {
		if m.now.Mono-start > int64(10*time.Minute) {
			m.t.Fatalf("%s: not in ten minutes", what)
		}
		m.advance(5 * time.Millisecond)
	}
	return time.Duration(m.now.Mono - start)
}

func (m *shardModel) isComplete() bool {
	for _, x := range m.coordinators {
		if n, _ := x.c.Pending(); n > 0 {
			return false
		}
	}
	return true
}

// deliver lets the shard take what has arrived, and the coordinators get what it has acknowledged.
func (m *shardModel) deliver() {
	waiting := 0
	for len(m.arriving) > 0 && m.arriving[0].at <= m.now.Mono {
		p := m.arriving[0]
		start := max(p.at, m.busyUntil)
		if start > m.now.Mono {
			for _, p := range m.arriving {
				if p.at <= m.now.Mono {
					waiting++
				}
			}
			break
		}
		m.arriving = m.arriving[1:]
		m.busyUntil = start + int64(m.perPut)
		if !m.fromShard && !m.silent {
			m.acks = append(m.acks, modelAck{m.busyUntil + int64(m.oneWay), int(p.from.Index), p.v})
		}
	}
	m.maxQueue = max(m.maxQueue, waiting)
	versions := map[int][]causal.Version{}
	for len(m.acks) > 0 && m.acks[0].at <= m.now.Mono {
		a := m.acks[0]
		m.acks = m.acks[1:]
		if !m.fromShard {
			x := m.coordinators[a.to]
			x.slowest = max(x.slowest, time.Duration(m.now.Mono-x.sentAt[a.v]))
			x.completed++
			versions[a.to] = append(versions[a.to], a.v)
		}
	}
	for i, x := range m.coordinators {
		if len(versions[i]) > 0 {
			ack := causal.PutAck{Incarnation: m.incarnation, Versions: versions[i]}.Message(shardsA, x.c.cfg.Self)
			x.c.Step(m.now, &ack)
		}
	}
}

// exchange makes what was accepted durable, and sends the put-afters.
func (m *shardModel) exchange() {
	for _, x := range m.coordinators {
		if n := len(x.c.Appends(nil)); n > 0 {
			x.index += uint64(n)
			x.c.Appended(m.now, x.index)
		}
		for _, msg := range x.c.Take(nil) {
			if msg.Kind != causal.KindPutAfter {
				continue
			}
			p := msg.PutAfter()
			v := p.Record.Version
			m.sent++
			m.sentBytes += p.Record.Value.Size() + writeOverhead
			if x.sent[v]++; x.sent[v] > 1 {
				m.again++
			} else {
				x.sentAt[v] = m.now.Mono
			}
			if !m.toShard {
				m.arriving = append(m.arriving, modelPut{m.now.Mono + int64(m.oneWay), msg.From, v})
			}
		}
	}
}

// cut loses what is on its way, and everything that is sent from now on.
func (m *shardModel) cut() {
	m.toShard, m.fromShard, m.arriving, m.acks = true, true, nil, nil
}

func (m *shardModel) heal() { m.toShard, m.fromShard = false, false }
