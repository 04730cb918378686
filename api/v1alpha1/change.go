package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ValidateChange returns why a store cannot change from the spec old to s. Like Validate, it repeats rules of the CRD.
func (s *CausalStoreSpec) ValidateChange(old *CausalStoreSpec) []string {
	var p problems
	p.require(old.ID == "" || s.ID == old.ID,
		"spec.id: cannot be changed or removed, because the certificates of all parts carry it; restore it")
	if !slices.Equal(names(s.DataCenters), names(old.DataCenters)) {
		p.require(false,
			"spec.dataCenters: data centers cannot be added, removed, renamed or reordered, because data cannot be "+
				"moved between them yet; restore the list, or create a new store")
	} else {
		for i := range s.DataCenters {
			s.DataCenters[i].validateChange(&old.DataCenters[i], &p)
		}
		p.require(s.Session.Scope != ScopeDataCenter || old.Session.Scope == ScopeDataCenter ||
			!slices.ContainsFunc(s.DataCenters, func(d DataCenter) bool { return d.Coordinators.Replicas > 1 }),
			"spec.session.scope: cannot become DataCenter while a data center has several coordinators, because each "+
				"has written keys whose home would be another one; set coordinators.replicas to 1, wait until the "+
				"store is Ready, and then set the scope, or create a new store")
	}
	p.require(sameRings(s.Rings, old.Rings),
		"spec.rings: rings cannot be changed, because data cannot be moved between them yet; restore them, or "+
			"create a new store")
	p.require(s.TieBreaker == "" || old.TieBreaker == "" || s.TieBreaker == old.TieBreaker,
		"spec.tieBreaker: cannot be changed to another data center at once, because each side of a cut could have "+
			"its own; remove it in the manifests of all regions, and then set it")
	p.require(s.Binding == old.Binding,
		"spec.binding: cannot be changed, because all parts must use the same binding at all times; restore it")
	p.require(s.Storage.Engine == old.Storage.Engine,
		"spec.storage.engine: cannot be changed, because data cannot be moved between engines; set it back to %s",
		old.Storage.Engine)
	s.Storage.Volume.validateChange(&old.Storage.Volume, &p)
	log, was := s.Storage.LogVolume(), old.Storage.LogVolume()
	log.validateChange(&was, &p)
	return p
}

func (s *CausalStoreSpec) findDataCenter(name string) *DataCenter {
	i := slices.IndexFunc(s.DataCenters, func(d DataCenter) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.DataCenters[i]
}

func names(all []DataCenter) []string {
	var n []string
	for _, d := range all {
		n = append(n, d.Name)
	}
	return n
}

// sameRings compares the order of rings, which numbers them, but not the order of data centers in a ring.
func sameRings(a, b []Ring) bool {
	return slices.EqualFunc(a, b, func(x, y Ring) bool {
		return x.Name == y.Name && slices.Equal(slices.Sorted(slices.Values(x.DataCenters)),
			slices.Sorted(slices.Values(y.DataCenters)))
	})
}

func (d *DataCenter) validateChange(old *DataCenter, p *problems) {
	p.require(d.Region == old.Region,
		"spec.dataCenters: region of %s cannot be changed, because its volumes are there; set it back to %s", d.Name,
		old.Region)
	p.require(d.Exclusions >= old.Exclusions,
		"spec.dataCenters: exclusions cannot fall or be removed, because parts keep the greatest number that they "+
			"have seen; restore it")
	d.Coordinators.Volume.validateChange(&old.Coordinators.Volume, p)
	d.Etcd.validateChange(old.Etcd, d.Coordinators.Members > 1 && old.Coordinators.Members > 1, p)
	if d.Edge != nil && old.Edge != nil {
		is, was := &d.Edge.Service, &old.Edge.Service
		p.require(is.Type != corev1.ServiceTypeLoadBalancer || was.Type != corev1.ServiceTypeLoadBalancer ||
			is.LoadBalancerClass == was.LoadBalancerClass,
			"edge.service.loadBalancerClass: cannot be changed, because Kubernetes does not allow it; restore it, or "+
				"change to another type and back")
	}
}

func (v *Volume) validateChange(old *Volume, p *problems) {
	p.require(v.Size.atLeast(old.Size), "volume.size: a volume cannot shrink; set it to at least %s", old.Size)
	is, was := v.StorageClassName, old.StorageClassName
	p.require((is == nil) == (was == nil) && (is == nil || *is == *was),
		"volume.storageClassName: cannot be changed, because volumes cannot move; restore it, or, if none was ever "+
			"bound, delete the store and create it again")
}
