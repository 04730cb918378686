package node

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/wal"
)

// volume is the directory of a member's log, with what is beside the segments.
type volume struct {
	fs  vfs.FS
	dir string
}

const (
	// volumeFile holds the id of the volume, in decimal. It is written before the first entry of the log, and removed
	// before anything else when the volume is emptied: a volume without an id has lost what it had.
	volumeFile = "volume"
	// spareFile takes up spareBytes, so that a coordinator can be started although the disk is full: a start is written
	// to the log.
	spareFile  = "spare"
	spareBytes = 256 << 10

	diskCategory = vfs.WriteCategoryUnspecified
)

// opened is a volume that is in use.
type opened struct {
	log   *wal.Log
	id    uint64
	image group.Image
}

// open opens the log and reads it.
func (v *volume) open(o wal.Options) (*opened, error) {
	log, err := wal.Open(v.dir, o)
	if err != nil {
		return nil, err
	}
	opened := &opened{log: log}
	if err := v.read(opened); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	v.reserveSpare()
	return opened, nil
}

func (v *volume) read(o *opened) (err error) {
	if o.id, err = v.readID(); err != nil {
		return err
	}
	err = o.log.Replay(func(index uint64, payload []byte) error {
		e, err := group.ParseEntry(index, payload)
		if err == nil {
			err = o.image.Apply(&e)
		}
		return err
	})
	if err == nil {
		err = o.image.Check()
	}
	if errors.Is(err, group.ErrGap) {
		return &wal.CorruptError{File: v.dir, Problem: err.Error()}
	}
	if err != nil {
		return fmt.Errorf("replay write buffer log in %s: %w", v.dir, err) // another version has written it
	}
	switch {
	case o.id == 0 && o.log.LastIndex() > 0:
		return &wal.CorruptError{File: v.path(volumeFile),
			Problem: "it is gone. It names the volume, and is written before anything else"}
	case o.id == 0:
		o.id, err = v.writeID()
	}
	return err
}

// damaged returns a volume that holds less than it should, under its id if that is known.
func (v *volume) damaged() (o *opened, err error) {
	o = &opened{}
	if o.id, err = v.readID(); err != nil || o.id == 0 {
		o.id, err = drawID()
	}
	return o, err
}

func (v *volume) path(name string) string { return v.fs.PathJoin(v.dir, name) }

// sync makes the names in the directory durable.
func (v *volume) sync() error {
	d, err := v.fs.OpenDir(v.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// reserveSpare takes up the spare space, unless it is taken or there is none. The file is written, and not only
// preallocated: a copy of the volume would be without the space, and nobody could tell.
func (v *volume) reserveSpare() {
	if info, err := v.fs.Stat(v.path(spareFile)); err == nil && info.Size() >= spareBytes {
		return
	}
	f, err := v.fs.Create(v.path(spareFile), diskCategory)
	if err != nil {
		return
	}
	_, err = f.Write(make([]byte, spareBytes))
	if err := errors.Join(err, f.Close()); err != nil {
		v.releaseSpare()
	}
}

// releaseSpare gives the spare space back. It reports whether there was any.
func (v *volume) releaseSpare() bool { return v.fs.Remove(v.path(spareFile)) == nil }

// empty removes everything. Whenever it is stopped, the volume is empty, or has no id and is damaged.
func (v *volume) empty() error {
	if err := v.fs.Remove(v.path(volumeFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", v.path(volumeFile), err)
	}
	if err := v.sync(); err != nil {
		return fmt.Errorf("sync %s: %w", v.dir, err)
	}
	names, err := v.fs.List(v.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", v.dir, err)
	}
	for _, name := range names {
		if err := v.fs.RemoveAll(v.path(name)); err != nil {
			return fmt.Errorf("remove %s: %w", v.path(name), err)
		}
	}
	return nil
}
