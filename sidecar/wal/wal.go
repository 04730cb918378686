// Package wal implements the durable write buffer of a coordinator (PROTOCOL COO-1): an append-only log of opaque
// records in the segment files of one directory. A record that Append has acknowledged survives any crash of the
// process or the machine under the same index. No acknowledged record is dropped, and an append that does not fit is
// refused.
//
// The log does not group appends: its one writer, the coordinator's, collects everything that was accepted during a
// sync and passes it to the next Append.
//
// Failure model: the process or the machine may stop at any step. Bytes that were not synced may then be on the disk in
// part, in any order, or not at all. After a failed write or sync the log refuses all further calls, because the
// contents of the disk are unknown. A full disk is no such failure: Append returns ErrNoSpace until there is space.
// Open needs none if there is a log already. Open detects a disk that lost or changed synced data, and fails rather
// than open a log with a hole or without its end: a file beside the segments says how far the log was acknowledged. Two
// losses go undetected: of the last records together with a power cut, because that file is synced only when a segment
// starts and when the log is opened or closed; and of everything, if the directory comes back as it was earlier. Only a
// copy on another machine would help there, and this release keeps none (PROTOCOL LOG).
package wal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The defaults of Options.
const (
	DefaultSegmentBytes = 16 << 20
	DefaultMaxBytes     = 1 << 30
)

// maxSegmentBytes limits the size of a segment, because recovery reads a whole segment into memory.
const maxSegmentBytes = 1 << 30

var (
	// ErrFull is returned by Append when the records would take the log past Options.MaxBytes. TruncateBefore frees
	// space.
	ErrFull = errors.New("write buffer full")
	// ErrTooLarge is returned by Append for records that do not fit into one segment together.
	ErrTooLarge = errors.New("records too large for the write buffer log")
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("write buffer log is closed")
	// ErrReplay is returned by Replay after the first Append, and by all methods that use the segments while Replay
	// runs.
	ErrReplay = errors.New(
		"write buffer log can be replayed only before the first append, and not be used during the replay")
)

// Options configure a log. The zero value selects the defaults.
type Options struct {
	// FS is the file system. Default vfs.Default.
	FS vfs.FS
	// SegmentBytes is the maximum size of a segment file, and so of one Append. Space is freed one segment at a time.
	// Default DefaultSegmentBytes.
	SegmentBytes int64
	// MaxBytes limits the total size of the segments. It is at least two segments, so that a log whose records may all
	// be truncated has room again. Segment headers, 32 bytes each, may come on top. Default DefaultMaxBytes.
	MaxBytes int64
	// Logger receives what recovery cuts off, and errors. Default: nothing is logged.
	Logger *slog.Logger
	// Rand is the source of the segments' salts. Default crypto/rand.
	Rand io.Reader

	// acceptLostTail is a mutation for tests: what is missing at the end counts as never acknowledged.
	acceptLostTail bool
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = max(DefaultMaxBytes, 2*o.SegmentBytes)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.SegmentBytes <= segmentHeaderSize+recordHeaderSize || o.SegmentBytes > maxSegmentBytes {
		return o, fmt.Errorf("segment size of %d bytes: give a value between %d and %d",
			o.SegmentBytes, segmentHeaderSize+recordHeaderSize+1, maxSegmentBytes)
	}
	if o.MaxBytes < 2*o.SegmentBytes {
		return o, fmt.Errorf("write buffer limit of %d bytes: give at least two segments, %d bytes",
			o.MaxBytes, 2*o.SegmentBytes)
	}
	return o, nil
}

// segment is one file of the log. Its last record is the one before the first of the next segment.
type segment struct {
	first uint64
	size  int64
}

