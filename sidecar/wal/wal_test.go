package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const testDir = "/data/wal"

// payloadOf returns a payload that identifies itself: every byte is derived from id and the size, so a change is
// detected.
func payloadOf(id uint64, size int) []byte {
	p := make([]byte, max(size, 16))
	binary.LittleEndian.PutUint64(p, id)
	binary.LittleEndian.PutUint64(p[8:], uint64(len(p)))
	r := rand.NewPCG(id, uint64(len(p)))
	for rest := p[16:]; len(rest) > 0; {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], r.Uint64())
		rest = rest[copy(rest, word[:]):]
	}
	return p
}

// idOf returns the id of payload p, and whether p is exactly what payloadOf returned for it.
func idOf(p []byte) (id uint64, ok bool) {
	if len(p) < 16 {
		return 0, false
	}
	id = binary.LittleEndian.Uint64(p)
	return id, bytes.Equal(p, payloadOf(id, len(p)))
}

// smallOptions select segments of a few records.
func smallOptions(fs vfs.FS) Options {
	return Options{FS: fs, SegmentBytes: 1 << 10, MaxBytes: 1 << 20}
}

func mustOpen(t testing.TB, dir string, opts Options) *Log {
	t.Helper()
	l, err := Open(dir, opts)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// mustAppend appends the payloads with the ids from first to last, one call each, and checks that the index equals the
// id.
func mustAppend(t testing.TB, l *Log, first, last uint64, size int) {
	t.Helper()
	for id := first; id <= last; id++ {
		got, err := l.Append([][]byte{payloadOf(id, size)})
		if err != nil {
			t.Fatalf("append %d: %v", id, err)
		}
		if got != id {
			t.Fatalf("append %d got index %d", id, got)
		}
	}
}

// firstIndex returns the index of the first retained record, or of the next one if there is none.
func firstIndex(l *Log) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[0].first
}

// replayed returns the ids of the retained records, after checking that they are intact and that their indices are
// consecutive from the first to LastIndex.
func replayed(t testing.TB, l *Log) []uint64 {
	t.Helper()
	var ids []uint64
	next := firstIndex(l)
	err := l.Replay(func(index uint64, payload []byte) error {
		if index != next {
			t.Fatalf("replay gave record %d, want %d", index, next)
		}
		next++
		id, ok := idOf(payload)
		if !ok {
			t.Fatalf("replay gave record %d with a payload that was never written: %q", index, payload)
		}
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	if l.LastIndex() != next-1 {
		t.Fatalf("replay ended before record %d, LastIndex is %d", next, l.LastIndex())
	}
	return ids
}

func sequence(first, last uint64) []uint64 {
	var s []uint64
	for i := first; i <= last; i++ {
		s = append(s, i)
	}
	return s
}

func wantIDs(t testing.TB, got, want []uint64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("replayed %v, want %v", got, want)
	}
}

func TestNewLogIsEmptyAndStartsAtIndexOne(t *testing.T) {
	l := mustOpen(t, testDir, smallOptions(vfs.NewMem()))
	defer mustClose(t, l)
	if firstIndex(l) != 1 || l.LastIndex() != 0 {
		t.Fatalf("first %d last %d, want 1 and 0", firstIndex(l), l.LastIndex())
	}
	wantIDs(t, replayed(t, l), nil)
	mustAppend(t, l, 1, 1, 20)
}

func TestReplayReturnsRecordsInOrderAcrossSegmentsAndReopens(t *testing.T) {
	fs := vfs.NewMem()
	for round := range uint64(5) {
		l := mustOpen(t, testDir, smallOptions(fs))
		wantIDs(t, replayed(t, l), sequence(1, round*40))
		wantIDs(t, replayed(t, l), sequence(1, round*40))
		mustAppend(t, l, round*40+1, round*40+40, int(round)*50)
		mustClose(t, l)
	}
	if n := len(segmentsOf(t, fs)); n < 10 {
		t.Fatalf("%d segments, want at least 10 for this test to mean anything", n)
	}
}

func TestLogWorksOnTheRealFileSystem(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "several", "levels", "deep")
	opts := Options{SegmentBytes: 4 << 10}
	l := mustOpen(t, dir, opts)
	mustAppend(t, l, 1, 100, 300)
	if err := l.TruncateBefore(50); err != nil {
		t.Fatal(err)
	}
	first, size := firstIndex(l), l.Bytes()
	mustClose(t, l)
	var onDisk int64
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		onDisk += info.Size()
	}
	if onDisk != size {
		t.Fatalf("Bytes is %d, the files have %d bytes", size, onDisk)
	}
	l = mustOpen(t, dir, opts)
	defer mustClose(t, l)
	if firstIndex(l) != first || l.Bytes() != size {
		t.Fatalf("after reopening: first index %d and %d bytes, want %d and %d", firstIndex(l), l.Bytes(), first, size)
	}
	wantIDs(t, replayed(t, l), sequence(first, 100))
}

