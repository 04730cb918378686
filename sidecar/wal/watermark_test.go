package wal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// watermarkOf returns the content of the file with the watermark.
func watermarkOf(t testing.TB, fs vfs.FS) []byte {
	t.Helper()
	f, err := fs.Open(fs.PathJoin(testDir, watermarkName))
	if err != nil {
		t.Fatal(err)
	}
	data, err := readInto(f, nil)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return data
}

// replaceFile replaces the content of a file of the log.
func replaceFile(t testing.TB, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(fs.PathJoin(testDir, name), diskCategory)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(bytes.Clone(data))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func removeFile(t testing.TB, fs vfs.FS, name string) {
	t.Helper()
	if err := fs.Remove(fs.PathJoin(testDir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestOpenDetectsACutAtEveryByteOfTheLastSegment(t *testing.T) {
	const last, size = 17, 60
	fs := newDisk(t, last, size)
	tail := slices.Max(segmentsOf(t, fs))
	data := contentOf(t, fs, tail)
	width := int(recordSize(payloadOf(1, size)))
	for cut := segmentHeaderSize; cut < len(data); cut++ {
		replaceSegment(t, fs, tail, data[:cut])
		whole := (cut - segmentHeaderSize) / width
		wantCorrupt(t, fs, tail, int64(segmentHeaderSize+whole*width), fmt.Sprintf("cut at byte %d", cut))
		_, err := Open(testDir, smallOptions(fs))
		if want := fmt.Sprintf("goes to record %d, and was acknowledged up to record %d", int(tail)-1+whole,
			last); !strings.Contains(err.Error(), want) {
			t.Fatalf("cut at byte %d: %v, want %q", cut, err, want)
		}
	}
	replaceSegment(t, fs, tail, data)
	l := mustOpen(t, testDir, smallOptions(fs))
	wantIDs(t, replayed(t, l), sequence(1, last))
	mustClose(t, l)
}

func TestOpenDetectsThatSegmentsAreGoneFromTheEnd(t *testing.T) {
	fs := newDisk(t, 60, 60)
	firsts := segmentsOf(t, fs)
	for i := len(firsts) - 1; i > 0; i-- {
		removeFile(t, fs, segmentName(firsts[i]))
		wantCorrupt(t, fs, firsts[i-1], int64(len(contentOf(t, fs, firsts[i-1]))),
			fmt.Sprintf("without the segments from %d on", firsts[i]))
	}
	removeFile(t, fs, segmentName(firsts[0]))
	_, err := Open(testDir, smallOptions(fs))
	if c := new(CorruptError); !errors.As(err, &c) || !strings.Contains(err.Error(), "acknowledged up to record 60") {
		t.Fatalf("without segments: %v", err)
	}
}

func TestOpenNeedsAWatermark(t *testing.T) {
	fs := newDisk(t, 5, 60)
	data := watermarkOf(t, fs)
	refused := func(what string) {
		t.Helper()
		before := fmt.Sprint(fs)
		_, err := Open(testDir, smallOptions(fs))
		if c := new(CorruptError); !errors.As(err, &c) || c.File != fs.PathJoin(testDir, watermarkName) {
			t.Fatalf("%s: %v", what, err)
		}
		if after := fmt.Sprint(fs); after != before {
			t.Fatalf("%s: the failed open changed the log from\n%s\nto\n%s", what, before, after)
		}
	}
	removeFile(t, fs, watermarkName)
	refused("without it")
	for _, bad := range [][]byte{nil, make([]byte, len(data)), data[:10], payloadOf(1, len(data))} {
		replaceFile(t, fs, watermarkName, bad)
		refused(fmt.Sprintf("replaced by %d bytes", len(bad)))
	}
	// One slot is enough.
	for _, at := range []int{0, watermarkSlot2} {
		for bit := range watermarkSlotSize * 8 {
			bad := bytes.Clone(data)
			bad[at+bit/8] ^= 1 << (bit % 8)
			replaceFile(t, fs, watermarkName, bad)
			l := mustOpen(t, testDir, smallOptions(fs))
			wantIDs(t, replayed(t, l), sequence(1, 5))
			mustClose(t, l)
			repaired := watermarkOf(t, fs)
			first, ok := parseWatermark(repaired)
			second, ok2 := parseWatermark(repaired[watermarkSlot2:])
			if !ok || !ok2 || first != 5 || second != 5 {
				t.Fatalf("byte %d, bit %d: the watermark was repaired to %d %v, %d %v", at+bit/8, bit%8, first, ok,
					second, ok2)
			}
		}
	}
}

func TestAFailedSyncDoesNotRaiseTheWatermark(t *testing.T) {
	disk := vfs.NewMem()
	broken := false
	l := mustOpen(t, testDir, smallOptions(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && broken {
			return errorfs.ErrInjected
		}
		return nil
	}))))
	mustAppend(t, l, 1, 3, 20)
	before := watermarkOf(t, disk)
	broken = true
	if _, err := l.Append([][]byte{payloadOf(4, 20)}); !errors.Is(err, errorfs.ErrInjected) {
		t.Fatal(err)
	}
	mustClose(t, l)
	if index, ok := parseWatermark(watermarkOf(t, disk)[watermarkSlot2:]); !bytes.Equal(watermarkOf(t, disk), before) ||
		!ok || index != 3 {
		t.Fatalf("the watermark is %d, %v", index, ok)
	}
	// The record was never acknowledged, so it may be missing.
	data := contentOf(t, disk, 1)
	replaceSegment(t, disk, 1, data[:len(data)-1])
	wantCut(t, disk, 3, "the record that was not synced")
}

func TestAppendsGoOnWhileThereIsNoSpaceToRaiseTheWatermark(t *testing.T) {
	disk := vfs.NewMem()
	full := false
	l := mustOpen(t, testDir, smallOptions(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full && strings.Contains(op.Path, watermarkName) && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	}))))
	mustAppend(t, l, 1, 3, 40)
	full = true
	mustAppend(t, l, 4, 40, 40) // over several segments
	full = false
	mustAppend(t, l, 41, 60, 40)
	mustClose(t, l)
	tail := slices.Max(segmentsOf(t, disk))
	replaceSegment(t, disk, tail, contentOf(t, disk, tail)[:segmentHeaderSize])
	wantCorrupt(t, disk, tail, segmentHeaderSize, "cut after there was space again")
}
