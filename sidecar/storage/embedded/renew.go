package embedded

import (
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/watermark"
)

// Renew starts over in place of a store that Open has refused with storage.ErrDataLost: with what that one still has,
// if it is known what it lacks and Options.KeepsRest says so, else with nothing. What is left of it is kept in a folder
// "damaged" in dir. Until what mark returns for the new store is durable in it, Open refuses what is there.
func Renew(dir string, opts Options, mark func(storage.Store, Rest) ([]storage.Meta, error)) (*Store, error) {
	s, opts, err := lockStore(dir, opts)
	if err != nil {
		return nil, wrapFull(explainOpenError(dir, err))
	}
	if err := s.renew(opts, mark); err != nil {
		return nil, wrapFull(errors.Join(fmt.Errorf("renew store in %s: %w", dir, err), s.abandon()))
	}
	return s, nil
}

func (s *Store) renew(opts Options, mark func(storage.Store, Rest) ([]storage.Meta, error)) error {
	was, err := s.markLostOnDisk()
	if err == nil {
		err = s.moveAway(was.isLost)
	}
	if err == nil {
		err = s.openDB(opts, fileState{})
	}
	if err != nil {
		return err
	}
	rest := Rest{Why: errors.New("its watermark does not say how far it was acknowledged")}
	if opts.KeepsRest && was.known {
		rest, err = s.readRest(s.disk.PathJoin(s.dir, renewingName), opts, was.acknowledged, was.files)
	}
	var meta []storage.Meta
	if err == nil {
		meta, err = mark(s, rest)
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
	if err := s.beginWatermark(); err != nil {
		return err
	}
	return finishRenewal(s.disk, s.dir)
}

// lostState is what the watermark of a damaged store says of it.
type lostState struct {
	isLost       bool // this was found before
	known        bool // how far it was acknowledged
	acknowledged uint64
	files        fileState
}

// markLostOnDisk makes Open refuse what is there, and returns what the watermark said of it.
func (s *Store) markLostOnDisk() (was lostState, err error) {
	path := s.disk.PathJoin(s.dir, watermarkName)
	w, found, err := watermark.Open(s.disk, path)
	switch {
	case errors.Is(err, watermark.ErrDamaged), err == nil && !found:
		if w, err = watermark.Create(s.disk, path, watermark.Lost, nil); err != nil {
			return was, err
		}
		return was, w.Close()
	case err != nil:
		return was, err
	}
	was.isLost, was.files = w.IsLost(), parseFileState(w.Note())
	was.acknowledged, was.known = w.Acknowledged()
	return was, errors.Join(w.MarkLost(), w.Close())
}
