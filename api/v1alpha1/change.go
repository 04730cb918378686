package v1alpha1

import (
	"slices"
)

// ValidateChange says what keeps a store that runs with the spec old from going on with s. Like Validate, it repeats rules of
// the CRD.
func (s *CausalStoreSpec) ValidateChange(old *CausalStoreSpec) []string {
	var p problems
	if !slices.Equal(names(s.DataCenters), names(old.DataCenters)) {
		p.unless(false,
			"spec.dataCenters: data centres cannot be added, removed, renamed or reordered, since data is not moved between them yet; leave the list as it was, or make a new store")
	} else {
		for i := range s.DataCenters {
			s.DataCenters[i].validateChange(&old.DataCenters[i], &p)
		}
	}
	p.unless(sameRings(s.Rings, old.Rings),
		"spec.rings: rings cannot be changed, since data is not moved between them yet; leave them as they were, or make a new store")
	p.unless(s.Binding == old.Binding,
		"spec.binding: it cannot be changed, since all parts must have the same at any time; set it back")
	p.unless(s.Storage.Engine == old.Storage.Engine,
		"spec.storage.engine: it cannot be changed, since data is not moved between engines; set it back to %s", old.Storage.Engine)
	s.Storage.Volume.validateChange(&old.Storage.Volume, &p)
	return p
}

func names(all []DataCenter) []string {
	var n []string
	for _, d := range all {
		n = append(n, d.Name)
	}
	return n
}

// sameRings: rings are numbered by their order; within a ring the order of data centres says nothing.
func sameRings(a, b []Ring) bool {
	return slices.EqualFunc(a, b, func(x, y Ring) bool {
		return x.Name == y.Name && slices.Equal(slices.Sorted(slices.Values(x.DataCenters)),
			slices.Sorted(slices.Values(y.DataCenters)))
	})
}

func (d *DataCenter) validateChange(old *DataCenter, p *problems) {
	p.unless(d.Region == old.Region,
		"spec.dataCenters: region of %s cannot be changed, since its volumes are there; set it back to %s", d.Name, old.Region)
	d.Coordinators.Volume.validateChange(&old.Coordinators.Volume, p)
}

func (v *Volume) validateChange(old *Volume, p *problems) {
	p.unless(v.Size.atLeast(old.Size), "volume.size: a volume cannot shrink; give at least %s", old.Size)
	is, was := v.StorageClassName, old.StorageClassName
	p.unless((is == nil) == (was == nil) && (is == nil || *is == *was),
		"volume.storageClassName: it cannot be changed, since volumes do not move; set it back")
}
