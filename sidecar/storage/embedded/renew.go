package embedded

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// Renew begins anew with an empty store in place of one that Open has refused with storage.ErrDataLost. What is left
// of that one is removed, or moved to the folder "damaged" in dir if keep says so and there is none yet. Until what
// mark returns for the new store is durable in it, Open refuses what is there.
func Renew(dir string, opts Options, keep bool, mark func(storage.Store) ([]storage.Meta, error)) (*Store, error) {
	s, opts, err := lockStore(dir, opts)
	if err != nil {
		return nil, wrapFull(explainOpenError(dir, err))
	}
	if err := s.renew(opts, keep, mark); err != nil {
		return nil, wrapFull(errors.Join(fmt.Errorf("renew store in %s: %w", dir, err), s.abandon()))
	}
	return s, nil
}

func (s *Store) renew(opts Options, keep bool, mark func(storage.Store) ([]storage.Meta, error)) error {
	w, err := watermark.Create(s.disk, s.disk.PathJoin(s.dir, watermarkName), watermark.Lost, nil)
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = removeContent(s.dir, s.disk, keep)
	}
	if err == nil {
		err = s.openDB(opts, fileState{})
	}
	var meta []storage.Meta
	if err == nil {
		meta, err = mark(s)
	}
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	if _, err := appendChanges(b, nil, meta); err != nil {
		return errors.Join(err, b.Close())
	}
	if _, err := s.publish(b, 0); err != nil {
		return err
	}
	if err := errors.Join(b.SyncWait(), b.Close()); err != nil {
		return err
	}
	return s.beginWatermark()
}

// damagedName is the folder to which Renew moves what it keeps.
const damagedName = "damaged"

// RemoveDamaged removes what Renew has kept.
func (s *Store) RemoveDamaged() error {
	path := s.disk.PathJoin(s.dir, damagedName)
	if err := s.disk.RemoveAll(path); err != nil {
		return fmt.Errorf("remove what is left of a damaged store: %w", err)
	}
	return nil
}

// isContent matches the names that Pebble gives to the files of a store, but for its lock. Other files in the
// directory, such as a log that has its folder there, are not the store's.
var isContent = regexp.MustCompile(
	`^([0-9]+(-[0-9]+)?\.(log|sst|blob)|(MANIFEST|OPTIONS)-[0-9]+|marker\..+|CURRENT|.+\.dbtmp)$`)

// removeContent removes the files of a store from its directory, or moves them away. The watermark stays. The lock of
// the directory is held.
func removeContent(dir string, fs vfs.FS, keep bool) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	kept := fs.PathJoin(dir, damagedName)
	if _, err := fs.Stat(kept); err == nil { // from an earlier loss, which takes as much space
		keep = false
	}
	if keep {
		if err := fs.MkdirAll(kept, 0o755); err != nil {
			return err
		}
	}
	for _, name := range names {
		from := fs.PathJoin(dir, name)
		switch {
		case !isContent.MatchString(name):
		case keep:
			err = fs.Rename(from, fs.PathJoin(kept, name))
		default:
			err = fs.Remove(from)
		}
		if err != nil {
			return err
		}
	}
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
