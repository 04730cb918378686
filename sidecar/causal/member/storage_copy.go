package member

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
	"github.com/causalstore/causalstore/topology"
)

// copying is the copy of a primary's storage to this one: a transfer, and then two steps that make it the storage of a
// member. A restart, another primary, or a page that cannot be had any more begins it from the start, with an empty
// storage: which keys were removed meanwhile is not known.
//
// Invariant: until the last step is done, the group has no foundation, and the marker of the storage says that it is
// incomplete.
type copying struct {
	pages  transfer.Receiver
	source group.ID
	group  uint64 // its group

	chunk *copyChunk // that was taken in last
	logs  bool       // the log is made to begin behind the copy
	saved uint64     // index of the entry with which it begins
	ends  bool       // the log is durable: the storage is to be marked as complete
}

// askAgainAfter is when a page is asked for again.
const askAgainAfter = time.Second

// beginCopy begins to copy the storage of a primary, whose log does not continue the one here.
func (s *Storage) beginCopy(now causal.Now, source group.ID) {
	if c := s.copying; s.giveUp || c != nil && (c.source == source || c.pages.IsDone()) {
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
	id := s.group.Life()<<copiesPerLife | s.copies
	pages := transfer.NewReceiver(transfer.Config{Run: id, Repeat: askAgainAfter, Broken: s.cfg.Broken})
	if c := s.copying; c != nil && c.source == source {
		pages = c.pages
		pages.Begin(id)
	}
	s.copying = &copying{source: source, group: s.group.Group(), pages: pages}
}

// startCopyTask gives the storage the next thing to do for the copy.
func (s *Storage) startCopyTask() {
	c := s.copying
	marker := Applied{Group: c.group, Volume: s.cfg.Volume, Copying: true}
	switch {
	case c.pages.IsClearing():
		t := task{StorageTask: StorageTask{Kind: TaskClear, Marker: marker}}
		if s.cfg.Broken.Has(causal.CopyOntoOld) {
			t.Kind = TaskApply
		}
		t.done = func(causal.Now, *StorageTaskResult) {
			s.marker = marker
			c.pages.Cleared()
		}
		s.begin(t)
	case c.pages.IsBusy():
		t := task{StorageTask: StorageTask{Kind: TaskWrite, Records: c.chunk.Records, Meta: c.chunk.Meta,
			Marker: marker}}
		t.done = func(now causal.Now, _ *StorageTaskResult) {
			c.pages.Written()
			if s.copying == c && c.pages.IsDone() {
				s.beginLog(now, c)
			}
		}
		s.begin(t)
	case c.ends:
		s.finishCopy(c)
	}
}

// beginLog makes the log begin behind the copy. It comes first, and is durable before the marker names a position in
// it. Else: a marker is ahead of its log after a crash, as if that had lost something.
func (s *Storage) beginLog(now causal.Now, c *copying) {
	if c.saved, c.logs = s.group.Restore(now, c.chunk.Start, c.chunk.Stamp); !c.logs {
		s.copying = nil
	}
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
	if c == nil {
		return
	}
	c.ends = c.ends || c.logs && s.group.IsDurable(c.saved)
	r, _, ok := c.pages.Ask(now)
	if to, known := s.nodeOf(c.source.Name); ok && known {
		body := copyRequest{From: s.cfg.Volume, To: c.source.Volume, ID: r.Run, Page: r.At.Seq + 1, After: r.At.After}
		s.outbox = append(s.outbox, causal.CopyMessage{Body: body.appendTo(nil)}.Message(s.self, to))
	}
}

// copyLinkUp asks again for what may be lost.
func (s *Storage) copyLinkUp(n topology.Node) {
	if c := s.copying; c != nil && c.source.Name == nameOf(n) {
		c.pages.AskAgain()
	}
}

// stepChunk takes in a page.
func (s *Storage) stepChunk(from topology.Node, chunk *copyChunk) {
	c := s.copying
	if c == nil || chunk.From != c.source.Volume || nameOf(from) != c.source.Name {
		return
	}
	p := transfer.Page{Run: chunk.ID, Life: chunk.life(), At: placeOf(chunk.Page, ""), Lost: chunk.Restart,
		Records: chunk.Records, Next: placeOf(chunk.Page+1, chunk.Next), End: chunk.Next == "", Last: true}
	if s.cfg.Broken.Has(causal.CopyWithoutLog) {
		p.Life = 0
	}
	switch c.pages.Take(&p) {
	case transfer.StartOver:
		s.startOver(c.source)
	case transfer.Write:
		c.chunk = chunk
	case transfer.Ignore:
	}
}
