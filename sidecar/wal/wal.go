// Package wal is the durable write buffer of a coordinator (PROTOCOL §4): an append-only log of opaque records, in
// segment files of one directory. A record that Append has acknowledged is there after any crash of the process or the
// machine, under the same index; nothing accepted is dropped, and what does not fit is refused.
//
// The failure model: the process or the machine may stop at any step; what was not yet synced may then be on the disk in
// part, in any order, or not at all. A write or sync that fails makes the log refuse everything further, because after it
// nobody knows what the disk holds. A disk that loses or changes what it had synced is found out at Open, which refuses
// rather than give a log with a hole. The one loss that cannot be told from a crash is damage to the last group of
// records ever written, or the loss of whole segments from the end: there only the chain (PROTOCOL §8) helps.
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

// maxSegmentBytes bounds a segment, because recovery holds one in memory.
const maxSegmentBytes = 1 << 30

var (
	// ErrFull is returned by Append when the record would take the log past Options.MaxBytes. TruncateBefore makes room.
	ErrFull = errors.New("write buffer full")
	// ErrTooLarge is returned by Append for records that no segment can hold together.
	ErrTooLarge = errors.New("records too large for the write buffer log")
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("write buffer log is closed")
	// ErrReplay is returned by Replay after the first Append, and by Append and TruncateBefore while Replay runs.
	ErrReplay = errors.New("write buffer log is replayed once, before the first append")
)

// Options say where and how large a log is. The zero value has the defaults.
type Options struct {
	// FS holds the directory; vfs.Default if nil.
	FS vfs.FS
	// SegmentBytes is the size at which a new file is begun, and the most that one Append may take. Space is given back
	// in units of it.
	SegmentBytes int64
	// MaxBytes bounds the size of all segments. It is at least two segments, so that a log whose records may all be
	// truncated always has room again. Headers of segments, 32 bytes each, may come on top.
	MaxBytes int64
	// Logger is told what recovery cut off and what went wrong; nothing if nil.
	Logger *slog.Logger
	// Rand gives each segment its salt; crypto/rand if nil.
	Rand io.Reader
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
		return o, fmt.Errorf("segment size of %d bytes: give between %d and %d",
			o.SegmentBytes, segmentHeaderSize+recordHeaderSize+1, maxSegmentBytes)
	}
	if o.MaxBytes < 2*o.SegmentBytes {
		return o, fmt.Errorf("write buffer bound of %d bytes: give at least two segments, %d bytes",
			o.MaxBytes, 2*o.SegmentBytes)
	}
	return o, nil
}

// segment is one file of the log. Its records end where the next segment begins.
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
	// idle is signalled when leading, truncating or replaying becomes false.
	idle sync.Cond

	// segments is never empty. Its last is the active one, which only the leader writes.
	segments []segment
	// bytes is the size of all segments.
	bytes int64
	// last is the index of the last durable record, 0 for none ever.
	last uint64
	// queue holds the appends that no group has taken yet; while leading, the first one's caller commits the next group.
	queue []*appender
	// queued is what the appends that are not durable yet will take, in bytes.
	queued int64

	leading, truncating, replaying bool
	appended, closed               bool
	// failed is the first error of a write or sync; the log accepts nothing after it.
	failed error

	// The rest belongs to the leader.
	active vfs.File
	salt   uint32 // what checksums in the active segment start from
	group  []*appender
	buf    []byte
}

// Open opens the log in dir, or makes an empty one. It verifies every record. A tail that a crash left incomplete is cut
// off, which cannot be an acknowledged record; any other damage is a *CorruptError. One Log at a time has a directory.
func Open(dir string, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open write buffer log %s: %w", dir, err)
	}
	// The lock knows a directory by its name, so it must have one name.
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
	if err := l.restore(); err != nil {
		if l.active != nil {
			err = errors.Join(err, l.active.Close())
		}
		return nil, fmt.Errorf("open write buffer log %s: %w", dir, errors.Join(err, l.lock.Close()))
	}
	return l, nil
}

// FirstIndex returns the index of the first retained record; with none, the index that the next one will get.
func (l *Log) FirstIndex() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[0].first
}

// LastIndex returns the index of the last durable record, 0 if there was never one. It is FirstIndex-1 if none is retained.
func (l *Log) LastIndex() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Bytes returns the size of all segments, in bytes.
func (l *Log) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Close waits for the appends and truncations that have begun, and releases the directory. It must not be called from
// within Replay. A second Close does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for l.leading || l.truncating || l.replaying {
		l.idle.Wait()
	}
	l.mu.Unlock()
	var err error
	if l.active != nil {
		err = l.active.Close()
	}
	if err = errors.Join(err, l.lock.Close()); err != nil {
		return fmt.Errorf("close write buffer log %s: %w", l.dir, err)
	}
	return nil
}

// usable says whether the log still accepts anything. Called with mu held.
func (l *Log) usable() error {
	switch {
	case l.closed:
		return ErrClosed
	case l.failed != nil:
		return fmt.Errorf("write buffer log %s accepts nothing after an error of its disk; check the disk and restart "+
			"the process, which recovers what is durable: %w", l.dir, l.failed)
	case l.replaying:
		return ErrReplay
	}
	return nil
}

// fail makes err sticky. Called with mu held.
func (l *Log) fail(err error) {
	if l.failed == nil {
		l.failed = err
		l.opts.Logger.Error("write buffer log failed and accepts nothing further", "dir", l.dir, "err", err)
	}
}
