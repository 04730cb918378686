package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/lab/cost"
)

// rules are the constraints, by index of data center.
type rules struct {
	n                int
	minRings         int
	maxRings         int
	minSize, maxSize int
	together, apart  []uint64 // groups, as sets
	// back[d] is the number of zones that hold the data: all but the front, or the only one.
	back          []int
	surviveInRing int
	surviveKeys   int
}

// newRules validates constraints and resolves their names. Contradictions are refused here, by name; the planners find
// out what else is impossible.
func newRules(s *cost.Scenario) (*rules, error) {
	c := s.Constraints
	r := &rules{
		n:        len(s.DCs),
		minRings: max(1, c.Copies.Min), maxRings: c.Copies.Max,
		minSize: max(1, c.RingSize.Min), maxSize: c.RingSize.Max,
		surviveInRing: c.RingsSurviveZones, surviveKeys: c.KeysSurviveZones,
	}
	if c.Copies.Min < 0 || c.Copies.Max < 0 || c.RingSize.Min < 0 || c.RingSize.Max < 0 || r.surviveInRing < 0 ||
		r.surviveKeys < 0 {
		return nil, errors.New("constraints: numbers must not be negative; 0 means no constraint")
	}
	if r.maxRings == 0 || r.maxRings > r.n {
		r.maxRings = r.n
	}
	if r.maxSize == 0 || r.maxSize > r.n {
		r.maxSize = r.n
	}
	if err := r.checkNumbers(); err != nil {
		return nil, err
	}
	var err error
	if r.together, err = groups(s, "together", c.Together); err != nil {
		return nil, err
	}
	if r.apart, err = groups(s, "apart", c.Apart); err != nil {
		return nil, err
	}
	for _, d := range s.DCs {
		r.back = append(r.back, max(1, d.Zones-1))
	}
	return r, errors.Join(r.checkPairs(s), r.checkZones(s))
}

// checkNumbers refuses numbers and sizes of rings that no partition has.
func (r *rules) checkNumbers() error {
	if r.minRings > r.maxRings {
		return fmt.Errorf(
			"constraints.copies needs at least %d rings, but at most %d are possible with %d data centers; "+
				"lower copies.min",
			r.minRings, r.maxRings, r.n)
	}
	if r.minSize > r.maxSize {
		return fmt.Errorf("constraints.ringSize.min is %d, but rings can have at most %d data centers; lower it",
			r.minSize,
			r.maxSize)
	}
	if r.minSize*r.minRings > r.n {
		return fmt.Errorf(
			"constraints need at least %d rings of at least %d data centers, but there are only %d; lower copies.min "+
				"or ringSize.min",
			r.minRings, r.minSize, r.n)
	}
	if r.maxSize*r.maxRings < r.n {
		return fmt.Errorf(
			"constraints allow at most %d rings of at most %d data centers, but there are %d; raise copies.max "+
				"or ringSize.max",
			r.maxRings, r.maxSize, r.n)
	}
	return nil
}

func groups(s *cost.Scenario, field string, named [][]string) ([]uint64, error) {
	var sets []uint64
	for _, names := range named {
		var set uint64
		for _, name := range names {
			at := slices.IndexFunc(s.DCs, func(d cost.DataCenter) bool { return d.Name == name })
			if at < 0 {
				return nil, fmt.Errorf("constraints.%s names data center %q, which dataCenters does not list",
					field, name)
			}
			set |= 1 << at
		}
		if len(names) < 2 {
			return nil, fmt.Errorf("constraints.%s has a group of %d; a group needs at least two data centers", field,
				len(names))
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// atoms are the sets of data centers that must share a ring; most have one member.
func (r *rules) atoms() []uint64 {
	var all []uint64
	for d := range r.n {
		all = append(all, 1<<d)
	}
	for _, group := range r.together {
		merged := group
		for _, a := range all {
			if a&group != 0 {
				merged |= a
			}
		}
		all = slices.DeleteFunc(all, func(a uint64) bool { return a&group != 0 })
		all = append(all, merged)
	}
	slices.SortFunc(all, func(a, b uint64) int { return members(a)[0] - members(b)[0] })
	return all
}

// members lists a set.
func members(set uint64) []int {
	var all []int
	for d := 0; set != 0; d, set = d+1, set>>1 {
		if set&1 != 0 {
			all = append(all, d)
		}
	}
	return all
}

// checkPairs refuses pairs that must be both together and apart.
func (r *rules) checkPairs(s *cost.Scenario) error {
	for _, atom := range r.atoms() {
		for _, apart := range r.apart {
			if both := members(atom & apart); len(both) > 1 {
				return fmt.Errorf(
					"constraints.apart separates %s and %s, but constraints.together puts them in one ring; drop one "+
						"of the two", s.DCs[both[0]].Name,
					s.DCs[both[1]].Name)
			}
		}
	}
	return nil
}

// checkZones refuses failures that no partition could survive.
func (r *rules) checkZones(s *cost.Scenario) error {
	var weak []string
	for _, d := range s.DCs {
		if r.surviveInRing > 0 && d.Zones < r.surviveInRing+2 {
			weak = append(weak, fmt.Sprintf("%s (%d)", d.Name, d.Zones))
		}
	}
	if len(weak) > 0 {
		return fmt.Errorf(
			"constraints.ringsSurviveZones is %d, which needs %d zones in each data center, one of them the front, "+
				"but these have fewer: %s; raise their zones, or use keysSurviveZones",
			r.surviveInRing, r.surviveInRing+2, strings.Join(weak, ", "))
	}
	return nil
}

// breaking is how many zones must fail for the ring to lose a part: those with the data of its weakest data center.
func (r *rules) breaking(ring []int) int {
	least := r.back[ring[0]]
	for _, d := range ring {
		least = min(least, r.back[d])
	}
	return least
}

// allows reports whether a ring is allowed, regardless of the others.
func (r *rules) allows(ring uint64, size int) bool { return r.broken(ring, size) == 0 }

// broken counts the constraints that a ring violates, so that the search can approach rings that violate none.
func (r *rules) broken(ring uint64, size int) int {
	n := max(0, r.minSize-size) + max(0, size-r.maxSize)
	for _, g := range r.together {
		if ring&g != 0 && ring&g != g {
			n++
		}
	}
	for _, g := range r.apart {
		if shared := len(members(ring & g)); shared > 1 {
			n += shared - 1
		}
	}
	return n
}

// brokenBy counts the constraints that a layout violates.
func (r *rules) brokenBy(l cost.Layout) int {
	n := max(0, r.minRings-len(l)) + max(0, len(l)-r.maxRings)
	survives := -1
	for _, ring := range l {
		var set uint64
		for _, d := range ring {
			set |= 1 << d
		}
		n += r.broken(set, len(ring))
		survives += r.breaking(ring)
	}
	return n + max(0, r.surviveKeys-survives)
}
