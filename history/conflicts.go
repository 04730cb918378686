package history

import (
	"cmp"
	"slices"
)

// edge means that from is arbitrated before to.
type edge struct{ from, to int32 }

// compactAt is how many conflict edges, each with its reader, are collected before equal ones are merged.
const compactAt = 1 << 20

// searchBudget bounds the node visits spent on telling stale reads apart inside one cycle. The remaining ones are
// reported as Convergence.
const searchBudget = 100 << 20

// checkConflicts checks whether some arbitration order extends happens-before, the conflict edges and the known
// versions.
func (c *Checker) checkConflicts() {
	if len(c.conflicts) == 0 {
		return
	}
	c.sortConflicts()
	c.stats.Conflicts = len(c.conflicts)
	left := c.onCycles(c.arbitration(nil))
	if left == nil {
		return
	}
	c.findStale(left)
	// A stale read says nothing about arbitration: one fault is one violation.
	stale := make(map[int32]bool)
	for _, f := range c.found {
		if f.kind == StaleRead {
			stale[f.elem] = true
		}
	}
	edges := c.arbitration(stale)
	if left = c.onCycles(edges); left != nil {
		c.addCycles(Convergence, left, edges)
	}
}

func (c *Checker) sortConflicts() {
	slices.SortFunc(c.conflicts, func(a, b conflict) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from), cmp.Compare(a.elem, b.elem),
			cmp.Compare(a.pair, b.pair))
	})
}

// compactConflicts merges equal edges and keeps the first reader of each.
func (c *Checker) compactConflicts() {
	c.sortConflicts()
	c.conflicts = slices.CompactFunc(c.conflicts, func(a, b conflict) bool { return a.from == b.from && a.to == b.to })
}

// arbitration returns the conflict edges except those of stale reads, and the chain of versions, sorted by from.
func (c *Checker) arbitration(stale map[int32]bool) []edge {
	edges := make([]edge, 0, len(c.conflicts))
	for _, x := range c.conflicts {
		if !stale[x.elem] {
			edges = append(edges, edge{x.from, x.to})
		}
	}
	if !c.orderBroken {
		last := int32(-1)
		for _, w := range c.byVersion {
			if o := &c.ops[w]; o.role == chained || o.readers > 0 {
				if last >= 0 {
					edges = append(edges, edge{last, w})
				}
				last = w
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return slices.Compact(edges)
}

// edgesFrom returns the edges that start at v from a list sorted by from.
func edgesFrom(edges []edge, v int32) []edge {
	lo, found := slices.BinarySearchFunc(edges, v, func(e edge, v int32) int { return cmp.Compare(e.from, v) })
	if !found {
		return nil
	}
	hi := lo
	for hi < len(edges) && edges[hi].from == v {
		hi++
	}
	return edges[lo:hi]
}

// onCycles returns the component of each node that is on a cycle of happens-before and edges; 0 means none. It returns
// nil if there is no cycle.
func (c *Checker) onCycles(edges []edge) []int32 {
	wait := slices.Clone(c.in)
	for _, e := range edges {
		wait[e.to]++
	}
	queue := make([]int32, 0, c.nodes)
	for v := range c.nodes {
		if wait[v] == 0 {
			queue = append(queue, v)
		}
	}
	for i := 0; i < len(queue); i++ {
		c.eachSucc(queue[i], edges, func(s int32) {
			if wait[s]--; wait[s] == 0 {
				queue = append(queue, s)
			}
		})
	}
	if len(queue) == int(c.nodes) {
		return nil
	}
	return c.components(edges, func(v int32) bool { return wait[v] > 0 })
}

func (c *Checker) eachSucc(v int32, edges []edge, f func(int32)) {
	for _, s := range c.succsOf(v) {
		f(s)
	}
	for _, e := range edgesFrom(edges, v) {
		f(e.to)
	}
}

// findStale reports the conflict edges that by themselves contradict happens-before: the write that was read happens
// before the write that should have superseded it.
func (c *Checker) findStale(component []int32) {
	budget := searchBudget
	for i := 0; i < len(c.conflicts); {
		to := c.conflicts[i].to
		end := i
		cyclic := false
		for end < len(c.conflicts) && c.conflicts[end].to == to {
			cyclic = cyclic || component[to] != 0 && component[c.conflicts[end].from] == component[to]
			end++
		}
		if cyclic && budget > 0 {
			budget -= c.reach(to, func(v int32) bool { return component[v] == component[to] })
			for _, x := range c.conflicts[i:end] {
				if c.marks.has(x.from) {
					c.found = append(c.found, finding{kind: StaleRead, op: x.op, elem: x.elem, other: x.from,
						pair: x.pair})
				}
			}
		}
		i = end
	}
}

// findCycles reports the cycles of happens-before.
func (c *Checker) findCycles() {
	c.addCycles(Cycle, c.components(nil, func(v int32) bool { return !c.done[v] && !c.skipped(v) }), nil)
}

// addCycles reports one cycle per component.
func (c *Checker) addCycles(kind Kind, component []int32, edges []edge) {
	first := map[int32]int32{}
	count := int32(0)
	for v, comp := range component {
		if comp != 0 && v < len(c.ops) {
			if _, seen := first[comp]; !seen {
				first[comp] = int32(v)
				count = max(count, comp)
			}
		}
	}
	for comp := int32(1); comp <= count; comp++ {
		if v, ok := first[comp]; ok {
			c.cycles = append(c.cycles, cycle{component: component, edges: edges, id: comp})
			c.found = append(c.found, finding{kind: kind, op: v, elem: -1, other: int32(len(c.cycles) - 1), pair: -1})
		}
	}
}
