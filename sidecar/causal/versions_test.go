package causal

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

func oneShard(t testing.TB) *topology.Topology {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, [][]float64{{0}})
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// rig is a cache and its middleman, joined by a perfect network and a storage in memory.
type rig struct {
	t     testing.TB
	now   Now
	topo  *topology.Topology
	c     *Cache
	m     *Middleman
	store map[string]Record
	got   []Message // replies to the sidecar
	fills int
	acks  int
	out   map[Kind]int
}

var (
	nSide  = topology.Node{DC: 0, Part: topology.Sidecar, Index: 1}
	nCC    = topology.Node{DC: 0, Part: topology.Coordinator}
	nMM    = topology.Node{DC: 0, Part: topology.Middleman}
	nCache = topology.Node{DC: 0, Part: topology.Cache}
)

func newRig(t testing.TB) *rig {
	topo := oneShard(t)
	r := &rig{t: t, topo: topo, store: map[string]Record{}, now: Now{Mono: 1, WallMs: 1000}, out: map[Kind]int{}}
	r.c = NewCache(DefaultCacheConfig(topo, nCache))
	cfg := DefaultMiddlemanConfig(topo, nMM)
	cfg.Incarnation, cfg.Fresh = 1, true
	r.m = NewMiddleman(cfg, r.now)
	r.pump()
	return r
}

func (r *rig) pump() {
	for {
		msgs := r.c.Take(nil)
		msgs = r.m.Take(msgs)
		ops := r.m.Ops(nil)
		if len(msgs) == 0 && len(ops) == 0 {
			return
		}
		for _, op := range ops {
			res := StorageResult{ID: op.ID}
			switch op.Kind {
			case StorageRead:
				res.Record, res.Found = r.store[op.Key]
			case StorageWrite:
				r.store[op.Key] = op.Record
			case StorageDelete:
				delete(r.store, op.Key)
			}
			r.m.StorageDone(r.now, res)
		}
		for i := range msgs {
			m := &msgs[i]
			r.out[m.Kind]++
			switch m.To {
			case nCache:
				r.c.Step(r.now, m)
			case nMM:
				if m.Kind == KindFill {
					r.fills++
				}
				r.m.Step(r.now, m)
			case nSide:
				r.got = append(r.got, *m)
			}
		}
	}
}

func (r *rig) tick(d time.Duration) {
	r.now.Mono += int64(d)
	r.now.WallMs += d.Milliseconds()
	r.c.Tick(r.now)
	r.m.Tick(r.now)
	r.pump()
}

// put writes and completes.
func (r *rig) put(key string, h HLC, complete bool) {
	r.m.Step(r.now, &Message{Kind: KindPutAfter, From: nCC, To: nMM, Map: r.topo.Map(0), Key: key, Record: Record{Version{h, 1}, Value{Data: []byte("0123456789")}}})
	r.pump()
	if complete {
		r.sv(h)
	}
}

func (r *rig) sv(h HLC) {
	r.m.Step(r.now, &Message{Kind: KindVectors, From: nCC, To: nMM, Vectors: []VectorEntry{{Origin: 1, SV: h}}})
	r.pump()
}

func (r *rig) get(m Message) Message {
	m.Kind, m.From, m.To, m.ID = KindGet, nSide, nCache, 7
	r.got = nil
	r.c.Step(r.now, &m)
	r.pump()
	if len(r.got) != 1 {
		r.t.Fatalf("%d answers", len(r.got))
	}
	return r.got[0]
}

func TestACacheWithoutReadersAtCutsKeepsOneVersion(t *testing.T) {
	r := newRig(t)
	r.get(Message{Key: "x"})
	for i := 1; i <= 10_000; i++ {
		r.put("x", HLCAt(int64(1000+i)), true)
		r.get(Message{Key: "x"})
		if i%100 == 0 {
			r.tick(10 * time.Millisecond)
		}
	}
	n, after := r.c.Size()
	if n > 1 || after > 2000 {
		t.Errorf("%d entries of %d bytes for one key", n, after)
	}
}

