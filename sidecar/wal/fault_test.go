package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// failingDisk injects one error, at the n-th operation that changes the disk, and records the operations after it.
type failingDisk struct {
	mu     sync.Mutex
	n      int
	failed errorfs.Op
	fired  bool
	after  []errorfs.Op
}

func (d *failingDisk) String() string { return "one error" }

func (d *failingDisk) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite && op.Kind != errorfs.OpOpenDir {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fired {
		d.after = append(d.after, op)
		return nil
	}
	if d.n--; d.n < 0 {
		d.fired, d.failed = true, op
		return errorfs.ErrInjected
	}
	return nil
}

func TestFailedDiskOperationMakesTheLogUnusableAndLosesNothing(t *testing.T) {
	kinds := map[errorfs.OpKind]int{}
	for n := 0; ; n++ {
		r := rand.New(rand.NewPCG(uint64(n), 5))
		disk := vfs.NewCrashableMem()
		g := newLedger()
		l, err := openOn(disk)
		if err != nil {
			t.Fatal(err)
		}
		next := randomAppend(t, l, g, r, 1)
		mustClose(t, l)

		fault := &failingDisk{n: n}
		l, err = openOn(errorfs.Wrap(disk, fault))
		if err == nil {
			g.checkRecovered(t, l, "before the fault")
			usable := runUntilFault(t, l, g, r, next, fault)
			done := len(fault.after)
			if fault.fired && !usable {
				wantSticky(t, l)
			}
			if len(fault.after) != done {
				t.Fatalf("fault %d: the failed log continued with %v", n, fault.after[done:])
			}
			if err := l.Close(); err != nil && !errors.Is(err, errorfs.ErrInjected) {
				t.Fatal(err)
			}
		} else if !errors.Is(err, errorfs.ErrInjected) {
			t.Fatalf("fault %d: open: %v", n, err)
		}
		if !fault.fired {
			break
		}
		kinds[fault.failed.Kind]++
		what := fmt.Sprintf("fault %d (operation %d on %s)", n, fault.failed.Kind, fault.failed.Path)
		verifyCrash(t, disk.CrashClone(crashOf(r)), g, r, what)
		verifyCrash(t, disk, g, r, what+", without a crash")
	}
	for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync,
		errorfs.OpFileSyncData, errorfs.OpRename,
		errorfs.OpOpenDir, errorfs.OpRemove, errorfs.OpLock, errorfs.OpMkdirAll} {
		if kinds[kind] == 0 {
			t.Errorf("no fault was injected into operations of kind %d", kind)
		}
	}
}

// runUntilFault appends and truncates until the disk fails, or 40 times. The log remains usable if only a segment could
// not be removed.
func runUntilFault(t *testing.T, l *Log, g *ledger, r *rand.Rand, next uint64, fault *failingDisk) (usable bool) {
	t.Helper()
	for range 40 {
		g.try([]uint64{next})
		last, err := l.Append([][]byte{payloadOf(next, r.IntN(4000))})
		if err != nil {
			if !errors.Is(err, errorfs.ErrInjected) || last != 0 {
				t.Fatalf("append: %d, %v", last, err)
			}
			return false
		}
		g.acknowledge(t, last, []uint64{next})
		next++
		if r.IntN(6) != 0 {
			continue
		}
		g.needed = g.last
		err = l.TruncateBefore(g.needed)
		if err == nil {
			continue
		}
		if !errors.Is(err, errorfs.ErrInjected) {
			t.Fatalf("truncate: %v", err)
		}
		if fault.failed.Kind != errorfs.OpRemove && fault.failed.Kind != errorfs.OpRename {
			return false
		}
		// The file that could not be removed or renamed is still there.
		usable = true
		if err := l.TruncateBefore(g.needed); err != nil {
			t.Fatalf("second truncate: %v", err)
		}
	}
	return usable
}

func wantSticky(t *testing.T, l *Log) {
	t.Helper()
	for range 2 {
		_, err := l.Append([][]byte{{1}})
		if !errors.Is(err, errorfs.ErrInjected) || !strings.Contains(err.Error(), "restart the process") {
			t.Fatalf("append to the failed log: %v", err)
		}
		if err := l.TruncateBefore(l.LastIndex()); !errors.Is(err, errorfs.ErrInjected) {
			t.Fatalf("truncate of the failed log: %v", err)
		}
		if err := l.Replay(func(uint64, []byte) error { return nil }); !errors.Is(err, errorfs.ErrInjected) {
			t.Fatalf("replay of the failed log: %v", err)
		}
	}
}

func TestFailedSyncFailsAllWaitingAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syncing, fail := make(chan struct{}), make(chan struct{})
		broken := false
		l := mustOpen(t, testDir,
			smallOptions(errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileSyncData && broken {
					close(syncing) // a second sync would panic here
					<-fail
					return errorfs.ErrInjected
				}
				return nil
			}))))
		mustAppend(t, l, 1, 3, 20)
		broken = true
		results := make(chan error, 11)
		add := func() {
			_, err := l.Append([][]byte{payloadOf(9, 20)})
			results <- err
		}
		go add()
		<-syncing
		for range 10 {
			go add()
		}
		synctest.Wait() // all ten wait for their turn
		if len(results) != 0 {
			t.Errorf("%d appends returned before the sync", len(results))
		}
		close(fail)
		for range 11 {
			if err := <-results; !errors.Is(err, errorfs.ErrInjected) {
				t.Errorf("append: %v", err)
			}
		}
		if l.LastIndex() != 3 {
			t.Errorf("last index %d, want 3", l.LastIndex())
		}
		if l.busy {
			t.Error("the reservation was not released")
		}
		mustClose(t, l)
	})
}

// shortFS writes only half of the data once the disk is full, and returns an error.
type shortFS struct {
	vfs.FS
	full bool
}

var errNoSpace = errors.New("no space left on device")

func (s *shortFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	return &shortFile{File: f, fs: s}, err
}

type shortFile struct {
	vfs.File
	fs *shortFS
}

func (f *shortFile) Write(p []byte) (int, error) {
	if !f.fs.full {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:len(p)/2])
	return n, errors.Join(err, errNoSpace)
}

func TestPartialWriteIsCutOffByTheNextOpen(t *testing.T) {
	for size := range 200 {
		fs := &shortFS{FS: vfs.NewMem()}
		l := mustOpen(t, testDir, smallOptions(fs))
		mustAppend(t, l, 1, 3, 40)
		fs.full = true
		if _, err := l.Append([][]byte{payloadOf(4, size), payloadOf(5, size)}); !errors.Is(err, errNoSpace) {
			t.Fatalf("append to a full disk: %v", err)
		}
		fs.full = false
		if _, err := l.Append([][]byte{payloadOf(4, size)}); !errors.Is(err, errNoSpace) {
			t.Fatalf("append after a full disk: %v", err)
		}
		mustClose(t, l)
		l = mustOpen(t, testDir, smallOptions(fs))
		ids := replayed(t, l)
		wantIDs(t, ids, sequence(1, uint64(len(ids))))
		if len(ids) < 3 || len(ids) > 4 {
			t.Fatalf("%d records were replayed", len(ids))
		}
		mustAppend(t, l, uint64(len(ids))+1, 9, 40)
		mustClose(t, l)
	}
}
