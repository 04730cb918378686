package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
)

// ValidateExclusions returns why a store must not exclude what its spec excludes and the spec old does not. Like
// Validate, it repeats rules of the CRD. Parts judge by the same rule (topology.CheckExclusions, which says why it is
// this one).
func (c *CausalStore) ValidateExclusions(old *CausalStoreSpec) []string {
	var p problems
	s := &c.Spec
	raised := func(name string) bool {
		is, was := s.findDataCenter(name), old.findDataCenter(name)
		return is != nil && was != nil && is.Exclusions > was.Exclusions
	}
	p.require(len(s.Rings) <= 1 || slices.ContainsFunc(s.Rings, func(r Ring) bool {
		return !slices.ContainsFunc(r.DataCenters, raised)
	}),
		"spec.dataCenters: exclusions is raised in every ring at once, so that nobody may have the only copy of some "+
			"data; leave one ring as it is")
	judged := slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool {
		return raised(d.Name) && d.ForceExclusion < d.Exclusions
	})
	p.require(!judged || c.leavesEnough(),
		"spec.dataCenters: exclusions leaves too few rings: more than half of all rings must be left, or half of "+
			"them with the ring of spec.tieBreaker, because the other side may only be cut off, and exclude these; "+
			"bring data centers back, or, if you know that the others are down and exclude nobody, set "+
			"forceExclusion of the data center to its exclusions")
	p.require(s.TieBreaker == "" || old.TieBreaker != "" ||
		!meta.IsStatusConditionFalse(c.Status.Conditions, ConditionPeersConnected),
		"spec.tieBreaker: cannot be set while other data centers are away or behind (condition PeersConnected), "+
			"because those may set another one; set it when they are back")
	return p
}

// leavesEnough reports whether the rings of which no data center is away may go on alone.
func (c *CausalStore) leavesEnough() bool {
	left, decides := 0, false
	for _, r := range c.Spec.Rings {
		if !slices.ContainsFunc(r.DataCenters, c.IsAway) {
			left++
			decides = decides || slices.Contains(r.DataCenters, c.Spec.TieBreaker)
		}
	}
	return 2*left > len(c.Spec.Rings) || 2*left == len(c.Spec.Rings) && decides
}

// IsAway reports whether a data center is excluded, and not known to be back.
func (c *CausalStore) IsAway(dc string) bool {
	d := c.Spec.findDataCenter(dc)
	return d != nil && d.Exclusions > c.ReturnedFrom(dc)
}

// ReturnedFrom returns the number of the exclusion from which a data center is back, by the status; 0 if there is none.
func (c *CausalStore) ReturnedFrom(dc string) int32 {
	for i := range c.Status.DataCenters {
		if x := c.Status.DataCenters[i].Exclusion; c.Status.DataCenters[i].Name == dc && x != nil &&
			x.State == ExclusionBack {
			return x.Count
		}
	}
	return 0
}
