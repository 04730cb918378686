package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// ledger is a file system below Pebble that keeps, as the note of the watermark, what Pebble itself does not check at
// a start: that its manifest goes as far as it did, and that none of its logs is gone. If one of them is without its
// end, or gone, the last writes are there and earlier ones are missing, so the number of the last batch does not
// tell.
//
// As for the watermark: nothing is noted before it is durable, and what is about to be removed is taken out first,
// durably.
type ledger struct {
	vfs.FS
	dir string

	mu        sync.Mutex
	watermark *watermark.File            // nil until there is one
	manifests map[uint64]*manifestDigest // that were created since the start, by number
	noted     fileState
}

// fileState is what the note says.
type fileState struct {
	manifest     uint64 // the number of the one that is in use; 0: unknown
	size, digest uint64 // of its durable part
	logs         []uint64
}

// manifestDigest is the digest of a manifest that is being written.
type manifestDigest struct {
	digest *xxhash.Digest
	size   uint64
	synced struct{ size, digest uint64 }
}

// maxNotedLogs bounds the logs that are noted, the last ones. Pebble has two or three.
const maxNotedLogs = 100

func newLedger(fs vfs.FS, dir string) *ledger {
	return &ledger{FS: fs, dir: dir, manifests: map[uint64]*manifestDigest{}}
}

// Unwrap returns the file system below, for vfs.Root.
func (l *ledger) Unwrap() vfs.FS { return l.FS }

func (s *fileState) encode() []byte {
	var b []byte
	for _, n := range append([]uint64{s.manifest, s.size, s.digest}, s.logs...) {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// parseFileState decodes what encode wrote. No note stands for nothing.
func parseFileState(b []byte) (s fileState) {
	var n []uint64
	for ; len(b) >= 8; b = b[8:] {
		n = append(n, binary.LittleEndian.Uint64(b))
	}
	if len(n) >= 3 {
		s = fileState{n[0], n[1], n[2], n[3:]}
	}
	return s
}

// attach makes w have the note. What it has noted already holds until that changes.
func (l *ledger) attach(w *watermark.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted, l.watermark = parseFileState(w.Note()), w
}

// note needs l.mu.
func (l *ledger) note(sync bool) error {
	if l.watermark == nil {
		return nil
	}
	return l.watermark.SetNote(l.noted.encode(), sync)
}

// begin attaches a new watermark, which has what was noted so far.
func (l *ledger) begin(create func(note []byte) (*watermark.File, error)) (w *watermark.File, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, err = create(l.noted.encode()); err == nil {
		l.watermark = w
	}
	return w, err
}

// check returns how the files of a closed store are not those that its watermark has noted.
func (l *ledger) check(noted fileState) error {
	for _, log := range noted.logs {
		path := l.PathJoin(l.dir, fmt.Sprintf("%06d.log", log))
		if _, err := l.Stat(path); err != nil {
			return fmt.Errorf("log of writes: %w", err)
		}
	}
	if noted.manifest == 0 {
		return nil
	}
	marker, current, err := atomicfs.LocateMarker(l.FS, l.dir, "manifest")
	if err == nil {
		err = marker.Close()
	}
	if err != nil {
		return fmt.Errorf("look for the manifest: %w", err)
	}
	name := fmt.Sprintf("MANIFEST-%06d", noted.manifest)
	switch n, ok := manifestNumber(current); {
	case !ok || n < noted.manifest:
		return fmt.Errorf("%s is not in use any more, but %q", name, current)
	case n > noted.manifest: // a newer one is in use, which was not noted before a crash
		return nil
	}
	return l.checkManifest(name, noted)
}

func (l *ledger) checkManifest(name string, noted fileState) error {
	f, err := l.Open(l.PathJoin(l.dir, name))
	if err != nil {
		return err
	}
	digest := xxhash.New()
	n, err := io.Copy(digest, io.LimitReader(f, int64(noted.size)))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if uint64(n) < noted.size || digest.Sum64() != noted.digest {
		return fmt.Errorf("%s is not as it was written in its first %d bytes", name, noted.size)
	}
	return nil
}

func manifestNumber(name string) (uint64, bool) {
	text, ok := strings.CutPrefix(name, "MANIFEST-")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, ok && err == nil
}

func logNumber(name string) (uint64, bool) {
	text, ok := strings.CutSuffix(name, ".log")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, ok && err == nil
}

// Create implements vfs.FS.
func (l *ledger) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, category)
	if err != nil {
		return f, err
	}
	if n, ok := manifestNumber(l.PathBase(name)); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.manifests[n] = &manifestDigest{digest: xxhash.New()}
		return &manifestFile{File: f, ledger: l, number: n}, nil
	}
	return f, nil
}

// ReuseForWrite implements vfs.FS.
func (l *ledger) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := l.removeLog(l.PathBase(oldname)); err != nil {
		return nil, err
	}
	return l.FS.ReuseForWrite(oldname, newname, category)
}

// Remove implements vfs.FS.
func (l *ledger) Remove(name string) error {
	if err := l.removeLog(l.PathBase(name)); err != nil {
		return err
	}
	return l.FS.Remove(name)
}

// addLog notes a log whose name is durable.
func (l *ledger) addLog(n uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noted.logs = append(l.noted.logs, n)
	if excess := len(l.noted.logs) - maxNotedLogs; excess > 0 {
		l.noted.logs = l.noted.logs[excess:]
	}
	return l.note(false)
}

// removeLog takes a log that is about to be removed out of the note.
func (l *ledger) removeLog(name string) error {
	n, ok := logNumber(name)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.noted.logs, n)
	if i < 0 {
		return nil
	}
	l.noted.logs = slices.Delete(l.noted.logs, i, i+1)
	return l.note(true)
}

// useManifest notes that a manifest is in use, durably.
func (l *ledger) useManifest(n uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.manifests[n]
	if m == nil {
		return nil
	}
	clear(l.manifests)
	l.manifests[n] = m
	l.noted.manifest, l.noted.size, l.noted.digest = n, m.synced.size, m.synced.digest
	return l.note(false)
}

// manifestFile is a manifest that is written.
type manifestFile struct {
	vfs.File
	ledger *ledger
	number uint64
}

// Write implements vfs.File. The file below may change p. A manifest that could not be written is not noted any more.
func (f *manifestFile) Write(p []byte) (int, error) {
	l := f.ledger
	l.mu.Lock()
	if m := l.manifests[f.number]; m != nil {
		_, _ = m.digest.Write(p) // never fails
		m.size += uint64(len(p))
	}
	l.mu.Unlock()
	n, err := f.File.Write(p)
	if err != nil {
		l.mu.Lock()
		delete(l.manifests, f.number)
		l.mu.Unlock()
	}
	return n, err
}

// Sync implements vfs.File.
func (f *manifestFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *manifestFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *manifestFile) sync(sync func() error) error {
	l := f.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.manifests[f.number]
	if err := sync(); err != nil || m == nil {
		return err
	}
	m.synced.size, m.synced.digest = m.size, m.digest.Sum64()
	if l.noted.manifest != f.number {
		return nil
	}
	l.noted.size, l.noted.digest = m.synced.size, m.synced.digest
	return l.note(false)
}
