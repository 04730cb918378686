package history

// walk is the topological walk over the graph. It computes clocks and checks every rule that needs only the past.
type walk struct {
	clockPool
	order   []int32 // nodes in walking order; its end is the queue
	done    []bool
	waitFor []int32 // node -> direct predecessors not yet walked
	uses    []int32 // node -> direct successors not yet walked
	pinned  []bool  // operation -> its clock is kept until the end
	// newest[v] is the write with the greatest version, of any key, in the past of node v (itself included), -1 if
	// none.
	newest []int32
	// laneEnd[i] is the last write of the i-th lane after those of the processes.
	laneEnd []int32
}

func (c *Checker) walkAll() {
	n := int(c.nodes)
	c.clockPool.reset(n, len(c.procs))
	c.done = sized(c.done, n)
	c.pinned = sized(c.pinned, len(c.ops))
	c.newest = sized(c.newest, n)
	c.waitFor = append(c.waitFor[:0], c.in...)
	c.uses = append(c.uses[:0], c.out...)
	c.laneEnd = c.laneEnd[:0]
	c.pinClocks()
	c.order = c.order[:0]
	for v := range c.nodes {
		if c.waitFor[v] == 0 && !c.skipped(v) {
			c.order = append(c.order, v)
		}
	}
	for next := 0; next < len(c.order); next++ {
		v := c.order[next]
		c.visit(v)
		c.done[v] = true
		for _, s := range c.succsOf(v) {
			if c.waitFor[s]--; c.waitFor[s] == 0 {
				c.order = append(c.order, s)
			}
		}
	}
}

// walkedAll reports whether happens-before has no cycle.
func (c *Checker) walkedAll() bool { return len(c.order)+c.stats.Failed == int(c.nodes) }

func (c *Checker) skipped(v int32) bool { return int(v) < len(c.ops) && c.ops[v].role == ignored }

// pinClocks keeps the clocks of writes that a read of "missing" may have to be compared with; where versions are known
// they suffice.
func (c *Checker) pinClocks() {
	for i := range c.ops {
		if o := &c.ops[i]; o.isWrite() && o.role != ignored {
			k := &c.keys[o.key]
			c.pinned[i] = k.incomplete && k.blind && k.deletes >= 0
		}
	}
}

func (c *Checker) visit(v int32) {
	c.newest[v] = -1
	c.scratch = c.basePreds(v, c.scratch[:0])
	for _, u := range c.scratch {
		c.inherit(v, u)
	}
	if c.of[v] < 0 {
		c.give(v, nil)
	}
	if int(v) < len(c.ops) {
		c.visitOp(v, &c.ops[v])
	}
	if c.uses[v] == 0 {
		c.retire(v)
	}
}

// inherit adds the past of u, a direct predecessor, to v's. The last successor takes the clock over.
func (c *Checker) inherit(v, u int32) {
	c.uses[u]--
	switch {
	case c.of[v] >= 0:
		c.join(v, c.clockOf(u))
	case c.uses[u] == 0 && !(int(u) < len(c.ops) && c.pinned[u]):
		c.move(u, v)
	default:
		c.give(v, c.clockOf(u))
	}
	if c.uses[u] == 0 {
		c.retire(u)
	}
	c.newest[v] = c.newer(c.newest[v], c.newest[u])
}

func (c *Checker) newer(a, b int32) int32 {
	if a < 0 || b >= 0 && c.ops[a].version.Less(c.ops[b].version) {
		return b
	}
	return a
}

func (c *Checker) retire(v int32) {
	if int(v) >= len(c.ops) || !c.pinned[v] {
		c.drop(v)
	}
}

func (c *Checker) visitOp(v int32, o *opInfo) {
	if o.elems.len() > 0 {
		p := c.promiseOf(v)
		p.check(c, v, o)
		for i := o.elems.from; i < o.elems.to && p.addsToPast(); i++ {
			if w := c.elems[i].write; w >= 0 {
				c.readFrom(v, w)
			}
		}
	}
	switch {
	case o.role == chained:
		k := c.clockOf(v)
		k[o.lane] = o.pos
	case o.readers > 0:
		c.takeLane(v, o)
	}
	if !o.isWrite() {
		return
	}
	if o.versioned() {
		if x := c.newest[v]; x >= 0 && o.version.Less(c.ops[x].version) {
			c.orderBroken = true
			c.found = append(c.found, finding{kind: VersionOrder, op: v, elem: -1, other: x, pair: -1})
		}
		if o.role == chained || o.readers > 0 {
			k := &c.keys[o.key]
			k.greatest = c.newer(k.greatest, v)
			c.newest[v] = c.newer(c.newest[v], v)
		}
	}
	if o.kind == Delete {
		c.settle(v)
	}
}

// readFrom adds w, which v has read, and its past to v's.
func (c *Checker) readFrom(v, w int32) {
	if !c.inPast(w, c.clockOf(v)) {
		c.join(v, c.clockOf(w))
	}
	c.newest[v] = c.newer(c.newest[v], c.newest[w])
	if c.uses[w]--; c.uses[w] == 0 {
		c.retire(w)
	}
}

// takeLane assigns a lane to a write of unknown outcome. A lane is a chain like a process: its end must be in the
// write's past.
func (c *Checker) takeLane(v int32, o *opInfo) {
	past := c.clockOf(v)
	for i, end := range c.laneEnd {
		if c.inPast(end, past) {
			o.lane, o.pos = int32(len(c.procs)+i), c.ops[end].pos+1
			c.laneEnd[i] = v
			c.widen(v, o.lane)[o.lane] = o.pos
			return
		}
	}
	o.lane, o.pos = int32(len(c.procs)+len(c.laneEnd)), 1
	c.laneEnd = append(c.laneEnd, v)
	c.lanes++
	c.widen(v, o.lane)[o.lane] = o.pos
}
