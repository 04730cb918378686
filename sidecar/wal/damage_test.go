package wal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// replaceSegment replaces the segment whose first index is first.
func replaceSegment(t testing.TB, fs vfs.FS, first uint64, data []byte) {
	t.Helper()
	f, err := fs.Create(fs.PathJoin(testDir, segmentName(first)), diskCategory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(data)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t testing.TB, fs vfs.FS, first uint64) []byte {
	t.Helper()
	data, err := (&Log{opts: Options{FS: fs}, dir: testDir}).readSegment(first, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// setWatermark replaces the watermark, as if the records after index had never been acknowledged.
func setWatermark(t testing.TB, fs vfs.FS, index uint64) {
	t.Helper()
	l := &Log{opts: Options{FS: fs}, dir: testDir}
	if err := l.installWatermark(index); err != nil {
		t.Fatal(err)
	}
	if err := l.closeWatermark(); err != nil {
		t.Fatal(err)
	}
}

// newDisk returns a file system with a closed log of the records 1 to last, one write each, with payloads of size
// bytes.
func newDisk(t testing.TB, last uint64, size int) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewMem()
	l := mustOpen(t, testDir, smallOptions(fs))
	mustAppend(t, l, 1, last, size)
	mustClose(t, l)
	return fs
}

// wantCorrupt checks that opening the log fails with a CorruptError for the given segment and offset, and changes
// nothing.
func wantCorrupt(t testing.TB, fs vfs.FS, first uint64, offset int64, what string) {
	t.Helper()
	before := fmt.Sprint(fs)
	_, err := Open(testDir, smallOptions(fs))
	var c *CorruptError
	if !errors.As(err, &c) {
		t.Fatalf("%s: open returned %v, want a CorruptError", what, err)
	}
	if want := fs.PathJoin(testDir, segmentName(first)); c.File != want || c.Offset != offset {
		t.Fatalf("%s: damage reported in %s at byte %d, want %s at byte %d", what, c.File, c.Offset, want, offset)
	}
	text := err.Error()
	if !strings.Contains(text, c.File) || !strings.Contains(text, fmt.Sprintf("at byte %d:", offset)) ||
		!strings.Contains(text, "Keep a copy of the directory") {
		t.Fatalf("%s: the error does not say where the damage is and what to do: %s", what, text)
	}
	if after := fmt.Sprint(fs); after != before {
		t.Fatalf("%s: the failed open changed the log from\n%s\nto\n%s", what, before, after)
	}
}

// wantCut checks that opening the log cuts off the tail after the records 1 to last, and that appends continue there.
func wantCut(t testing.TB, fs vfs.FS, last uint64, what string) {
	t.Helper()
	var logged bytes.Buffer
	opts := smallOptions(fs)
	opts.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	l, err := Open(testDir, opts)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	wantIDs(t, replayed(t, l), sequence(1, last))
	if !strings.Contains(logged.String(), "cutting them off") ||
		!strings.Contains(logged.String(), fmt.Sprintf("lastIndex=%d", last)) {
		t.Fatalf("%s: the cut was not logged: %q", what, logged.String())
	}
	mustAppend(t, l, last+1, last+1, 33)
	mustClose(t, l)
	logged.Reset()
	l = mustOpen(t, testDir, opts)
	wantIDs(t, replayed(t, l), sequence(1, last+1))
	mustClose(t, l)
	if logged.Len() != 0 {
		t.Fatalf("%s: the second open cut something off: %s", what, logged.String())
	}
}

func TestOpenCutsOffATornTailAtEveryByteOfTheLastRecord(t *testing.T) {
	const last, size = 23, 100
	pristine := newDisk(t, last, size)
	firsts := segmentsOf(t, pristine)
	tail := firsts[len(firsts)-1]
	data := contentOf(t, pristine, tail)
	start := len(data) - int(recordSize(payloadOf(last, size)))
	garbage := payloadOf(99, len(data))
	disk := func() *vfs.MemFS {
		fs := newDisk(t, last, size)
		setWatermark(t, fs, last-1)
		return fs
	}
	for cut := start + 1; cut < len(data); cut++ {
		what := fmt.Sprintf("cut at byte %d", cut)
		fs := disk()
		replaceSegment(t, fs, tail, data[:cut])
		wantCut(t, fs, last-1, what)

		fs = disk()
		replaceSegment(t, fs, tail, append(bytes.Clone(data[:cut]), make([]byte, len(data)-cut+4096)...))
		if cut < len(data)-1 || data[cut] != 0 {
			wantCut(t, fs, last-1, what+", then zeros")
		}

		fs = disk()
		replaceSegment(t, fs, tail, append(bytes.Clone(data[:cut]), garbage[:len(data)-cut]...))
		if !bytes.Equal(data[cut:], garbage[:len(data)-cut]) {
			wantCut(t, fs, last-1, what+", then garbage")
		}
	}
	fs := newDisk(t, last, size)
	replaceSegment(t, fs, tail, append(bytes.Clone(data), make([]byte, 100)...))
	wantCut(t, fs, last, "intact, then zeros")
}

func TestOpenDetectsADamagedByteInEveryRecord(t *testing.T) {
	const last, size = 17, 60
	fs := newDisk(t, last, size)
	width := int(recordSize(payloadOf(1, size)))
	firsts := segmentsOf(t, fs)
	if len(firsts) < 2 {
		t.Fatal("want several segments for this test to mean anything")
	}
	for _, first := range firsts {
		data := contentOf(t, fs, first)
		for at := segmentHeaderSize; at < len(data); at++ {
			record := (at - segmentHeaderSize) / width
			for _, mask := range []byte{0x01, 0x80, 0xff, data[at]} {
				if mask == 0 {
					continue
				}
				bad := bytes.Clone(data)
				bad[at] ^= mask
				replaceSegment(t, fs, first, bad)
				wantCorrupt(t, fs, first, int64(segmentHeaderSize+record*width),
					fmt.Sprintf("byte %d of segment %d ^ %#x", at, first, mask))
			}
		}
		replaceSegment(t, fs, first, data)
	}
	l := mustOpen(t, testDir, smallOptions(fs))
	wantIDs(t, replayed(t, l), sequence(1, last))
	mustClose(t, l)
}

func TestOpenDetectsADamagedByteInEverySegmentHeader(t *testing.T) {
	fs := newDisk(t, 17, 60)
	for _, first := range segmentsOf(t, fs) {
		data := contentOf(t, fs, first)
		for at := range segmentHeaderSize {
			bad := bytes.Clone(data)
			bad[at] ^= 0x40
			replaceSegment(t, fs, first, bad)
			wantCorrupt(t, fs, first, 0, fmt.Sprintf("byte %d of the header of segment %d", at, first))
		}
		for size := range segmentHeaderSize {
			replaceSegment(t, fs, first, data[:size])
			wantCorrupt(t, fs, first, 0, fmt.Sprintf("header of segment %d cut to %d bytes", first, size))
		}
		replaceSegment(t, fs, first, data)
	}
}

func TestOpenDetectsATruncatedEarlierSegment(t *testing.T) {
	fs := newDisk(t, 17, 60)
	first := segmentsOf(t, fs)[0]
	width := int(recordSize(payloadOf(1, 60)))
	data := contentOf(t, fs, first)
	for size := segmentHeaderSize; size < len(data); size++ {
		replaceSegment(t, fs, first, data[:size])
		wantCorrupt(t, fs, first, int64(size-(size-segmentHeaderSize)%width), fmt.Sprintf("cut to %d bytes", size))
	}
}

func TestOpenDetectsAMissingSegment(t *testing.T) {
	pristine := newDisk(t, 60, 60)
	firsts := segmentsOf(t, pristine)
	for i := 1; i < len(firsts)-1; i++ {
		fs := newDisk(t, 60, 60)
		if err := fs.Remove(fs.PathJoin(testDir, segmentName(firsts[i]))); err != nil {
			t.Fatal(err)
		}
		end := int64(len(contentOf(t, fs, firsts[i-1])))
		wantCorrupt(t, fs, firsts[i-1], end, fmt.Sprintf("without segment %d", firsts[i]))
	}
}

func TestOpenDetectsASegmentUnderAWrongName(t *testing.T) {
	fs := newDisk(t, 60, 60)
	firsts := segmentsOf(t, fs)
	replaceSegment(t, fs, firsts[1], contentOf(t, fs, firsts[2]))
	wantCorrupt(t, fs, firsts[1], 0, "the third segment under the name of the second")
}

func TestOpenIgnoresForeignFilesUnlessTheyLookLikeSegments(t *testing.T) {
	fs := newDisk(t, 5, 60)
	for _, name := range []string{"lost+found", "README", segmentName(7) + stagedSuffix} {
		f, err := fs.Create(fs.PathJoin(testDir, name), diskCategory)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := mustOpen(t, testDir, smallOptions(fs))
	wantIDs(t, replayed(t, l), sequence(1, 5))
	mustClose(t, l)
	if _, err := fs.Stat(fs.PathJoin(testDir, "README")); err != nil {
		t.Errorf("a foreign file was removed: %v", err)
	}
	if _, err := fs.Stat(fs.PathJoin(testDir, segmentName(7)+stagedSuffix)); err == nil {
		t.Error("the incomplete segment was not removed")
	}
	for _, name := range []string{"1.log", "00000000000000000000.log", "00000000000000000001-copy.log",
		"99999999999999999999.log"} {
		fs := newDisk(t, 5, 60)
		if _, err := fs.Create(fs.PathJoin(testDir, name), diskCategory); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(testDir, smallOptions(fs)); err == nil || !strings.Contains(err.Error(), "move it out") {
			t.Errorf("with %s: %v", name, err)
		}
	}
}

func TestOpenNamesTheFormatOfALogItDoesNotRead(t *testing.T) {
	fs := newDisk(t, 5, 60)
	data := contentOf(t, fs, 1)
	data[8]++
	data = append(appendChecksummed(data[:segmentHeaderSize]), data[segmentHeaderSize:]...)
	replaceSegment(t, fs, 1, data)
	before := fmt.Sprint(fs)
	_, err := Open(testDir, smallOptions(fs))
	if c := new(CorruptError); err == nil || errors.As(err, &c) || !strings.Contains(err.Error(), "format version 3") {
		t.Fatalf("open: %v", err)
	}
	f := new(FormatError)
	if !errors.As(err, &f) || f.Found != 3 || f.Supported != formatVersion ||
		f.Segment != fs.PathJoin(testDir, segmentName(1)) ||
		!strings.Contains(err.Error(), "reads format version 2") ||
		!strings.Contains(err.Error(), "Run the release that wrote it") {
		t.Fatalf("open: %v, want the segment, both versions and what to do", err)
	}
	if after := fmt.Sprint(fs); after != before {
		t.Fatalf("the failed open changed the log from\n%s\nto\n%s", before, after)
	}
}

func appendChecksummed(header []byte) []byte {
	h := bytes.Clone(header)
	sum := segmentChecksum(h)
	h[12], h[13], h[14], h[15] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	return h
}

func TestOpenTreatsALaterPartOfATornWriteAsTorn(t *testing.T) {
	fs := vfs.NewMem()
	opts := Options{FS: fs, SegmentBytes: 1 << 16}
	l := mustOpen(t, testDir, opts)
	mustAppend(t, l, 1, 3, 50)
	synced := int(l.Bytes())
	if _, err := l.Append([][]byte{payloadOf(4, 3000), payloadOf(5, 3000), payloadOf(6, 3000),
		payloadOf(7, 3000)}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	data := contentOf(t, fs, 1)
	width := int(recordSize(payloadOf(4, 3000)))
	for lost := range 4 {
		torn := bytes.Clone(data)
		clear(torn[synced+lost*width:][:width])
		replaceSegment(t, fs, 1, torn)
		setWatermark(t, fs, 3)
		l := mustOpen(t, testDir, opts)
		wantIDs(t, replayed(t, l), sequence(1, 3+uint64(lost)))
		mustClose(t, l)
	}
	// With a later write after it, a crash cannot have left the same hole.
	replaceSegment(t, fs, 1, data)
	l = mustOpen(t, testDir, opts)
	mustAppend(t, l, 8, 8, 50)
	mustClose(t, l)
	data = contentOf(t, fs, 1)
	for lost := range 4 {
		at := synced + lost*width
		bad := bytes.Clone(data)
		clear(bad[at:][:width])
		replaceSegment(t, fs, 1, bad)
		wantCorrupt(t, fs, 1, int64(at), fmt.Sprintf("record %d cleared", 4+lost))
	}
}

func TestOpenIgnoresACopyOfALogInsideATornPayload(t *testing.T) {
	// The indices in the client's copy would prove corruption, but the copy has another salt.
	other := contentOf(t, newDisk(t, 9, 60), 1)
	fs := vfs.NewMem()
	opts := Options{FS: fs, SegmentBytes: 1 << 16}
	l := mustOpen(t, testDir, opts)
	if _, err := l.Append([][]byte{append(other, other...)}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	data := contentOf(t, fs, 1)
	data[len(data)-1] ^= 1
	replaceSegment(t, fs, 1, data)
	setWatermark(t, fs, 0)
	l = mustOpen(t, testDir, opts)
	defer mustClose(t, l)
	wantIDs(t, replayed(t, l), nil)
}

func TestRandomDamageIsDetectedOrLeavesWhatWasAcknowledged(t *testing.T) {
	const last = 40
	refused, cut := 0, 0
	for seed := range seeds(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		fs := newDisk(t, last, r.IntN(120))
		acknowledged := uint64(last)
		if r.IntN(2) == 0 {
			acknowledged -= r.Uint64N(4)
			setWatermark(t, fs, acknowledged)
		}
		firsts := segmentsOf(t, fs)
		first := firsts[r.IntN(len(firsts))]
		data := damaged(r, contentOf(t, fs, first))
		replaceSegment(t, fs, first, data)
		l, err := Open(testDir, smallOptions(fs))
		if c := new(CorruptError); errors.As(err, &c) {
			refused++
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		ids := replayed(t, l)
		if first != firsts[len(firsts)-1] && len(ids) != last || uint64(len(ids)) < acknowledged {
			t.Fatalf("seed %d: segment %d of %v was damaged, %d records were acknowledged, and %d of %d were replayed",
				seed, first, firsts, acknowledged, len(ids), last)
		}
		wantIDs(t, ids, sequence(1, uint64(len(ids))))
		mustClose(t, l)
		cut++
	}
	if refused == 0 || cut == 0 {
		t.Fatalf("%d refused, %d cut off; the test needs both", refused, cut)
	}
}

// damaged returns data with some bytes lost, changed, put in or taken out. It may change data.
func damaged(r *rand.Rand, data []byte) []byte {
	for range 1 + r.IntN(3) {
		at := r.IntN(len(data))
		n := min(1+r.IntN(1+r.IntN(200)), len(data)-at)
		switch r.IntN(5) {
		case 0: // lost
			clear(data[at:][:n])
		case 1: // another place's bytes
			copy(data[at:][:n], data[r.IntN(len(data)-n+1):])
		case 2: // taken out
			data = append(data[:at], data[at+n:]...)
		case 3: // put in
			data = append(data[:at:at], append(payloadOf(r.Uint64(), n), data[at:]...)...)
		default: // a bit
			data[at] ^= 1 << r.IntN(8)
		}
		if len(data) == 0 {
			data = []byte{0}
		}
	}
	return data
}
