package embedded

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

func benchStore(b *testing.B, opts Options, dir string) (*Store, []string) {
	s := mustOpen(b, dir, opts)
	keys := make([]string, 1000)
	writes := make([]storage.Write, len(keys))
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
		writes[i] = storage.Write{Key: keys[i], Record: record(i, strings.Repeat("v", 100))}
	}
	if err := s.Apply(ctx, writes); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	return s, keys
}

func BenchmarkGet(b *testing.B) {
	s, keys := benchStore(b, Options{FS: vfs.NewMem()}, "store")
	for i := range b.N {
		if _, found, err := s.Get(ctx, keys[i%len(keys)]); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkGetMissing(b *testing.B) {
	s, _ := benchStore(b, Options{FS: vfs.NewMem()}, "store")
	for range b.N {
		if _, found, err := s.Get(ctx, "missing"); found || err != nil {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	for _, on := range []struct {
		name string
		dir  func(b *testing.B) string
		opts Options
	}{
		{"memory", func(*testing.B) string { return "store" }, Options{FS: vfs.NewMem()}},
		{"disk", func(b *testing.B) string { return b.TempDir() }, Options{}},
	} {
		b.Run(on.name, func(b *testing.B) {
			s, keys := benchStore(b, on.opts, on.dir(b))
			writes := []storage.Write{{Record: record(1, strings.Repeat("w", 100)), KeyExists: true}}
			for i := range b.N {
				writes[0].Key = keys[i%len(keys)]
				if err := s.Apply(ctx, writes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApplyTogether measures overlapping Applies, which share a sync.
func BenchmarkApplyTogether(b *testing.B) {
	s, keys := benchStore(b, Options{}, b.TempDir())
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		writes := []storage.Write{{Record: record(1, strings.Repeat("w", 100)), KeyExists: true}}
		for i := 0; pb.Next(); i++ {
			writes[0].Key = keys[i%len(keys)]
			if err := s.Apply(ctx, writes); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkGetBesideALargeValue reads the keys before the greatest value: with values in files of their own, and in the
// table.
func BenchmarkGetBesideALargeValue(b *testing.B) {
	for _, at := range []struct {
		name         string
		separateFrom int
	}{{"separated", 0}, {"in the table", 1 << 30}} {
		b.Run(at.name, func(b *testing.B) {
			s, small := withLargeValue(b, b.TempDir(), Options{separateFrom: at.separateFrom}, causal.MaxValueBytes)
			for b.Loop() {
				readNeighbors(b, s, small)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/2000gets")
		})
	}
}

// BenchmarkApplyGroup overwrites random keys of a store larger than its memtables, in groups as the middleman applies
// them.
func BenchmarkApplyGroup(b *testing.B) {
	const keys = 100_000
	for _, size := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("writes=%d", size), func(b *testing.B) {
			s := mustOpen(b, "store", Options{FS: vfs.NewMem()})
			var fill []storage.Write
			for i := range keys {
				fill = append(fill, storage.Write{Key: fmt.Sprintf("user:%d", i),
					Record: record(i, strings.Repeat("v", 100))})
				if len(fill) == 1000 {
					if err := s.Apply(ctx, fill); err != nil {
						b.Fatal(err)
					}
					fill = fill[:0]
				}
			}
			rng := rand.New(rand.NewPCG(1, 2))
			writes := make([]storage.Write, size)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += size {
				for i := range writes {
					writes[i] = storage.Write{Key: fmt.Sprintf("user:%d", rng.IntN(keys)),
						Record: record(1, strings.Repeat("w", 100)), KeyExists: true}
				}
				if err := s.Apply(ctx, writes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
