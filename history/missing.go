package history

// unsettled is a read of "missing" that only a delete not walked yet can explain.
type unsettled struct {
	elem, pair int32
	greatest   int32 // the greatest version in its past is this write's, -1 if none has one
	next       int32
	settled    bool
}

// checkMissing checks a read that found nothing and does not tell which tombstone it read. It is correct if no write is
// in its past. Otherwise a delete must explain it: one that no write in that past supersedes, and that is not after the
// read.
func (c *Checker) checkMissing(i int32, past clock, pair int32) {
	e := &c.elems[i]
	key := &c.keys[e.key]
	tops, puts := c.tops(e.key, past)
	if !puts {
		return
	}
	greatest := int32(-1)
	for _, w := range tops {
		if c.ops[w].versioned() {
			greatest = c.newer(greatest, w)
		}
	}
	for _, d := range tops {
		if c.ops[d].kind == Delete && !c.supersededBy(d, tops) {
			return
		}
	}
	for d := key.deletes; d >= 0; d = c.ops[d].nextDel {
		if c.done[d] && !c.inPast(d, past) && c.beats(d, greatest) {
			return
		}
	}
	c.unsettled = append(c.unsettled, unsettled{elem: i, pair: pair, greatest: greatest, next: key.unsettled})
	key.unsettled = int32(len(c.unsettled) - 1)
}

// tops returns a superset of the writes of a key in a past that no other one supersedes, and whether one of them is a
// put.
func (c *Checker) tops(key int32, past clock) (tops []int32, puts bool) {
	c.scratch = c.scratch[:0]
	add := func(w int32) {
		c.scratch = append(c.scratch, w)
		puts = puts || c.ops[w].kind == Put
	}
	groups := c.groupsOf(key)
	for j := range groups {
		at := c.last(&groups[j], past.at(groups[j].proc))
		if at < 0 {
			continue
		}
		add(c.writes[at])
		if m := c.writeMax[at]; m >= 0 && m != c.writes[at] {
			add(m)
		}
	}
	for w := c.keys[key].floats; w >= 0; w = c.ops[w].next {
		if c.inPast(w, past) {
			add(w)
		}
	}
	return c.scratch, puts
}

func (c *Checker) supersededBy(d int32, tops []int32) bool {
	for _, w := range tops {
		if w != d && c.supersedes(w, d) {
			return true
		}
	}
	return false
}

// beats reports whether a delete that is concurrent with a past supersedes all of it. Where a version is unknown, it
// may.
func (c *Checker) beats(d, greatest int32) bool {
	return greatest < 0 || !c.ops[d].versioned() || !c.ops[d].version.Less(c.ops[greatest].version)
}

// settle tests a delete that has just been walked against the reads that wait for one.
func (c *Checker) settle(d int32) {
	past := c.clockOf(d)
	link := &c.keys[c.ops[d].key].unsettled
	for *link >= 0 {
		u := &c.unsettled[*link]
		if !c.inPast(c.elems[u.elem].op, past) && c.beats(d, u.greatest) {
			u.settled = true
			*link = u.next
			continue
		}
		link = &u.next
	}
}

// settleRest reports the reads that no delete explains.
func (c *Checker) settleRest() {
	for i := range c.unsettled {
		if u := &c.unsettled[i]; !u.settled {
			c.found = append(c.found, finding{kind: MissingRead, op: c.elems[u.elem].op, elem: u.elem, other: -1,
				pair: u.pair})
		}
	}
}
