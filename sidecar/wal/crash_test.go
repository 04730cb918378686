package wal

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// ledger records what the callers of a log were promised, across crashes.
type ledger struct {
	mu sync.Mutex
	// acked maps an index to the id of its record, as acknowledged by Append or returned by Replay.
	acked map[uint64]uint64
	// tried has the ids that were passed to Append.
	tried map[uint64]bool
	// last is the greatest index in acked, needed the smallest index that TruncateBefore was not allowed to remove.
	last, needed uint64
}

func newLedger() *ledger {
	return &ledger{acked: map[uint64]uint64{}, tried: map[uint64]bool{}, needed: 1}
}

func (g *ledger) try(ids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, id := range ids {
		g.tried[id] = true
	}
}

func (g *ledger) acknowledge(t testing.TB, last uint64, ids []uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, id := range ids {
		index := last - uint64(len(ids)-1-i)
		if old, ok := g.acked[index]; ok {
			t.Errorf("index %d was assigned to %d and now to %d", index, old, id)
		}
		g.acked[index] = id
		g.last = max(g.last, index)
	}
}

func (g *ledger) clone() *ledger {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := newLedger()
	for k, v := range g.acked {
		c.acked[k] = v
	}
	for k := range g.tried {
		c.tried[k] = true
	}
	c.last, c.needed = g.last, g.needed
	return c
}

// checkRecovered compares a log that was opened after a crash with the ledger, and records what it replays.
func (g *ledger) checkRecovered(t testing.TB, l *Log, what string) {
	t.Helper()
	if firstIndex(l) > g.needed {
		t.Fatalf("%s: the log begins with record %d, and record %d was not truncated", what, firstIndex(l), g.needed)
	}
	index := firstIndex(l)
	for _, id := range replayed(t, l) {
		if want, ok := g.acked[index]; ok && want != id {
			t.Fatalf("%s: record %d is %d, and %d was acknowledged", what, index, id, want)
		}
		if !g.tried[id] {
			t.Fatalf("%s: record %d is %d, which was never appended", what, index, id)
		}
		g.acked[index] = id
		index++
	}
	if l.LastIndex() < g.last {
		t.Fatalf("%s: the log ends with record %d, and record %d was acknowledged", what, l.LastIndex(), g.last)
	}
	g.last = l.LastIndex()
}

var crashOptions = Options{SegmentBytes: 24 << 10, MaxBytes: 1 << 20}

func openOn(fs vfs.FS) (*Log, error) {
	opts := crashOptions
	opts.FS = fs
	return Open(testDir, opts)
}

// verifyCrash opens the disk that a crash left, and checks the log against the ledger. Two further crashes are tried:
// one at a random step of the recovery, and one right after the replay in which all unsynced data is lost.
func verifyCrash(t testing.TB, disk *vfs.MemFS, g *ledger, r *rand.Rand, what string) {
	t.Helper()
	g = g.clone()
	var during *vfs.MemFS
	countdown := r.IntN(16)
	l, err := openOn(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if countdown--; countdown == 0 {
			during = disk.CrashClone(crashOf(r))
		}
		return nil
	})))
	if err != nil {
		t.Fatalf("%s: open: %v\n%s", what, err, disk)
	}
	if during != nil {
		again, err := openOn(during)
		if err != nil {
			t.Fatalf("%s: open after a crash during recovery: %v", what, err)
		}
		g.clone().checkRecovered(t, again, what+", crashed during recovery")
		mustClose(t, again)
	}
	g.checkRecovered(t, l, what)
	after, err := openOn(disk.CrashClone(vfs.CrashCloneCfg{}))
	if err != nil {
		t.Fatalf("%s: open after a crash after replay: %v", what, err)
	}
	g.checkRecovered(t, after, what+", crashed after replay")
	mustClose(t, l)

	id := uint64(1<<40) + r.Uint64N(1<<30)
	g.try([]uint64{id})
	last, err := after.Append([][]byte{payloadOf(id, 100)})
	if err != nil || last != g.last+1 {
		t.Fatalf("%s: append after record %d: %d, %v", what, g.last, last, err)
	}
	g.acknowledge(t, last, []uint64{id})
	mustClose(t, after)
}

// crashOf returns a crash that keeps nothing, all, or a random part of the unsynced data.
func crashOf(r *rand.Rand) vfs.CrashCloneCfg {
	return vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 100, 20, 50, 80}[r.IntN(5)], RNG: r}
}

