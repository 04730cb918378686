package wal

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// waitFor waits until condition returns true, for a bounded time.
func waitFor(t testing.TB, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("timed out after 20 s")
		}
	}
}

func TestAppendOfManyRecordsIsOneWriteAndOneSync(t *testing.T) {
	var l *Log
	var writes, syncs int
	var duringSync uint64
	l = mustOpen(t, testDir, Options{SegmentBytes: 1 << 20,
		FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			switch op.Kind {
			case errorfs.OpFileWrite:
				writes++
			case errorfs.OpFileSyncData:
				syncs++
				if l != nil {
					duringSync = l.LastIndex()
				}
			}
			return nil
		}))})
	writes, syncs = 0, 0
	var payloads [][]byte
	for id := range uint64(100) {
		payloads = append(payloads, payloadOf(id, 300))
	}
	for round := range uint64(2) {
		last, err := l.Append(payloads)
		if err != nil || last != 100*(round+1) {
			t.Fatalf("append: %d, %v", last, err)
		}
		if duringSync != 100*round {
			t.Errorf("last index %d during the sync of the records after %d", duringSync, 100*round)
		}
	}
	if writes != 2 || syncs != 2 {
		t.Errorf("%d writes and %d syncs for two appends, want 2 and 2", writes, syncs)
	}
	mustClose(t, l)
}

func TestConcurrentAppendsNeverExceedTheLimit(t *testing.T) {
	opts := Options{FS: vfs.NewMem(), SegmentBytes: 1 << 10, MaxBytes: 4 << 10}
	l := mustOpen(t, testDir, opts)
	var wg sync.WaitGroup
	var stored, refused atomic.Int64
	for range 100 {
		wg.Go(func() {
			_, err := l.Append([][]byte{payloadOf(1, 200)})
			switch {
			case err == nil:
				stored.Add(1)
			case errors.Is(err, ErrFull):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	headers := int64(len(segmentsOf(t, opts.FS))) * segmentHeaderSize
	if l.Bytes()-headers > opts.MaxBytes || l.Bytes() != headers+stored.Load()*recordSize(payloadOf(1, 200)) {
		t.Errorf("%d bytes with %d records, %d of them headers; the limit is %d", l.Bytes(), stored.Load(), headers,
			opts.MaxBytes)
	}
	if l.Bytes()+recordSize(payloadOf(1, 200)) <= opts.MaxBytes {
		t.Errorf("appends were refused with %d bytes of at most %d in use", l.Bytes(), opts.MaxBytes)
	}
	if stored.Load() == 0 || refused.Load() == 0 || l.LastIndex() != uint64(stored.Load()) {
		t.Errorf("%d appends succeeded and %d were refused, the last index is %d", stored.Load(), refused.Load(),
			l.LastIndex())
	}
	mustClose(t, l)
}

func TestConcurrentAppendsGetConsecutiveIndicesInTheOrderOfEachCaller(t *testing.T) {
	const callers, each = 32, 60
	dir := t.TempDir()
	opts := Options{SegmentBytes: 64 << 10}
	l := mustOpen(t, dir, opts)
	g := newLedger()
	var wg sync.WaitGroup
	for c := range uint64(callers) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(c, 6))
			before := uint64(0)
			for i := range uint64(each) {
				id := c<<32 | i
				g.try([]uint64{id})
				last, err := l.Append([][]byte{payloadOf(id, r.IntN(400))})
				if err != nil {
					t.Error(err)
					return
				}
				if last <= before {
					t.Errorf("index %d after %d", last, before)
				}
				before = last
				g.acknowledge(t, last, []uint64{id})
			}
		})
	}
	wg.Wait()
	if l.LastIndex() != callers*each {
		t.Errorf("last index %d after %d appends", l.LastIndex(), callers*each)
	}
	mustClose(t, l)
	l = mustOpen(t, dir, opts)
	g.checkRecovered(t, l, "reopened")
	mustClose(t, l)
}

func TestCloseWaitsForTheAppendUnderWay(t *testing.T) {
	for range 50 {
		fs := vfs.NewMem()
		l := mustOpen(t, testDir, smallOptions(fs))
		var done atomic.Uint64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					if _, err := l.Append([][]byte{payloadOf(1, 20)}); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
					done.Add(1)
				}
			})
		}
		wg.Go(func() {
			for l.TruncateBefore(1) == nil {
				runtime.Gosched()
			}
		})
		waitFor(t, func() bool { return done.Load() > 20 })
		mustClose(t, l)
		wg.Wait()
		l = mustOpen(t, testDir, smallOptions(fs))
		if l.LastIndex() != done.Load() {
			t.Fatalf("%d appends were acknowledged, the log has %d", done.Load(), l.LastIndex())
		}
		mustClose(t, l)
	}
}

func TestSegmentsNeverExceedTheSegmentSize(t *testing.T) {
	fs := vfs.NewMem()
	opts := Options{FS: fs, SegmentBytes: 2 << 10, MaxBytes: 8 << 20}
	l := mustOpen(t, testDir, opts)
	var wg sync.WaitGroup
	for c := range uint64(16) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(c, 7))
			for range 50 {
				if _, err := l.Append([][]byte{payloadOf(c, r.IntN(1500))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	for _, first := range segmentsOf(t, fs) {
		if n := len(contentOf(t, fs, first)); n > 2<<10 {
			t.Errorf("segment %d has %d bytes", first, n)
		}
	}
	l = mustOpen(t, testDir, opts)
	if n := len(replayed(t, l)); n != 800 {
		t.Errorf("%d of 800 records were replayed", n)
	}
	mustClose(t, l)
}
