package history

import "slices"

// Searches of the graph for explanations: only histories with violations get here.

// cycle is a component of the graph in which every node is on a cycle.
type cycle struct {
	component []int32 // node -> component
	edges     []edge  // in addition to happens-before
	id        int32
}

// marks is a set of nodes that can be emptied in constant time.
type marks struct {
	stamp []int32
	now   int32
}

func (m *marks) clear(n int32) {
	if len(m.stamp) < int(n) {
		*m = marks{stamp: make([]int32, n)}
	}
	m.now++
}

func (m *marks) has(v int32) bool { return m.stamp[v] == m.now }

func (m *marks) add(v int32) bool {
	if m.has(v) {
		return false
	}
	m.stamp[v] = m.now
	return true
}

// reach marks v and all nodes after it that within accepts, and returns how many nodes it visited.
func (c *Checker) reach(v int32, within func(int32) bool) int {
	c.marks.clear(c.nodes)
	c.marks.add(v)
	queue := []int32{v}
	for i := 0; i < len(queue); i++ {
		for _, s := range c.succsOf(queue[i]) {
			if within(s) && c.marks.add(s) {
				queue = append(queue, s)
			}
		}
	}
	return len(queue)
}

func anyNode(int32) bool { return true }

// pastOf marks the given nodes and everything before them, and returns the clock of that past.
func (c *Checker) pastOf(nodes ...int32) clock {
	past := make(clock, c.lanes)
	c.marks.clear(c.nodes)
	var queue []int32
	push := func(v int32) {
		if c.marks.add(v) {
			queue = append(queue, v)
			if int(v) < len(c.ops) {
				if o := &c.ops[v]; o.lane >= 0 {
					past[o.lane] = max(past[o.lane], o.pos)
				}
			}
		}
	}
	for _, v := range nodes {
		push(v)
	}
	var preds []int32
	for i := 0; i < len(queue); i++ {
		preds = c.preds(queue[i], preds[:0])
		for _, u := range preds {
			push(u)
		}
	}
	return past
}

// components finds the strongly connected components of more than one node among the participating nodes (Tarjan). They
// are numbered from 1; 0 means none.
func (c *Checker) components(edges []edge, takesPart func(int32) bool) []int32 {
	type frame struct{ v, next int32 }
	component := make([]int32, c.nodes)
	index, low := make([]int32, c.nodes), make([]int32, c.nodes)
	onStack := make([]bool, c.nodes)
	var stack []int32
	var frames []frame
	counter, count := int32(0), int32(0)
	succ := func(v, i int32) int32 {
		direct := c.succsOf(v)
		if int(i) < len(direct) {
			return direct[i]
		}
		if more := edgesFrom(edges, v); int(i)-len(direct) < len(more) {
			return more[int(i)-len(direct)].to
		}
		return -1
	}
	for root := range c.nodes {
		if index[root] != 0 || !takesPart(root) {
			continue
		}
		frames = append(frames[:0], frame{v: root})
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			v := f.v
			if f.next == 0 {
				counter++
				index[v], low[v] = counter, counter
				stack, onStack[v] = append(stack, v), true
			}
			s := succ(v, f.next)
			if s >= 0 {
				f.next++
				if takesPart(s) {
					if index[s] == 0 {
						frames = append(frames, frame{v: s})
					} else if onStack[s] {
						low[v] = min(low[v], index[s])
					}
				}
				continue
			}
			frames = frames[:len(frames)-1]
			if n := len(frames); n > 0 {
				low[frames[n-1].v] = min(low[frames[n-1].v], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != v {
				at--
			}
			if len(stack)-at > 1 {
				count++
				for _, u := range stack[at:] {
					component[u] = count
				}
			}
			for _, u := range stack[at:] {
				onStack[u] = false
			}
			stack = stack[:at]
		}
	}
	return component
}

// step is the cost of an edge of happens-before in an explanation: session order is free.
func (c *Checker) stepCost(u, s int32) int {
	if int(s) >= len(c.ops) || int(u) >= len(c.ops) {
		return 0
	}
	if o := &c.ops[s]; u == o.prev {
		return 0
	}
	return 1
}

// path returns the operations that lead from one node to another through as few sessions as possible, both ends
// included, or nil if there is no path. It keeps only the ends of a run of session order. Into the node base, if not
// -1, only session order and similar edges count, not what it has read itself.
func (c *Checker) path(from, to, base int32, edges []edge, within func(int32) bool) []int32 {
	const far = int32(1) << 30
	dist, parent := make([]int32, c.nodes), make([]int32, c.nodes)
	for v := range dist {
		dist[v], parent[v] = far, -1
	}
	// Breadth-first: current holds the nodes at distance d, later those first seen at d+1. A cycle is a path back to
	// its start, so the start does not count as reached.
	current, later := []int32{from}, []int32(nil)
	level := int32(0)
	seen := make([]bool, c.nodes)
	visit := func(u, s int32, cost int32) {
		if !within(s) || s == base && !slices.Contains(c.basePreds(s, nil), u) {
			return
		}
		if d := level + cost; d < dist[s] {
			dist[s], parent[s] = d, u
			if cost == 0 {
				current = append(current, s)
			} else {
				later = append(later, s)
			}
		}
	}
	for ; len(current) > 0 && (dist[to] == far || dist[to] > level); level++ {
		for i := 0; i < len(current); i++ {
			u := current[i]
			if seen[u] {
				continue
			}
			seen[u] = true
			for _, s := range c.succsOf(u) {
				visit(u, s, int32(c.stepCost(u, s)))
			}
			for _, e := range edgesFrom(edges, u) {
				visit(u, e.to, 1)
			}
		}
		current, later = later, current[:0]
	}
	if dist[to] == far {
		return nil
	}
	nodes := []int32{to}
	for v := parent[to]; ; v = parent[v] {
		nodes = append(nodes, v)
		if v == from {
			break
		}
	}
	slices.Reverse(nodes)
	return c.landmarks(nodes)
}

// landmarks removes the inner operations of runs of session order from a path.
func (c *Checker) landmarks(nodes []int32) []int32 {
	kept := nodes[:0:0]
	for i, v := range nodes {
		if int(v) >= len(c.ops) {
			continue
		}
		if i == 0 || i == len(nodes)-1 || c.stepCost(nodes[i-1], v) > 0 || c.stepCost(v, nodes[i+1]) > 0 {
			kept = append(kept, v)
		}
	}
	return kept
}
