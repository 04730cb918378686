package wal

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// BenchmarkAppend appends records of 300 bytes to the real disk, and truncates behind them. CAUSALSTORE_BENCH_DIR
// selects the disk; the default is that of the temporary directory.
func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			dir, err := os.MkdirTemp(os.Getenv("CAUSALSTORE_BENCH_DIR"), "wal-bench")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			var syncs atomic.Int64
			benchmarkAppend(b, dir, countSyncs(vfs.Default, &syncs), records)
			b.ReportMetric(float64(syncs.Load())/float64(b.N), "fsyncs/record")
		})
	}
}

// BenchmarkAppendInMemory measures the log itself, without a disk.
func BenchmarkAppendInMemory(b *testing.B) {
	for _, records := range []int{1, 64} {
		b.Run(fmt.Sprintf("records=%d", records), func(b *testing.B) {
			benchmarkAppend(b, testDir, vfs.NewMem(), records)
		})
	}
}

// benchmarkAppend appends b.N records, so many to an append.
func benchmarkAppend(b *testing.B, dir string, fs vfs.FS, records int) {
	l := mustOpen(b, dir, Options{FS: fs})
	payloads := make([][]byte, records)
	for i := range payloads {
		payloads[i] = payloadOf(1, 300)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += records {
		last, err := l.Append(payloads)
		if err == nil && n%4096 == 0 {
			err = l.TruncateBefore(last)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	mustClose(b, l)
}

// countSyncs counts the syncs of files on fs.
func countSyncs(fs vfs.FS, syncs *atomic.Int64) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			syncs.Add(1)
		}
		return nil
	}))
}

// BenchmarkOpen verifies and replays a log of 64 MiB.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := mustOpen(b, dir, Options{})
	batch := make([][]byte, 1000)
	for i := range batch {
		batch[i] = payloadOf(uint64(i), 300)
	}
	for l.Bytes() < 64<<20 {
		if _, err := l.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(l.Bytes())
	mustClose(b, l)
	for b.Loop() {
		l := mustOpen(b, dir, Options{})
		if err := l.Replay(func(uint64, []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
		mustClose(b, l)
	}
}
