// Package watermark keeps the number up to which a store was acknowledged, in a file beside it (PROTOCOL LOSS-1).
// The store alone cannot tell the rest of a write that was never acknowledged from one
// that was: both are missing at its end. A store that is below its watermark has lost what it had acknowledged.
//
// The watermark never exceeds what was durable when it was written, so a crash never makes an intact store look like
// a damaged one. It is written after each sync of the store and is not synced itself, so it survives the end of the
// process. Sync, now and then, makes it survive a power cut. A note of the owner is kept with it.
//
// The file has two slots in different blocks. The one that was synced last is not written before the other one is
// synced: whatever a power cut tears, one slot is intact.
//
// Of two intact slots, the one with the greater generation counts.
//
//	slot: magic [8] | generation u64 | value u64 | length of the note u16 | note | xxhash of all before it u64
package watermark

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Lost is the value of a store that is known to have lost something, if it is not known how far it was acknowledged.
// Else the value has the lostBit: no store comes that far.
const (
	Lost    = math.MaxUint64
	lostBit = 1 << 63
)

// ErrDamaged: the file has no intact slot.
var ErrDamaged = errors.New("it says how far the store was acknowledged, and fails its checksums")

const (
	// MaxNote is the maximum size of a note, in bytes.
	MaxNote = 1024

	slotSpace = 4096 // a torn write damages at most the block that it is to
	headSize  = 26
	sumSize   = 8
	category  = vfs.WriteCategoryUnspecified
)

var magic = [8]byte{'c', 's', 't', 'o', 'r', 'e', 'w', 'm'}

// slot is what one of the slots holds.
type slot struct {
	generation, value uint64
	note              []byte
}

func (s *slot) appendTo(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, s.generation)
	dst = binary.LittleEndian.AppendUint64(dst, s.value)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(s.note)))
	dst = append(dst, s.note...)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// decode returns the slot at the beginning of b; false if it is not as it was written.
func decode(b []byte) (s slot, ok bool) {
	if len(b) < headSize+sumSize || string(b[:len(magic)]) != string(magic[:]) {
		return s, false
	}
	end := headSize + int(binary.LittleEndian.Uint16(b[headSize-2:]))
	if end > headSize+MaxNote || len(b) < end+sumSize || binary.LittleEndian.Uint64(b[end:]) != xxhash.Sum64(b[:end]) {
		return s, false
	}
	return slot{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), b[headSize:end]}, true
}

// File is a watermark that is open. Its methods may be called concurrently.
type File struct {
	path string

	mu    sync.Mutex
	f     vfs.File // nil once it is closed
	now   slot     // as it was written last
	isNew bool     // it is not synced
	next  int64    // the slot that is written next; the other one is durable
	buf   []byte
}

// Open opens the watermark in a file. found is false if there is none; see Create.
func Open(fs vfs.FS, path string) (w *File, found bool, err error) {
	if _, err := fs.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	f, err := fs.OpenReadWrite(path, category) // it would create the file
	if err != nil {
		return nil, false, fmt.Errorf("open %s: %w", path, err)
	}
	b := make([]byte, 2*slotSpace)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	b = b[:n]
	w = &File{path: path, f: f}
	first, ok := decode(b)
	second, ok2 := decode(b[min(n, slotSpace):])
	switch {
	case !ok && !ok2:
		return nil, true, errors.Join(fmt.Errorf("%s: %w", path, ErrDamaged), f.Close())
	case ok && (!ok2 || first.generation >= second.generation):
		w.now, w.next = first, 1
	default:
		w.now, w.next = second, 0
	}
	// What was read may not be durable. Make it so before the other slot is written.
	if err := ignoreNoSpace(f.Sync()); err != nil {
		return nil, true, errors.Join(fmt.Errorf("sync %s: %w", path, err), f.Close())
	}
	return w, true, nil
}

// Create makes a watermark, or replaces one. It is durable afterwards.
func Create(fs vfs.FS, path string, value uint64, note []byte) (*File, error) {
	if err := install(fs, path, (&slot{value: value, note: note}).appendTo(nil)); err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	w, found, err := Open(fs, path)
	if err == nil && !found {
		err = fmt.Errorf("%s is gone just after it was written", path)
	}
	return w, err
}

func install(fs vfs.FS, path string, content []byte) error {
	staged := path + ".tmp"
	f, err := fs.Create(staged, category)
	if err != nil {
		return err
	}
	b := make([]byte, 2*slotSpace)
	copy(b, content)
	copy(b[slotSpace:], content)
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(staged, path); err != nil {
		return err
	}
	dir, err := fs.OpenDir(fs.PathDir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Value returns the watermark.
func (w *File) Value() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.value
}

// IsLost reports whether the store is known to have lost something.
func (w *File) IsLost() bool { return w.Value()&lostBit != 0 }

// Acknowledged returns how far the store was acknowledged, also if it has lost something; false if that is not known.
func (w *File) Acknowledged() (value uint64, known bool) {
	value = w.Value()
	return value &^ lostBit, value != Lost
}

// Note returns the note.
func (w *File) Note() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now.note
}

// Raise records that everything up to value is durable, unless more is recorded already. It does not sync. On a full
// disk the file remains as it is: a watermark that is too low is only less of use.
func (w *File) Raise(value uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if value <= w.now.value || w.f == nil {
		return nil
	}
	return ignoreNoSpace(w.write(value, w.now.note))
}

// SetNote replaces the note, which is retained. It syncs it if that is asked for, and then fails on a full disk, too.
func (w *File) SetNote(note []byte, sync bool) error {
	if len(note) > MaxNote {
		return fmt.Errorf("%s: a note of %d bytes is too long", w.path, len(note))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := w.write(w.now.value, note)
	if !sync {
		return ignoreNoSpace(err)
	}
	if err == nil {
		err = w.sync()
	}
	return err
}

// write needs w.mu.
func (w *File) write(value uint64, note []byte) error {
	next := slot{w.now.generation + 1, value, note}
	w.buf = next.appendTo(w.buf[:0])
	if _, err := w.f.WriteAt(w.buf, w.next*slotSpace); err != nil {
		return fmt.Errorf("write to %s that everything up to %d is acknowledged: %w", w.path, value, err)
	}
	w.now, w.isNew = next, true
	return nil
}

// Sync makes the watermark durable.
func (w *File) Sync() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ignoreNoSpace(w.sync())
}

// sync needs w.mu.
func (w *File) sync() error {
	if w.f == nil || !w.isNew {
		return nil
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", w.path, err)
	}
	w.isNew, w.next = false, 1-w.next
	return nil
}

// MarkLost records durably that the store has lost something.
func (w *File) MarkLost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil || w.now.value&lostBit != 0 {
		return nil
	}
	if err := w.write(w.now.value|lostBit, w.now.note); err != nil {
		return err
	}
	return w.sync()
}

// Close makes the watermark durable and closes its file.
func (w *File) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := errors.Join(ignoreNoSpace(w.sync()), w.f.Close())
	w.f = nil
	return err
}

// ignoreNoSpace returns an error, unless it is that of a full disk: some file systems need space to overwrite.
func ignoreNoSpace(err error) error {
	if isNoSpace(err) {
		return nil
	}
	return err
}

func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
