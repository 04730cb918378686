package history

// unplaced is a write of a commit of unknown outcome of which a read tells that it was executed: somebody has found
// what it wrote to another key. All of a commit is one step, so this write was executed, too, but no read tells its
// version. So it has no place among the writes of its key, but for what follows from other edges: whoever has read the
// key comes before it, or what was read there has overwritten it.
type unplaced struct {
	node int
	key  string
	all  *[]stepRead // of the key
}

// stepRead is a read of a key: its node, and that of the write that it has found; -1: nothing was written before.
type stepRead struct{ node, found int }

// executedUnknown returns the commits of unknown outcome of which a part was found.
func executedUnknown(keys []*keyAccesses) map[int]bool {
	executed := map[int]bool{}
	for _, k := range keys {
		for i := range k.accesses {
			if a := &k.accesses[i]; a.write >= 0 && !a.answered && !a.version.IsZero() {
				executed[a.op] = true
			}
		}
	}
	return executed
}

// place adds the edges of unplaced writes that follow from others, until there are no more.
func (s *oneStep) place() {
	for again := len(s.unplaced) > 0; again; {
		again = false
		for _, u := range s.unplaced {
			again = s.placeOne(u) || again
		}
	}
}

// placeOne adds the edges of an unplaced write that follow from those that there are, and reports whether there are new
// ones.
func (s *oneStep) placeOne(u unplaced) (added bool) {
	before, after := s.reachable(u.node, s.reversed()), s.reachable(u.node, s.edges)
	for _, r := range *u.all {
		if r.node == u.node {
			continue
		}
		if (r.found < 0 || before[r.found]) && !before[r.node] { // what it has found is older
			s.connect(r.node, u.node, readBefore, u.key)
			added = true
		}
		if after[r.node] && r.found >= 0 && !after[r.found] {
			s.connect(u.node, r.found, wasOverwritten, u.key)
			added = true
		}
	}
	return added
}

// reachable returns the nodes behind one, by some edges.
func (s *oneStep) reachable(from int, edges [][]stepEdge) []bool {
	is, next := make([]bool, len(s.nodes)), []int{from}
	for len(next) > 0 {
		n := next[len(next)-1]
		next = next[:len(next)-1]
		for _, e := range edges[n] {
			if !is[e.to] {
				is[e.to] = true
				next = append(next, e.to)
			}
		}
	}
	return is
}

// reversed returns the edges in the other direction.
func (s *oneStep) reversed() [][]stepEdge {
	reversed := make([][]stepEdge, len(s.nodes))
	for n := range s.edges {
		for _, e := range s.edges[n] {
			reversed[e.to] = append(reversed[e.to], stepEdge{to: n})
		}
	}
	return reversed
}
