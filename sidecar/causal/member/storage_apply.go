package member

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// task is the request to the storage that is under way.
type task struct {
	StorageTask
	taken bool
	bytes int // of the records whose changes it applies
	stamp group.Stamp
	done  func(now causal.Now, r *StorageTaskResult)
}

// Tasks appends what the local storage is to do to dst.
func (s *Storage) Tasks(dst []StorageTask) []StorageTask {
	if s.task == nil || s.task.taken {
		return dst
	}
	s.task.taken = true
	return append(dst, s.task.StorageTask)
}

// TaskDone says what has become of a task.
func (s *Storage) TaskDone(now causal.Now, id uint64, r StorageTaskResult) {
	s.now = now
	t := s.task
	if t == nil || t.ID != id {
		return
	}
	s.task = nil
	if r.Err != nil {
		s.retryAt = now.Mono + retryTaskAfter
		s.doubted = s.doubted || t.Kind != TaskRead
	} else {
		t.done(now, &r)
	}
	s.settle(now)
}

// begin makes t the task that is under way.
func (s *Storage) begin(t task) {
	s.tasks++
	t.ID = s.tasks
	s.task, s.lastRan = &t, t.Kind
}

// startTask gives the storage the next thing to do. Reads for others take turns with changes.
func (s *Storage) startTask(now causal.Now) {
	if s.task != nil || now.Mono < s.retryAt || s.failure != nil {
		return
	}
	switch {
	case s.giveUp:
		s.startGivingUp()
	case s.copying != nil && s.group.GivesUp():
		s.copying, s.cleared = nil, false // there is nothing to copy any more
		s.startTask(now)
	case s.copying != nil:
		s.startCopyTask()
	case s.lastRan == TaskApply && s.startRead():
	case s.startApply():
	case s.startRead():
	case s.group.GivesUp():
		s.prepareReplacement()
	default:
		s.prepareCreation()
	}
}

// prepareReplacement marks the storage of the member that creates a group in place of one that was given up, before it
// does. Whatever the storage holds is removed first: without the log it may lack what was acknowledged, and the
// metadata say nothing of that. Else: x1 is in the storage, x2 was in the log only, and the shard serves x1 as one that
// has lost nothing. (Mutation GiveUpUncleared.)
func (s *Storage) prepareReplacement() {
	own := Applied{Group: s.cfg.Volume, Volume: s.cfg.Volume}
	if s.marker == own && s.group.HasFoundation(own.Group) {
		return
	}
	if s.holdsSomething() && !s.cleared && !s.cfg.Broken.Has(causal.GiveUpUncleared) {
		if !s.mayReplace(s.group.Group()) {
			return
		}
		marker := Applied{Group: s.group.Group(), Volume: s.cfg.Volume, Copying: true}
		s.begin(task{StorageTask: StorageTask{Kind: TaskClear, Marker: marker},
			done: func(causal.Now, *StorageTaskResult) { s.marker, s.cleared = marker, true }})
		return
	}
	// A member that has followed the group that is given up has a log too. It is emptied before the marker says that
	// the storage has nothing, as for a copy.
	if s.group.Last() > 0 || s.group.Base() > 1 {
		s.emptied, _ = s.group.Restore(s.now, 0, group.Stamp{})
	}
	if !s.group.IsDurable(s.emptied) {
		return
	}
	s.begin(task{StorageTask: StorageTask{Kind: TaskApply, Marker: own},
		done: func(now causal.Now, _ *StorageTaskResult) {
			s.applied, s.marker, s.doubted = own, own, false
			s.attempted, s.counted, s.queued, s.progressAt = 0, 0, 0, now.Mono
			s.group.SetFoundation(now, own.Group)
		}})
}

// holdsSomething reports whether there may be keys or metadata of a middleman in the storage.
func (s *Storage) holdsSomething() bool { return !s.cfg.Empty || s.copies > 0 }

// startGivingUp says that the volume is to be emptied. Before, a storage that has lost its marker gets one: the log
// says whose it is, and nothing will when that is gone.
func (s *Storage) startGivingUp() {
	if s.reset {
		return
	}
	if s.cfg.Empty || s.marker != (Applied{}) {
		s.reset = true
		return
	}
	marker := Applied{Group: s.group.Group(), Volume: s.cfg.Volume, Copying: true}
	s.begin(task{StorageTask: StorageTask{Kind: TaskApply, Marker: marker}, done: func(causal.Now, *StorageTaskResult) {
		s.marker = marker
	}})
}

