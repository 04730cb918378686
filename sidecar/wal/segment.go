package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	segmentSuffix = ".log"
	// stagedSuffix marks a file that is still being written and not part of the log yet.
	stagedSuffix = ".tmp"

	diskCategory vfs.DiskWriteCategory = "write-buffer"
)

// segmentName is the index of the first record in 20 digits, so that names sort in the order of the records.
func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

func (l *Log) segmentPath(first uint64) string {
	return l.opts.FS.PathJoin(l.dir, segmentName(first))
}

// listSegments returns the first index of each segment in order, and removes files that a crash left half written. It
// ignores files with other names, such as lost+found.
func (l *Log) listSegments() ([]uint64, error) {
	names, err := l.opts.FS.List(l.dir)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	var firsts []uint64
	for _, name := range names {
		if strings.HasSuffix(name, segmentSuffix+stagedSuffix) || name == watermarkName+stagedSuffix {
			if err := l.opts.FS.Remove(l.opts.FS.PathJoin(l.dir, name)); err != nil {
				return nil, fmt.Errorf("remove unfinished file %s: %w", name, err)
			}
			continue
		}
		digits, ok := strings.CutSuffix(name, segmentSuffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || first == 0 || name != segmentName(first) {
			return nil,
				fmt.Errorf("file %s is no segment: a segment is named by the index of its first record in 20 digits; "+
					"move it out of the directory", l.opts.FS.PathJoin(l.dir, name))
		}
		firsts = append(firsts, first)
	}
	slices.Sort(firsts)
	return firsts, nil
}

// installFile durably makes content the file at path, and leaves it open for appends. The file gets its name once the
// content is on the disk, so a crash never leaves a segment without its header.
func (l *Log) installFile(path string, content []byte) (vfs.File, error) {
	f, err := l.opts.FS.Create(path+stagedSuffix, diskCategory)
	if err != nil {
		return nil, wrapNoSpace(fmt.Errorf("create %s: %w", path, err))
	}
	return l.installStaged(f, path+stagedSuffix, path, content)
}

// installStaged does the rest of installFile with an open file.
func (l *Log) installStaged(f vfs.File, staged, path string, content []byte) (vfs.File, error) {
	fs := l.opts.FS
	_, err := f.Write(content)
	if err != nil {
		err = fmt.Errorf("write %s: %w", path, err)
	} else if err = f.Sync(); err != nil {
		err = fmt.Errorf("sync %s: %w", path, err)
	} else if err = fs.Rename(staged, path); err != nil {
		err = fmt.Errorf("rename %s: %w", path, err)
	} else if err = syncDir(fs, l.dir); err == nil {
		return f, nil
	} else {
		return nil, errors.Join(err, f.Close()) // whether the file has its name is unknown
	}
	if isNoSpace(err) {
		// Only the unfinished file is affected. It goes, so that it does not take up space until the next start.
		return nil, errors.Join(wrapNoSpace(err), f.Close(), fs.Remove(staged))
	}
	return nil, errors.Join(err, f.Close())
}

// installSegment durably makes a segment that consists of a header, and leaves it open for appends. If there is a spare
// file, it becomes the segment: what is behind the header are records with the salt of another segment, and with lower
// indices.
func (l *Log) installSegment(first uint64, header []byte) (vfs.File, error) {
	path := l.segmentPath(first)
	if !l.hasSpare {
		return l.installFile(path, header)
	}
	l.hasSpare = false
	f, err := l.opts.FS.OpenReadWrite(l.sparePath(), diskCategory)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", l.sparePath(), err)
	}
	return l.installStaged(f, l.sparePath(), path, header)
}

// retireSegment durably removes a segment, or makes it the spare file if there is none: where a file system has blocks
// already, a sync need not wait for its metadata.
func (l *Log) retireSegment(first uint64) (removed bool, err error) {
	path := l.segmentPath(first)
	if l.hasSpare {
		if err := l.opts.FS.Remove(path); err != nil {
			return false, fmt.Errorf("remove segment %s: %w", path, err)
		}
		return true, syncDir(l.opts.FS, l.dir)
	}
	if err := l.opts.FS.Rename(path, l.sparePath()); err != nil {
		return false, fmt.Errorf("rename segment %s: %w", path, err)
	}
	// Only now may the content change: a crash must not bring the segment back with another header.
	if err := syncDir(l.opts.FS, l.dir); err != nil {
		return true, err
	}
	l.hasSpare = true
	return true, nil
}

// sparePath is the path of the spare file. By its name it is removed when the log is opened.
func (l *Log) sparePath() string {
	return l.opts.FS.PathJoin(l.dir, "spare"+segmentSuffix+stagedSuffix)
}

// newSegmentHeader returns the header of a new segment, with a random salt.
func (l *Log) newSegmentHeader(first uint64) ([]byte, error) {
	var salt [8]byte
	if _, err := io.ReadFull(l.opts.Rand, salt[:]); err != nil {
		return nil, fmt.Errorf("generate the salt of segment %s: %w", segmentName(first), err)
	}
	return appendSegmentHeader(make([]byte, 0, segmentHeaderSize), first, salt), nil
}

// startSegment creates an empty segment for the records from first on, and makes it the active one.
func (l *Log) startSegment(first uint64) error {
	header, err := l.newSegmentHeader(first)
	if err != nil {
		return err
	}
	salt, err := parseSegmentHeader(header, l.segmentPath(first), first)
	if err != nil {
		return err
	}
	f, err := l.installSegment(first, header)
	if err != nil {
		return err
	}
	if l.active != nil {
		if err := l.active.Close(); err != nil {
			l.active = nil
			return errors.Join(fmt.Errorf("close the predecessor of segment %s: %w", segmentName(first), err),
				f.Close())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active, l.salt = f, salt
	l.segments = append(l.segments, segment{first: first, size: segmentHeaderSize})
	l.bytes += segmentHeaderSize
	return nil
}

// readSegment reads a whole segment into buf, which it grows if necessary.
func (l *Log) readSegment(first uint64, buf []byte) ([]byte, error) {
	path := l.segmentPath(first)
	f, err := l.opts.FS.Open(path)
	if err != nil {
		return buf, fmt.Errorf("open segment %s: %w", path, err)
	}
	buf, err = readInto(f, buf)
	if err = errors.Join(err, f.Close()); err != nil {
		return buf, fmt.Errorf("read segment %s: %w", path, err)
	}
	return buf, nil
}

// readInto reads a whole file into buf, which it grows if necessary.
func readInto(f vfs.File, buf []byte) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return buf, err
	}
	size := int(info.Size())
	buf = slices.Grow(buf[:0], size)[:size]
	n, err := f.ReadAt(buf, 0)
	if n == size {
		return buf, nil // io.EOF may come with the last byte
	}
	return buf, fmt.Errorf("at byte %d: %w", n, err)
}

// syncDir makes the directory entries of dir durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return fmt.Errorf("open directory %s to sync it: %w", dir, err)
	}
	if err = errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// makeDir durably creates dir and its missing parents: a log whose directory entry is lost is lost itself.
func makeDir(fs vfs.FS, dir string) error {
	var parents []string
	for d := dir; ; {
		parent := fs.PathDir(d)
		if parent == d {
			break
		}
		parents = append(parents, parent)
		if _, err := fs.Stat(parent); err == nil {
			break
		}
		d = parent
	}
	if err := fs.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	for _, parent := range parents {
		if err := syncDir(fs, parent); err != nil {
			return err
		}
	}
	return nil
}
