package member

import (
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/transfer"
	"github.com/causalstore/causalstore/topology"
)

// copySource is the primary's end of the copy of its storage that another member makes.
//
// Pages are fuzzy: they are read one after the other, while changes are applied. The one who copies goes on from the
// log behind start, which was applied before the first page was read. A change is that of whole keys, so what it does
// is right also on a key that is newer, once the later changes have been made too. So the log is kept from hold on.
type copySource struct {
	transfer.Sender
	to     topology.Node
	volume uint64
	start  uint64
	stamp  group.Stamp
	hold   uint64 // the other one has, or gets as pages, what is up to here

	heardAt int64 // when the other one has made progress
}

// giveFor is how long the log is kept for a member that copies the storage and is silent.
const giveFor = int64(30 * time.Second)

// stepCopy takes in a message about the copy of a storage.
func (s *Storage) stepCopy(now causal.Now, m *causal.Message) {
	if !s.isFromMember(m) {
		return
	}
	request, chunk, err := parseCopy(m.CopyMessage().Body)
	switch {
	case err != nil:
		s.noteMalformed(err)
	case request != nil && request.To == s.cfg.Volume:
		s.stepRequest(now, m.From, request)
	case chunk != nil && chunk.To == s.cfg.Volume:
		s.stepChunk(m.From, chunk)
	}
}

// stepRequest takes in that a member asks for a page. Who does not serve says nothing: the next primary will ask the
// member to copy its storage.
func (s *Storage) stepRequest(now causal.Now, from topology.Node, r *copyRequest) {
	if !s.leads {
		return
	}
	g := s.sourceFor(from)
	if g == nil || g.volume != r.From {
		g = &copySource{to: from, volume: r.From}
	}
	before := g.At()
	switch g.Asked(transfer.Request{Run: r.ID, At: placeOf(r.Page, r.After)}) {
	case transfer.NewRun:
		s.letGo(s.sourceFor(from))
		g = &copySource{to: from, volume: r.From, start: s.applied.Position, stamp: s.applied.Stamp,
			hold: s.applied.Position, heardAt: now.Mono}
		g.Begin(r.ID, 0, transfer.First())
		g.EndWithPass()
		s.sources = append(s.sources, g)
	case transfer.UnknownRun:
		s.sendChunk(from, &copyChunk{To: r.From, ID: r.ID, Page: r.Page, Restart: true})
	case transfer.ThisPage:
		if g.At() != before {
			g.heardAt = now.Mono
		}
	case transfer.Late, transfer.NextPass:
	}
}

func (s *Storage) sourceFor(n topology.Node) *copySource {
	if i := slices.IndexFunc(s.sources, func(g *copySource) bool { return g.to == n }); i >= 0 {
		return s.sources[i]
	}
	return nil
}

func (s *Storage) letGo(g *copySource) {
	s.sources = slices.DeleteFunc(s.sources, func(h *copySource) bool { return h == g })
}

// startRead reads the next page that somebody waits for.
func (s *Storage) startRead() bool {
	for _, g := range s.sources {
		asked, wanted := g.Wanted()
		if !wanted {
			continue
		}
		t := task{StorageTask: StorageTask{Kind: TaskRead, After: asked.At.After, First: asked.At.Seq == 0,
			MaxBytes: transfer.PageBytes}}
		t.done = func(_ causal.Now, r *StorageTaskResult) {
			if slices.Contains(s.sources, g) && g.Answered(asked) {
				s.givePage(g, asked, r)
			}
		}
		s.begin(t)
		return true
	}
	return false
}

// givePage sends a page that was read.
func (s *Storage) givePage(g *copySource, asked transfer.Request, r *StorageTaskResult) {
	page := asked.At.Seq + 1
	if r.BadCursor {
		s.sendChunk(g.to, &copyChunk{To: g.volume, ID: asked.Run, Page: page, Restart: true})
		s.letGo(g)
		return
	}
	c := &copyChunk{To: g.volume, ID: asked.Run, Page: page, Start: g.start, Stamp: g.stamp, Exact: s.attempted,
		Records: r.Records, Meta: r.Meta, Next: r.Next}
	if s.cfg.Broken.Has(causal.CopyWithoutLog) {
		c.Start, c.Stamp = s.applied.Position, s.applied.Stamp
	}
	s.sendChunk(g.to, c)
}

func (s *Storage) sendChunk(to topology.Node, c *copyChunk) {
	c.From = s.cfg.Volume
	s.outbox = append(s.outbox, causal.CopyMessage{Body: c.appendTo(nil)}.Message(s.self, to))
}

// advanceGivers lets go who is a member by now, is silent, or would fill the log.
func (s *Storage) advanceGivers(now causal.Now) {
	if len(s.sources) == 0 {
		return
	}
	full := s.group.LogBytes() > s.cfg.MaxLogBytes-s.cfg.MaxLogBytes/10
	s.sources = slices.DeleteFunc(s.sources, func(g *copySource) bool {
		id := group.ID{Name: nameOf(g.to), Volume: g.volume}
		if match, ok := s.group.MatchOf(id); ok && match > g.hold {
			g.hold, g.heardAt = match, now.Mono
		}
		return full || now.Mono-g.heardAt > giveFor || s.group.Has(id)
	})
}

// heldByGivers returns the position behind which the log is kept for those who copy the storage.
func (s *Storage) heldByGivers() uint64 {
	hold := uint64(math.MaxUint64 - 1)
	for _, g := range s.sources {
		hold = min(hold, g.hold)
	}
	return hold
}
