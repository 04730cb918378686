//go:build unix

package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/storage"
)

func BenchmarkGet(b *testing.B) {
	s := mustOpen(b, optionsOf(mustStart(b, b.TempDir())))
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
	s := mustOpen(b, optionsOf(mustStart(b, b.TempDir())))
	ctx := testContext(b)
	writes := set("k", strings.Repeat("v", 100))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Apply(ctx, writes); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkApplyGroup applies 64 writes at a time, which share a transaction and so a sync.
func BenchmarkApplyGroup(b *testing.B) {
	const size = 64
	s := mustOpen(b, optionsOf(mustStart(b, b.TempDir())))
	ctx := testContext(b)
	writes := make([]storage.Write, size)
	for i := range writes {
		writes[i] = storage.Write{Key: fmt.Sprintf("k%d", i), Record: record(1, strings.Repeat("v", 100)),
			KeyExists: true}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += size {
		if err := s.Apply(ctx, writes); err != nil {
			b.Fatal(err)
		}
	}
}
