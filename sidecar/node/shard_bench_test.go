package node

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// BenchmarkApply measures Apply of 64 writes of 100 bytes, on embedded stores and logs on disk: directly, and through a
// group. Wait for the disks of one machine, which the members share here, is included.
func BenchmarkApply(b *testing.B) {
	const batch = 64
	onDisk := func(int) beside {
		dir := b.TempDir()
		return beside{disk: vfs.Default, dir: b.TempDir(), open: func() (storage.Store, error) {
			return openEmbedded(dir, vfs.Default)
		}}
	}
	run := func(b *testing.B, s storage.Store) {
		writes := make([]storage.Write, batch)
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			for i := range writes {
				n++
				writes[i] = storage.Write{Key: fmt.Sprintf("key %d", n%100_000), KeyExists: n > 100_000,
					Record: causal.Record{Version: causal.Version{HLC: causal.HLC(n), Origin: 1},
						Value: causal.Value{Data: make([]byte, 100)}}}
			}
			if err := s.Apply(b.Context(), writes); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "writes/s")
	}
	b.Run("direct", func(b *testing.B) {
		s, err := onDisk(0).open()
		if err != nil {
			b.Fatal(err)
		}
		run(b, s)
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	for _, n := range []int{1, 2, 3} {
		b.Run(fmt.Sprintf("%d members", n), func(b *testing.B) {
			r := newShardRig(b, n, onDisk)
			run(b, &proposingStore{member: r.members()[r.primary()]})
		})
	}
}

// proposingStore proposes changes to a group, and waits until the storage beside the primary has them.
type proposingStore struct {
	storage.Store
	member *rigMember
}

func (s *proposingStore) Apply(_ context.Context, writes []storage.Write, _ ...storage.Meta) (err error) {
	s.member.host.step(func(now causal.Now, m *process.Member) {
		_, err = m.Propose(now, member.Change{Writes: slices.Clone(writes)})
	})
	for settled := err != nil; !settled; {
		runtime.Gosched()
		s.member.host.Inspect(func(m *process.Member) { settled = m.IsSettled() })
	}
	return err
}
