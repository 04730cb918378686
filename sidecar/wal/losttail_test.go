package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// ending is how a life of a log ends.
type ending int

const (
	killed      ending = iota // what was written remains, synced or not
	powerCut                  // what was not synced is lost in part, or garbage
	syncFailed                // as killed, after a sync failed
	noSpaceLeft               // as killed, while the disk is full
	endings
)

// life is one run of a log until its end.
type life struct {
	ending ending
	left   *vfs.MemFS // what is on the disk afterwards
	known  *ledger
	// certain is the index up to which a lost record is noticed.
	certain uint64
	// segment is the last one at the end, which is acknowledged up to the byte synced.
	segment uint64
	synced  int64
}

// live opens the log on disk, appends until a random step, and returns what the end leaves.
func live(disk *vfs.MemFS, g *ledger, r *rand.Rand, next *uint64, t *testing.T) life {
	t.Helper()
	end := life{ending: ending(r.IntN(int(endings)))}
	countdown := 1 + r.IntN(80)
	var l *Log
	crash := func() {
		end.known = g.clone()
		if l != nil { // else it ends before the log was open
			active := l.segments[len(l.segments)-1]
			end.segment, end.synced = active.first, active.size
		}
		if end.ending == powerCut {
			end.left = disk.CrashClone(crashOf(r))
		} else {
			end.left = copyOf(disk)
		}
	}
	l, err := openOn(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		isWrite := op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate
		switch countdown--; {
		case countdown > 0 || end.left != nil:
		case end.ending == syncFailed && (op.Kind != errorfs.OpFileSyncData || l == nil):
		case end.ending == noSpaceLeft && (!isWrite || l == nil):
		case end.ending == syncFailed:
			crash()
			return syscall.EIO
		case end.ending == noSpaceLeft:
			crash()
			return syscall.ENOSPC
		default:
			crash()
		}
		return nil
	})))
	if err != nil {
		t.Fatalf("ending %d: open what no disk has damaged: %v\n%s", end.ending, err, disk)
	}
	g.checkRecovered(t, l, "reopened")
	atOpen := l.LastIndex()
	if end.left == nil {
		end.certain = atOpen
	}
	for end.left == nil {
		var ids []uint64
		var payloads [][]byte
		for range 1 + r.IntN(4) {
			ids = append(ids, *next)
			payloads = append(payloads, payloadOf(*next, r.IntN(20+r.IntN(3000))))
			*next++
		}
		g.try(ids)
		last, err := l.Append(payloads)
		if err == nil {
			g.acknowledge(t, last, ids)
		}
		if end.left != nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if end.certain = last; end.ending == powerCut {
			end.certain = max(atOpen, l.segments[len(l.segments)-1].first-1)
		}
		if r.IntN(10) == 0 {
			g.needed += r.Uint64N(g.last + 2 - g.needed)
			if err := l.TruncateBefore(g.needed); err != nil && end.left == nil {
				t.Fatal(err)
			}
		}
	}
	mustClose(t, l)
	if end.ending == powerCut {
		end.garble(t, r)
	}
	return end
}

func copyOf(disk *vfs.MemFS) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))})
}

// garble puts garbage or zeros into sectors that were not synced.
func (e *life) garble(t *testing.T, r *rand.Rand) {
	if e.segment == 0 {
		return
	}
	if slices.Contains(segmentsOf(t, e.left), e.segment) {
		data := contentOf(t, e.left, e.segment)
		for at := e.synced; at < int64(len(data)); at = (at/512 + 1) * 512 {
			garbleSector(r, data[at:min(int64(len(data)), (at/512+1)*512)])
		}
		replaceSegment(t, e.left, e.segment, data)
	}
	mark := watermarkOf(t, e.left)
	garbleSector(r, mark[watermarkSlot2:])
	replaceFile(t, e.left, watermarkName, mark)
	e.left = copyOf(e.left) // all of this is on the disk now
}

func garbleSector(r *rand.Rand, sector []byte) {
	switch r.IntN(4) {
	case 0:
		clear(sector)
	case 1:
		copy(sector, payloadOf(r.Uint64(), len(sector)))
	}
}

