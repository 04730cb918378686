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

// element is what a row is about: a field of a hash, a member of a set or of a sorted set, or a position in a list.
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
			a, b = h.list[i], o.list[j]
			i, j = i+1, j+1
		}
		if b.wins(&a) {
			a = b
		}
		joined = append(joined, a)
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
	h.list = slices.DeleteFunc(h.list, func(r row) bool {
		return !h.overwritten.Less(r.since()) || h.isCollected(&r)
	})
	h.deadlines = h.deadlines.after(h.overwritten)
}

func (h *rows) isCollected(r *row) bool {
	return r.dead && r.at.HLC <= h.collected && r.by.HLC <= h.collected
}

// collect drops rows that were removed at or below a horizon: no write at or below it can arrive any more.
func (h *rows) collect(horizon causal.HLC) {
	h.collected = max(h.collected, horizon)
	h.overwrite(causal.Version{})
}

// byWrite returns the rows by the writes that they are of. last is the newest write.
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
		switch {
		case !r.dead:
			w := of(r.at)
			w.list = append(w.list, r)
		case r.by.Written():
			w := of(r.by)
			w.list = append(w.list, r)
		}
	}
	return writes
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
		if r := &h.list[i]; !r.dead && (newest == nil || newest.at.Less(r.at)) {
			newest = r
		}
	}
	if newest == nil {
		return None
	}
	return newest.kind
}
