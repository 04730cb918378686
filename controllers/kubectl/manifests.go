package kubectl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// manifestField is a part of a store's manifest that is compared between regions.
type manifestField struct {
	name  string
	value func(*v1alpha1.CausalStore) string
}

// equalFields must be the same in all regions, or parts refuse each other: by their certificates, which carry the id,
// and by what they say of themselves when they connect. The operator gives them rings whose data centers are in the
// order of spec.dataCenters, so that another order within a ring is no difference.
var equalFields = []manifestField{
	{"spec.id", func(s *v1alpha1.CausalStore) string { return s.Spec.ID }},
	{"spec.dataCenters", func(s *v1alpha1.CausalStore) string {
		return strings.Join(namesOf(s.Spec.DataCenters), " ")
	}},
	{"spec.rings", func(s *v1alpha1.CausalStore) string {
		var all []string
		for _, r := range s.Spec.Rings {
			all = append(all, r.Name+": "+strings.Join(slices.Sorted(slices.Values(r.DataCenters)), " "))
		}
		return strings.Join(all, "; ")
	}},
	{"spec.binding", func(s *v1alpha1.CausalStore) string { return string(s.Spec.Binding) }},
}

// looseFields may differ for a while, as when a change is applied in one region after the other.
var looseFields = []manifestField{
	{"spec.image", func(s *v1alpha1.CausalStore) string { return s.Spec.Image }},
	{"spec.tieBreaker", func(s *v1alpha1.CausalStore) string { return s.Spec.TieBreaker }},
	{"images that run", func(s *v1alpha1.CausalStore) string {
		var all []string
		for _, d := range s.Status.DataCenters {
			if d.Here {
				all = append(all, d.Images...)
			}
		}
		slices.Sort(all)
		return strings.Join(slices.Compact(all), " ")
	}},
}

// looseDataCenterFields are those of data centers that may differ for a while.
var looseDataCenterFields = []struct {
	name  string
	value func(*v1alpha1.DataCenter) string
}{
	{"region", func(dc *v1alpha1.DataCenter) string { return dc.Region }},
	{"edge.address", func(dc *v1alpha1.DataCenter) string {
		if dc.Edge == nil {
			return ""
		}
		return dc.Edge.Address
	}},
	{"coordinators.replicas", func(dc *v1alpha1.DataCenter) string { return fmt.Sprint(dc.Coordinators.Replicas) }},
	{"exclusions", func(dc *v1alpha1.DataCenter) string { return fmt.Sprint(dc.Exclusions) }},
	{"forceExclusion", func(dc *v1alpha1.DataCenter) string { return fmt.Sprint(dc.ForceExclusion) }},
	{"keepsData", func(dc *v1alpha1.DataCenter) string { return fmt.Sprint(dc.KeepsData) }},
	{"caches.replicas", func(dc *v1alpha1.DataCenter) string { return fmt.Sprint(dc.Caches.Replicas) }},
	{"shards", func(dc *v1alpha1.DataCenter) string { return fmt.Sprint(dc.Shards) }},
}

// ofDataCenter returns the value of a field of a data center; nothing if the manifest does not have it.
func ofDataCenter(name string, value func(*v1alpha1.DataCenter) string) func(*v1alpha1.CausalStore) string {
	return func(s *v1alpha1.CausalStore) string {
		for i := range s.Spec.DataCenters {
			if dc := &s.Spec.DataCenters[i]; dc.Name == name {
				return value(dc)
			}
		}
		return ""
	}
}

func namesOf(dcs []v1alpha1.DataCenter) (all []string) {
	for _, dc := range dcs {
		all = append(all, dc.Name)
	}
	return all
}

// faults are the differences between manifests that keep parts from connecting.
func (v *storeRegions) faults() table { return compareManifests(v.known(), equalFields) }

// variations are the differences between manifests that are no fault.
func (v *storeRegions) variations() table {
	fields := slices.Clone(looseFields)
	for _, dc := range v.dataCenters() {
		for _, f := range looseDataCenterFields {
			fields = append(fields, manifestField{dc.Name + ": " + f.name, ofDataCenter(dc.Name, f.value)})
		}
	}
	return compareManifests(v.known(), fields)
}

// compareManifests has a row for each value of a field that is not the same in all regions, with the contexts that have
// it.
func compareManifests(regions []*regionStore, fields []manifestField) (rows table) {
	for _, f := range fields {
		var values []string
		contexts := map[string][]string{}
		for _, r := range regions {
			value := orDash(f.value(r.store))
			if contexts[value] == nil {
				values = append(values, value)
			}
			contexts[value] = append(contexts[value], r.context)
		}
		if len(values) < 2 {
			continue
		}
		for i, value := range values {
			name := f.name
			if i > 0 {
				name = ""
			}
			rows.row(name, strings.Join(contexts[value], " "), value)
		}
	}
	return rows
}