// damage damages a copy of what a life has left, and says how. beyond reports whether only what was never acknowledged
// is affected.
func (e *life) damage(t *testing.T, r *rand.Rand) (disk *vfs.MemFS, how string, beyond bool) {
	disk = copyOf(e.left)
	firsts := segmentsOf(t, disk)
	tail := firsts[len(firsts)-1]
	data := contentOf(t, disk, tail)
	switch r.IntN(7) {
	case 0:
		gone := 1 + r.IntN(len(firsts))
		for _, first := range firsts[len(firsts)-gone:] {
			removeFile(t, disk, segmentName(first))
		}
		return disk, fmt.Sprintf("%d segments gone", gone), false
	case 1:
		removeFile(t, disk, watermarkName)
		return disk, "no watermark", false
	case 2:
		replaceSegment(t, disk, tail, damaged(r, data))
		return disk, "random damage", false
	case 3, 4:
		cut := r.IntN(len(data) + 1)
		replaceSegment(t, disk, tail, data[:cut])
		return disk, fmt.Sprintf("cut at byte %d of %d", cut, len(data)), tail == e.segment && int64(cut) >= e.synced
	default:
		if tail != e.segment || int64(len(data)) < e.synced {
			return disk, "nothing", true
		}
		cut := int(e.synced) + r.IntN(len(data)-int(e.synced)+1)
		data = append(data[:cut:cut], payloadOf(r.Uint64(), 16+r.IntN(2000))...)
		replaceSegment(t, disk, tail, data)
		return disk, fmt.Sprintf("garbage from byte %d on", cut), true
	}
}

// checkDamaged opens a damaged log. It returns whether that was refused, and an error if an acknowledged record is
// missing.
func (e *life) checkDamaged(t *testing.T, disk *vfs.MemFS, beyond, acceptLostTail bool) (refused bool, err error) {
	opts := crashOptions
	opts.FS, opts.acceptLostTail = disk, acceptLostTail
	l, err := Open(testDir, opts)
	if c := new(CorruptError); errors.As(err, &c) {
		if beyond {
			return true, fmt.Errorf("only what was never acknowledged is damaged, and the open fails: %w", err)
		}
		return true, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, l)
	index, ids := firstIndex(l), replayed(t, l)
	if index > e.known.needed {
		return false, fmt.Errorf("the log begins with record %d, and record %d was not truncated", index,
			e.known.needed)
	}
	for i, id := range ids {
		if want, ok := e.known.acked[index+uint64(i)]; ok && id != want {
			return false, fmt.Errorf("record %d is %d, and %d was acknowledged", index+uint64(i), id, want)
		}
	}
	if l.LastIndex() < e.certain {
		return false, fmt.Errorf("the log ends with record %d, and record %d was acknowledged",
			l.LastIndex(), e.certain)
	}
	return false, nil
}

func TestAcknowledgedRecordsAreRecoveredOrTheOpenFails(t *testing.T) {
	for _, broken := range []bool{false, true} {
		opened, refused, violations := 0, 0, 0
		for seed := range seeds(60) {
			r := rand.New(rand.NewPCG(seed, 9))
			disk, g, next := vfs.NewCrashableMem(), newLedger(), uint64(1)
			l, err := openOn(disk)
			if err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			for lives := range 5 {
				e := live(disk, g, r, &next, t)
				for range 8 {
					damagedDisk, how, beyond := e.damage(t, r)
					is, err := e.checkDamaged(t, damagedDisk, beyond, broken)
					switch {
					case err != nil && !broken:
						t.Fatalf("seed %d, life %d, ending %d, %s: %v", seed, lives, e.ending, how, err)
					case err != nil:
						violations++
					case is:
						refused++
					default:
						opened++
					}
				}
				disk, g = e.left, e.known
			}
		}
		t.Logf("mutation %v: %d opened, %d refused, %d violations", broken, opened, refused, violations)
		if opened == 0 || refused == 0 || violations > 0 != broken {
			t.Errorf("with the mutation %v: %d opened, %d refused, %d violations", broken, opened, refused,
				violations)
		}
	}
}
