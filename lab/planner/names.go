package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/lab/cost"
)

// nameRings names each ring: its current name if the same data centers form a ring today, else one derived from the
// names of its data centers.
func nameRings(s *cost.Scenario, l cost.Layout) []Ring {
	rings := make([]Ring, len(l))
	taken := map[string]bool{}
	for i, members := range l {
		for _, d := range members {
			rings[i].DataCenters = append(rings[i].DataCenters, s.DCs[d].Name)
		}
		for t, today := range s.Today {
			if sameMembers(today, members) {
				rings[i].Name = s.RingNames[t]
				taken[rings[i].Name] = true
			}
		}
	}
	for i := range rings {
		if rings[i].Name != "" {
			continue
		}
		base := nameOf(rings[i].DataCenters)
		name := base
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		rings[i].Name = name
		taken[name] = true
	}
	return rings
}

func sameMembers(a, b []int) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// nameOf is the common prefix of the names, in whole parts: us-west for us-west-1 and us-west-2. If there is none, it
// joins the first parts of all names, such as eu-us.
func nameOf(names []string) string {
	common := strings.Split(names[0], "-")
	var firsts []string
	for _, name := range names {
		parts := strings.Split(name, "-")
		n := 0
		for n < len(parts) && n < len(common) && parts[n] == common[n] {
			n++
		}
		common = common[:n]
		if !slices.Contains(firsts, parts[0]) {
			firsts = append(firsts, parts[0])
		}
	}
	if len(common) > 0 {
		return strings.Join(common, "-")
	}
	if len(firsts) > 4 {
		return fmt.Sprintf("%s-and-%d-more", names[0], len(names)-1)
	}
	return strings.Join(firsts, "-")
}
