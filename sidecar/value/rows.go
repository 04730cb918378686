package value

import (
	"cmp"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// rows are a collection that was decoded.
type rows struct {
	// overwritten is the newest register that it has met. Nothing at or below it is left.
	overwritten causal.Version
	// collected: rows that were removed at or below it are left out, and every write up to it was joined. An element
	// without a row is removed up to it.
	collected causal.HLC
	deadlines deadlines
	list      []row // in ascending order of their elements
}

// element is what a row is about: a field of a hash, a member of a set or of a sorted set, a position in a list,
// or a group of registers of a HyperLogLog.
type element struct {
	kind Kind
	name string
}

func (e element) compare(o element) int {
	if c := cmp.Compare(e.kind, o.kind); c != 0 {
		return c
	}
	return strings.Compare(e.name, o.name)
}

// row is what is known of one element.
type row struct {
	element
	payload string // of a field of a hash its value, of a member of a sorted set its score, of a position its text
	// at is the write that has added the element; of a dead one, the newest such write that its remover has seen.
	at   causal.Version
	dead bool
	by   causal.Version // of a dead one: the write that has removed it
	// sums are what was added to the number that the element is, since it was set or removed, in ascending order of
	// their lines. They are of other writes than the rest of the row, which may be missing: dead, of no version.
	sums []sum
}

// self stands for the version of the record that is encoded: a put has none before it is accepted.
var self = causal.Version{HLC: ^causal.HLC(0), Origin: ^topology.Origin(0)}

// wins reports whether r is what is left of two rows of an element. Of two that follow the same write, the removal is;
// of two removals that have seen the same, the later one.
func (r *row) wins(o *row) bool {
	switch c := r.since().Compare(o.since()); {
	case c != 0:
		return c > 0
	case r.dead != o.dead:
		return r.dead
	case r.at != o.at: // of an element of a list
		return o.at.Less(r.at)
	}
	return o.by.Less(r.by)
}

// absent returns what a collection without a row of an element knows of it.
func (h *rows) absent(e element) row {
	at := causal.Missing(h.collected).Version
	return row{element: e, at: at, dead: true, by: at}
}

// known returns a row with all that the collection knows of its element.
func (h *rows) known(r *row) row {
	if !r.isBare() {
		return *r
	}
	a := h.absent(r.element)
	a.sums = r.sums
	return a
}

// join returns what is left of two rows of an element, in collections that have collected what was removed up to a
// horizon.
func (r *row) join(o *row, collected, oCollected causal.HLC) row {
	left := *r
	if o.wins(r) {
		left = *o
	}
	if !left.saysMore() {
		left = row{element: r.element, dead: true}
	}
	ended := causal.Version{}
	for _, x := range [...]*row{r, o} {
		if x.saysMore() {
			ended = maxVersion(ended, x.at)
		}
	}
	sums := endSums(r.kind, r.sums, o.sums, oCollected)
	left.sums = joinSums(r.kind, sums, endSums(r.kind, o.sums, r.sums, collected), ended)
	return left
}

// saysMore reports whether a row says more of its element, beside what was added to it, than a collection without one.
func (r *row) saysMore() bool { return r.at.Written() || r.at == self }

// join adds what another collection of the key has.
func (h *rows) join(o *rows) {
	joined := make([]row, 0, len(h.list)+len(o.list))
	i, j := 0, 0
	for i < len(h.list) || j < len(o.list) {
		var a, b row
		switch c := compareAt(h.list, i, o.list, j); {
		case c < 0:
			a, b = h.list[i], o.absent(h.list[i].element)
			i++
		case c > 0:
			a, b = h.absent(o.list[j].element), o.list[j]
			j++
		default:
			a, b = h.known(&h.list[i]), o.known(&o.list[j])
			i, j = i+1, j+1
		}
		joined = append(joined, a.join(&b, h.collected, o.collected))
	}
	h.list = joined
	h.deadlines = h.deadlines.join(o.deadlines)
	h.collected = max(h.collected, o.collected)
	h.overwrite(o.overwritten)
}

// compareAt compares the elements of two rows; one behind the end is greater.
func compareAt(a []row, i int, b []row, j int) int {
	switch {
	case i == len(a):
		return 1
	case j == len(b):
		return -1
	}
	return a[i].compare(b[j].element)
}

// overwrite removes what a register at v overwrites, and removals that say nothing more than what is known anyway.
func (h *rows) overwrite(v causal.Version) {
	h.overwritten = maxVersion(h.overwritten, v)
	left := h.list[:0]
	for _, r := range h.list {
		if r.isBare() || h.isOverwritten(&r) || h.isCollected(&r) {
			r = row{element: r.element, dead: true, sums: joinSums(r.kind, r.sums, nil, h.overwritten)}
		}
		if !r.isBare() || len(r.sums) > 0 {
			left = append(left, r)
		}
	}
	clear(h.list[len(left):])
	h.list = left
	h.deadlines = h.deadlines.after(h.overwritten)
}

// isOverwritten reports whether the newest register is newer than a row. The row of the text is the register.
func (h *rows) isOverwritten(r *row) bool {
	if r.kind == Text {
		return r.since().Less(h.overwritten)
	}
	return !h.overwritten.Less(r.since())
}

// isCollected reports whether a row says of its element only that it is removed, as the collection does without it.
func (h *rows) isCollected(r *row) bool {
	return r.dead && r.at.HLC <= h.collected && r.by.HLC <= h.collected
}

// collect drops rows that were removed at or below a horizon: no write at or below it can arrive any more.
func (h *rows) collect(horizon causal.HLC) {
	h.collected = max(h.collected, horizon)
	h.overwrite(causal.Version{})
}

// byWrite returns the rows by the writes that they are of. last is the newest write. If a horizon has overwritten the
// key, each remembers it: it may have come with any of them.
func (h rows) byWrite(last causal.Version) map[causal.Version]*rows {
	writes := map[causal.Version]*rows{last: {}}
	of := func(v causal.Version) *rows {
		if writes[v] == nil {
			writes[v] = &rows{}
		}
		return writes[v]
	}
	if h.overwritten.Written() {
		of(h.overwritten).overwritten = h.overwritten
	}
	for _, d := range h.deadlines {
		w := of(d.at)
		w.deadlines = append(w.deadlines, d)
	}
	for _, r := range h.list {
		for _, s := range r.sums {
			of(s.at).add(row{element: r.element, dead: true, sums: []sum{s}})
		}
		if v := r.writtenBy(); v.Written() || v == self {
			r.sums = nil
			of(v).add(r)
		}
	}
	if h.overwritten.HLC > 0 && !h.overwritten.Written() {
		for _, w := range writes {
			w.overwritten = h.overwritten
		}
	}
	return writes
}

// add adds a row behind all others, or, of the element of the last one, which adds to it, to that.
func (h *rows) add(r row) {
	if last := len(h.list) - 1; last >= 0 && h.list[last].element == r.element {
		r.sums = joinSums(r.kind, r.sums, h.list[last].sums, causal.Version{})
		h.list[last] = r
		return
	}
	h.list = append(h.list, r)
}

// writtenBy returns the write that has made the row, but for what was added to it; none: nothing else was.
func (r *row) writtenBy() causal.Version {
	if r.dead {
		return r.by
	}
	return r.at
}

func (h *rows) sort() {
	slices.SortFunc(h.list, func(a, b row) int { return a.compare(b.element) })
}

// find returns the row of an element, or nil.
func (h *rows) find(e element) *row {
	i, ok := slices.BinarySearchFunc(h.list, e, func(r row, e element) int { return r.compare(e) })
	if !ok {
		return nil
	}
	return &h.list[i]
}

// shown returns the kind of the collection that clients see: that of its newest element.
func (h *rows) shown() Kind {
	newest := (*row)(nil)
	for i := range h.list {
		if r := &h.list[i]; r.isAlive() && (newest == nil || newest.newest().Less(r.newest())) {
			newest = r
		}
	}
	if newest == nil {
		return None
	}
	return newest.kind
}
