package wire

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/topology"
)

var route = causal.Message{
	From: topology.Node{Part: topology.Coordinator, DC: 1, Index: 0},
	To:   topology.Node{Part: topology.Middleman, DC: 6, Index: 3},
}

func typical() map[string]causal.Message {
	v := causal.Version{HLC: causal.HLCAt(1_760_000_000_000) + 3, Origin: 12}
	get, put, ack := route, route, route
	get.Kind, get.ID, get.Key = causal.KindGet, 123456, "user:81273:cart"
	put.Kind, put.Key, put.Record = causal.KindPutAfter, "user:81273:cart", causal.Record{Version: v, Value: causal.Value{Data: make([]byte, 128)}}
	put.Deps = []causal.Dep{{Version: v, Slot: 77}, {Version: v, Slot: 78}}
	ack.Kind, ack.Versions = causal.KindPutAck, []causal.Version{v, v, v, v, v, v, v, v}
	return map[string]causal.Message{"get": get, "put-after": put, "put-ack": ack}
}

func BenchmarkAppend(b *testing.B) {
	for name, m := range typical() {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				buf = Append(buf[:0], &m)
			}
			b.ReportMetric(float64(len(buf)), "bytes/msg")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, m := range typical() {
		b.Run(name, func(b *testing.B) {
			buf := Append(nil, &m)
			var got causal.Message
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(buf, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBatchOf64(b *testing.B) {
	var msgs []causal.Message
	for len(msgs) < 64 {
		for _, m := range typical() {
			msgs = append(msgs, m)
		}
	}
	msgs = msgs[:64]
	b.Run("append", func(b *testing.B) {
		buf := make([]byte, 0, 64<<10)
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendBatch(buf[:0], msgs)
		}
		b.ReportMetric(float64(len(buf))/64, "bytes/msg")
	})
	b.Run("decode", func(b *testing.B) {
		buf := AppendBatch(nil, msgs)
		var got []causal.Message
		var err error
		b.ReportAllocs()
		for b.Loop() {
			if got, err = DecodeBatch(buf, got[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
