package kubectl

import (
	"fmt"
	"testing"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// A side excludes a data center if it runs more than half of all rings, or half of them with that of the tie-breaker.
func TestOnlyAMajorityOfTheRingsExcludesWithoutForce(t *testing.T) {
	for _, c := range []struct {
		rings, here int   // the first ones run in the clusters that were read
		away        []int // that are excluded and not back
		excluded    int
		tieBreaker  string
		want        bool
	}{
		{rings: 2, here: 1, excluded: 1},
		{rings: 2, here: 1, excluded: 1, tieBreaker: "d0", want: true},
		{rings: 2, here: 1, excluded: 1, tieBreaker: "d1"},
		{rings: 2, here: 2, excluded: 1}, // it may go by the other side's configuration afterwards
		{rings: 3, here: 2, excluded: 2, want: true},
		{rings: 3, here: 1, excluded: 2},
		{rings: 3, here: 1, excluded: 2, tieBreaker: "d0"},
		{rings: 3, here: 1, away: []int{1}, excluded: 2},
		// the third one may have excluded this one before it heard of the second
		{rings: 3, here: 1, away: []int{1}, excluded: 2, tieBreaker: "d0"},
		{rings: 4, here: 2, excluded: 3},
		{rings: 4, here: 2, excluded: 3, tieBreaker: "d1", want: true},
		{rings: 4, here: 3, excluded: 3, want: true},
		{rings: 5, here: 2, away: []int{3}, excluded: 4},
		{rings: 5, here: 2, away: []int{3, 4}, excluded: 2},
		{rings: 5, here: 3, away: []int{3}, excluded: 4, want: true},
	} {
		s := &v1alpha1.CausalStore{Spec: v1alpha1.CausalStoreSpec{TieBreaker: c.tieBreaker}}
		for i := range c.rings {
			name := fmt.Sprint("d", i)
			s.Spec.DataCenters = append(s.Spec.DataCenters, v1alpha1.DataCenter{Name: name})
			s.Spec.Rings = append(s.Spec.Rings, v1alpha1.Ring{Name: fmt.Sprint("r", i), DataCenters: []string{name}})
			s.Status.DataCenters = append(s.Status.DataCenters, v1alpha1.DataCenterStatus{Name: name, Here: i < c.here})
		}
		for _, i := range c.away {
			s.Spec.DataCenters[i].Exclusions = 1
		}
		v := &storeRegions{all: []*regionStore{{store: s}}}
		if err := checkMajority(v, fmt.Sprint("d", c.excluded)); (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
