package session

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// benchmark is a sidecar whose peers answer at once.
func benchmark(b *testing.B) (*Sidecar, []causal.Message, []Result) {
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1, Caches: 1}}
	topo, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	s := New(DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1}))
	s.Open(1)
	return s, nil, nil
}

func BenchmarkGetFromCache(b *testing.B) {
	s, out, results := benchmark(b)
	rec := causal.Record{Version: causal.Version{HLC: 5, Origin: 1}, Value: causal.Value{Data: []byte("value")}}
	b.ReportAllocs()
	for i := range b.N {
		s.Do(causal.Now{}, Op{ID: uint64(i), Session: 1, Kind: OpGet, Key: "k"})
		out = s.Take(out[:0])
		g := out[0].Get()
		m := causal.GetReply{ID: g.ID, Key: g.Key, Record: rec, Status: causal.Stable, Ring: topology.NoRing,
			Hit: true}.Message(out[0].To, out[0].From)
		s.Step(causal.Now{}, &m)
		if results = s.TakeResults(results[:0]); len(results) != 1 {
			b.Fatal("the get was not answered")
		}
	}
}

func BenchmarkPut(b *testing.B) {
	s, out, results := benchmark(b)
	value := causal.Value{Data: []byte("value")}
	b.ReportAllocs()
	for i := range b.N {
		s.Do(causal.Now{}, Op{ID: uint64(i), Session: 1, Kind: OpPut, Key: "k", Value: value})
		out = s.Take(out[:0])
		v := causal.Version{HLC: causal.HLC(i + 1), Origin: 1}
		m := causal.PutReply{ID: out[0].Put().ID, Session: 1, Version: v}.Message(out[0].To, out[0].From)
		s.Step(causal.Now{}, &m)
		m = causal.Complete{Session: 1, Versions: []causal.Version{v}}.Message(out[0].To, out[0].From)
		s.Step(causal.Now{}, &m)
		if results = s.TakeResults(results[:0]); len(results) != 1 {
			b.Fatal("the put was not answered")
		}
	}
}

func BenchmarkMGet(b *testing.B) {
	s, out, results := benchmark(b)
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	rec := causal.Record{Version: causal.Version{HLC: 5, Origin: 1}, Value: causal.Value{Data: []byte("value")}}
	b.ReportAllocs()
	for i := range b.N {
		s.Do(causal.Now{}, Op{ID: uint64(i), Session: 1, Kind: OpMGet, Keys: keys})
		for range 2 {
			out = s.Take(out[:0])
			for j := range out {
				g := out[j].Get()
				m := causal.GetReply{ID: g.ID, Key: g.Key, Record: rec, Status: causal.Stable,
					VersionOnly: g.VersionOnly}.Message(out[j].To, out[j].From)
				s.Step(causal.Now{}, &m)
			}
		}
		if results = s.TakeResults(results[:0]); len(results) != 1 {
			b.Fatal("the transaction was not answered")
		}
		if i%64 == 0 {
			s.Tick(causal.Now{})
			out = s.Take(out[:0])
		}
	}
}
