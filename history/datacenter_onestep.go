package history

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// oneStep orders the operations of a data center on keys that some operation has together. Each is a node, and so is
// each write of another data center. An edge says that one comes before the other: since the other has read what it
// wrote, or has overwritten what it wrote or read, or has started when it had ended. Each key has its writes in the
// order of their versions. There is an order in which each operation is one step if and only if there is no cycle.
type oneStep struct {
	nodes    []stepNode
	edges    [][]stepEdge // by node
	executed map[int]bool // commits of unknown outcome of which a part was found
	unplaced []unplaced
}

// stepNode is an operation, or a time: those that ended by then come before it, and those that started later behind.
type stepNode struct {
	op         int // in the history; -1: a time
	start, end int64
	foreign    bool // a write of another data center, which has no time here
}

// stepEdge says why a node comes before another one.
type stepEdge struct {
	to  int
	why stepReason
	key string
}

type stepReason uint8

const (
	endedBefore stepReason = iota
	wasRead
	wasOverwritten
	readBefore
)

func (e *stepEdge) String() string {
	switch e.why {
	case wasRead:
		return "what it wrote to " + shown(e.key) + " was read by"
	case wasOverwritten:
		return "what it wrote to " + shown(e.key) + " was overwritten by"
	case readBefore:
		return "it has read " + shown(e.key) + " as it was before"
	}
	return "it had ended before the start of"
}

// stepWrite is a write of a key.
type stepWrite struct {
	version causal.Version
	node    int
}

// checkOneStep checks that operations on several keys are one step each among the clients of a data center.
func (r *DataCenterReport) checkOneStep(h History, keys []*keyAccesses, dc string, o DataCenterOptions) {
	p := &r.OneStep
	together := keysTogether(h, dc)
	s := &oneStep{executed: executedUnknown(keys)}
	at := map[int]int{} // nodes by operation
	own := ownOrigins(keys, dc)
	for _, k := range keys {
		if !together[k.name] {
			continue
		}
		p.Keys++
		if k.merges {
			s.addMergingKey(h, k, dc, at, p)
		} else {
			s.addKey(k, dc, own, at, p)
		}
	}
	s.addTimes()
	s.place()
	for len(p.Violations) < o.MaxViolations {
		cycle := s.shortestCycle()
		if cycle == nil {
			break
		}
		text, ops := s.explain(h, cycle)
		p.add(NotOneStep, o, "in "+dc+": "+text, ops...)
		s.remove(cycle)
	}
}

// keysTogether returns the keys that operations of a data center have together with others.
func keysTogether(h History, dc string) map[string]bool {
	together := map[string]bool{}
	for i := range h {
		op := &h[i]
		if op.DC != dc || !op.OK && !op.Unknown {
			continue
		}
		if keys := slices.Concat(op.Reads, op.Writes); len(keys) > 1 {
			for _, r := range keys {
				together[r.Key] = true
			}
		}
	}
	return together
}

// ownOrigins returns the origins of the writes of a data center.
func ownOrigins(keys []*keyAccesses, dc string) map[topology.Origin]bool {
	own := map[topology.Origin]bool{}
	for _, k := range keys {
		for i := range k.accesses {
			if _, writes := k.accesses[i].writes(); writes && k.accesses[i].dc == dc {
				own[k.accesses[i].version.Origin] = true
			}
		}
	}
	return own
}

