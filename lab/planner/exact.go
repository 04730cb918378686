package planner

import (
	"math/bits"

	"github.com/causalstore/causalstore/lab/cost"
)

// exact examines every partition. It chooses rings one after the other, each with the lowest remaining data center, so
// that every partition occurs once. The contribution of the chosen rings to the score is kept at each level.
type exact struct {
	e     *evaluator
	rules *rules
	rings []ringTable // by set
	// none[depth] is, after that many rings, for each data center and distance, the probability that no copy is that
	// near.
	none [][]float64
	// chosen are the rings chosen so far.
	chosen []uint64

	// best are the best partitions by number of rings, with their scores.
	best     [][]uint64
	scores   []float64
	examined int
}

// ringTable holds the properties of a ring that do not depend on the others.
type ringTable struct {
	allowed  bool
	breaking int
	score    float64
	beyond   []float64 // for each data center and distance, the probability that this ring has no copy that near
}

// tryAll returns the best allowed layout of each number of rings.
func tryAll(e *evaluator, r *rules) found {
	x := &exact{e: e, rules: r, rings: make([]ringTable, 1<<e.n), best: make([][]uint64, r.maxRings+1),
		scores: make([]float64,
			r.maxRings+1)}
	for set := uint64(1); set < 1<<e.n; set++ {
		if size := bits.OnesCount64(set); r.allows(set, size) {
			x.rings[set] = x.table(set)
		}
	}
	cells := e.n * (e.n - 1)
	for range r.maxRings + 1 {
		x.none = append(x.none, make([]float64, cells))
	}
	for i := range cells {
		x.none[0][i] = 1
	}
	x.choose(1<<e.n-1, 0, 0)
	f := found{exact: true, examined: x.examined, layouts: map[int]cost.Layout{}}
	for _, sets := range x.best {
		var l cost.Layout
		for _, set := range sets {
			l = append(l, members(set))
		}
		if l != nil {
			f.layouts[len(l)] = l
		}
	}
	return f
}

func (x *exact) table(set uint64) ringTable {
	e, ring := x.e, members(set)
	t := ringTable{allowed: true, breaking: x.rules.breaking(ring), score: e.ringScore(ring)}
	all := 0.0
	for _, d := range ring {
		all += e.shards[d]
	}
	for from := range e.n {
		left := all
		for i := range e.n - 1 {
			if d := e.order[from][i]; set&(1<<d) != 0 {
				left -= e.shards[d]
			}
			t.beyond = append(t.beyond, left/all)
		}
	}
	return t
}

// choose chooses a ring among the remaining data centers. Score is that of the chosen rings, breaking how many zones
// must fail so far for every ring to lose a part.
func (x *exact) choose(left uint64, score float64, breaking int) {
	depth := len(x.chosen)
	lowest := left & -left
	rest := left &^ lowest
	for others := rest; ; others = (others - 1) & rest {
		ring := lowest | others
		after := left &^ ring
		t := &x.rings[ring]
		switch {
		case !t.allowed:
		case after == 0:
			if depth+1 >= x.rules.minRings && breaking+t.breaking > x.rules.surviveKeys {
				x.finish(ring, t, score+t.score+x.e.capex[depth+1])
			}
		case depth+1 < x.rules.maxRings && depth+1+bits.OnesCount64(after) >= x.rules.minRings:
			now, next := x.none[depth], x.none[depth+1]
			for i, b := range t.beyond {
				next[i] = now[i] * b
			}
			x.chosen = append(x.chosen, ring)
			x.choose(after, score+t.score, breaking+t.breaking)
			x.chosen = x.chosen[:depth]
		}
		if others == 0 {
			return
		}
	}
}

// finish scores the partition that the last ring completes.
func (x *exact) finish(ring uint64, t *ringTable, score float64) {
	x.examined++
	rings := len(x.chosen) + 1
	now := x.none[rings-1]
	for from, steps := range x.e.steps {
		at := from * len(steps)
		none, beyond := now[at:at+len(steps)], t.beyond[at:at+len(steps)]
		for i, step := range steps {
			score += none[i] * beyond[i] * step
		}
	}
	if x.best[rings] == nil || score < x.scores[rings]-1e-12 { // among equals, the first
		x.scores[rings] = score
		x.best[rings] = append(append(x.best[rings][:0], x.chosen...), ring)
	}
}
