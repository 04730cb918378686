package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// Histories as they come: small ones by the thousand from a simulator, and a big one from a real deployment.

func BenchmarkManySmallHistories(b *testing.B) {
	for _, versions := range []bool{true, false} {
		b.Run(fmt.Sprintf("versions=%v", versions), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			h := newModel(r, 3, versions).run(400, 8, 1, 16)
			var c Checker
			b.ReportAllocs()
			for b.Loop() {
				if report := c.Check(h, Options{}); !report.OK() {
					b.Fatal(report)
				}
			}
		})
	}
}

func BenchmarkBigHistory(b *testing.B) {
	for _, c := range []struct {
		sessions, procs int
		versions        bool
	}{{24, 1, true}, {200, 1, true}, {6, 33, true}, {24, 1, false}, {200, 1, false}, {6, 33, false}} {
		b.Run(fmt.Sprintf("sessions=%d/processes=%d/versions=%v", c.sessions, c.sessions*c.procs, c.versions),
			func(b *testing.B) {
				h := newModel(rand.New(rand.NewPCG(1, 1)), 3, c.versions).run(500_000, c.sessions, c.procs, 3000)
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				for b.Loop() {
					report := Check(h, Options{})
					if !report.OK() {
						b.Fatal(report)
					}
				}
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/(1<<20), "MB/op")
			})
	}
}

func BenchmarkJSONLines(b *testing.B) {
	h := newModel(rand.New(rand.NewPCG(1, 1)), 3, true).run(10_000, 24, 1, 100)
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for i := range h {
		if err := w.Write(&h[i]); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		var line []byte
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			line, _ = AppendJSON(line[:0], &h[i%len(h)])
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ReadAll(bytes.NewReader(buf.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(h)), "ns/line")
	})
}