func TestACacheWithoutReadersAtCutsDropsWhatIsInvalidated(t *testing.T) {
	r := newRig(t)
	r.get(Message{Key: "warm"})
	for i := range 1000 {
		r.get(Message{Key: fmt.Sprint("k", i)})
	}
	for i := range 1000 {
		r.put(fmt.Sprint("k", i), HLCAt(int64(2000+i)), true)
	}
	n, _ := r.c.Size()
	if n > 500 {
		t.Errorf("%d useless copies still count", n)
	}
}

func TestTheHistoryKeepsItsBoundWhileSVStands(t *testing.T) {
	var h history
	h.init(1 << 16)
	for i := 1; i <= 200_000; i++ {
		h.overwritten("x", Record{Version{HLC(i), 1}, Value{}}, Version{HLC(i + 1), 1})
	}
	if len(h.order) > 10_000 {
		t.Errorf("order has %d refs to %d versions", len(h.order), h.bytes/historyOverhead)
	}
}

// The former read before a modification.
func TestReadersOfTheNewestLeaveTheCopyOfTheCut(t *testing.T) {
	r := newRig(t)
	r.put("x", HLCAt(1000), true)
	cut := HLCAt(1000)
	r.get(Message{Key: "x", Older: true, Cut: cut})
	hits := 0
	for i := 1; i <= 50; i++ {
		r.put("x", HLCAt(int64(1000+10*i)), true)
		r.get(Message{Key: "x"}) // of INCR
		for range 10 {
			if r.get(Message{Key: "x", Older: true, Cut: cut}).Hit {
				hits++
			}
		}
	}
	if hits < 450 {
		t.Errorf("%d of 500 reads at one cut were hits", hits)
	}
}

func TestAForeignValueIsNotRememberedAsAnOlderVersion(t *testing.T) {
	r := newRig(t)
	r.put("x", HLCAt(1000), true)
	// somebody writes past the middleman; then a proper write
	r.m.Step(r.now, &Message{Kind: KindPutAfter, From: nCC, To: nMM, Map: r.topo.Map(0), Key: "x", Record: Record{Version{HLCAt(2000), 1}, Value{}}})
	for _, o := range r.m.Ops(nil) {
		r.m.StorageDone(r.now, StorageResult{ID: o.ID, Found: true, Foreign: true, Record: Record{Value: Value{Data: []byte("foreign")}}})
	}
	r.pump()
	a := r.get(Message{Key: "x", Older: true, Cut: HLCAt(1500)})
	if string(a.Record.Value.Data) == "foreign" && a.Status == Stable {
		t.Error("a foreign value is stable and cached")
	}
}

// A lane that is never idle sends again what was sent a moment ago.
func TestABusyLaneDoesNotSendAgainWhatIsNotLate(t *testing.T) {
	topo := oneShard(t)
	c := NewCoordinator(DefaultCoordinatorConfig(topo, nCC), Now{Mono: 1, WallMs: 1000}, nil, 1)
	type ack struct {
		at int64
		v  Version
	}
	var acks []ack
	sent, again := map[Version]int{}, 0
	var index uint64
	for i := range 10_000 { // a put a millisecond, answered after 200 ms
		now := Now{Mono: int64(i) * 1e6, WallMs: 1000 + int64(i)}
		c.Step(now, &Message{Kind: KindPut, From: nSide, To: nCC, Session: uint64(i), Seq: 1, Key: fmt.Sprint(i)})
		for len(acks) > 0 && acks[0].at <= now.Mono {
			c.Step(now, &Message{Kind: KindPutAck, From: nMM, To: nCC, Epoch: 1, Versions: []Version{acks[0].v}})
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
			if m.Kind == KindPutAfter {
				if sent[m.Record.Version]++; sent[m.Record.Version] > 1 {
					again++
				} else {
					acks = append(acks, ack{now.Mono + 200e6, m.Record.Version})
				}
			}
		}
	}
	if again > 0 {
		t.Errorf("%d of %d puts were sent again", again, len(sent))
	}
}
