package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"

	"github.com/causalstore/causalstore/sidecar/retry"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// fullDisk is a file system on which a full disk makes Pebble wait instead of fail. Pebble cannot continue after a
// failed write of its log or manifest, and repeats a failed flush or compaction at once, some ten thousand times a
// second.
//
//   - A write of a log, a manifest or another small file is repeated until there is space, or Options.Stop. The writes
//     of the store wait for it; reads are served.
//   - A write of a table, or of a file of values, fails after a pause. Pebble then removes the incomplete file, which
//     frees its space, and tries again.
type fullDisk struct {
	vfs.FS
	logger *slog.Logger
	stop   <-chan struct{} // closed: nothing waits any more; may be nil
	onFull func(error)     // may be nil

	mu      sync.Mutex
	spare   []string  // directories that are removed if the disk is full
	err     error     // of the last operation that found no space
	at      time.Time // when that was; zero: never
	backoff retry.Backoff
	logged  rate.Sometimes
}

// fullFor is how long a disk counts as full after an operation found no space. It is longer than the greatest pause
// between attempts, because a full disk is one on which some operations succeed, and not all.
const fullFor = 4 * time.Second

func newFullDisk(o Options) *fullDisk {
	d := &fullDisk{FS: o.FS, logger: o.Logger, stop: o.Stop, onFull: o.OnFull,
		backoff: retry.Backoff{First: 10 * time.Millisecond, Max: time.Second},
		logged:  rate.Sometimes{First: 1, Interval: 10 * time.Second}}
	if d.FS == nil {
		d.FS = vfs.Default
	}
	if d.logger == nil {
		d.logger = slog.Default()
	}
	return d
}

// Unwrap returns the file system below, for vfs.Root.
func (d *fullDisk) Unwrap() vfs.FS { return d.FS }

// spareIn makes the damaged folders in a directory what is removed if the disk is full.
func (d *fullDisk) spareIn(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare = nil
	for _, name := range damagedNames {
		d.spare = append(d.spare, d.PathJoin(dir, name))
	}
}

// problem returns storage.ErrFull while the disk is full.
func (d *fullDisk) problem() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) > fullFor {
		return nil
	}
	return wrapFull(d.err)
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// wrapFull adds storage.ErrFull to an error that says that the disk is full.
func wrapFull(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	}
	return err
}

// pauseIfFull pauses if err says that there was no space, and reports whether the operation is to be tried again.
func (d *fullDisk) pauseIfFull(name string, err error) (again bool) {
	if !isNoSpace(err) {
		return false
	}
	pause := d.noteFull(err)
	if d.onFull != nil {
		d.onFull(wrapFull(err))
	}
	select {
	case <-time.After(pause):
	case <-d.stop:
		return false
	}
	return !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".blob")
}

func (d *fullDisk) noteFull(err error) (pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) > fullFor {
		d.backoff.Reset()
	}
	d.err, d.at = err, time.Now()
	for _, path := range d.spare {
		if _, statErr := d.Stat(path); statErr == nil {
			d.logger.Warn("storage: the disk is full; what was kept of the damaged store is removed", "path", path,
				"result", d.RemoveAll(path))
		}
	}
	d.logged.Do(func() { d.logger.Error("storage: the disk is full; writes wait until there is space", "error", err) })
	return d.backoff.Next()
}

// Create implements vfs.FS.
func (d *fullDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	for {
		f, err := d.FS.Create(name, category)
		if !d.pauseIfFull(name, err) {
			return d.wrap(name, f), err
		}
	}
}

// ReuseForWrite implements vfs.FS.
func (d *fullDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	for {
		f, err := d.FS.ReuseForWrite(oldname, newname, category)
		if !d.pauseIfFull(newname, err) {
			return d.wrap(newname, f), err
		}
	}
}

// Rename implements vfs.FS.
func (d *fullDisk) Rename(oldname, newname string) error {
	for {
		err := d.FS.Rename(oldname, newname)
		if !d.pauseIfFull(newname, err) {
			return err
		}
	}
}

func (d *fullDisk) wrap(name string, f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return &fullDiskFile{File: f, disk: d, name: name}
}

// fullDiskFile is a file of a fullDisk that is written.
type fullDiskFile struct {
	vfs.File
	disk *fullDisk
	name string
}

// Write implements vfs.File. It continues after what was written before the disk became full.
func (f *fullDiskFile) Write(p []byte) (n int, err error) {
	for {
		var written int
		written, err = f.File.Write(p[n:])
		n += written
		if !f.disk.pauseIfFull(f.name, err) {
			return n, err
		}
	}
}

// WriteAt implements vfs.File.
func (f *fullDiskFile) WriteAt(p []byte, offset int64) (n int, err error) {
	for {
		var written int
		written, err = f.File.WriteAt(p[n:], offset+int64(n))
		n += written
		if !f.disk.pauseIfFull(f.name, err) {
			return n, err
		}
	}
}
