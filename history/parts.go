package history

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Values that merge: a read returns several writes of a key. An add is a write that leaves the others in place; a put
// or a delete overwrites all writes with smaller versions. So a key that is written with adds has, at a version, the
// adds after the newest put or delete, or that itself if there are none. Every read of such a key is judged here, and
// its writes need versions.

// Part is one of the writes that a read returned.
type Part struct {
	Value   string
	Version causal.Version
}

// partsOf returns the elements of the read of one key that begins at an element.
func (c *Checker) partsOf(first int32) []elem {
	e := &c.elems[first]
	end := first + 1
	for end < c.ops[e.op].elems.to && c.elems[end].at == e.at {
		end++
	}
	return c.elems[first:end]
}

// checkParts checks the read of one key, which begins at an element, against a past.
func (c *Checker) checkParts(first int32, past clock, pair int32) {
	read := c.partsOf(first)
	if pair < 0 {
		for i := range read {
			for j := range i {
				if read[i].write >= 0 && read[i].write == read[j].write {
					c.found = append(c.found, finding{kind: DoubledWrite, op: read[i].op, elem: first,
						other: read[i].write, pair: pair})
				}
			}
		}
	}
	if read[0].thin {
		return
	}
	c.eachWriteIn(past, read[0].key, func(w int32) {
		switch o := &c.ops[w]; {
		case isPart(read, w):
		case o.kind != Add:
			if i := c.overwrittenPart(read, w); i >= 0 {
				c.found = append(c.found, finding{kind: StaleRead, op: read[i].op, elem: first + int32(i), other: w,
					pair: pair})
			}
		case !c.isOverwritten(w, read):
			c.found = append(c.found, finding{kind: IncompleteRead, op: read[0].op, elem: first, other: w, pair: pair})
		}
	})
}

func isPart(read []elem, w int32) bool {
	for i := range read {
		if read[i].write == w {
			return true
		}
	}
	return false
}

// eachWriteIn calls f with the writes of a key in a past.
func (c *Checker) eachWriteIn(past clock, key int32, f func(w int32)) {
	for _, g := range c.groupsOf(key) {
		last := c.last(&g, past.at(g.proc))
		for i := g.from; i <= last && last >= 0; i++ {
			f(c.writes[i])
		}
	}
	for w := c.keys[key].floats; w >= 0; w = c.ops[w].next {
		if c.inPast(w, past) {
			f(w)
		}
	}
}

// overwrittenPart returns the index of a part of a read that a put or delete has overwritten, or -1.
func (c *Checker) overwrittenPart(read []elem, by int32) int {
	for i := range read {
		if w := read[i].write; w >= 0 && c.ops[w].version.Less(c.ops[by].version) {
			return i
		}
	}
	return -1
}

// isOverwritten reports whether some put or delete may explain that a read lacks an add: it overwrites that, and no
// part of the read.
func (c *Checker) isOverwritten(add int32, read []elem) bool {
	for d := c.keys[read[0].key].replacing; d >= 0; d = c.ops[d].nextReplacing {
		if !c.ops[d].versioned() || c.ops[add].version.Less(c.ops[d].version) && c.overwrittenPart(read, d) < 0 {
			return true
		}
	}
	return false
}

// sameParts reports whether two reads of a key, which begin at these elements and found something, returned the same
// writes.
func (c *Checker) sameParts(a, b int32) bool {
	x, y := c.partsOf(a), c.partsOf(b)
	for i := range x {
		if x[i].write >= 0 && !isPart(y, x[i].write) {
			return false
		}
	}
	for i := range y {
		if y[i].write >= 0 && !isPart(x, y[i].write) {
			return false
		}
	}
	return true
}

// explainIncomplete shows how the write that a read lacks entered its past.
func (c *Checker) explainIncomplete(f finding) Violation {
	why := fmt.Sprintf("what was read of %s lacks a write of the reader's past", shown(c.keyName(f.elem)))
	return c.violation(IncompleteRead, why, c.wayIn(f)...)
}
