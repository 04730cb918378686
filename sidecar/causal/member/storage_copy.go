package member

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// copying is the copy of a primary's storage to this one, step by step. A restart, another primary, or a page that
// cannot be had any more begins it from the start, with an empty storage: which keys were removed meanwhile is not
// known.
//
// Invariant: until the last step is done, the group has no foundation, and the marker of the storage says that it is
// incomplete.
type copying struct {
	step   copyStep
	source group.ID
	group  uint64 // its group
	id     uint64

	start  uint64 // the position whose storage is copied, as the first page has named it
	page   uint64 // that is asked for
	after  string
	sentAt int64 // 0: it was not asked for yet
	chunk  *copyChunk
	saved  uint64 // index of the entry with which the log begins behind the copy
}

type copyStep uint8

const (
	copyClear  copyStep = iota // the storage is emptied
	copyAsk                    // a page is asked for
	copyWrite                  // and written
	copyLog                    // the log is made to begin behind the copy
	copyFinish                 // the storage is marked as complete
)

// askAgainAfter is when a page is asked for again.
const askAgainAfter = int64(time.Second)

// beginCopy begins to copy the storage of a primary, whose log does not continue the one here.
func (s *Storage) beginCopy(now causal.Now, source group.ID) {
	if c := s.copying; s.giveUp || c != nil && (c.source == source || c.step >= copyLog) {
		return
	}
	if !s.mayReplace(s.group.Group()) {
		return
	}
	s.group.SetFoundation(now, 0)
	s.startOver(source)
}

// mayReplace reports whether what the storage holds may be replaced, or removed, in favor of a group's. What was never
// a copy of the group's storage, or of that of one whose place it has taken, may be the only one of something.
func (s *Storage) mayReplace(group uint64) bool {
	switch {
	case s.cfg.Empty || s.cleared || s.marker.Group == group || s.group.Replaces(s.marker.Group):
		return true
	case s.marker.Group == 0 || s.marker.Group == s.cfg.Volume:
		s.fail(
			"the storage holds data that is not the group's, and would be replaced by a copy of another member's, or " +
				"removed: empty it, or put back the right one")
	default:
		s.fail("the storage belongs to the group %d, and this is the group %d: empty it, or put back the right one",
			s.marker.Group, group)
	}
	return false
}

// startOver begins a copy with an empty storage.
func (s *Storage) startOver(source group.ID) {
	const copiesPerLife = 32 // bits
	s.copies++
	s.copying = &copying{source: source, group: s.group.Group(), id: s.group.Life()<<copiesPerLife | s.copies, page: 1}
}

// startCopyTask gives the storage the next thing to do for the copy.
func (s *Storage) startCopyTask() {
	c := s.copying
	marker := Applied{Group: c.group, Volume: s.cfg.Volume, Copying: true}
	switch c.step {
	case copyClear:
		t := task{StorageTask: StorageTask{Kind: TaskClear, Marker: marker}}
		if s.cfg.Broken.Has(causal.CopyOntoOld) {
			t.Kind = TaskApply
		}
		t.done = func(causal.Now, *StorageTaskResult) {
			if s.marker = marker; s.copying == c {
				c.step = copyAsk
			}
		}
		s.begin(t)
	case copyWrite:
		t := task{StorageTask: StorageTask{Kind: TaskWrite, Records: c.chunk.Records, Meta: c.chunk.Meta,
			Marker: marker}}
		t.done = func(now causal.Now, _ *StorageTaskResult) {
			if s.copying == c {
				s.takePage(now, c)
			}
		}
		s.begin(t)
	case copyFinish:
		s.finishCopy(c)
	}
}

// takePage goes on when a page was written.
func (s *Storage) takePage(now causal.Now, c *copying) {
	if c.chunk.Next != "" {
		c.step, c.page, c.after, c.sentAt, c.chunk = copyAsk, c.page+1, c.chunk.Next, 0, nil
		return
	}
	// The log comes first, and is durable before the marker names a position in it. Else: a marker is ahead of its log
	// after a crash, as if that had lost something.
	var ok bool
	if c.saved, ok = s.group.Restore(now, c.chunk.Start, c.chunk.Stamp); !ok {
		s.copying = nil
		return
	}
	c.step = copyLog
}

// finishCopy marks the storage as complete. From then on, the member may acknowledge.
func (s *Storage) finishCopy(c *copying) {
	marker := Applied{Group: c.group, Volume: s.cfg.Volume, Position: c.chunk.Start, Stamp: c.chunk.Stamp}
	if c.chunk.Exact > marker.Position {
		marker.Exact = c.chunk.Exact
	}
	s.begin(task{StorageTask: StorageTask{Kind: TaskApply, Marker: marker},
		done: func(now causal.Now, _ *StorageTaskResult) {
			s.applied, s.marker, s.doubted, s.copying = marker, marker, false, nil
			s.attempted, s.counted, s.queued, s.progressAt = marker.Position, marker.Position, 0, now.Mono
			s.group.SetApplied(marker.Position)
			s.group.SetFoundation(now, marker.Group)
		}})
}

// advanceCopy asks for the page that is next, again if it does not come.
func (s *Storage) advanceCopy(now causal.Now) {
	c := s.copying
	switch {
	case c == nil:
	case c.step == copyLog && s.group.IsDurable(c.saved):
		c.step = copyFinish
	case c.step == copyAsk && (c.sentAt == 0 || now.Mono-c.sentAt > askAgainAfter):
		c.sentAt = now.Mono
		if to, ok := s.nodeOf(c.source.Name); ok {
			r := copyRequest{From: s.cfg.Volume, To: c.source.Volume, ID: c.id, Page: c.page, After: c.after}
			s.outbox = append(s.outbox, causal.CopyMessage{Body: r.appendTo(nil)}.Message(s.self, to))
		}
	}
}

// copyLinkUp asks again for what may be lost.
func (s *Storage) copyLinkUp(n topology.Node) {
	if c := s.copying; c != nil && c.source.Name == nameOf(n) {
		c.sentAt = 0
	}
}

// stepChunk takes in a page.
func (s *Storage) stepChunk(from topology.Node, chunk *copyChunk) {
	c := s.copying
	if c == nil || c.step != copyAsk || chunk.From != c.source.Volume || nameOf(from) != c.source.Name ||
		chunk.ID != c.id || chunk.Page != c.page {
		return
	}
	if c.page == 1 {
		c.start = chunk.Start
	}
	// A primary that has restarted may take a late request for the first page for a new copy, which is of a later
	// position than the pages here.
	if chunk.Restart || chunk.Start != c.start && !s.cfg.Broken.Has(causal.CopyWithoutLog) {
		s.startOver(c.source)
		return
	}
	c.chunk, c.step = chunk, copyWrite
}
