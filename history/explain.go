package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// report explains findings, the earliest operations of the history first.
func (c *Checker) report(found []finding, limit int) Report {
	r := Report{Stats: c.stats}
	r.Stats.Failed -= r.Stats.OnUpdatedKeys // the graph takes them for failed ones
	if len(found) == 0 {
		return r
	}
	slices.SortStableFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.elem, b.elem), cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.pair, b.pair), cmp.Compare(a.other, b.other))
	})
	// A key that a read returns although many writes supersede it is one violation, and another one if it breaks the
	// snapshot rule.
	found = slices.CompactFunc(found, func(a, b finding) bool {
		return a.elem >= 0 && a.op == b.op && a.elem == b.elem && a.kind == b.kind && (a.pair >= 0) == (b.pair >= 0)
	})
	r.Total = len(found)
	for _, f := range c.representatives(found, limit) {
		v := c.explain(f)
		if c.places != nil {
			for i, op := range v.Ops {
				v.Ops[i] = c.places[op]
			}
			v.Ops = slices.Compact(v.Ops)
		}
		r.Violations = append(r.Violations, v)
	}
	return r
}

// representatives picks up to limit findings, the earliest of each kind before the second ones, so that a frequent kind
// does not hide a rare one. It preserves their order.
func (c *Checker) representatives(found []finding, limit int) []finding {
	if len(found) <= limit {
		return found
	}
	type sort struct {
		kind        Kind
		pair, final bool
	}
	type ranked struct{ rank, at int }
	seen := make(map[sort]int)
	ranks := make([]ranked, len(found))
	for i, f := range found {
		s := sort{f.kind, f.pair >= 0, f.kind != Malformed && c.h[f.op].Final}
		ranks[i] = ranked{seen[s], i}
		seen[s]++
	}
	slices.SortFunc(ranks, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.at, b.at))
	})
	ranks = ranks[:limit]
	slices.SortFunc(ranks, func(a, b ranked) int { return cmp.Compare(a.at, b.at) })
	picked := make([]finding, len(ranks))
	for i, r := range ranks {
		picked[i] = found[r.at]
	}
	return picked
}

func (c *Checker) explain(f finding) Violation {
	switch f.kind {
	case Malformed:
		return Violation{Kind: Malformed, Text: f.text, Ops: []int{int(f.op)}}
	case ThinAir:
		if f.other >= 0 {
			return c.violation(ThinAir, "a failed write was read", f.other, f.op)
		}
		return c.violation(ThinAir, "nobody wrote what was read", f.op)
	case VersionMismatch:
		return c.violation(VersionMismatch, "the read and the write give different versions", f.other, f.op)
	case VersionReused:
		return c.violation(VersionReused, "two writes have one version", f.other, f.op)
	case VersionOrder:
		return c.violation(VersionOrder, "the later write has the smaller version", c.between(f.other, f.op, -1)...)
	case Diverged:
		return c.violation(Diverged, "final reads disagree on "+shown(c.keyName(f.elem)), f.other, f.op)
	case Cycle, Convergence:
		return c.explainCycle(f)
	case MissingRead:
		return c.explainMissing(f)
	case IncompleteRead:
		return c.explainIncomplete(f)
	case DoubledWrite:
		return c.violation(DoubledWrite, "a write was read twice", f.other, f.op)
	default:
		return c.explainStale(f)
	}
}

func (c *Checker) violation(kind Kind, why string, ops ...int32) Violation {
	v := Violation{Kind: kind}
	var parts []string
	for i, op := range ops {
		if slices.Contains(ops[:i], op) {
			continue
		}
		v.Ops = append(v.Ops, int(op))
		parts = append(parts, c.h[op].String())
	}
	v.Text = why + ": " + strings.Join(parts, " ; ")
	return v
}

func (c *Checker) keyName(i int32) string {
	e := &c.elems[i]
	if e.at >= 0 {
		return c.h[e.op].Reads[e.at].Key
	}
	return c.h[e.op].Key
}

// between returns the path from a to b, or just the two if there is none. base is as for path.
func (c *Checker) between(a, b, base int32) []int32 {
	if a != b {
		if p := c.path(a, b, base, nil, anyNode); p != nil {
			return p
		}
	}
	return []int32{a, b}
}

// explainStale shows how the superseding write entered the past of the read, and, if versions do not tell, why it
// supersedes the one that was read.
func (c *Checker) explainStale(f finding) Violation {
	e := &c.elems[f.elem]
	f.kind, f.other = c.nameStale(f)
	var chain []int32
	if e.write >= 0 {
		chain = append(chain, e.write)
		if !c.ops[e.write].versioned() || !c.ops[f.other].versioned() {
			chain = c.between(e.write, f.other, -1)
		}
	}
	why := fmt.Sprintf("%s was read in an older state than the reader's past holds", shown(c.keyName(f.elem)))
	return c.violation(f.kind, why, append(chain, c.wayIn(f)...)...)
}

