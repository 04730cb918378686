package v1alpha1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Limits are what authors of stores may choose. An empty list allows everything. The chart makes an admission policy of them; the
// operator checks them again.
//
// +kubebuilder:object:generate=false
type Limits struct {
	// Images are those that pods may run. An entry that ends in / or : allows all images that begin with it.
	Images []string
	// NodeLabels are the keys of node labels that zoneLabel and nodeSelector may use, besides topology.kubernetes.io/zone.
	NodeLabels []string
	// Tolerations are the keys of taints that may be tolerated.
	Tolerations []string
}

// Check returns what a store must not choose, as far as it concerns the data centres of a region.
func (l Limits) Check(s *CausalStoreSpec, region string) []string {
	var p problems
	p.require(s.Image == "" || l.AllowsImage(s.Image), "spec.image: %s is not allowed; this operator allows %s", s.Image, strings.Join(l.Images, ", "))
	p.require(s.Storage.Image == "" || l.AllowsImage(s.Storage.Image), "spec.storage.image: %s is not allowed; this operator allows %s",
		s.Storage.Image, strings.Join(l.Images, ", "))
	p.require(l.allowsNodeLabel(s.ZoneLabel), "spec.zoneLabel: %s is not allowed; this operator allows %s", s.ZoneLabel, l.nodeLabels())
	for _, dc := range s.DataCenters {
		if dc.Region != region {
			continue
		}
		for _, key := range sortedKeys(dc.NodeSelector) {
			p.require(l.allowsNodeLabel(key), "nodeSelector of %s: %s is not allowed; this operator allows %s", dc.Name, key, l.nodeLabels())
		}
		for _, t := range dc.Tolerations {
			p.require(len(l.Tolerations) == 0 || slices.Contains(l.Tolerations, t.Key), "tolerations of %s: %s is not allowed; this operator allows %s",
				dc.Name, describeKey(t), strings.Join(l.Tolerations, ", "))
		}
	}
	return p
}

// AllowsImage reports whether pods may run an image.
func (l Limits) AllowsImage(image string) bool {
	return len(l.Images) == 0 || slices.ContainsFunc(l.Images, func(a string) bool {
		return image == a || (strings.HasSuffix(a, "/") || strings.HasSuffix(a, ":")) && strings.HasPrefix(image, a)
	})
}

func (l Limits) allowsNodeLabel(key string) bool {
	return len(l.NodeLabels) == 0 || key == corev1.LabelTopologyZone || slices.Contains(l.NodeLabels, key)
}

func (l Limits) nodeLabels() string {
	return strings.Join(append([]string{corev1.LabelTopologyZone}, l.NodeLabels...), ", ")
}

// describeKey names the taints that a toleration tolerates. Without a key it tolerates all.
func describeKey(t corev1.Toleration) string {
	if t.Key == "" {
		return "a toleration without a key"
	}
	return t.Key
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
