package history

import (
	"cmp"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// resolveReads finds the write of every read and the version of every write, wherever it was given.
func (c *Checker) resolveReads() {
	tombstones := false
	for i := range c.elems {
		e := &c.elems[i]
		if e.missing {
			c.stats.MissingReads++
			tombstones = tombstones || !e.version.IsZero()
			c.keys[e.key].blind = c.keys[e.key].blind || e.version.IsZero()
			continue
		}
		w, ok := c.names.writes[keyValue{c.valueOf(e), e.key}]
		if !ok || c.ops[w].role == ignored {
			other := int32(-1)
			if ok {
				other = w
			}
			e.thin = true
			c.found = append(c.found, finding{kind: ThinAir, op: e.op, elem: int32(i), other: other, pair: -1})
			continue
		}
		c.bind(int32(i), w)
	}
	if tombstones {
		c.resolveTombstones()
	}
	for i := range c.ops {
		if w := &c.ops[i]; w.isWrite() && w.role != ignored {
			switch {
			case w.versioned():
				c.stats.Versioned++
			case w.role == chained || w.readers > 0:
				c.keys[w.key].incomplete = true
			}
			if w.role == floating && w.readers > 0 {
				c.stats.UnknownObserved++
			}
		}
	}
}

// valueOf returns the value of the write that an element stands for.
func (c *Checker) valueOf(e *elem) string {
	value, parts := c.h[e.op].Value, c.h[e.op].Parts
	if e.at >= 0 {
		value, parts = c.h[e.op].Reads[e.at].Value, c.h[e.op].Reads[e.at].Parts
	}
	if e.part >= 0 {
		return parts[e.part].Value
	}
	return value
}

// bind records that elem i read w. A version that only the read knows becomes the write's.
func (c *Checker) bind(i, w int32) {
	e, in := &c.elems[i], &c.ops[w]
	e.write = w
	in.readers++
	switch {
	case e.version.IsZero():
	case !in.versioned():
		in.version = e.version
	case in.version != e.version:
		c.found = append(c.found, finding{kind: VersionMismatch, op: e.op, elem: i, other: w, pair: -1})
	}
}

// resolveTombstones finds the delete of every read of "missing" that tells which version it read. If exactly one delete
// of the key has no known version, it is that one; if there are several, the read stays without a write and only its
// version counts.
func (c *Checker) resolveTombstones() {
	byVersion := make(map[causal.Version]int32)
	for i := range c.ops {
		if w := &c.ops[i]; w.isWrite() && w.role != ignored && w.versioned() {
			byVersion[w.version] = int32(i)
		}
	}
	for i := range c.elems {
		e := &c.elems[i]
		if !e.missing || e.version.IsZero() {
			continue
		}
		if w, ok := byVersion[e.version]; ok {
			if in := &c.ops[w]; in.kind == Delete && in.key == e.key {
				c.bind(int32(i), w)
			} else {
				c.found = append(c.found, finding{kind: VersionMismatch, op: e.op, elem: int32(i), other: w, pair: -1})
				e.thin = true
			}
			continue
		}
		candidate, candidates := int32(-1), 0
		for d := c.keys[e.key].deletes; d >= 0; d = c.ops[d].nextDel {
			if !c.ops[d].versioned() {
				candidate = d
				candidates++
			}
		}
		switch candidates {
		case 0:
			e.thin = true
			c.found = append(c.found, finding{kind: ThinAir, op: e.op, elem: int32(i), other: -1, pair: -1})
		case 1:
			c.bind(int32(i), candidate)
			byVersion[e.version] = candidate
		}
	}
}

// orderVersions sorts the writes that have versions, and finds versions that two writes share.
func (c *Checker) orderVersions() {
	c.byVersion = c.byVersion[:0]
	for i := range c.ops {
		if w := &c.ops[i]; w.isWrite() && w.role != ignored && w.versioned() {
			c.byVersion = append(c.byVersion, int32(i))
		}
	}
	slices.SortFunc(c.byVersion, func(a, b int32) int {
		return cmp.Or(c.ops[a].version.Compare(c.ops[b].version), cmp.Compare(a, b))
	})
	c.orderBroken = false
	for i := 1; i < len(c.byVersion); i++ {
		a, b := c.byVersion[i-1], c.byVersion[i]
		if c.ops[a].version == c.ops[b].version {
			c.orderBroken = true
			c.found = append(c.found, finding{kind: VersionReused, op: max(a, b), elem: -1, other: min(a, b), pair: -1})
		}
	}
}
