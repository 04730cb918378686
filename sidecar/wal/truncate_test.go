package wal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestTruncateRemovesOnlyWholeSegmentsBelowTheIndex(t *testing.T) {
	for index := range uint64(62) {
		fs := vfs.NewMem()
		l := mustOpen(t, testDir, smallOptions(fs))
		mustAppend(t, l, 1, 60, 100)
		before := l.Bytes()
		firsts := segmentsOf(t, fs)
		if err := l.TruncateBefore(index); err != nil {
			t.Fatal(err)
		}
		want := firsts[0]
		for _, f := range firsts {
			if f <= index {
				want = f
			}
		}
		if firstIndex(l) != want {
			t.Fatalf("truncated before %d: first index %d, want %d of segments %v", index, firstIndex(l), want, firsts)
		}
		if want > 1 && l.Bytes() >= before {
			t.Fatalf("truncated before %d: no bytes were freed", index)
		}
		size := l.Bytes()
		mustClose(t, l)
		l = mustOpen(t, testDir, smallOptions(fs))
		if l.Bytes() != size {
			t.Fatalf("%d bytes before reopening, %d after it", size, l.Bytes())
		}
		wantIDs(t, replayed(t, l), sequence(want, 60))
		mustAppend(t, l, 61, 61, 100)
		mustClose(t, l)
	}
}

func TestTruncateOfEverythingKeepsTheNextIndex(t *testing.T) {
	fs := vfs.NewMem()
	next := uint64(1)
	for range 20 {
		l := mustOpen(t, testDir, smallOptions(fs))
		replayed(t, l)
		mustAppend(t, l, next, next+30, 60)
		next += 31
		if err := l.TruncateBefore(next + 1000); err != nil {
			t.Fatal(err)
		}
		if l.Bytes() > 1<<10 {
			t.Fatalf("%d bytes are left, with a segment size of %d", l.Bytes(), 1<<10)
		}
		mustClose(t, l)
	}
}

func TestTruncateWithNothingToRemoveDoesNotTouchTheDisk(t *testing.T) {
	ops := 0
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(errorfs.Op) error { ops++; return nil }))
	l := mustOpen(t, testDir, smallOptions(fs))
	defer mustClose(t, l)
	mustAppend(t, l, 1, 5, 20)
	ops = 0
	for index := range uint64(10) {
		if err := l.TruncateBefore(index); err != nil {
			t.Fatal(err)
		}
	}
	if ops != 0 {
		t.Fatalf("%d operations", ops)
	}
}

func TestTruncateMakesEachRemovalDurableBeforeTheNext(t *testing.T) {
	var order []string
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpRemove || op.Kind == errorfs.OpRename: // the first one becomes the spare file
			order = append(order, "remove")
		case op.Kind == errorfs.OpFileSync && op.Path == testDir:
			order = append(order, "sync")
		}
		return nil
	}))
	l := mustOpen(t, testDir, smallOptions(fs))
	defer mustClose(t, l)
	mustAppend(t, l, 1, 60, 100)
	order = nil
	if err := l.TruncateBefore(61); err != nil {
		t.Fatal(err)
	}
	if len(order) < 10 {
		t.Fatalf("%d steps, want at least 10 for this test to mean anything", len(order))
	}
	for i, step := range order {
		if want := []string{"remove", "sync"}[i%2]; step != want {
			t.Fatalf("step %d is %s, want %s: %v", i, step, want, order)
		}
	}
}