// prepareCreation marks the storage of the member that may create the group, before it does. Else: it creates the
// group, stops, and finds a log with records beside a storage without a marker, as if that had lost something.
func (s *Storage) prepareCreation() {
	if s.marker != (Applied{}) && !s.isOfNoGroup() || s.group.Last() > 0 || s.group.Group() != 0 ||
		s.group.IsDamaged() {
		return
	}
	if d := s.desired(); len(d.Names) == 0 || d.Names[0] != nameOf(s.self) {
		return
	}
	marker := Applied{Group: s.cfg.Volume, Volume: s.cfg.Volume}
	s.begin(task{StorageTask: StorageTask{Kind: TaskApply, Marker: marker},
		done: func(now causal.Now, _ *StorageTaskResult) {
			s.applied, s.marker = marker, marker
			s.group.SetFoundation(now, marker.Group)
		}})
}

// isOfNoGroup reports whether the storage was marked for a group that was never created: the log, and with it the
// volume, was lost before. Else: nobody ever creates the group, since the storage seems to belong to another one. The
// storage is empty, and the register, which was read since the start, has no group; without one, the marker is all that
// tells of a lost log.
func (s *Storage) isOfNoGroup() bool {
	v := s.marker.Volume
	return s.cfg.Empty && v != s.cfg.Volume && s.marker == Applied{Group: v, Volume: v} && s.group.IsUncreated()
}

// startApply applies the next committed changes. It returns false if there are none.
func (s *Storage) startApply() bool {
	end := s.group.Commit()
	if s.cfg.Broken.Has(causal.ApplyUncommitted) {
		end = s.group.Last()
	}
	if !s.group.IsFounded() {
		return false
	}
	if base := s.group.Base(); s.applied.Position+1 < base { // only with rules broken
		s.applied.Position = base - 1
	}
	t := task{StorageTask: StorageTask{Kind: TaskApply}}
	pos := s.applied.Position
	for pos < end && t.bytes < maxApplyBytes && len(t.Changes) < maxApplyChanges {
		r := s.group.At(pos + 1)
		if !r.Start {
			c, ok := s.proposed.at(pos + 1)
			if !ok {
				var err error
				if c, err = ParseChange(r.Data); err != nil { // another version has written it
					s.fail("read change %d of the log: %w", pos+1, err)
					return false
				}
			}
			t.Changes = append(t.Changes, c)
		}
		pos++
		t.stamp, t.bytes = r.Stamp, t.bytes+len(r.Data)
	}
	switch {
	case pos == s.applied.Position:
		return false
	case len(t.Changes) == 0:
		s.applied.Position, s.applied.Stamp = pos, t.stamp // nothing that the storage has to know
		s.queued -= t.bytes
		s.serve()
		return false
	}
	t.Marker = s.markerAt(pos, t.stamp)
	t.CheckExistence = s.doubted || s.applied.Position < s.applied.Exact
	s.attempted = max(s.attempted, pos)
	t.done = func(now causal.Now, _ *StorageTaskResult) { s.noteApplied(now, &t) }
	if s.cfg.Broken.Has(causal.MarkerAhead) {
		s.markAhead(t)
		return true
	}
	s.begin(t)
	return true
}

// markAhead carries out the mutation: the marker is written first.
func (s *Storage) markAhead(t task) {
	s.begin(task{StorageTask: StorageTask{Kind: TaskApply, Marker: t.Marker},
		done: func(causal.Now, *StorageTaskResult) { s.begin(t) }})
}

// markerAt returns the marker of the storage when it has the changes up to a position.
func (s *Storage) markerAt(pos uint64, stamp group.Stamp) Applied {
	m := Applied{Group: s.applied.Group, Volume: s.cfg.Volume, Position: pos, Stamp: stamp, Exact: s.applied.Exact}
	if pos >= m.Exact {
		m.Exact = 0
	}
	return m
}

// noteApplied takes in that the storage has the changes of a task.
func (s *Storage) noteApplied(now causal.Now, t *task) {
	s.applied, s.marker, s.doubted = t.Marker, t.Marker, false
	s.queued, s.progressAt = max(s.queued-t.bytes, 0), now.Mono
	s.group.SetApplied(t.Marker.Position)
	s.proposed.apply(t.Marker.Position)
}
