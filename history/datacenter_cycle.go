package history

import (
	"slices"
	"strings"
)

// maxCycleStarts is from how many nodes a shortest cycle is looked for.
const maxCycleStarts = 200

// shortestCycle returns a short cycle of nodes, or nil if there is none.
func (s *oneStep) shortestCycle() (shortest []int) {
	onCycles := s.onCycles()
	starts := 0
	for n := range s.nodes {
		if !onCycles[n] || s.nodes[n].op < 0 {
			continue
		}
		if c := s.cycleThrough(n, onCycles); c != nil && (shortest == nil || len(c) < len(shortest)) {
			shortest = c
		}
		if starts++; shortest != nil && starts >= maxCycleStarts {
			break
		}
	}
	return shortest
}

// onCycles returns the nodes on cycles and between them: all others have no predecessor, or no successor, but others.
func (s *oneStep) onCycles() []bool {
	on := make([]bool, len(s.nodes))
	for n := range on {
		on[n] = true
	}
	reversed := s.reversed()
	peel(on, s.edges, reversed)
	peel(on, reversed, s.edges)
	return on
}

// peel takes away the nodes without predecessors, again and again.
func peel(on []bool, edges, reversed [][]stepEdge) {
	before := make([]int, len(on))
	var free []int
	for n := range on {
		for _, e := range reversed[n] {
			if on[e.to] {
				before[n]++
			}
		}
		if on[n] && before[n] == 0 {
			free = append(free, n)
		}
	}
	for len(free) > 0 {
		n := free[len(free)-1]
		free = free[:len(free)-1]
		on[n] = false
		for _, e := range edges[n] {
			if before[e.to]--; before[e.to] == 0 && on[e.to] {
				free = append(free, e.to)
			}
		}
	}
}

// cycleThrough returns the shortest cycle through a node, among some nodes.
func (s *oneStep) cycleThrough(start int, among []bool) []int {
	from := map[int]int{}
	queue := []int{start}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, e := range s.edges[n] {
			if e.to == start {
				cycle := []int{n}
				for n != start {
					n = from[n]
					cycle = append(cycle, n)
				}
				slices.Reverse(cycle)
				return cycle
			}
			if _, seen := from[e.to]; !seen && among[e.to] {
				from[e.to] = n
				queue = append(queue, e.to)
			}
		}
	}
	return nil
}

// remove removes the operations of a cycle.
func (s *oneStep) remove(cycle []int) {
	for _, n := range cycle {
		if s.nodes[n].op >= 0 {
			s.edges[n] = nil
		}
	}
}

// explain shows a cycle of operations.
func (s *oneStep) explain(h History, cycle []int) (text string, ops []int) {
	var b strings.Builder
	b.WriteString("each of these comes before the next one, and the last one before the first:")
	for i, n := range cycle {
		if s.nodes[n].op < 0 {
			continue
		}
		ops = append(ops, s.nodes[n].op)
		b.WriteString("\n      " + during(&h[s.nodes[n].op]))
		next := cycle[(i+1)%len(cycle)]
		e := slices.IndexFunc(s.edges[n], func(e stepEdge) bool { return e.to == next })
		b.WriteString("\n        " + s.edges[n][e].String())
	}
	return b.String(), ops
}
