package wal

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// ledger is what the callers of a log know of it, across crashes. It is the other side of the contract.
type ledger struct {
	mu sync.Mutex
	// acked is the id of the record that has an index, as acknowledged by Append or shown by Replay.
	acked map[uint64]uint64
	// tried are the ids that were given to Append.
	tried map[uint64]bool
	// last is the greatest index in acked; needed is the smallest index that was not given up by TruncateBefore.
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
			t.Errorf("index %d was given to %d and now to %d", index, old, id)
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

// recovered holds a log that was opened after a crash against the ledger, and notes what it shows.
func (g *ledger) recovered(t testing.TB, l *Log, what string) {
	t.Helper()
	if l.FirstIndex() > g.needed {
		t.Fatalf("%s: the log begins with record %d, record %d was not given up", what, l.FirstIndex(), g.needed)
	}
	index := l.FirstIndex()
	for _, id := range replayed(t, l) {
		if want, ok := g.acked[index]; ok && want != id {
			t.Fatalf("%s: record %d is %d, acknowledged was %d", what, index, id, want)
		}
		if !g.tried[id] {
			t.Fatalf("%s: record %d is %d, which nobody wrote", what, index, id)
		}
		g.acked[index] = id
		index++
	}
	if l.LastIndex() < g.last {
		t.Fatalf("%s: the log ends with record %d, record %d was acknowledged", what, l.LastIndex(), g.last)
	}
	g.last = l.LastIndex()
}

var crashOptions = Options{SegmentBytes: 24 << 10, MaxBytes: 1 << 20}

func openOn(fs vfs.FS) (*Log, error) {
	opts := crashOptions
	opts.FS = fs
	return Open(testDir, opts)
}

// verifyCrash opens what a crash left, twice: recovery crashes itself at a random step, and then once more right after
// it showed its records, with nothing kept that was not synced.
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
		g.clone().recovered(t, again, what+", crashed during recovery")
		mustClose(t, again)
	}
	g.recovered(t, l, what)
	after, err := openOn(disk.CrashClone(vfs.CrashCloneCfg{}))
	if err != nil {
		t.Fatalf("%s: open after a crash after replay: %v", what, err)
	}
	g.recovered(t, after, what+", crashed after replay")
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

// crashOf keeps nothing, all, or a random part of what was not synced.
func crashOf(r *rand.Rand) vfs.CrashCloneCfg {
	return vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 100, 20, 50, 80}[r.IntN(5)], RNG: r}
}

// randomAppend appends up to eight records, some of several disk blocks. Ids begin with next.
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

func TestNothingAcknowledgedIsLostByACrashAtAnyStep(t *testing.T) {
	for seed := range uint64(12) {
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
				g.recovered(t, l, "reopened")
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

func TestCrashesInARowKeepEveryIndexForOneRecord(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 3))
		disk := vfs.NewCrashableMem()
		g := newLedger()
		next := uint64(1)
		for life := range 12 {
			// The machine dies at a random step: the disk is copied as it is then, with what was known then.
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
			g.recovered(t, l, fmt.Sprintf("seed %d, life %d", seed, life))
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

func TestNothingAcknowledgedIsLostByACrashUnderConcurrentAppends(t *testing.T) {
	for seed := range uint64(25) {
		disk := vfs.NewCrashableMem()
		g := newLedger()
		var mu sync.Mutex // held while the disk is copied, with the random source
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
				known := g.clone() // before the disk: it may hold more than is known, not less
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
		// What was tried by the end includes what was tried by the crash.
		for i, c := range crashes {
			c.known.tried = g.clone().tried
			verifyCrash(t, c.disk, c.known, r, fmt.Sprintf("seed %d, crash %d", seed, i))
		}
		l, err = openOn(disk)
		if err != nil {
			t.Fatal(err)
		}
		g.recovered(t, l, "at the end")
		mustClose(t, l)
	}
}