func TestAppendAssignsConsecutiveIndicesAndAllowsEmptyPayloads(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testDir, smallOptions(fs))
	last, err := l.Append([][]byte{{}, []byte("a"), nil, []byte("bc")})
	if err != nil || last != 4 {
		t.Fatalf("last %d, %v; want 4", last, err)
	}
	if last, err = l.Append(nil); err != nil || last != 4 {
		t.Fatalf("append of nothing: last %d, %v; want 4", last, err)
	}
	mustClose(t, l)
	l = mustOpen(t, testDir, smallOptions(fs))
	defer mustClose(t, l)
	var got []string
	if err := l.Replay(func(_ uint64, p []byte) error { got = append(got, string(p)); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"", "a", "", "bc"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestReplayReturnsTheCallbackErrorAndCanBeRepeated(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testDir, smallOptions(fs))
	mustAppend(t, l, 1, 30, 100)
	mustClose(t, l)
	l = mustOpen(t, testDir, smallOptions(fs))
	defer mustClose(t, l)
	stop := errors.New("stop")
	seen := uint64(0)
	err := l.Replay(func(index uint64, _ []byte) error {
		if seen = index; index == 17 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 17 {
		t.Fatalf("error %v after record %d", err, seen)
	}
	wantIDs(t, replayed(t, l), sequence(1, 30))
}

func TestReplayFailsAfterAnAppendAndAppendsFailDuringReplay(t *testing.T) {
	fs := vfs.NewMem()
	l := mustOpen(t, testDir, smallOptions(fs))
	mustAppend(t, l, 1, 3, 20)
	if err := l.Replay(func(uint64, []byte) error { return nil }); !errors.Is(err, ErrReplay) {
		t.Fatalf("replay after append: %v", err)
	}
	mustClose(t, l)
	l = mustOpen(t, testDir, smallOptions(fs))
	defer mustClose(t, l)
	err := l.Replay(func(uint64, []byte) error {
		if _, err := l.Append([][]byte{{1}}); !errors.Is(err, ErrReplay) {
			t.Errorf("append during replay: %v", err)
		}
		if err := l.TruncateBefore(2); !errors.Is(err, ErrReplay) {
			t.Errorf("truncation during replay: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, 4, 4, 20)
}

func TestClosedLogRefusesAllCallsButClose(t *testing.T) {
	l := mustOpen(t, testDir, smallOptions(vfs.NewMem()))
	mustClose(t, l)
	mustClose(t, l)
	if _, err := l.Append([][]byte{{1}}); !errors.Is(err, ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := l.TruncateBefore(1); !errors.Is(err, ErrClosed) {
		t.Errorf("truncate: %v", err)
	}
	if err := l.Replay(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("replay: %v", err)
	}
}

func TestDirectoryCannotBeOpenedTwice(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "wal")
			l := mustOpen(t, dir, Options{FS: fs})
			_, err := Open(dir+"/../wal", Options{FS: fs})
			if err == nil || !strings.Contains(err.Error(), "one coordinator at a time") ||
				!strings.Contains(err.Error(), dir) {
				t.Fatalf("second open: %v", err)
			}
			mustAppend(t, l, 1, 1, 20)
			mustClose(t, l)
			mustClose(t, mustOpen(t, dir, Options{FS: fs}))
		})
	}
}

func TestFailedOpenReleasesTheLock(t *testing.T) {
	fs := vfs.NewMem()
	if _, err := Open(testDir, Options{FS: fs, Rand: strings.NewReader("")}); !errors.Is(err, io.EOF) {
		t.Fatalf("open without randomness: %v", err)
	}
	mustClose(t, mustOpen(t, testDir, Options{FS: fs}))
}

func TestOpenRefusesInvalidOptions(t *testing.T) {
	for _, o := range []Options{
		{SegmentBytes: 10}, {SegmentBytes: -1}, {SegmentBytes: 2 << 30},
		{SegmentBytes: 1 << 20, MaxBytes: 1 << 20}, {MaxBytes: 1 << 20}, {MaxBytes: -1},
	} {
		o.FS = vfs.NewMem()
		if _, err := Open(testDir, o); err == nil || !strings.Contains(err.Error(), "give") {
			t.Errorf("segments of %d bytes, limit of %d: %v", o.SegmentBytes, o.MaxBytes, err)
		}
	}
}

// segmentsOf returns the first index of each segment in testDir, in order.
func segmentsOf(t testing.TB, fs vfs.FS) []uint64 {
	t.Helper()
	firsts, err := (&Log{opts: Options{FS: fs}, dir: testDir}).listSegments()
	if err != nil {
		t.Fatal(err)
	}
	return firsts
}
