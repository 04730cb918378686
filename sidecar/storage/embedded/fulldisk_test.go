package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// fillable is a file system on which everything that needs space fails while full is set.
func fillable(full *atomic.Bool, refused *atomic.Int64) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpReuseForWrite:
			if full.Load() {
				refused.Add(1)
				return syscall.ENOSPC
			}
		}
		return nil
	}))
}

func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWritesWaitWhileTheDiskIsFullAndReadsAreServed(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	var reported atomic.Bool
	s, err := Open("store", Options{FS: fillable(&full, &refused), Logger: slog.New(slog.DiscardHandler),
		MemTableBytes: 64 << 10,
		OnFull:        func(err error) { reported.Store(errors.Is(err, storage.ErrFull)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	write := func(n uint64) error {
		value := strings.Repeat("x", 4000)
		return s.Apply(ctx, []storage.Write{{Key: fmt.Sprint("k", n), Record: record(int(n), value)}})
	}
	if err := write(1); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	done := make(chan error, 1)
	go func() {
		for n := uint64(2); n < 60; n++ { // more than a memtable, so that one is flushed, too
			if err := write(n); err != nil {
				done <- fmt.Errorf("write %d: %w", n, err)
				return
			}
		}
		done <- nil
	}()
	waitFor(t, "the store to report that it is full", func() bool {
		return errors.Is(s.Ping(ctx), storage.ErrFull) && reported.Load()
	})
	if _, found, err := s.Get(ctx, "k1"); !found || err != nil {
		t.Errorf("a read on a full disk: %v, %v", found, err)
	}
	attempts := refused.Load()
	waitFor(t, "further attempts", func() bool { return refused.Load() > attempts+3 })
	select {
	case err := <-done:
		t.Fatalf("the writes ended on a full disk: %v", err)
	default:
	}
	full.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the store to be well again", func() bool { return s.Ping(ctx) == nil })
}

func TestAFullDiskDoesNotKeepAStoreFromStopping(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	stop := make(chan struct{})
	s, err := Open("store", Options{FS: fillable(&full, &refused), Logger: slog.New(slog.DiscardHandler), Stop: stop})
	if err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	done := make(chan error, 1)
	go func() { done <- s.Apply(ctx, []storage.Write{{Key: "k", Record: record(1, "v")}}) }()
	waitFor(t, "the write to wait", func() bool { return refused.Load() > 2 })
	close(stop)
	if err := <-done; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the write ended with %v", err)
	}
	full.Store(false)
	_ = s.Close() // the store has failed
}

// A flush that waited for space with an incomplete file would keep that space.
func TestAFullDiskFailsTablesAndFilesOfValuesAndNothingElse(t *testing.T) {
	var full atomic.Bool
	var refused atomic.Int64
	d := newFullDisk(Options{FS: fillable(&full, &refused), Logger: slog.New(slog.DiscardHandler)})
	for name, fails := range map[string]bool{"000004.sst": true, "000005.blob": true, "000006.log": false,
		"MANIFEST-000001": false} {
		full.Store(true)
		done := make(chan error, 1)
		attempts := refused.Load()
		go func() {
			_, err := d.Create(name, vfs.WriteCategoryUnspecified)
			done <- err
		}()
		if !fails {
			waitFor(t, "further attempts", func() bool { return refused.Load() > attempts+1 })
			full.Store(false)
		}
		if err := <-done; (err != nil) != fails {
			t.Errorf("creating %s on a full disk: %v", name, err)
		}
	}
}