func TestFullLogRefusesAppendsUntilItIsTruncated(t *testing.T) {
	opts := Options{FS: vfs.NewMem(), SegmentBytes: 1 << 10, MaxBytes: 2 << 10}
	l := mustOpen(t, testDir, opts)
	next := uint64(1)
	for round := range 50 {
		var err error
		for range 1000 {
			if _, err = l.Append([][]byte{payloadOf(next, 16+round*13)}); err != nil {
				break
			}
			next++
		}
		if !errors.Is(err, ErrFull) || !strings.HasPrefix(err.Error(), "write buffer full: it holds ") {
			t.Fatalf("round %d: %v", round, err)
		}
		if headers := int64(len(segmentsOf(t, opts.FS))) * segmentHeaderSize; l.Bytes()-headers > opts.MaxBytes {
			t.Fatalf("round %d: %d bytes, %d of them headers; the limit is %d", round, l.Bytes(), headers,
				opts.MaxBytes)
		}
		if err := l.TruncateBefore(next); err != nil {
			t.Fatal(err)
		}
		// The largest possible append must fit now.
		if _, err := l.Append([][]byte{payloadOf(next, 1<<10-segmentHeaderSize-recordHeaderSize)}); err != nil {
			t.Fatalf("round %d, after truncation: %v", round, err)
		}
		next++
	}
	mustClose(t, l)
	l = mustOpen(t, testDir, opts)
	defer mustClose(t, l)
	replayed(t, l)
	if l.LastIndex() != next-1 {
		t.Fatalf("last index %d, want %d", l.LastIndex(), next-1)
	}
}

func TestAppendLargerThanASegmentIsRefused(t *testing.T) {
	l := mustOpen(t, testDir, smallOptions(vfs.NewMem()))
	defer mustClose(t, l)
	big := make([]byte, 1<<10-segmentHeaderSize-recordHeaderSize+1)
	if _, err := l.Append([][]byte{big}); !errors.Is(err, ErrTooLarge) ||
		!strings.Contains(err.Error(), "raise the segment size") {
		t.Fatalf("one byte too large: %v", err)
	}
	if last, err := l.Append([][]byte{big[1:]}); err != nil || last != 1 {
		t.Fatalf("largest append that fits: %d, %v", last, err)
	}
}

func TestReducedLimitsApplyToAnExistingLog(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testDir, Options{FS: fs, SegmentBytes: 1 << 20})
	mustAppend(t, l, 1, 100, 200)
	mustClose(t, l)
	l = mustOpen(t, testDir, Options{FS: fs, SegmentBytes: 1 << 10, MaxBytes: 4 << 10})
	defer mustClose(t, l)
	wantIDs(t, replayed(t, l), sequence(1, 100))
	if _, err := l.Append([][]byte{{1}}); !errors.Is(err, ErrFull) {
		t.Fatalf("append above the new limit: %v", err)
	}
	if err := l.TruncateBefore(101); err != nil {
		t.Fatal(err)
	}
	if firstIndex(l) != 101 || l.LastIndex() != 100 {
		t.Fatalf("first %d last %d, want an empty log whose next index is 101", firstIndex(l), l.LastIndex())
	}
	mustAppend(t, l, 101, 103, 200)
}

func TestANewSegmentUsesTheFileOfARemovedOne(t *testing.T) {
	fs := vfs.NewMem()
	var created []string
	l := mustOpen(t, testDir, smallOptions(errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpCreate && strings.Contains(op.Path, segmentSuffix) {
			created = append(created, op.Path)
		}
		return nil
	}))))
	mustAppend(t, l, 1, 40, 100)
	segments := len(segmentsOf(t, fs))
	created = nil
	next := uint64(41)
	for range 30 { // each keeps one file for the next segment
		if err := l.TruncateBefore(next); err != nil {
			t.Fatal(err)
		}
		for n := len(segmentsOf(t, fs)); len(segmentsOf(t, fs)) == n; next++ {
			mustAppend(t, l, next, next, 100)
		}
	}
	if segments < 4 || len(created) > 0 {
		t.Fatalf("%d segments at first, then %q were created", segments, created)
	}
	first := firstIndex(l)
	mustClose(t, l)
	l = mustOpen(t, testDir, smallOptions(fs)) // with older records behind the last ones
	wantIDs(t, replayed(t, l), sequence(first, next-1))
	mustClose(t, l)
	if names, err := fs.List(testDir); err != nil || slices.ContainsFunc(names, func(n string) bool {
		return strings.HasSuffix(n, stagedSuffix)
	}) {
		t.Fatalf("after the log was opened again: %q, %v", names, err)
	}
}
