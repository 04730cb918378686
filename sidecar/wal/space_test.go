package wal

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// smallDisk is a file system with little space. A write that does not fit is written in part. Writing over what is
// there needs no space.
type smallDisk struct {
	vfs.FS
	mu   sync.Mutex
	free int
}

func (d *smallDisk) setFree(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = n
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return &smallDiskFile{File: f, disk: d}, err
}

func (d *smallDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	return &smallDiskFile{File: f, disk: d, allocated: info.Size()}, err
}

type smallDiskFile struct {
	vfs.File
	disk                *smallDisk
	position, allocated int64
}

func (f *smallDiskFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	need := int(max(f.position+int64(len(p))-f.allocated, 0))
	fits := len(p) - need + min(need, f.disk.free)
	n, err := f.File.Write(p[:fits])
	f.position += int64(n)
	f.disk.free -= int(max(f.position-f.allocated, 0))
	f.allocated = max(f.allocated, f.position)
	if err == nil && fits < len(p) {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestAnAppendThatMetAFullDiskIsContinuedWhenThereIsSpace(t *testing.T) {
	for free := range 220 { // from nothing to more than the two records, over the start of a segment too
		disk := &smallDisk{FS: vfs.NewMem(), free: 1 << 20}
		l := mustOpen(t, testDir, smallOptions(disk))
		mustAppend(t, l, 1, 3, 40)
		disk.setFree(free)
		payloads := [][]byte{payloadOf(4, 40), payloadOf(5, 40)}
		_, err := l.Append(payloads)
		for range 2 {
			if err == nil {
				break // it has fitted
			}
			if !errors.Is(err, ErrNoSpace) || l.LastIndex() != 3 {
				t.Fatalf("%d bytes: append: %v, last index %d", free, err, l.LastIndex())
			}
			if err := l.TruncateBefore(1); err != nil {
				t.Fatalf("%d bytes: the log failed: %v", free, err)
			}
			_, err = l.Append(payloads)
		}
		disk.setFree(1 << 20)
		if err != nil {
			if last, err := l.Append(payloads); err != nil || last != 5 {
				t.Fatalf("%d bytes: append with space: %d, %v", free, last, err)
			}
		}
		mustAppend(t, l, 6, 9, 40)
		mustClose(t, l)
		l = mustOpen(t, testDir, smallOptions(disk))
		wantIDs(t, replayed(t, l), sequence(1, 9))
		mustClose(t, l)
	}
}

func TestOtherRecordsAreRefusedAfterAnUnfinishedAppend(t *testing.T) {
	disk := &smallDisk{FS: vfs.NewMem(), free: 1 << 20}
	l := mustOpen(t, testDir, smallOptions(disk))
	mustAppend(t, l, 1, 3, 40)
	disk.setFree(30)
	if _, err := l.Append([][]byte{payloadOf(4, 40)}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("append to a full disk: %v", err)
	}
	disk.setFree(1 << 20)
	if _, err := l.Append([][]byte{payloadOf(5, 30)}); err == nil {
		t.Fatal("records were written behind a part of others")
	}
	mustClose(t, l)
}

func TestALogIsOpenedOnAFullDisk(t *testing.T) {
	for torn := range 130 {
		disk := &smallDisk{FS: vfs.NewMem(), free: 1 << 20}
		l := mustOpen(t, testDir, smallOptions(disk))
		mustAppend(t, l, 1, 3, 40)
		disk.setFree(torn)
		if _, err := l.Append([][]byte{payloadOf(4, 60), payloadOf(5, 60)}); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("append to a full disk: %v", err)
		}
		mustClose(t, l)

		disk.setFree(0)
		l = mustOpen(t, testDir, smallOptions(disk))
		ids := replayed(t, l)
		wantIDs(t, ids, sequence(1, uint64(len(ids))))
		if len(ids) < 3 || len(ids) > 4 {
			t.Fatalf("%d bytes of an append: %d records were replayed", torn, len(ids))
		}
		next := uint64(len(ids)) + 1
		payloads := [][]byte{payloadOf(next, 30)} // shorter than what was cut off
		if _, err := l.Append(payloads); err != nil {
			if !errors.Is(err, ErrNoSpace) {
				t.Fatalf("append to a full disk: %v", err)
			}
			disk.setFree(1 << 20)
			if _, err := l.Append(payloads); err != nil {
				t.Fatalf("append with space: %v", err)
			}
		}
		mustClose(t, l)
		disk.setFree(0)
		l = mustOpen(t, testDir, smallOptions(disk))
		wantIDs(t, replayed(t, l), sequence(1, next))
		disk.setFree(1 << 20)
		mustAppend(t, l, next+1, 9, 40)
		mustClose(t, l)
		l = mustOpen(t, testDir, smallOptions(disk))
		wantIDs(t, replayed(t, l), sequence(1, 9))
		mustClose(t, l)
	}
}

func TestWhatWasCutOffOnAFullDiskDoesNotComeBack(t *testing.T) {
	disk := &smallDisk{FS: vfs.NewMem(), free: 1 << 20}
	l := mustOpen(t, testDir, smallOptions(disk))
	mustAppend(t, l, 1, 3, 40)
	path, end := l.segmentPath(1), l.Bytes()
	if _, err := l.Append([][]byte{payloadOf(4, 40), payloadOf(5, 40)}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	// As if the machine had crashed during the last append: of its two records only the second one is on the disk.
	f, err := disk.FS.OpenReadWrite(path, diskCategory)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 30), end); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	setWatermark(t, disk.FS, 3)
	disk.setFree(0)
	l = mustOpen(t, testDir, smallOptions(disk))
	wantIDs(t, replayed(t, l), sequence(1, 3))
	if _, err := l.Append([][]byte{payloadOf(4, 40)}); err != nil { // in the place of what was cut off
		t.Fatal(err)
	}
	mustClose(t, l)
	l = mustOpen(t, testDir, smallOptions(disk))
	wantIDs(t, replayed(t, l), sequence(1, 4))
	mustClose(t, l)
}
