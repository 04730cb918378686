package history

// checkFinals checks that all replicas give the same answer after quiescence. (That the answer is right, and that no
// acknowledged write is lost, follows from the rules for every read: all acknowledged writes are in the past of a final
// one.)
func (c *Checker) checkFinals() {
	if c.everything < 0 {
		return
	}
	for i := range c.elems {
		e := &c.elems[i]
		if !c.h[e.op].Final || e.thin || e.part > 0 {
			continue
		}
		k := &c.keys[e.key]
		if k.final < 0 {
			k.final = int32(i)
			continue
		}
		if first := &c.elems[k.final]; !c.agree(k.final, int32(i)) {
			c.found = append(c.found, finding{kind: Diverged, op: e.op, elem: int32(i), other: first.op, pair: -1})
		}
	}
}

func (c *Checker) agree(first, second int32) bool {
	a, b := &c.elems[first], &c.elems[second]
	switch {
	case a.missing != b.missing:
		return false
	case a.missing: // a tombstone may be gone in one of them
		return a.version.IsZero() || b.version.IsZero() || a.version == b.version
	case c.keys[a.key].merges:
		return c.sameParts(first, second)
	}
	return a.write == b.write
}