// addKey adds what was done to a key.
func (s *oneStep) addKey(k *keyAccesses, dc string, own map[topology.Origin]bool, at map[int]int, p *PromiseReport) {
	node := func(a *access) int { return s.nodeOf(a, dc, at) }
	var writes []stepWrite
	reads := &[]stepRead{}
	versions := k.versionsOfValues()
	seen := k.seenIn(dc, versions, own)
	for i := range k.accesses {
		a := &k.accesses[i]
		if _, writes := a.writes(); !writes || a.dc != dc && !seen[a.version] {
			continue
		}
		if a.version.IsZero() {
			if a.dc == dc && a.answered {
				p.NotJudged++
			}
			if a.dc == dc && a.write >= 0 && s.executed[a.op] {
				s.unplaced = append(s.unplaced, unplaced{node(a), k.name, reads})
			}
			continue
		}
		writes = append(writes, stepWrite{a.version, node(a)})
	}
	slices.SortStableFunc(writes, func(a, b stepWrite) int { return a.version.Compare(b.version) })
	for i := 1; i < len(writes); i++ {
		s.connect(writes[i-1].node, writes[i].node, wasOverwritten, k.name)
	}
	removedFrom := k.removedFrom()
	for i := range k.accesses {
		a := &k.accesses[i]
		if !a.isPlainRead(dc) {
			continue
		}
		found, ok := a.judgedVersion(versions, own)
		if !ok || found.IsZero() && a.end >= removedFrom { // what is missing, and no delete explains, was never written
			p.NotJudged++
			continue
		}
		p.Judged++
		n := node(a)
		next := sort.Search(len(writes), func(i int) bool { return found.Less(writes[i].version) })
		if next > 0 && writes[next-1].version == found {
			s.connect(writes[next-1].node, n, wasRead, k.name) // from itself: a cycle, too
			*reads = append(*reads, stepRead{n, writes[next-1].node})
		} else if found.IsZero() {
			*reads = append(*reads, stepRead{n, -1})
		}
		if next < len(writes) && writes[next].node == n { // it has overwritten what it has read
			next++
		}
		if next < len(writes) {
			s.connect(n, writes[next].node, readBefore, k.name)
		}
	}
}

// nodeOf returns the node of an access. What is written in another data center has one for each key.
func (s *oneStep) nodeOf(a *access, dc string, at map[int]int) int {
	n, ok := at[a.op]
	if ok && a.dc == dc {
		return n
	}
	n = len(s.nodes)
	s.edges = append(s.edges, nil)
	if a.dc != dc {
		s.nodes = append(s.nodes, stepNode{op: a.op, foreign: true})
		return n
	}
	at[a.op], s.nodes = n, append(s.nodes, stepNode{op: a.op, start: a.start, end: a.end})
	return n
}

// isPlainRead reports whether an access tells what a client of a data center has found.
func (a *access) isPlainRead(dc string) bool {
	return a.dc == dc && a.answered && a.asks == whole && !a.isUpdate
}

// judgedVersion returns the version that was found; the zero Version if there was nothing. A read counts if that is
// known, and is not a write of another data center in flight: that one is seen by clients that are bound to it.
func (a *access) judgedVersion(versions map[string]causal.Version,
	own map[topology.Origin]bool) (causal.Version, bool) {
	v := a.found
	if v.IsZero() && !a.isNil {
		v = versions[a.reply]
	}
	return v, (!v.IsZero() || a.isNil) && (!a.inFlight || v.IsZero() || own[v.Origin])
}

// seenIn returns the versions that clients of a data center have found. A write of another one that nobody has found
// may never have taken effect there.
func (k *keyAccesses) seenIn(dc string, versions map[string]causal.Version,
	own map[topology.Origin]bool) map[causal.Version]bool {
	seen := map[causal.Version]bool{}
	for i := range k.accesses {
		if a := &k.accesses[i]; a.isPlainRead(dc) {
			if v, ok := a.judgedVersion(versions, own); ok {
				seen[v] = true
			}
		}
	}
	return seen
}

func (s *oneStep) connect(from, to int, why stepReason, key string) {
	if from != to || why == wasRead {
		s.edges[from] = append(s.edges[from], stepEdge{to, why, key})
	}
}

// addTimes orders operations of which one ended before the other one started.
func (s *oneStep) addTimes() {
	byEnd := make([]int, 0, len(s.nodes))
	for n := range s.nodes {
		if !s.nodes[n].foreign && s.nodes[n].end != math.MaxInt64 {
			byEnd = append(byEnd, n)
		}
	}
	slices.SortStableFunc(byEnd, func(a, b int) int { return cmp.Compare(s.nodes[a].end, s.nodes[b].end) })
	operations := len(s.nodes)
	for i, n := range byEnd {
		t := len(s.nodes)
		s.nodes, s.edges = append(s.nodes, stepNode{op: -1}), append(s.edges, nil)
		s.connect(n, t, endedBefore, "")
		if i > 0 {
			s.connect(t-1, t, endedBefore, "")
		}
	}
	for n := range operations {
		if s.nodes[n].foreign {
			continue
		}
		i := sort.Search(len(byEnd), func(i int) bool { return s.nodes[byEnd[i]].end >= s.nodes[n].start })
		if i > 0 {
			s.connect(operations+i-1, n, endedBefore, "")
		}
	}
}
