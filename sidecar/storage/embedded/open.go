package embedded

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/causalstore/causalstore/sidecar/gate"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// watermarkName is the name of the watermark in the directory of a store. Pebble leaves files alone that it does not
// know.
const watermarkName = "acknowledged"

// Open opens the store in dir, and creates it if there is none. If the store is without something that it had
// acknowledged, the error is storage.ErrDataLost.
func Open(dir string, opts Options) (*Store, error) {
	s, opts, err := lockStore(dir, opts)
	if err != nil {
		return nil, wrapFull(explainOpenError(dir, err))
	}
	noted, err := s.openWatermark()
	if err == nil {
		if err = s.openDB(opts, noted); err != nil && isDamageAtOpen(err) {
			err = lostError(dir, err)
		}
	}
	if err == nil {
		err = s.checkWatermark(opts.trusting)
	}
	if lost := s.lost.get(); err == nil && lost != nil { // found by what Pebble does in the background
		s.markLost()
		err = lost
	}
	if err == nil {
		err = finishRenewal(s.disk, dir)
	}
	if err == nil {
		return s, nil
	}
	if errors.Is(err, storage.ErrDataLost) && s.db != nil && s.lost.get() == nil && opts.CheckOwner != nil {
		if owned := opts.CheckOwner(s); owned != nil {
			err = owned
		}
	}
	return nil, wrapFull(errors.Join(explainOpenError(dir, err), s.abandon()))
}

// lockStore returns a store without a database, which has the lock of the directory, and the options with defaults.
func lockStore(dir string, opts Options) (s *Store, complete Options, err error) {
	opts = opts.withDefaults()
	disk := newFullDisk(opts)
	opts.FS = disk
	if err := disk.MkdirAll(dir, 0o755); err != nil {
		return nil, opts, err
	}
	lock, err := pebble.LockDirectory(dir, disk)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, opts, err
		}
		return nil, opts, &lockedError{err}
	}
	s = &Store{dir: dir, lock: lock, disk: disk, ledger: newLedger(disk, dir), calls: gate.New(),
		lost: lossNote{dir: dir, logger: opts.Logger}}
	return s, opts, nil
}

// lockedError says that another process has the lock of the directory.
type lockedError struct{ error }

func (e *lockedError) Unwrap() error { return e.error }

// openWatermark opens the watermark, if there is one, and returns what it notes.
func (s *Store) openWatermark() (noted fileState, err error) {
	path := s.disk.PathJoin(s.dir, watermarkName)
	w, found, err := watermark.Open(s.disk, path)
	switch {
	case errors.Is(err, watermark.ErrDamaged):
		return noted, lostError(s.dir, err)
	case err != nil || !found:
		return noted, err
	case w.IsLost():
		return noted, errors.Join(lostError(s.dir, fmt.Errorf("this was found before, says %s", path)), w.Close())
	}
	s.ledger.attach(w)
	s.watermark.Store(w)
	return parseFileState(w.Note()), nil
}

// openDB opens the database, if its files are as they were noted.
func (s *Store) openDB(opts Options, noted fileState) (err error) {
	if err := s.ledger.check(noted); err != nil && !opts.trusting {
		return err
	}
	opts.FS = s.ledger
	o := opts.pebble(s)
	o.Lock = s.lock
	// Without it, Pebble would start over if the names of its files were gone.
	o.ErrorIfNotExists = s.watermark.Load() != nil
	if err := removeDamagedOptions(s.dir, opts, o); err != nil {
		return err
	}
	if s.db, err = openPebble(s.dir, o); err != nil {
		return err
	}
	count, _, err := s.readNumber(countKey)
	s.count.Store(int64(count))
	return err
}

// openPebble opens the database. What Pebble does not expect of a damaged file becomes an error.
func openPebble(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", pebble.ErrCorruption, r)
		}
	}()
	return pebble.Open(dir, o)
}

// checkWatermark compares the store with its watermark. A store of an earlier version gets one.
func (s *Store) checkWatermark(trusting bool) error {
	sequence, counts, err := s.readNumber(sequenceKey)
	if err != nil {
		return err
	}
	s.sequence = sequence
	w := s.watermark.Load()
	switch path := s.disk.PathJoin(s.dir, watermarkName); {
	case w == nil && counts:
		err = fmt.Errorf("%s is gone: it says how far the store was acknowledged", path)
	case w != nil && sequence < w.Value():
		err = fmt.Errorf("it has the writes up to %d, and was acknowledged up to %d", sequence, w.Value())
	}
	if err != nil && !trusting {
		return lostError(s.dir, err)
	}
	if w == nil {
		if err := s.beginWatermark(); err != nil {
			return err
		}
	}
	if !counts { // from now on, a store without a watermark has lost it
		return s.commit(s.db.NewBatch(), 0)
	}
	return s.acknowledge(sequence) // Open has made durable what Pebble has read from its log
}

// beginWatermark makes a watermark, or replaces it.
func (s *Store) beginWatermark() error {
	if old := s.watermark.Load(); old != nil {
		if err := old.Close(); err != nil {
			return err
		}
	}
	w, err := s.ledger.begin(func(note []byte) (*watermark.File, error) {
		return watermark.Create(s.disk, s.disk.PathJoin(s.dir, watermarkName), s.sequence, note)
	})
	s.watermark.Store(w)
	return err
}

// noteFiles notes that Pebble has another file, unless it has failed to create it.
func (s *Store) noteFiles(failed error, note func() error) {
	if failed != nil {
		return
	}
	if err := note(); err != nil {
		_ = s.fail(err)
	}
}

// abandon closes a store that Open refuses.
func (s *Store) abandon() error {
	s.calls.Close()
	if s.db != nil {
		_ = s.db.Close() // what it could not write is lost with the rest
	}
	return s.closeFiles()
}

// closeFiles closes what is not Pebble's.
func (s *Store) closeFiles() (err error) {
	if w := s.watermark.Load(); w != nil {
		err = w.Close()
	}
	return errors.Join(err, s.lock.Close())
}

// removeDamagedOptions removes the file with Pebble's options if it cannot be read as such. Pebble only compares it
// with the options that it is given, refuses to start if it cannot, and writes it again at each start.
func removeDamagedOptions(dir string, opts Options, o *pebble.Options) error {
	names, err := opts.FS.List(dir)
	if err != nil {
		return err
	}
	o = o.Clone()
	o.EnsureDefaults()
	for _, name := range names {
		if !strings.HasPrefix(name, "OPTIONS-") {
			continue
		}
		path := opts.FS.PathJoin(dir, name)
		text, err := readFile(opts.FS, path)
		if err != nil {
			return err
		}
		if err := o.CheckCompatibility(dir, text); err != nil {
			opts.Logger.Warn("storage: removed a damaged file that holds no data", "file", path, "error", err)
			if err := opts.FS.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// explainOpenError adds the remedy to the errors of Open that have one.
func explainOpenError(dir string, err error) error {
	_, locked := errors.AsType[*lockedError](err)
	switch {
	case errors.Is(err, storage.ErrDataLost):
		return err
	case locked:
		return fmt.Errorf(
			"open store in %s: it is already open, in this process or in another one; give each store its own "+
				"directory: %w", dir, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open store in %s: %w; the directory must be writable by this process", dir, err)
	}
	return fmt.Errorf("open store in %s: %w", dir, err)
}