// wayIn returns the path from the write f.other to the read, or to what was read together with it.
func (c *Checker) wayIn(f finding) []int32 {
	if f.pair < 0 {
		return c.between(f.other, f.op, f.op)
	}
	return append(c.between(f.other, f.pair, -1), f.op)
}

// nameStale names the session guarantee that a stale read breaks, if any, and the write that shows it best.
func (c *Checker) nameStale(f finding) (Kind, int32) {
	if f.pair >= 0 {
		return Snapshot, f.other
	}
	if c.h[f.op].Final {
		return LostWrite, f.other
	}
	e := &c.elems[f.elem]
	if e.write >= 0 {
		c.reach(e.write, anyNode)
	}
	newer := func(w int32) bool {
		switch {
		case w < 0 || c.ops[w].key != e.key || w == e.write:
			return false
		case e.write < 0:
			return e.version.Less(c.ops[w].version)
		case c.ops[w].versioned() && c.ops[e.write].versioned():
			return c.ops[e.write].version.Less(c.ops[w].version)
		}
		return c.marks.has(w)
	}
	return c.nameBySession(f, StaleRead, newer)
}

// nameBySession looks for a matching write among what the session of f.op wrote before it, then among what it read.
func (c *Checker) nameBySession(f finding, otherwise Kind, counts func(write int32) bool) (Kind, int32) {
	read := int32(-1)
	for i := int32(len(c.ops)) - 1; i >= 0; i-- {
		o := &c.ops[i]
		if !c.sessionBefore(i, f.op) {
			continue
		}
		if o.isWrite() && counts(i) {
			return ReadYourWrites, i
		}
		if o.elems.len() > 0 && !c.promiseOf(i).addsToPast() {
			continue
		}
		for _, e := range c.elems[o.elems.from:o.elems.to] {
			if read < 0 && counts(e.write) {
				read = e.write
			}
		}
	}
	if read >= 0 {
		return MonotonicReads, read
	}
	return otherwise, f.other
}

func (c *Checker) sessionBefore(a, b int32) bool {
	x, y := &c.ops[a], &c.ops[b]
	if x.role != chained || c.procs[x.proc].id != c.procs[y.proc].id {
		return false
	}
	if x.proc == y.proc {
		return a < b
	}
	return !c.h[a].Final && !c.h[b].Final && c.h[a].End < c.h[b].Start
}

func (c *Checker) explainMissing(f finding) Violation {
	e := &c.elems[f.elem]
	var past clock
	if f.pair >= 0 {
		past = c.pastOf(f.pair)
	} else {
		past = c.pastOf(c.basePreds(f.op, nil)...)
	}
	found, _ := c.tops(e.key, past)
	tops := slices.Clone(found)
	known := c.keys[e.key]
	comparable := !known.incomplete || known.blind && known.deletes >= 0
	var puts []int32
	for _, w := range tops {
		if c.ops[w].kind == Put && !(comparable && c.supersededBy(w, tops)) {
			puts = append(puts, w)
		}
	}
	if len(puts) == 0 { // only where versions contradict happens-before
		puts = slices.DeleteFunc(tops, func(w int32) bool { return c.ops[w].kind != Put })
	}
	f.other = puts[0]
	switch {
	case f.pair >= 0:
		f.kind = Snapshot
	case c.h[f.op].Final:
		f.kind = LostWrite
	default:
		f.kind, f.other = c.nameBySession(f, MissingRead, func(w int32) bool { return slices.Contains(puts, w) })
	}
	why := fmt.Sprintf("%s was read as missing though it was written, and no delete explains it",
		shown(c.keyName(f.elem)))
	return c.violation(f.kind, why, c.wayIn(f)...)
}

// cycleStarts is how many nodes of a component are tried in the search for its shortest cycle.
const cycleStarts = 16

func (c *Checker) explainCycle(f finding) Violation {
	cy := c.cycles[f.other]
	var best []int32
	tried := 0
	for v := f.op; int(v) < len(c.ops) && tried < cycleStarts; v++ {
		if cy.component[v] != cy.id {
			continue
		}
		tried++
		p := c.path(v, v, -1, cy.edges, func(s int32) bool { return cy.component[s] == cy.id })
		if p != nil && (best == nil || len(p) < len(best)) {
			best = p
		}
	}
	if f.kind == Cycle {
		return c.violation(Cycle, "each of these comes before the next, and the last before the first", best...)
	}
	return c.violation(Convergence, "no order of the writes explains these reads", c.withReaders(best)...)
}

// withReaders adds to a cycle the reads that cause its conflict edges, and how they came to see both writes.
func (c *Checker) withReaders(cycle []int32) []int32 {
	var all []int32
	for i, v := range cycle {
		all = append(all, v)
		if i+1 == len(cycle) {
			break
		}
		at, found := slices.BinarySearchFunc(c.conflicts, edge{v, cycle[i+1]}, func(x conflict, e edge) int {
			return cmp.Or(cmp.Compare(x.to, e.to), cmp.Compare(x.from, e.from))
		})
		if found {
			x := c.conflicts[at]
			all = append(all, c.wayIn(finding{op: x.op, elem: x.elem, other: v, pair: x.pair})...)
		}
	}
	return all
}
