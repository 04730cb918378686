package middleman

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// What a shard does for a coordinator whose log was lost and given up (PROTOCOL LOG). It hands out
// what it holds of the origin: what was pending when it was asked for the first page, and then what storage holds, a
// page of names at a time. Before the first page it refuses puts of earlier logs, durably. So what it holds of them
// does not grow any more, and what was pending then is either in the first page, or found in storage, or superseded.

const (
	// salvageNames is about how many names are asked of storage for a page, and salvageReads how many values at once.
	salvageNames, salvageReads = 256, 16
	// salvagePartBytes is about how much one message carries; a single record may be larger.
	salvagePartBytes = 1 << 20
	// salvageInStorage begins the cursors of pages of what storage holds, and salvageRest those of names that did not
	// fit into the page before.
	salvageInStorage, salvageRest = "s", "r"
	// maxSalvageRests bounds the rests that are kept: a page may be asked for again, and is another one then.
	maxSalvageRests = 4
)

// salvages is the state of all origins.
type salvages struct {
	// the greatest generations that were asked for; durable, but for those of claims that are not fenced
	fences causal.Fences
	claims map[topology.Origin]*claim
	pages  uint64 // that were sent, and rests that were kept
}

// claim is what was agreed with a start of a coordinator.
type claim struct {
	id      uint64
	fenced  bool // the fence is durable
	fencing bool
	page    *salvagePage // that is being read
	rests   []salvageRestOfNames
}

// salvageRestOfNames are names whose values did not fit into a page.
type salvageRestOfNames struct {
	cursor string
	names  []string
	next   string
}

// salvagePage is a page of what storage holds, while it is read.
type salvagePage struct {
	to      topology.Node
	id      uint64 // of the claim
	after   string
	next    string
	unread  []string
	reading int
	failed  bool
	found   []causal.Moved
	bytes   int  // of found
	full    bool // what is left is for the next page
	seen    causal.HLC
}

func newSalvages(fences causal.Fences) salvages {
	return salvages{fences: fences, claims: map[topology.Origin]*claim{}}
}

// fenceOf returns the generation of the log of an origin below which no put is taken; 0: there is none. Generations
// begin with the wall clock of the start of a log. A fence that is further ahead than any clock may be was never asked
// for by a coordinator, and does not count, wherever it comes from: puts of the log that is healthy would be refused
// for good.
func (m *Middleman) fenceOf(now causal.Now, o topology.Origin) uint64 {
	if fence := m.salvages.fences[o]; m.isPlausible(now, fence) {
		return fence
	}
	return 0
}

// isPlausible reports whether a log of a generation can have begun by now, by what the clocks of others may be ahead.
func (m *Middleman) isPlausible(now causal.Now, generation uint64) bool {
	return generation <= uint64(m.timeLimit(now).WallMs())
}

// isGivenUp reports whether a put is of a log that was given up, and tells its coordinator.
func (m *Middleman) isGivenUp(now causal.Now, from topology.Node, a *causal.PutAfter) bool {
	fence := m.fenceOf(now, a.Record.Version.Origin)
	if a.Generation >= fence || m.cfg.Broken.Has(causal.UnfencedLog) {
		return false
	}
	m.Send(causal.PutAck{Incarnation: m.cfg.Incarnation, GivenUpBelow: fence}.Message(m.cfg.Self, from))
	return true
}

// GaveUpLogOf reports whether a log of an origin was given up here.
func (m *Middleman) GaveUpLogOf(o topology.Origin) bool { return m.salvages.fences[o] > 0 }

// salvage answers with a page. A coordinator that asks with a generation that somebody else has asked with is told to
// take a greater one.
func (m *Middleman) salvage(now causal.Now, from topology.Node, s causal.Salvage) {
	o := m.cfg.Topology.OriginOf(from)
	if m.lanes.of(o) == nil || s.Generation == 0 {
		return
	}
	if !m.isPlausible(now, s.Generation) {
		m.stats.ClockRefused++
		m.stats.LastRefused, m.stats.RefusedFrom = causal.Version{HLC: causal.HLCAt(int64(s.Generation)), Origin: o},
			from
		return // a coordinator with a clock that is wrong asks again
	}
	fence, c := m.fenceOf(now, o), m.salvages.claims[o]
	switch {
	case s.Generation > fence:
		m.salvages.fences = m.salvages.fences.With(o, s.Generation)
		c = &claim{id: s.ID}
		m.salvages.claims[o] = c
	case s.Generation < fence || c == nil || c.id != s.ID:
		m.Send(causal.Salvaged{ID: s.ID, Generation: fence, Refused: true,
			Incarnation: m.cfg.Incarnation}.Message(m.cfg.Self, from))
		return
	}
	switch {
	case !c.fenced:
		m.fence(o, c)
	case s.After == "":
		m.sendSalvaged(o, &salvagePage{to: from, id: s.ID, next: salvageInStorage, found: m.pendingOf(o),
			seen: m.newestPending()})
	case c.page != nil && c.page.after == s.After:
	case s.After[:1] == salvageRest:
		c.page = &salvagePage{to: from, id: s.ID, after: s.After, failed: true}
		if i := slices.IndexFunc(c.rests, func(r salvageRestOfNames) bool { return r.cursor == s.After }); i >= 0 {
			c.page.unread, c.page.next, c.page.failed = c.rests[i].names, c.rests[i].next, false
		}
		m.readSalvagePage(c.page)
	case s.After[:1] == salvageInStorage:
		c.page = &salvagePage{to: from, id: s.ID, after: s.After}
		m.tasks.request(StorageOp{Kind: StorageScan, Key: s.After[1:], Limit: salvageNames},
			&task{kind: taskSalvageNames, page: c.page})
	}
}

