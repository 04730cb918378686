package history

import (
	"sort"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// keyWrites holds the chained writes sorted by key, process, position: the groups of a key are its writers.
type keyWrites struct {
	writes   []int32
	writePos []int32
	// writeMax[i] is the write with the greatest version from the start of its group to i, -1 if none has one.
	writeMax []int32
	groups   []group
	counts   []int32
	byProc   []int32
}

type group struct {
	proc     int32
	span     // in writes
	greatest int32
}

func (c *Checker) groupWrites() {
	// Two counting sorts, by process and then by key, both stable.
	c.counts = sized(c.counts, max(len(c.procs), len(c.keys))+1)
	n := 0
	for i := range c.ops {
		if o := &c.ops[i]; o.isWrite() && o.role == chained {
			c.counts[o.proc+1]++
			n++
		}
	}
	c.byProc, c.writes = sized(c.byProc, n), sized(c.writes, n)
	c.writePos, c.writeMax = sized(c.writePos, n), sized(c.writeMax, n)
	accumulate(c.counts)
	for i := range c.ops {
		if o := &c.ops[i]; o.isWrite() && o.role == chained {
			c.byProc[c.counts[o.proc]] = int32(i)
			c.counts[o.proc]++
		}
	}
	clear(c.counts)
	for _, w := range c.byProc {
		c.counts[c.ops[w].key+1]++
	}
	accumulate(c.counts)
	for _, w := range c.byProc {
		k := c.ops[w].key
		c.writes[c.counts[k]] = w
		c.counts[k]++
	}
	c.cutGroups()
}

func accumulate(counts []int32) {
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
}

func (c *Checker) cutGroups() {
	c.groups = c.groups[:0]
	key, greatest := int32(-1), int32(-1)
	for i, w := range c.writes {
		o := &c.ops[w]
		at := int32(i)
		if n := len(c.groups); o.key != key || c.groups[n-1].proc != o.proc {
			if o.key != key {
				c.keys[o.key].groups.from = int32(n)
			}
			c.groups = append(c.groups, group{proc: o.proc, span: span{at, at}})
			c.keys[o.key].groups.to = int32(n + 1)
			key, greatest = o.key, -1
		}
		if o.versioned() && (greatest < 0 || c.ops[greatest].version.Less(o.version)) {
			greatest = w
		}
		c.writePos[i], c.writeMax[i] = o.pos, greatest
		g := &c.groups[len(c.groups)-1]
		g.to, g.greatest = at+1, greatest
	}
}

func (c *Checker) groupsOf(key int32) []group {
	k := &c.keys[key].groups
	return c.groups[k.from:k.to]
}

// last returns the index in writes of the last write of g whose position is at most pos, or -1.
func (c *Checker) last(g *group, pos int32) int32 {
	if pos < c.writePos[g.from] {
		return -1
	}
	if pos >= c.writePos[g.to-1] {
		return g.to - 1
	}
	in := c.writePos[g.from:g.to]
	return g.from + int32(sort.Search(len(in), func(i int) bool { return in[i] > pos })) - 1
}

// greater returns the write of a key in the past of a clock that has the greatest version above v, or -1.
func (c *Checker) greater(key int32, past clock, v causal.Version) int32 {
	best := int32(-1)
	if k := &c.keys[key]; k.greatest < 0 || !v.Less(c.ops[k.greatest].version) {
		return -1 // a past consists of nodes walked before
	}
	for i := range c.groupsOf(key) {
		g := &c.groupsOf(key)[i]
		if g.greatest < 0 || !v.Less(c.ops[g.greatest].version) {
			continue
		}
		at := c.last(g, past.at(g.proc))
		if at < 0 {
			continue
		}
		if w := c.writeMax[at]; w >= 0 && v.Less(c.ops[w].version) {
			best, v = w, c.ops[w].version
		}
	}
	for w := c.keys[key].floats; w >= 0; w = c.ops[w].next {
		if c.inPast(w, past) && c.ops[w].versioned() && v.Less(c.ops[w].version) {
			best, v = w, c.ops[w].version
		}
	}
	return best
}

// inPast reports whether a walked operation is in the past of a clock.
func (c *Checker) inPast(op int32, past clock) bool {
	o := &c.ops[op]
	return o.lane >= 0 && past.at(o.lane) >= o.pos
}

// supersedes reports whether w2 supersedes w1, another write of its key. The clock of w2 must be pinned.
func (c *Checker) supersedes(w2, w1 int32) bool {
	if c.ops[w1].versioned() && c.ops[w2].versioned() {
		return c.ops[w1].version.Less(c.ops[w2].version)
	}
	return c.inPast(w1, c.clockOf(w2))
}
