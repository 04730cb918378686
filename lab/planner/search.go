package planner

import (
	"math/rand/v2"
	"slices"

	"github.com/causalstore/causalstore/lab/cost"
)

// Bounds of the search.
const (
	searchStarts = 40
	searchScores = 400_000 // the number of layouts after which no pass starts, for at most 32 data centers
	penalty      = 1e3     // per constraint that a layout violates
)

// search improves layouts step by step: it moves data centers that must stay together to another or a new ring, swaps
// them with others, or joins two rings, as long as that helps. It starts with rings by distance, joined one by one,
// with rings by number of zones, and with random ones.
type search struct {
	e      *evaluator
	rules  *rules
	atoms  []uint64
	random *rand.Rand
	left   int // layouts to score before the last pass
	// best are the best layouts by number of rings that violate no constraint.
	best   map[int]cost.Layout
	scores map[int]float64
}

// tryMany returns the best layouts found.
func tryMany(e *evaluator, r *rules) found {
	budget := searchScores
	if e.n > 32 {
		budget /= 4 // each takes four times as long
	}
	s := &search{e: e, rules: r, atoms: r.atoms(), random: rand.New(rand.NewPCG(1, 1)), left: budget,
		best: map[int]cost.Layout{}, scores: map[int]float64{}}
	for _, start := range slices.Concat(s.joined(), s.byZones()) {
		s.improve(start)
	}
	for range searchStarts {
		if s.left <= 0 {
			break
		}
		s.improve(s.randomStart())
	}
	return found{examined: budget - s.left, layouts: s.best}
}

// layout converts the ring number of each atom to rings, ordered by their first data centers.
func (s *search) layout(ringOf []int) cost.Layout {
	sets := make([]uint64, len(s.atoms))
	for a, r := range ringOf {
		sets[r] |= s.atoms[a]
	}
	var l cost.Layout
	for _, set := range sets {
		if set != 0 {
			l = append(l, members(set))
		}
	}
	slices.SortFunc(l, func(a, b []int) int { return a[0] - b[0] })
	return l
}

func (s *search) score(ringOf []int) float64 {
	s.left--
	l := s.layout(ringOf)
	score, broken := s.e.score(l), s.rules.brokenBy(l)
	if old, seen := s.scores[len(l)]; broken == 0 && (!seen || score < old-1e-12) {
		s.best[len(l)], s.scores[len(l)] = l, score
	}
	return score + penalty*float64(broken)
}

// joined starts with a ring per atom and repeatedly joins the two whose joint ring is best. It returns the layout of
// each wanted number of rings, at most eight of them.
func (s *search) joined() [][]int {
	now := make([]int, len(s.atoms))
	for a := range now {
		now[a] = a
	}
	var starts [][]int
	for rings := len(now); rings >= s.rules.minRings; rings-- {
		if rings <= s.rules.maxRings {
			starts = append(starts, slices.Clone(now))
		}
		var best []int
		bestScore := 0.0
		for _, next := range joins(now) {
			if score := s.score(next); best == nil || score < bestScore {
				best, bestScore = next, score
			}
		}
		if best == nil {
			break
		}
		now = best
	}
	for len(starts) > 8 { // thin them out, but keep the ends
		starts = slices.Concat(everyOther(starts[:len(starts)-1]), starts[len(starts)-1:])
	}
	return starts
}

// byZones starts with rings of data centers that have similar numbers of zones, if keys must survive the loss of zones:
// a data center with few zones weakens its ring, so those with few must share one, which no single step may show. The
// rings of many zones are as small as possible.
func (s *search) byZones() [][]int {
	if s.rules.surviveKeys == 0 {
		return nil
	}
	order := make([]int, len(s.atoms))
	for a := range order {
		order[a] = a
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return s.rules.breaking(members(s.atoms[b])) - s.rules.breaking(members(s.atoms[a]))
	})
	var starts [][]int
	for rings := s.rules.minRings; rings <= min(s.rules.maxRings, len(s.atoms)); rings++ {
		start, left := make([]int, len(s.atoms)), s.rules.n
		ring, size := 0, 0
		for _, a := range order {
			n := len(members(s.atoms[a]))
			full := size >= s.rules.minSize && left <= (rings-ring-1)*s.rules.maxSize
			if size > 0 && ring < rings-1 && (full || size+n > s.rules.maxSize) {
				ring, size = ring+1, 0
			}
			start[a] = ring
			size, left = size+n, left-n
		}
		starts = append(starts, start)
	}
	for len(starts) > 8 {
		starts = everyOther(starts)
	}
	return starts
}

func everyOther(all [][]int) [][]int {
	var some [][]int
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// joins returns the layouts with two rings joined.
func joins(ringOf []int) [][]int {
	used := slices.Clone(ringOf)
	slices.Sort(used)
	used = slices.Compact(used)
	var all [][]int
	for i, a := range used {
		for _, b := range used[i+1:] {
			next := slices.Clone(ringOf)
			for k, r := range next {
				if r == b {
					next[k] = a
				}
			}
			all = append(all, next)
		}
	}
	return all
}

func (s *search) randomStart() []int {
	most := min(s.rules.maxRings, len(s.atoms))
	least := min(s.rules.minRings, most)
	rings := least + s.random.IntN(most-least+1)
	start := make([]int, len(s.atoms))
	for i, a := range s.random.Perm(len(start)) {
		start[a] = i // no ring stays empty
		if i >= rings {
			start[a] = s.random.IntN(rings)
		}
	}
	return start
}

// improve takes steps until none helps: for each atom the best one, and then the best join of two rings.
func (s *search) improve(now []int) {
	score := s.score(now)
	for better := true; better && s.left > 0; {
		better = false
		for a := range len(now) + 1 {
			var next [][]int
			if a < len(now) {
				next = stepsOf(now, a)
			} else {
				next = joins(now)
			}
			for _, step := range next {
				if sc := s.score(step); sc < score-1e-12 {
					now, score, better = step, sc, true
				}
			}
		}
	}
}

// stepsOf returns the layouts with one atom moved to another or a new ring, or swapped with an earlier one.
func stepsOf(now []int, a int) [][]int {
	var next [][]int
	free := 0 // an unused ring number, if there is one
	for slices.Contains(now, free) {
		free++
	}
	for r := range len(now) {
		if r != now[a] && (r == free || slices.Contains(now, r)) {
			moved := slices.Clone(now)
			moved[a] = r
			next = append(next, moved)
		}
	}
	for b := range a {
		if now[a] != now[b] {
			swapped := slices.Clone(now)
			swapped[a], swapped[b] = now[b], now[a]
			next = append(next, swapped)
		}
	}
	return next
}
