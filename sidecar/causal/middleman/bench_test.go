package middleman_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/topology"
)

var (
	self        = topology.Node{Part: topology.Middleman}
	coordinator = topology.Node{Part: topology.Coordinator}
	sidecar     = topology.Node{Part: topology.Sidecar, Index: 1}
	cache       = topology.Node{Part: topology.Cache}
)

// bench drives a middleman whose storage answers at once.
type bench struct {
	m       *middleman.Middleman
	topo    *topology.Topology
	now     causal.Now
	records map[string]causal.Record
	ops     []middleman.StorageOp
	msgs    []causal.Message
}

func newBench(b *testing.B) *bench {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Caches: 1, Shards: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	config := middleman.DefaultConfig(topo, self)
	config.Incarnation, config.Fresh, config.Lease = 1, true, time.Hour
	x := &bench{topo: topo, now: causal.Now{Mono: 1, WallMs: 1000}, records: map[string]causal.Record{}}
	x.m = middleman.New(config, x.now)
	x.step(causal.StreamOpen{Epoch: 1, Incarnation: 1}.Message(cache, self))
	x.step(causal.LeaseRenewal{Epoch: 1}.Message(cache, self))
	return x
}

func (x *bench) step(msg causal.Message) {
	x.m.Step(x.now, &msg)
	for {
		x.msgs = x.m.Take(x.msgs[:0])
		x.ops = x.m.Ops(x.ops[:0])
		if len(x.ops) == 0 {
			return
		}
		for _, op := range x.ops {
			r := middleman.StorageResult{ID: op.ID}
			if op.Kind == middleman.StorageRead {
				r.Record, r.Found = x.records[op.Key]
			} else {
				x.records[op.Key] = op.Record
			}
			x.m.StorageDone(x.now, r)
		}
	}
}

var value = causal.Value{Data: make([]byte, 100)}

func (x *bench) put(i int, key string) {
	v := causal.Version{HLC: causal.HLC(i + 1), Origin: 1}
	x.step(causal.PutAfter{Key: key, Record: causal.Record{Version: v, Value: value}, Previous: v.HLC - 1,
		AckedUpTo: v.HLC - 1, Map: x.topo.Map(0)}.
		Message(coordinator, self))
	if i%256 == 0 {
		x.step(causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, Last: 16, SV: v.HLC}}}.Message(coordinator,
			self))
		x.now.Mono += int64(time.Second)
		x.m.Tick(x.now)
	}
}

func benchKeys() (keys [1024]string) {
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	return keys
}

func BenchmarkPutAfter(b *testing.B) {
	x, keys := newBench(b), benchKeys()
	b.ReportAllocs()
	for i := range b.N {
		x.put(i, keys[i%len(keys)])
	}
}

func BenchmarkGet(b *testing.B) {
	x, keys := newBench(b), benchKeys()
	for i, key := range keys {
		x.put(i, key)
	}
	b.ReportAllocs()
	for i := range b.N {
		x.step(causal.Get{ID: uint64(i), Key: keys[i%len(keys)]}.Message(sidecar, self))
	}
}

func BenchmarkFillAndInvalidate(b *testing.B) {
	x, keys := newBench(b), benchKeys()
	b.ReportAllocs()
	for i := range b.N {
		key := keys[i%len(keys)]
		x.step(causal.Fill{ID: uint64(i), Key: key, Epoch: 1}.Message(cache, self))
		x.put(i, key)
		for _, m := range x.msgs {
			if m.Kind == causal.KindInvalidate {
				x.step(causal.InvalidateAck{Epoch: 1, AckedSeq: m.StreamPosition().Seq}.Message(cache, self))
				break
			}
		}
	}
}
