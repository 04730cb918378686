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
		if !c.h[e.op].Final || e.thin {
			continue
		}
		k := &c.keys[e.key]
		if k.final < 0 {
			k.final = int32(i)
			continue
		}
		if first := &c.elems[k.final]; !agree(first, e) {
			c.found = append(c.found, finding{kind: Diverged, op: e.op, elem: int32(i), other: first.op, pair: -1})
		}
	}
}

func agree(a, b *elem) bool {
	if a.missing != b.missing {
		return false
	}
	if !a.missing {
		return a.write == b.write
	}
	return a.version.IsZero() || b.version.IsZero() || a.version == b.version
}