// fence makes durable which logs of an origin are given up.
func (m *Middleman) fence(o topology.Origin, c *claim) {
	if !c.fencing {
		c.fencing = true
		m.tasks.request(StorageOp{Kind: StorageFence, Origin: o, Generation: m.salvages.fences[o]},
			&task{kind: taskFence, claim: c})
	}
}

// pendingOf returns the puts of an origin that are here and that storage may not hold yet.
func (m *Middleman) pendingOf(o topology.Origin) (found []causal.Moved) {
	if m.cfg.Broken.Has(causal.SalvageStored) {
		return nil
	}
	for v, w := range m.writes.byVersion {
		if p := w.put; p != nil && v.Origin == o {
			found = append(found, causal.Moved{Key: p.key, Record: p.record})
		}
	}
	slices.SortFunc(found, func(a, b causal.Moved) int {
		return cmp.Compare(a.Record.Version.HLC, b.Record.Version.HLC)
	})
	return found
}

// newestPending returns the greatest timestamp of a put that is here.
func (m *Middleman) newestPending() (newest causal.HLC) {
	for v, w := range m.writes.byVersion {
		if w.put != nil {
			newest = max(newest, v.HLC)
		}
	}
	return newest
}

// finishFence takes whether a fence is durable. If not, the coordinator's next question tries again.
func (c *claim) finishFence(failed bool) { c.fencing, c.fenced = false, !failed }

// takeSalvageNames takes the names of a page.
func (m *Middleman) takeSalvageNames(p *salvagePage, r StorageResult) {
	if p.failed = r.Failed || r.BadCursor; !p.failed {
		p.unread = slices.DeleteFunc(slices.Clone(r.Keys), func(key string) bool {
			return !m.owns(topology.SlotOf(key))
		})
		if r.Next != "" {
			p.next = salvageInStorage + r.Next
		}
	}
	m.readSalvagePage(p)
}

// readSalvagePage reads on, or sends the page.
func (m *Middleman) readSalvagePage(p *salvagePage) {
	for len(p.unread) > 0 && p.reading < salvageReads && !p.failed && !p.full {
		m.tasks.request(StorageOp{Kind: StorageRead, Key: p.unread[0]},
			&task{kind: taskSalvageValue, key: p.unread[0], page: p})
		p.unread = p.unread[1:]
		p.reading++
	}
	if p.reading > 0 {
		return
	}
	o := m.cfg.Topology.OriginOf(p.to)
	if c := m.salvages.claims[o]; c != nil && c.page == p {
		c.page = nil
		if len(p.unread) > 0 && !p.failed {
			m.salvages.pages++
			rest := salvageRestOfNames{salvageRest + strconv.FormatUint(m.salvages.pages, 10), p.unread, p.next}
			c.rests = append(c.rests[max(0, len(c.rests)+1-maxSalvageRests):], rest)
			p.next = rest.cursor
		}
		m.sendSalvaged(o, p)
	}
}

// takeSalvageValue takes a record of a page.
func (m *Middleman) takeSalvageValue(p *salvagePage, key string, r StorageResult) {
	p.reading--
	switch {
	case r.Failed || r.Found && !m.knowsType(&r.Record):
		p.failed = true
	case !r.Found || r.Foreign:
	default:
		p.seen = max(p.seen, r.Record.Version.HLC)
		found, bytes := m.writesOf(m.cfg.Topology.OriginOf(p.to), key, r.Record)
		if bytes > 0 && len(p.found) > 0 && p.bytes+bytes > m.cfg.SalvageBytes {
			p.unread, p.full = append(p.unread, key), true
		} else {
			p.found = append(p.found, found...)
			p.bytes += bytes
		}
	}
	m.readSalvagePage(p)
}

// writesOf returns the writes of an origin in the value of a key that are above its SV, and how many bytes they are.
func (m *Middleman) writesOf(o topology.Origin, key string, rec causal.Record) (found []causal.Moved, bytes int) {
	for w := range m.cfg.Types.Writes(rec) {
		if w.Version.Origin == o && w.Version.HLC > m.known.SV(o) {
			found = append(found, causal.Moved{Key: key, Record: w})
			bytes += len(key) + w.Value.Size()
		}
	}
	return found, bytes
}

// sendSalvaged sends a page, without what is complete, in as many messages as it needs.
func (m *Middleman) sendSalvaged(o topology.Origin, p *salvagePage) {
	sv := m.known.SV(o)
	reply := causal.Salvaged{ID: p.id, Generation: m.salvages.fences[o], Failed: p.failed, After: p.after, Next: p.next,
		SV: sv, Incarnation: m.cfg.Incarnation,
		Seen: max(p.seen, m.known.MaxRV(), m.tombstones.horizon)}
	found := slices.DeleteFunc(p.found, func(f causal.Moved) bool { return f.Record.Version.HLC <= sv })
	var parts [][]causal.Moved
	for first, bytes, i := 0, 0, 0; ; i++ {
		if i == len(found) {
			parts = append(parts, found[first:])
			break
		}
		size := len(found[i].Key) + found[i].Record.Value.Size()
		if i > first && bytes+size > salvagePartBytes {
			parts = append(parts, found[first:i])
			first, bytes = i, 0
		}
		bytes += size
	}
	m.salvages.pages++
	reply.Edition = m.salvages.pages
	for i, records := range parts {
		reply.Part, reply.Parts, reply.Records = uint64(i), uint64(len(parts)), records
		m.Send(reply.Message(m.cfg.Self, p.to))
	}
}