// Log is an open log. All methods may be called concurrently.
type Log struct {
	opts Options
	dir  string
	lock io.Closer

	mu sync.Mutex
	// idle is signaled when busy becomes false.
	idle sync.Cond
	// busy is set while one call holds the reservation: it uses the segment files, and the others wait. All fields from
	// segments to failed are written by the holder only, with mu held, so the holder may read them without mu.
	busy bool
	// replaying is set while the holder is Replay. Other calls then fail instead of waiting, because they may come from
	// Replay's own callback.
	replaying bool

	// segments is never empty. The last one is the active segment.
	segments []segment
	// bytes is the total size of the segments.
	bytes int64
	// last is the index of the last durable record, 0 if there never was one.
	last uint64
	// appended is set by the first Append; Replay is refused from then on.
	appended bool
	// failed is the first error of a write or sync; the log is unusable after it.
	failed error
	closed bool

	// The rest is used by the holder of the reservation only.
	active vfs.File
	salt   uint32 // the initial value of the record checksums in the active segment
	buf    []byte
	// hasSpare is set while there is a file for the next segment.
	hasSpare bool
	// unfinished is the write that the last Append could not complete because the disk was full.
	unfinished unfinished
	// watermark is open for writing. slot is a buffer for its content, and watermarkStuck is set while there is no
	// space to write it.
	watermark      vfs.File
	slot           [watermarkSlotSize]byte
	watermarkStuck bool
}

// Open opens the log in dir, or creates an empty one. It verifies every record. A tail that a crash left incomplete is
// cut off: the watermark says that it contains no acknowledged record. Any other damage is a *CorruptError, and a log
// of another format a *FormatError. A directory can be open only once at a time.
func Open(dir string, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open write buffer log %s: %w", dir, err)
	}
	// The lock is identified by its path, so two spellings of the path must not pass for two directories.
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("open write buffer log: %w", err)
	}
	l := &Log{opts: opts, dir: dir}
	l.idle.L = &l.mu
	if err := makeDir(opts.FS, dir); err != nil {
		return nil, fmt.Errorf("open write buffer log %s: %w", dir, err)
	}
	lockName := opts.FS.PathJoin(dir, "LOCK")
	if l.lock, err = opts.FS.Lock(lockName); err != nil {
		return nil, fmt.Errorf("open write buffer log %s: lock %s: %w; a directory serves one coordinator at a time: "+
			"stop the process that has it open, or give this one a directory of its own", dir, lockName, err)
	}
	if err := l.recoverSegments(); err != nil {
		if l.active != nil {
			err = errors.Join(err, l.active.Close())
		}
		if l.watermark != nil {
			err = errors.Join(err, l.watermark.Close())
		}
		return nil, fmt.Errorf("open write buffer log %s: %w", dir, errors.Join(err, l.lock.Close()))
	}
	return l, nil
}

// LastIndex returns the index of the last durable record, truncated or not, and 0 if there never was one.
func (l *Log) LastIndex() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Bytes returns the total size of the segments, in bytes.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Close waits for the call that is using the segments, if any, and releases the directory; calls that were waiting for
// their turn get ErrClosed. It must not be called from the callback of Replay. A second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for l.busy {
		l.idle.Wait()
	}
	l.mu.Unlock()
	var err error
	if l.active != nil {
		err = l.active.Close()
	}
	if err = errors.Join(err, l.closeWatermark(), l.lock.Close()); err != nil {
		return fmt.Errorf("close write buffer log %s: %w", l.dir, err)
	}
	return nil
}

// reserve waits for this call's turn to use the segment files. If it returns nil, release must follow.
func (l *Log) reserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.busy && !l.replaying && !l.closed {
		l.idle.Wait()
	}
	if err := l.checkUsable(); err != nil {
		return err
	}
	l.busy = true
	return nil
}

func (l *Log) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.replaying = false, false
	l.idle.Broadcast()
}

// checkUsable returns the reason why the log takes no calls, if there is one. Called with mu held.
func (l *Log) checkUsable() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.failed != nil:
		return fmt.Errorf(
			"write buffer log %s is unusable after a disk error; check the disk and restart the process, "+
				"which recovers everything that is durable: %w", l.dir, l.failed)
	case l.replaying:
		return ErrReplay
	}
	return nil
}

// fail makes the log unusable, and returns the first error that did, which explains most. Called with mu held.
func (l *Log) fail(err error) error {
	if l.failed == nil {
		l.failed = err
		l.opts.Logger.Error("write buffer log failed and is unusable until the process restarts", "dir", l.dir,
			"err", err)
	}
	return l.failed
}
