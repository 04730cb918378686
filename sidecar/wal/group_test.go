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

// waitFor waits until the condition holds, for a bounded time.
func waitFor(t testing.TB, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true in 20 s")
		}
	}
}

func TestAllWhoWaitDuringASyncShareTheNextOne(t *testing.T) {
	inSync, goOn := make(chan struct{}), make(chan struct{})
	var gate atomic.Bool
	var writes, syncs int
	l := mustOpen(t, testDir, Options{SegmentBytes: 1 << 20, FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileWrite:
			writes++
		case errorfs.OpFileSync:
			syncs++
			if gate.CompareAndSwap(true, false) {
				close(inSync)
				<-goOn
			}
		}
		return nil
	}))})
	gate.Store(true)
	writes, syncs = 0, 0
	var wg sync.WaitGroup
	add := func() {
		if _, err := l.Append([][]byte{payloadOf(1, 300)}); err != nil {
			t.Error(err)
		}
	}
	wg.Go(add)
	<-inSync
	for range 100 {
		wg.Go(add)
	}
	waitFor(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.queue) == 100
	})
	if l.LastIndex() != 0 {
		t.Error("a record counts as durable before its sync")
	}
	close(goOn)
	wg.Wait()
	if writes != 2 || syncs != 2 {
		t.Errorf("%d writes and %d syncs for one append and then a hundred, want 2 and 2", writes, syncs)
	}
	if l.LastIndex() != 101 {
		t.Errorf("last index %d", l.LastIndex())
	}
	mustClose(t, l)
}

func TestAppendsThatWaitCountTowardsTheBound(t *testing.T) {
	inSync, goOn := make(chan struct{}), make(chan struct{})
	var gate atomic.Bool
	opts := Options{SegmentBytes: 1 << 10, MaxBytes: 4 << 10}
	opts.FS = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync && gate.CompareAndSwap(true, false) {
			close(inSync)
			<-goOn
		}
		return nil
	}))
	l := mustOpen(t, testDir, opts)
	gate.Store(true)
	var wg sync.WaitGroup
	var stored, refused atomic.Int64
	add := func() {
		_, err := l.Append([][]byte{payloadOf(1, 200)})
		switch {
		case err == nil:
			stored.Add(1)
		case errors.Is(err, ErrFull):
			refused.Add(1)
		default:
			t.Error(err)
		}
	}
	wg.Go(add)
	<-inSync
	for range 99 {
		wg.Go(add)
	}
	fit := (opts.MaxBytes - segmentHeaderSize) / recordSize(payloadOf(1, 200))
	waitFor(t, func() bool { return refused.Load() == 100-fit })
	close(goOn)
	wg.Wait()
	if stored.Load() != fit {
		t.Errorf("%d records were stored, %d fit", stored.Load(), fit)
	}
	mustClose(t, l)
}

func TestConcurrentAppendsGetDistinctConsecutiveIndicesInTheOrderOfEachCaller(t *testing.T) {
	const callers, each = 32, 60
	var l *Log
	var syncs, running atomic.Int64
	// The disk is as slow as it takes for eight others to wait, or all there are, so that no machine is too fast.
	enoughWait := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return int64(len(l.queue)) >= min(8, running.Load()-int64(len(l.group)))
	}
	fs := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync && running.Load() > 0 {
			syncs.Add(1)
			for deadline := time.Now().Add(time.Second); !enoughWait() && time.Now().Before(deadline); {
				runtime.Gosched()
			}
		}
		return nil
	}))
	dir := t.TempDir()
	opts := Options{FS: fs, SegmentBytes: 64 << 10}
	l = mustOpen(t, dir, opts)
	g := newLedger()
	running.Store(callers)
	var wg sync.WaitGroup
	for c := range uint64(callers) {
		wg.Go(func() {
			defer running.Add(-1)
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
		t.Errorf("last index %d of %d appends", l.LastIndex(), callers*each)
	}
	if n := syncs.Load(); n > callers*each/4 {
		t.Errorf("%d syncs for %d appends", n, callers*each)
	}
	mustClose(t, l)
	l = mustOpen(t, dir, opts)
	g.recovered(t, l, "reopened")
	mustClose(t, l)
}

func TestCloseWaitsForAppendsThatHaveBegun(t *testing.T) {
	for range 50 {
		fs := vfs.NewMem()
		l := mustOpen(t, testDir, smallOptions(fs))
		var done atomic.Uint64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					if _, err := l.Append([][]byte{payloadOf(1, 20)}); err != nil {
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

func TestGroupsNeverPassTheSegmentSize(t *testing.T) {
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
		t.Errorf("%d records came back of 800", n)
	}
	mustClose(t, l)
}