// randomAppend appends up to eight records, some of several disk blocks, with the ids from next on.
func randomAppend(t testing.TB, l *Log, g *ledger, r *rand.Rand, next uint64) (after uint64) {
	var ids []uint64
	var payloads [][]byte
	for range 1 + r.IntN(1+r.IntN(8)) {
		ids = append(ids, next)
		payloads = append(payloads, payloadOf(next, r.IntN(20+r.IntN(3000))))
		next++
	}
	g.try(ids)
	last, err := l.Append(payloads)
	if err != nil {
		t.Errorf("append: %v", err)
		return next
	}
	g.acknowledge(t, last, ids)
	return next
}

func truncateSome(t testing.TB, l *Log, g *ledger, r *rand.Rand) {
	g.mu.Lock()
	g.needed += r.Uint64N(g.last + 2 - min(g.needed, g.last+1))
	index := g.needed
	g.mu.Unlock()
	if err := l.TruncateBefore(index); err != nil {
		t.Errorf("truncate before %d: %v", index, err)
	}
}

// seeds returns how many of n seeds a test plays. With the race detector a seed takes seven times as long, and what it
// may find is in each of them; make test plays all without it as well (BOTH in the Makefile).
func seeds(n uint64) uint64 {
	if raceDetector {
		return (n + 11) / 12
	}
	return n
}

func TestCrashAtAnyStepLosesNoAcknowledgedRecord(t *testing.T) {
	for seed := range seeds(12) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			disk := vfs.NewCrashableMem()
			g := newLedger()
			step := 0
			fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					step++
					what := fmt.Sprintf("crash before step %d (operation %d on %s)", step, op.Kind, op.Path)
					verifyCrash(t, disk.CrashClone(crashOf(r)), g, r, what)
				}
				return nil
			}))
			next := uint64(1)
			for range 3 {
				l, err := openOn(fs)
				if err != nil {
					t.Fatal(err)
				}
				g.checkRecovered(t, l, "reopened")
				for range 25 {
					next = randomAppend(t, l, g, r, next)
					if r.IntN(8) == 0 {
						truncateSome(t, l, g, r)
					}
				}
				mustClose(t, l)
			}
		})
	}
}

func TestRepeatedCrashesNeverReassignAnIndex(t *testing.T) {
	for seed := range seeds(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		disk := vfs.NewCrashableMem()
		g := newLedger()
		next := uint64(1)
		for life := range 12 {
			// The machine crashes at a random step: copy the disk and the ledger at that moment.
			var left *vfs.MemFS
			var known *ledger
			countdown := 1 + r.IntN(60)
			current := disk
			l, err := openOn(errorfs.Wrap(current, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if countdown--; countdown == 0 {
					known = g.clone()
					left = current.CrashClone(crashOf(r))
				}
				return nil
			})))
			if err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			g.checkRecovered(t, l, fmt.Sprintf("seed %d, life %d", seed, life))
			for left == nil {
				next = randomAppend(t, l, g, r, next)
				if r.IntN(10) == 0 {
					truncateSome(t, l, g, r)
				}
			}
			mustClose(t, l)
			disk, g = left, known
		}
	}
}

func TestCrashDuringConcurrentAppendsLosesNoAcknowledgedRecord(t *testing.T) {
	for seed := range seeds(25) {
		disk := vfs.NewCrashableMem()
		g := newLedger()
		var mu sync.Mutex // guards the copying of the disk, and r
		r := rand.New(rand.NewPCG(seed, 4))
		type crash struct {
			disk  *vfs.MemFS
			known *ledger
		}
		var crashes []crash
		fs := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if len(crashes) < 40 && r.IntN(4) == 0 {
				known := g.clone() // before the disk, which may hold more than is known, but not less
				crashes = append(crashes, crash{disk.CrashClone(crashOf(r)), known})
			}
			return nil
		}))
		l, err := openOn(fs)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for w := range uint64(6) {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, 100+w))
				next := 1 + w<<20
				for range 30 {
					next = randomAppend(t, l, g, r, next)
					if w == 0 && r.IntN(4) == 0 {
						truncateSome(t, l, g, r)
					}
				}
			})
		}
		wg.Wait()
		mustClose(t, l)
		// The ids tried by the end include those tried before the crash.
		for i, c := range crashes {
			c.known.tried = g.clone().tried
			verifyCrash(t, c.disk, c.known, r, fmt.Sprintf("seed %d, crash %d", seed, i))
		}
		l, err = openOn(disk)
		if err != nil {
			t.Fatal(err)
		}
		g.checkRecovered(t, l, "at the end")
		mustClose(t, l)
	}
}
