package member

import (
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// copySource is the primary's end of the copy of its storage that another member makes.
//
// Pages are fuzzy: they are read one after the other, while changes are applied. The one who copies goes on from the
// log behind start, which was applied before the first page was read. A change is that of whole keys, so what it does
// is right also on a key that is newer, once the later changes have been made too. So the log is kept from hold on.
type copySource struct {
	to     topology.Node
	volume uint64
	id     uint64
	start  uint64
	stamp  group.Stamp
	hold   uint64 // the other one has, or gets as pages, what is up to here

	page    uint64 // that was asked for last
	after   string
	wanted  bool  // it is to be read
	heardAt int64 // when the other one has made progress
}

const (
	// pageBytes is about the size of a page.
	pageBytes = 1 << 20
	// giveFor is how long the log is kept for a member that copies the storage and is silent.
	giveFor = int64(30 * time.Second)
)

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
	switch {
	case g != nil && g.volume == r.From && r.ID < g.id:
		return // of an earlier copy
	case g != nil && g.volume == r.From && r.ID == g.id:
	case r.Page > 1:
		s.sendChunk(from, &copyChunk{To: r.From, ID: r.ID, Page: r.Page, Restart: true})
		return
	default:
		s.letGo(g)
		g = &copySource{to: from, volume: r.From, id: r.ID, start: s.applied.Position, stamp: s.applied.Stamp,
			hold: s.applied.Position}
		s.sources = append(s.sources, g)
	}
	switch r.Page {
	case g.page: // asked again: the answer may be lost
	case g.page + 1:
		g.page, g.after, g.heardAt = r.Page, r.After, now.Mono
	default:
		return // late
	}
	g.wanted = true
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
		if !g.wanted {
			continue
		}
		page := g.page
		t := task{StorageTask: StorageTask{Kind: TaskRead, After: g.after, First: page == 1, MaxBytes: pageBytes}}
		t.done = func(_ causal.Now, r *StorageTaskResult) {
			if g.page == page && slices.Contains(s.sources, g) {
				s.givePage(g, r)
			}
		}
		s.begin(t)
		return true
	}
	return false
}

// givePage sends a page that was read.
func (s *Storage) givePage(g *copySource, r *StorageTaskResult) {
	g.wanted = false
	if r.BadCursor {
		s.sendChunk(g.to, &copyChunk{To: g.volume, ID: g.id, Page: g.page, Restart: true})
		s.letGo(g)
		return
	}
	c := &copyChunk{To: g.volume, ID: g.id, Page: g.page, Start: g.start, Stamp: g.stamp, Exact: s.attempted,
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
