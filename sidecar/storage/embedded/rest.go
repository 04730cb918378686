package embedded

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// Rest is what a damaged store still has.
type Rest struct {
	// Known says that the new store has everything that the damaged one had acknowledged, but for the keys of Missing.
	// Why says why that is not known.
	Known   bool
	Why     error
	Missing causal.KeyRanges
	// Records are in the new store.
	Records int64
}

// A range of keys over which an iterator passes without an error is complete: Pebble's tables have checksums, and it is
// the manifest that says which tables there are, and the logs that have what is in none. So if these are as they were
// noted, and go as far as was acknowledged, what is missing is in the ranges over which no iterator passes.

// source is a damaged store that is read, and not changed.
type source struct {
	db      *pebble.DB
	damaged [][2][]byte // bounds of the tables of which damage was found since this was emptied
}

// openSource opens the files in a directory. What Pebble does not expect of a damaged file becomes an error.
func openSource(fs vfs.FS, dir string, opts Options) (*source, error) {
	src := &source{}
	o := opts.pebble(&Store{})
	o.FS, o.ReadOnly, o.Logger = fs, true, quietLogger{}
	o.EventListener = &pebble.EventListener{DataCorruption: func(info pebble.DataCorruptionInfo) {
		src.damaged = append(src.damaged, [2][]byte{bytes.Clone(info.Bounds.Start), bytes.Clone(info.Bounds.End.Key)})
	}}
	db, err := openPebble(dir, o)
	src.db = db
	return src, err
}

// quietLogger logs nothing: what Pebble says of a damaged store is in the errors.
type quietLogger struct{}

func (quietLogger) Infof(string, ...any)              {}
func (quietLogger) Errorf(string, ...any)             {}
func (quietLogger) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// errValue ends a pass behind a record whose value cannot be read.
var errValue = errors.New("the value is damaged")

// pass calls fn with the records between two bounds, in order or in the reverse one, until there is an error: of fn, or
// because of damage. A record whose value cannot be read is passed with the error, and the pass ends with errValue.
func (src *source) pass(lower, upper []byte, backward bool,
	fn func(key, value []byte, damage error) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", pebble.ErrCorruption, r)
		}
	}()
	it, err := src.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := it.Close(); err == nil {
			err = closeErr
		}
	}()
	first, next := it.First, it.Next
	if backward {
		first, next = it.Last, it.Prev
	}
	for valid := first(); valid; valid = next() {
		value, damage := it.ValueAndErr()
		if damage != nil && !isDamage(damage) {
			return damage
		}
		if err := fn(it.Key(), value, damage); err != nil {
			return err
		}
		if damage != nil {
			return errValue
		}
	}
	return it.Error()
}

// each calls fn with every record between two bounds that can be read, and missing with the ranges of the others.
func (src *source) each(lower, upper []byte, fn func(key, value []byte, damage error) error,
	missing func(from, to []byte)) error {
	for bytes.Compare(lower, upper) < 0 {
		src.damaged = nil
		passed := lower
		err := src.pass(lower, upper, false, func(key, value []byte, damage error) error {
			passed = append(bytes.Clone(key), 0)
			return fn(key, value, damage)
		})
		switch {
		case errors.Is(err, errValue):
			lower = passed
			continue
		case err == nil || !isDamage(err):
			return err
		}
		end := upper
		for _, bounds := range src.damaged {
			// the damage is in a table, so what is behind all that are known to be damaged may be intact
			behind := append(bounds[1], 0)
			if bytes.Compare(behind, passed) > 0 && (bytes.Equal(end, upper) || bytes.Compare(behind, end) > 0) &&
				bytes.Compare(behind, upper) < 0 {
				end = behind
			}
		}
		intact := end
		for err = errValue; errors.Is(err, errValue); {
			err = src.pass(passed, intact, true, func(key, value []byte, damage error) error {
				intact = bytes.Clone(key)
				return fn(key, value, damage)
			})
		}
		switch {
		case err == nil: // the second time it could be read
		case isDamage(err):
			missing(passed, intact)
		default:
			return err
		}
		lower = end
	}
	return nil
}

// readRest copies what the damaged store in a directory has to this one, which is empty, if it is known what that one
// lacks. noted is from its watermark, up to which it was acknowledged.
func (s *Store) readRest(dir string, opts Options, acknowledged uint64, noted fileState) (r Rest, err error) {
	if noted.manifest == 0 {
		return Rest{Why: errors.New("an earlier version has written it")}, nil
	}
	if err := newLedger(s.disk, dir).check(noted); err != nil {
		return Rest{Why: err}, nil
	}
	if err := s.hasRoomFor(dir); err != nil {
		return Rest{Why: err}, nil
	}
	src, err := openSource(s.disk, dir, opts)
	if err != nil {
		return Rest{Why: err}, nil
	}
	c := &copier{to: s}
	err = src.copyTo(c, acknowledged)
	err = errors.Join(err, c.flush())
	if closeErr := src.db.Close(); closeErr != nil {
		opts.Logger.Debug("storage: close of a damaged store", "error", closeErr)
	}
	unknown, ok := errors.AsType[*unknownRestError](err)
	switch {
	case ok:
		return Rest{Why: unknown.error}, s.removeRest()
	case err != nil:
		return r, err
	}
	return Rest{Known: true, Missing: c.missing, Records: c.records}, nil
}

