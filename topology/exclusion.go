package topology

import (
	"fmt"
	"strings"
)

// CheckExclusions returns why data centers must not be excluded as t says, if they were excluded before as often as the
// map says, by their names.
//
// Two sides that are cut off from each other must not exclude each other: both would complete writes alone. A side may
// exclude if what it leaves is more than half of all rings, or half of them with that of the tie-breaker: of two such
// sets of rings one is always in both, and its shards have what either side completes. Rings that are excluded already
// are counted, because the others may not know of that. A data center that has returned is not excluded.
//
// A person who knows that the others are down, and exclude nobody, sets ForceExclusion.
func (t *Topology) CheckExclusions(before map[string]int) error {
	var raised []string
	for i := range t.DCs {
		if dc := &t.DCs[i]; dc.Exclusions > before[dc.Name] && dc.ForceExclusion < dc.Exclusions {
			raised = append(raised, dc.Name)
		}
	}
	if len(raised) == 0 {
		return nil
	}
	left, decides := 0, false
	for r := range t.Rings {
		if t.isWhole(&t.Rings[r]) {
			left++
			decides = decides || t.ringHas(&t.Rings[r], t.TieBreaker)
		}
	}
	if 2*left > len(t.Rings) || 2*left == len(t.Rings) && decides {
		return nil
	}
	return fmt.Errorf("to exclude %s leaves %d of %d rings: %s", strings.Join(raised, " and "), left, len(t.Rings),
		ExclusionAdvice)
}

// ExclusionAdvice says which exclusions are refused, and what to do.
const ExclusionAdvice = "more than half of all rings must be left, or half of them with the ring of the tieBreaker, " +
	"because the other side may only be cut off, and exclude these; " +
	"bring data centers back, or, if you know that the others are down and exclude nobody, set forceExclusion of the " +
	"data center to its exclusions"

// isWhole reports whether no data center of a ring is excluded and not back.
func (t *Topology) isWhole(r *Ring) bool {
	for _, dc := range r.DCs {
		if t.DCs[dc].Exclusions > t.DCs[dc].Returned {
			return false
		}
	}
	return true
}

func (t *Topology) ringHas(r *Ring, name string) bool {
	for _, dc := range r.DCs {
		if t.DCs[dc].Name == name {
			return true
		}
	}
	return false
}

// Exclusions returns how often each data center was excluded, by its name.
func (t *Topology) Exclusions() map[string]int {
	all := map[string]int{}
	for i := range t.DCs {
		if n := t.DCs[i].Exclusions; n > 0 {
			all[t.DCs[i].Name] = n
		}
	}
	return all
}

// validateExclusions checks the fields of exclusions.
func (t *Topology) validateExclusions() error {
	for i := range t.DCs {
		switch dc := &t.DCs[i]; {
		case dc.Exclusions < 0 || dc.Exclusions > 0 && len(t.Rings) == 1:
			return fmt.Errorf(
				"data center %q: exclusions is %d with %d rings; a data center can be excluded where another ring "+
					"has its data", dc.Name, dc.Exclusions, len(t.Rings))
		case dc.KeepsData < 0 || dc.KeepsData > dc.Exclusions:
			return fmt.Errorf(
				"data center %q: keepsData is %d and exclusions is %d; set it to the number of the exclusion, or "+
					"remove it", dc.Name, dc.KeepsData, dc.Exclusions)
		case dc.Returned < 0 || dc.Returned > dc.Exclusions:
			return fmt.Errorf(
				"data center %q: returned is %d and exclusions is %d; set it to the number of the exclusion that is "+
					"over, or remove it", dc.Name, dc.Returned, dc.Exclusions)
		case dc.ForceExclusion < 0 || dc.ForceExclusion > dc.Exclusions:
			return fmt.Errorf(
				"data center %q: forceExclusion is %d and exclusions is %d; set it to exclusions, or remove it",
				dc.Name, dc.ForceExclusion, dc.Exclusions)
		}
	}
	if _, ok := t.ByName(t.TieBreaker); t.TieBreaker != "" && !ok {
		return fmt.Errorf("tieBreaker is %q, which dataCenters does not list; name one of its data centers",
			t.TieBreaker)
	}
	return t.validateKept()
}
