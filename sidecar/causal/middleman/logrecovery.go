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
	// namesOfPage is about how many names are asked of storage for a page, and readsAtOnce how many values at once.
	namesOfPage, readsAtOnce = 256, 16
	// pagePartBytes is about how much one message carries; a single record may be larger.
	pagePartBytes = 1 << 20
	// inStorage begins the cursors of pages of what storage holds, and inRest those of names that did not fit into the
	// page before.
	inStorage, inRest = "s", "r"
	// maxRests bounds the rests that are kept: a page may be asked for again, and is another one then.
	maxRests = 4
)

// logRecovery hands out what this shard has of lost logs.
type logRecovery struct {
	*shared
	fences     *fences
	writes     *writes
	tombstones *tombstones
	claims     map[topology.Origin]*claim
	pages      uint64 // that were sent, and rests that were kept
}

// restOfNames are names whose values did not fit into a page.
type restOfNames struct {
	cursor string
	names  []string
	next   string
}

// recoveryPage is a page of what storage holds, while it is read.
type recoveryPage struct {
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

func newLogRecovery(s *shared, f *fences, ws *writes, ts *tombstones) logRecovery {
	return logRecovery{shared: s, fences: f, writes: ws, tombstones: ts, claims: map[topology.Origin]*claim{}}
}

// answer answers with a page. A coordinator that asks with a generation that somebody else has asked with is told to
// take a greater one.
func (r *logRecovery) answer(now causal.Now, from topology.Node, s causal.Salvage) {
	o := r.cfg.Topology.OriginOf(from)
	if !r.cfg.Topology.HasOrigin(o) || s.Generation == 0 {
		return
	}
	if !r.isPlausible(now, s.Generation) {
		r.stats.ClockRefused++
		r.stats.LastRefused, r.stats.RefusedFrom = causal.Version{HLC: causal.HLCAt(int64(s.Generation)), Origin: o},
			from
		return // a coordinator with a clock that is wrong asks again
	}
	fence, c := r.fences.of(now, o), r.claims[o]
	switch {
	case s.Generation > fence:
		r.fences.want(o, s.Generation)
		c = &claim{id: s.ID}
		r.claims[o] = c
	case s.Generation < fence || c == nil || c.id != s.ID:
		r.Send(causal.Salvaged{ID: s.ID, Generation: fence, Refused: true,
			Incarnation: r.cfg.Incarnation}.Message(r.cfg.Self, from))
		return
	}
	switch {
	case !c.fenced:
		r.fences.save(o, c)
	case s.After == "":
		r.sendPage(o, &recoveryPage{to: from, id: s.ID, next: inStorage, found: r.pendingOf(o),
			seen: r.newestPending()})
	case c.page != nil && c.page.after == s.After:
	case s.After[:1] == inRest:
		c.page = &recoveryPage{to: from, id: s.ID, after: s.After, failed: true}
		if i := slices.IndexFunc(c.rests, func(r restOfNames) bool { return r.cursor == s.After }); i >= 0 {
			c.page.unread, c.page.next, c.page.failed = c.rests[i].names, c.rests[i].next, false
		}
		r.readPage(c.page)
	case s.After[:1] == inStorage:
		c.page = &recoveryPage{to: from, id: s.ID, after: s.After}
		r.tasks.request(StorageOp{Kind: StorageScan, Key: s.After[1:], Limit: namesOfPage},
			&task{kind: taskRecoveryNames, page: c.page})
	}
}

// pendingOf returns the puts of an origin that are here and that storage may not hold yet.
func (r *logRecovery) pendingOf(o topology.Origin) (found []causal.Moved) {
	if r.cfg.Broken.Has(causal.SalvageStored) {
		return nil
	}
	for v, w := range r.writes.byVersion {
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
func (r *logRecovery) newestPending() (newest causal.HLC) {
	for v, w := range r.writes.byVersion {
		if w.put != nil {
			newest = max(newest, v.HLC)
		}
	}
	return newest
}

// takeNames takes the names of a page.
func (r *logRecovery) takeNames(p *recoveryPage, result StorageResult) {
	if p.failed = result.Failed || result.BadCursor; !p.failed {
		p.unread = slices.DeleteFunc(slices.Clone(result.Keys), func(key string) bool {
			return !r.owns(topology.SlotOf(key))
		})
		if result.Next != "" {
			p.next = inStorage + result.Next
		}
	}
	r.readPage(p)
}

// readPage reads on, or sends the page.
func (r *logRecovery) readPage(p *recoveryPage) {
	for len(p.unread) > 0 && p.reading < readsAtOnce && !p.failed && !p.full {
		r.tasks.request(StorageOp{Kind: StorageRead, Key: p.unread[0]},
			&task{kind: taskRecoveryValue, key: p.unread[0], page: p})
		p.unread = p.unread[1:]
		p.reading++
	}
	if p.reading > 0 {
		return
	}
	o := r.cfg.Topology.OriginOf(p.to)
	if c := r.claims[o]; c != nil && c.page == p {
		c.page = nil
		if len(p.unread) > 0 && !p.failed {
			r.pages++
			rest := restOfNames{inRest + strconv.FormatUint(r.pages, 10), p.unread, p.next}
			c.rests = append(c.rests[max(0, len(c.rests)+1-maxRests):], rest)
			p.next = rest.cursor
		}
		r.sendPage(o, p)
	}
}

// takeValue takes a record of a page.
func (r *logRecovery) takeValue(p *recoveryPage, key string, result StorageResult) {
	p.reading--
	switch {
	case result.Failed || result.Found && !r.knowsType(&result.Record):
		p.failed = true
	case !result.Found || result.Foreign:
	default:
		p.seen = max(p.seen, result.Record.Version.HLC)
		found, bytes := r.writesOf(r.cfg.Topology.OriginOf(p.to), key, result.Record)
		if bytes > 0 && len(p.found) > 0 && p.bytes+bytes > r.cfg.SalvageBytes {
			p.unread, p.full = append(p.unread, key), true
		} else {
			p.found = append(p.found, found...)
			p.bytes += bytes
		}
	}
	r.readPage(p)
}

// writesOf returns the writes of an origin in the value of a key that are above its SV, and how many bytes they are.
// Of a value that merges that is any of its parts (PROTOCOL VAL-13).
func (r *logRecovery) writesOf(o topology.Origin, key string, rec causal.Record) (found []causal.Moved, bytes int) {
	for w := range r.cfg.Types.Writes(rec) {
		if r.cfg.Broken.Has(causal.SalvageNewestPart) && w.Version != rec.Version {
			continue
		}
		if w.Version.Origin == o && w.Version.HLC > r.known.SV(o) {
			found = append(found, causal.Moved{Key: key, Record: w})
			bytes += len(key) + w.Value.Size()
		}
	}
	return found, bytes
}

// sendPage sends a page, without what is complete, in as many messages as it needs.
func (r *logRecovery) sendPage(o topology.Origin, p *recoveryPage) {
	sv := r.known.SV(o)
	reply := causal.Salvaged{ID: p.id, Generation: r.fences.wanted[o], Failed: p.failed, After: p.after, Next: p.next,
		SV: sv, Incarnation: r.cfg.Incarnation,
		Seen: max(p.seen, r.known.MaxRV(), r.tombstones.horizon)}
	found := slices.DeleteFunc(p.found, func(f causal.Moved) bool { return f.Record.Version.HLC <= sv })
	var parts [][]causal.Moved
	for first, bytes, i := 0, 0, 0; ; i++ {
		if i == len(found) {
			parts = append(parts, found[first:])
			break
		}
		size := len(found[i].Key) + found[i].Record.Value.Size()
		if i > first && bytes+size > pagePartBytes {
			parts = append(parts, found[first:i])
			first, bytes = i, 0
		}
		bytes += size
	}
	r.pages++
	reply.Edition = r.pages
	for i, records := range parts {
		reply.Part, reply.Parts, reply.Records = uint64(i), uint64(len(parts)), records
		r.Send(reply.Message(r.cfg.Self, p.to))
	}
}
