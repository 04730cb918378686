package history

// finding is a violation before it is explained.
type finding struct {
	kind  Kind
	op    int32
	elem  int32 // the key of op concerned, -1 if none
	other int32 // another operation concerned, -1 if none
	// pair is the write whose past the finding is about, if that is not the past of op itself: another one returned by
	// the same mget. -1 if none.
	pair int32
	text string // of Malformed
}

// conflict means that from is arbitrated before to: op read to with from in its past (or in the past of pair, which it
// also read).
type conflict struct{ from, to, op, elem, pair int32 }

// checkRead checks the read of one key against a past: that of its operation without what this has read, or that of
// pair.
func (c *Checker) checkRead(i int32, past clock, pair int32) {
	e := &c.elems[i]
	switch {
	case c.keys[e.key].merges:
		if e.part <= 0 {
			c.checkParts(i, past, pair)
		}
	case e.thin:
	case e.write >= 0:
		w := &c.ops[e.write]
		if w.versioned() {
			if x := c.greater(e.key, past, w.version); x >= 0 {
				c.found = append(c.found, finding{kind: StaleRead, op: e.op, elem: i, other: x, pair: pair})
			}
		}
		if c.keys[e.key].incomplete {
			c.addConflicts(i, past, pair)
		}
	case !e.version.IsZero():
		if x := c.greater(e.key, past, e.version); x >= 0 {
			c.found = append(c.found, finding{kind: StaleRead, op: e.op, elem: i, other: x, pair: pair})
		}
	default:
		c.checkMissing(i, past, pair)
	}
}

// addConflicts records which writes of the key in a past are arbitrated before the one that was read. It omits writes
// that happen before it and all but the last write of each process, since happens-before implies those edges, and pairs
// with two versions, which the order of the versions decides.
func (c *Checker) addConflicts(i int32, past clock, pair int32) {
	e := &c.elems[i]
	read := c.clockOf(e.write)
	known := c.ops[e.write].versioned()
	if len(c.conflicts) >= c.compactNext {
		c.compactConflicts()
		c.compactNext = max(compactAt, 2*len(c.conflicts))
	}
	add := func(w int32) {
		if !(known && c.ops[w].versioned()) {
			c.conflicts = append(c.conflicts, conflict{w, e.write, e.op, i, pair})
		}
	}
	groups := c.groupsOf(e.key)
	for j := range groups {
		g := &groups[j]
		limit := past.at(g.proc)
		if limit <= read.at(g.proc) {
			continue
		}
		if at := c.last(g, limit); at >= 0 && c.writePos[at] > read.at(g.proc) {
			add(c.writes[at])
		}
	}
	for w := c.keys[e.key].floats; w >= 0; w = c.ops[w].next {
		if c.inPast(w, past) && !c.inPast(w, read) {
			add(w)
		}
	}
}
