package history

import (
	"cmp"
	"slices"
	"sort"
)

// graph is happens-before by its generating edges. Nodes 0 to len(ops)-1 are the operations. Then come epochs: for a
// session of several processes, epoch i is after the first i+1 of its operations by end, so that "after everything the
// session had ended by then" is a single edge. The last node, if there are final reads, is after every other operation.
type graph struct {
	nodes      int32
	epochs     []epoch // node len(ops)+i
	everything int32   // node, or -1
	lasts      []int32 // the direct predecessors of everything

	in, out []int32 // number of edges
	succs   []int32
	succAt  []int32 // node -> its span in succs
	scratch []int32
	byEnd   []int32

	byVersion   []int32 // writes
	orderBroken bool    // version order contradicts happens-before or itself
}

type epoch struct{ before, op int32 }

func (c *Checker) buildGraph() {
	c.epochs, c.lasts, c.everything = c.epochs[:0], c.lasts[:0], -1
	if len(c.procs) > len(c.names.sessions) {
		c.addEpochs()
	}
	c.nodes = int32(len(c.ops) + len(c.epochs))
	if c.stats.FinalReads > 0 {
		c.addEverything()
	}
	for i := range c.ops {
		if o := &c.ops[i]; o.kind == Resume && o.role == chained {
			o.extra = c.names.tokens[c.h[i].Token]
		}
	}
	c.linkSuccessors()
}

// addEpochs adds session order between the processes of one session.
func (c *Checker) addEpochs() {
	procs := make([]int32, len(c.names.sessions))
	for i := range c.procs {
		procs[c.procs[i].id]++
	}
	session := func(op int32) int32 { return c.procs[c.ops[op].proc].id }
	c.byEnd = c.byEnd[:0]
	for i := range c.ops {
		if c.ops[i].role == chained && !c.h[i].Final && procs[session(int32(i))] > 1 {
			c.byEnd = append(c.byEnd, int32(i))
		}
	}
	slices.SortFunc(c.byEnd, func(a, b int32) int {
		return cmp.Or(cmp.Compare(session(a), session(b)), cmp.Compare(c.h[a].End, c.h[b].End), cmp.Compare(a, b))
	})
	spans := make([]span, len(procs))
	for i, op := range c.byEnd {
		before := int32(-1)
		if s := session(op); i > 0 && session(c.byEnd[i-1]) == s {
			before = int32(len(c.ops) + i - 1)
		} else {
			spans[s].from = int32(i)
		}
		spans[session(op)].to = int32(i + 1)
		c.epochs = append(c.epochs, epoch{before: before, op: op})
	}
	lastRank := make([]int32, len(c.procs))
	for i := range c.ops {
		o := &c.ops[i]
		if o.role == ignored || c.h[i].Final {
			continue
		}
		s := spans[session(int32(i))]
		ended := int32(sort.Search(s.len(), func(j int) bool {
			return c.h[c.byEnd[int(s.from)+j]].End >= c.h[i].Start
		}))
		if ended == lastRank[o.proc] {
			continue // the previous operation of its process has this edge
		}
		o.epoch = int32(len(c.ops)) + s.from + ended - 1
		if o.role == chained {
			lastRank[o.proc] = ended
		}
	}
}

// addEverything orders the final reads after all other operations.
func (c *Checker) addEverything() {
	c.everything = c.nodes
	c.nodes++
	for p := range c.procs {
		last := c.procs[p].last
		for last >= 0 && c.h[last].Final {
			if before := c.ops[last].prev; before < 0 || !c.h[before].Final {
				c.ops[last].extra = c.everything
			}
			last = c.ops[last].prev
		}
		if last >= 0 {
			c.lasts = append(c.lasts, last)
		}
	}
}

// preds appends the direct predecessors of v; first the base, without what v itself has read.
func (c *Checker) preds(v int32, to []int32) []int32 {
	to = c.basePreds(v, to)
	if int(v) < len(c.ops) && c.ops[v].elems.len() > 0 && c.promiseOf(v).addsToPast() {
		for _, e := range c.elems[c.ops[v].elems.from:c.ops[v].elems.to] {
			if e.write >= 0 {
				to = append(to, e.write)
			}
		}
	}
	return to
}

func (c *Checker) basePreds(v int32, to []int32) []int32 {
	n := int32(len(c.ops))
	if v < n {
		o := &c.ops[v]
		if o.role == ignored {
			return to
		}
		for _, u := range [...]int32{o.prev, o.epoch, o.extra} {
			if u >= 0 {
				to = append(to, u)
			}
		}
		return to
	}
	if v == c.everything {
		return append(to, c.lasts...)
	}
	e := c.epochs[v-n]
	if e.before >= 0 {
		to = append(to, e.before)
	}
	return append(to, e.op)
}

func (c *Checker) linkSuccessors() {
	c.in = sized(c.in, int(c.nodes))
	c.out = sized(c.out, int(c.nodes))
	c.succAt = sized(c.succAt, int(c.nodes)+1)
	edges := int32(0)
	for v := range c.nodes {
		c.scratch = c.preds(v, c.scratch[:0])
		c.in[v] = int32(len(c.scratch))
		edges += c.in[v]
		for _, u := range c.scratch {
			c.out[u]++
		}
	}
	c.succs = sized(c.succs, int(edges))
	end := int32(0)
	for v := range c.nodes {
		end += c.out[v]
		c.succAt[v] = end
	}
	c.succAt[c.nodes] = end
	// Each span is filled from its end, so that succAt finally points to its start.
	for v := c.nodes - 1; v >= 0; v-- {
		c.scratch = c.preds(v, c.scratch[:0])
		for _, u := range c.scratch {
			c.succAt[u]--
			c.succs[c.succAt[u]] = v
		}
	}
}

func (c *Checker) succsOf(v int32) []int32 { return c.succs[c.succAt[v]:c.succAt[v+1]] }
