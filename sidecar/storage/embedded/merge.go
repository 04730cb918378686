package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	logrecord "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/storage"
)

// MergeDamaged adds what can be read of the damaged stores beside this one: of each key the record with the greatest
// version, here or there, and the metadata that this store has not. It returns how many records it has added. Nothing
// tells what is missing, or older than it was: a key that was removed may come back, with the newest of its records
// that can be read.
func (s *Store) MergeDamaged(ctx context.Context, opts Options) (added int64, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.Leave()
	opts = opts.withDefaults()
	m := &merger{to: s, ctx: ctx, meta: map[string][]byte{}}
	for _, name := range damagedNames {
		dir := s.disk.PathJoin(s.dir, name)
		if _, err := s.disk.Stat(dir); err != nil {
			continue
		}
		if err := m.readAll(dir, opts); err != nil {
			return m.added, fmt.Errorf("merge what is left in %s: %w", dir, err)
		}
	}
	if err := m.flush(); err != nil {
		return m.added, err
	}
	return m.added, m.addMeta()
}

// merger adds records to a store.
type merger struct {
	to     *Store
	ctx    context.Context
	writes []storage.Write
	bytes  int
	meta   map[string][]byte
	added  int64
}

// mergeRecords and mergeBytes bound a batch.
const mergeRecords, mergeBytes = 1024, 4 << 20

// readAll reads the tables of a damaged store, and then its logs, as far as they can be read.
func (m *merger) readAll(dir string, opts Options) error {
	src, err := openSource(withoutLogs{m.to.disk}, dir, opts)
	switch {
	case err == nil:
		err = src.each([]byte{prefixMeta}, []byte{prefixData + 1}, func(key, value []byte, damage error) error {
			if damage != nil {
				return nil
			}
			return m.take(key, value)
		}, func(_, _ []byte) {})
		if closeErr := src.db.Close(); err == nil && closeErr != nil && !isDamage(closeErr) {
			err = closeErr
		}
	case isDamageAtOpen(err): // then each table is read by itself
		err = m.eachFile(dir, ".sst", m.readTable)
	}
	if err != nil {
		return err
	}
	return m.eachFile(dir, ".log", m.readLog)
}

// withoutLogs hides the logs of a store.
type withoutLogs struct{ vfs.FS }

// List implements vfs.FS.
func (fs withoutLogs) List(dir string) ([]string, error) {
	names, err := fs.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") }), err
}

// eachFile reads files in the order of their numbers. Where one cannot be read any further, the next one follows.
func (m *merger) eachFile(dir, suffix string, read func(path string) error) error {
	names, err := m.to.disk.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		err := m.untilDamaged(func() error { return read(m.to.disk.PathJoin(dir, name)) })
		if failed, ok := errors.AsType[*mergeError](err); ok {
			return failed.error
		}
	}
	return nil
}

// mergeError is an error of the store that takes the records.
type mergeError struct{ error }

func (m *merger) untilDamaged(read func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", pebble.ErrCorruption, r)
		}
	}()
	return read()
}

// readTable reads the records in a table. Values that are in files of their own are not found without the manifest.
func (m *merger) readTable(path string) error {
	f, err := m.to.disk.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(m.ctx, readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	defer r.Close()
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer it.Close()
	for kv := it.First(); kv != nil; kv = it.Next() {
		if kv.Kind() != pebble.InternalKeyKindSet {
			continue
		}
		value, _, err := kv.Value(nil)
		if err != nil {
			continue
		}
		if err := m.take(kv.K.UserKey, value); err != nil {
			return &mergeError{err}
		}
	}
	return it.Error()
}

// newLogReader exists since Pebble does not export the type of the numbers of its files.
func newLogReader[N ~uint64](open func(io.Reader, N) *logrecord.Reader, r io.Reader, number uint64) *logrecord.Reader {
	return open(r, N(number))
}

// readLog reads the records in a log.
func (m *merger) readLog(path string) error {
	number, _ := logNumber(m.to.disk.PathBase(path))
	f, err := m.to.disk.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := newLogReader(logrecord.NewReader, f, number); ; {
		one, err := r.Next()
		if err != nil {
			return err
		}
		batch, err := io.ReadAll(one)
		if err != nil {
			return err
		}
		for entries := batchrepr.Read(batch); ; {
			kind, key, value, ok, err := entries.Next()
			if !ok || err != nil {
				break
			}
			if kind != pebble.InternalKeyKindSet {
				continue
			}
			if err := m.take(key, value); err != nil {
				return &mergeError{err}
			}
		}
	}
}

// take takes a record or a piece of metadata.
func (m *merger) take(key, value []byte) error {
	switch {
	case len(key) == 0:
		return nil
	case key[0] == prefixMeta:
		m.meta[string(key[1:])] = bytes.Clone(value)
		return nil
	case key[0] != prefixData:
		return nil
	}
	name := string(key[1:])
	rec, err := storage.DecodeRecord(name, bytes.Clone(value))
	if err != nil { // it is damaged, or nobody knows whether it is newer
		return nil
	}
	m.writes = append(m.writes, storage.Write{Key: name, Record: rec})
	if m.bytes += len(name) + rec.Value.Size(); len(m.writes) >= mergeRecords || m.bytes >= mergeBytes {
		return m.flush()
	}
	return nil
}

// flush writes what is newer than what the store has.
func (m *merger) flush() error {
	newest := map[string]int{}
	var writes []storage.Write
	for _, w := range m.writes {
		i, seen := newest[w.Key]
		if !seen {
			present, found, err := m.to.get(w.Key)
			if err != nil && !errors.Is(err, storage.ErrForeign) {
				return err
			}
			if found && !present.Version.Less(w.Record.Version) {
				continue
			}
			w.KeyExists = found
			newest[w.Key] = len(writes)
			writes = append(writes, w)
			m.added++
		} else if writes[i].Record.Version.Less(w.Record.Version) {
			writes[i].Record = w.Record
		}
	}
	m.writes, m.bytes = m.writes[:0], 0
	return m.apply(writes, nil)
}

// addMeta adds the metadata that the store has not.
func (m *merger) addMeta() error {
	var meta []storage.Meta
	for name, value := range m.meta {
		_, found, err := m.to.read(prefixMeta, name)
		if err != nil {
			return err
		}
		if !found {
			meta = append(meta, storage.Meta{Name: name, Value: value})
		}
	}
	return m.apply(nil, meta)
}

func (m *merger) apply(writes []storage.Write, meta []storage.Meta) error {
	if len(writes)+len(meta) == 0 {
		return nil
	}
	b := m.to.db.NewBatch()
	added, err := appendChanges(b, writes, meta)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	return m.to.commit(b, added)
}