// unknownRestError says why it is not known what a damaged store lacks.
type unknownRestError struct{ error }

func (src *source) copyTo(c *copier, acknowledged uint64) error {
	own := func(key, value []byte, damage error) error {
		if damage != nil {
			return &unknownRestError{damage}
		}
		if key[0] == prefixMeta {
			return c.add(key, value, false)
		}
		return nil
	}
	if err := src.pass([]byte{prefixCount}, []byte{prefixData}, false, own); err != nil {
		return &unknownRestError{fmt.Errorf("what it says of itself: %w", err)}
	}
	sequence, err := src.sequence()
	if err == nil && sequence < acknowledged {
		err = fmt.Errorf("it has the writes up to %d, and was acknowledged up to %d", sequence, acknowledged)
	}
	if err != nil {
		return &unknownRestError{err}
	}
	err = src.each([]byte{prefixData}, []byte{prefixData + 1}, c.record, func(from, to []byte) {
		r := causal.KeyRange{From: string(from[1:])}
		if to[0] == prefixData {
			r.To = string(to[1:])
		}
		c.missing = c.missing.With(r)
	})
	if err == nil && (len(c.missing) > causal.MaxKeyRanges || len(c.missing.Encode()) > causal.MaxKeyRangesBytes) {
		err = &unknownRestError{fmt.Errorf("it is damaged at %d places", len(c.missing))}
	}
	return err
}

// sequence returns the number of the last batch.
func (src *source) sequence() (uint64, error) {
	b, closer, err := src.db.Get(sequenceKey)
	if err != nil {
		return 0, fmt.Errorf("the number of its last batch: %w", err)
	}
	defer closer.Close()
	return decodeNumber(b)
}

// copier writes records to a new store as they are.
type copier struct {
	to      *Store
	batch   *pebble.Batch
	added   int64
	records int64
	missing causal.KeyRanges
}

// copyBatch is the size of the batches, in bytes.
const copyBatch = 1 << 20

// record takes a record. One that is not as it was written is missing. So is the key that it was of, if its name is
// what is damaged.
func (c *copier) record(key, value []byte, damage error) error {
	name := string(key[1:])
	if damage == nil {
		_, damage = storage.DecodeRecord(name, value)
	}
	if damage != nil && !errors.Is(damage, storage.ErrForeign) {
		if len(name) > storage.MaxFlippedName {
			return &unknownRestError{damage}
		}
		c.missing = c.missing.With(causal.OneKey(name))
		for _, other := range storage.NamesOf(name, value) {
			c.missing = c.missing.With(causal.OneKey(other))
		}
		return nil
	}
	return c.add(key, value, true)
}

func (c *copier) add(key, value []byte, counts bool) error {
	if c.batch == nil {
		c.batch = c.to.db.NewBatch()
	}
	if counts {
		c.added++
		c.records++
	}
	if err := c.batch.Set(key, value, nil); err != nil {
		return err
	}
	if c.batch.Len() >= copyBatch {
		return c.flush()
	}
	return nil
}

// flush makes what was taken durable. The store has no watermark yet.
func (c *copier) flush() error {
	b := c.batch
	if c.batch = nil; b == nil {
		return nil
	}
	_, err := c.to.publish(b, c.added)
	c.added = 0
	if err != nil {
		return err
	}
	return errors.Join(b.SyncWait(), b.Close())
}

// removeRest makes a store empty to which a part of another one was copied.
func (s *Store) removeRest() error {
	b := s.db.NewBatch()
	err := errors.Join(b.DeleteRange([]byte{prefixMeta}, []byte{prefixMeta + 1}, nil),
		b.DeleteRange([]byte{prefixData}, []byte{prefixData + 1}, nil))
	if err == nil {
		_, err = s.publish(b, -s.count.Load())
	}
	if err != nil {
		return err
	}
	return errors.Join(b.SyncWait(), b.Close())
}

// hasRoomFor returns why there is no room for a copy of a directory.
func (s *Store) hasRoomFor(dir string) error {
	names, err := s.disk.List(dir)
	if err != nil {
		return err
	}
	need := uint64(64 << 20)
	for _, name := range names {
		if info, err := s.disk.Stat(s.disk.PathJoin(dir, name)); err == nil {
			need += uint64(info.Size())
		}
	}
	usage, err := s.disk.GetDiskUsage(s.dir)
	if err == nil && usage.AvailBytes < need {
		return fmt.Errorf("there is no room to copy what is intact: it takes %d MiB, and %d MiB are free", need>>20,
			usage.AvailBytes>>20)
	}
	return nil // not all file systems tell
}
