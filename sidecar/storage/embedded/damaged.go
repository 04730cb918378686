package embedded

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The folders beside a store that hold what is left of damaged ones. A crash at any moment loses nothing: all files are
// moved to one folder, which then gets another name, and only then a new store begins. When that is complete, the
// folder gets its last name.
const (
	movingName   = "damaged-moving"   // not everything was moved: what is beside it is damaged, too
	renewingName = "damaged-renewing" // the store beside it is not complete, and was never used
)

// damagedNames are the last names. What is damaged before the loss before is over does not replace what that has left.
var damagedNames = [...]string{"damaged", "damaged-2"}

// isContent matches the names that Pebble gives to the files of a store, but for its lock. Other files in the
// directory, such as a log that has its folder there, are not the store's.
var isContent = regexp.MustCompile(
	`^([0-9]+(-[0-9]+)?\.(log|sst|blob)|(MANIFEST|OPTIONS)-[0-9]+|marker\..+|CURRENT|.+\.dbtmp)$`)

// moveAway moves the files of a damaged store to the folder renewingName. wasLost says that this was known before. The
// lock of the directory is held.
func (s *Store) moveAway(wasLost bool) error {
	fs, renewing, moving := s.disk, s.disk.PathJoin(s.dir, renewingName), s.disk.PathJoin(s.dir, movingName)
	if _, err := fs.Stat(renewing); err == nil {
		if wasLost { // Renew was interrupted
			return eachContent(fs, s.dir, func(name string) error { return fs.Remove(fs.PathJoin(s.dir, name)) })
		}
		if err := finishRenewal(fs, s.dir); err != nil {
			return err
		}
	}
	if err := fs.MkdirAll(moving, 0o755); err != nil {
		return err
	}
	err := eachContent(fs, s.dir, func(name string) error {
		return fs.Rename(fs.PathJoin(s.dir, name), fs.PathJoin(moving, name))
	})
	if err == nil {
		err = syncDir(fs, moving)
	}
	if err == nil {
		err = fs.Rename(moving, renewing)
	}
	if err == nil {
		err = syncDir(fs, s.dir)
	}
	return err
}

// eachContent calls f with the names of the files of a store, and makes what it does durable.
func eachContent(fs vfs.FS, dir string, f func(name string) error) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if isContent.MatchString(name) {
			if err := f(name); err != nil {
				return err
			}
		}
	}
	return syncDir(fs, dir)
}

// finishRenewal gives the folder renewingName its last name, if there is one.
func finishRenewal(fs vfs.FS, dir string) error {
	renewing := fs.PathJoin(dir, renewingName)
	if _, err := fs.Stat(renewing); err != nil {
		return nil
	}
	to := ""
	for _, name := range damagedNames {
		to = fs.PathJoin(dir, name)
		if _, err := fs.Stat(to); err != nil {
			break
		}
	}
	if err := errors.Join(fs.RemoveAll(to), fs.Rename(renewing, to)); err != nil {
		return fmt.Errorf("keep what is left of a damaged store: %w", err)
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RemoveDamaged removes what Renew has kept.
func (s *Store) RemoveDamaged() error {
	for _, name := range damagedNames {
		if err := s.disk.RemoveAll(s.disk.PathJoin(s.dir, name)); err != nil {
			return fmt.Errorf("remove what is left of a damaged store: %w", err)
		}
	}
	return nil
}

// SpareDamaged says that what Renew has kept may be removed if the disk is full.
func (s *Store) SpareDamaged() { s.disk.spareIn(s.dir) }
