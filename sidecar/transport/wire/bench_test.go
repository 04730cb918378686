package wire

import (
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

func typical() map[string]causal.Message {
	from, to := topology.Node{Part: topology.Coordinator, DC: 1, Index: 0},
		topology.Node{Part: topology.Middleman, DC: 6, Index: 3}
	v := causal.Version{HLC: causal.HLCAt(1_760_000_000_000) + 3, Origin: 12}
	deps := causal.NewDepList(2)
	deps.AddWrite(causal.Dep{Version: v, Slot: 77})
	deps.AddWrite(causal.Dep{Version: v, Slot: 78})
	return map[string]causal.Message{
		"get": causal.Get{ID: 123456, Key: "user:81273:cart"}.Message(from, to),
		"put-after": causal.PutAfter{Key: "user:81273:cart",
			Record: causal.Record{Version: v, Value: causal.Value{Data: make([]byte, 128)}},
			Deps:   deps}.Message(from, to),
		"put-ack": causal.PutAck{Versions: []causal.Version{v, v, v, v, v, v, v, v}}.Message(from, to),
	}
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
			buf = appendBatch(buf[:0], msgs)
		}
		b.ReportMetric(float64(len(buf))/64, "bytes/msg")
	})
	b.Run("decode", func(b *testing.B) {
		buf := appendBatch(nil, msgs)
		var got []causal.Message
		var err error
		b.ReportAllocs()
		for b.Loop() {
			if got, _, err = DecodeFrame(buf, got[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestFrequentMessagesAllocateTheirContentOnly: what is done to each message before it is sent, and after it was
// received, allocates nothing but what the message keeps. A process handles most messages by themselves in a frame.
func TestFrequentMessagesAllocateTheirContentOnly(t *testing.T) {
	content := map[string]float64{"get": 1, "put-after": 3, "put-ack": 1}
	for name, m := range typical() {
		buf := Append(nil, &m)
		frame := appendBatch(nil, []causal.Message{m})
		var into []causal.Message
		var err error
		for what, got := range map[string]float64{
			"check": testing.AllocsPerRun(100, func() { err = Check(&m) }),
			"append": testing.AllocsPerRun(100, func() {
				buf = Append(buf[:0], &m)
			}),
			"decode": testing.AllocsPerRun(100, func() {
				if into, _, err = DecodeFrame(frame, into[:0]); err != nil || len(into) != 1 {
					t.Fatal(len(into), err)
				}
			}),
		} {
			want := 0.0
			if what == "decode" {
				want = content[name]
			}
			if err != nil || got > want {
				t.Errorf("%s of %s: %v allocations, want %v (error %v)", what, name, got, want, err)
			}
		}
	}
}
