//go:build unix

package redis

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/storage"
)

func BenchmarkGet(b *testing.B) {
	s := mustOpen(b, mustSpawn(b, b.TempDir()).Options())
	ctx := testContext(b)
	mustApply(b, s, set("k", strings.Repeat("v", 100)))
	b.ReportAllocs()
	for b.Loop() {
		if _, found, err := s.Get(ctx, "k"); !found || err != nil {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	s := mustOpen(b, mustSpawn(b, b.TempDir()).Options())
	ctx := testContext(b)
	writes := set("k", strings.Repeat("v", 100))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Apply(ctx, writes); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApplyTogether shows that Applies that overlap share a transaction, and so a sync.
func BenchmarkApplyTogether(b *testing.B) {
	s := mustOpen(b, mustSpawn(b, b.TempDir()).Options())
	ctx := testContext(b)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		writes := []storage.Write{{Key: "k", Record: record(1, strings.Repeat("v", 100))}}
		for pb.Next() {
			if err := s.Apply(ctx, writes); err != nil {
				b.Error(err)
			}
		}
	})
}
