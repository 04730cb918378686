package v1alpha1

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Limits are what authors of stores may choose. An empty list allows everything. The chart makes an admission policy of
// them; the operator checks them again.
//
// +kubebuilder:object:generate=false
type Limits struct {
	// Images are those that pods may run. An entry that ends in / or : allows all images that begin with it.
	Images []string
	// NodeLabels are the keys of node labels that stores may use (zoneLabel, nodeSelector, nodeAffinity,
	// topologySpreadConstraints), besides topology.kubernetes.io/zone; to spread pods, also kubernetes.io/hostname.
	NodeLabels []string
	// Tolerations are the keys of taints that may be tolerated.
	Tolerations []string
	// PriorityClasses are those that pods may have.
	PriorityClasses []string
	// Labels and Annotations are the keys that may be added to pods, and Annotations also those of the ServiceAccount
	// and of the Services of edges. An entry that ends in / allows all keys that begin with it.
	Labels, Annotations []string
}

// Check returns what a store must not choose, as far as it concerns the data centers of a region.
func (l Limits) Check(s *CausalStoreSpec, region string) []string {
	var p problems
	p.require(s.Image == "" || l.AllowsImage(s.Image), "spec.image: %s is not allowed; this operator allows %s",
		s.Image, strings.Join(l.Images, ", "))
	p.require(s.Storage.Image == "" || l.AllowsImage(s.Storage.Image),
		"spec.storage.image: %s is not allowed; this operator allows %s",
		s.Storage.Image, strings.Join(l.Images, ", "))
	p.require(l.allowsNodeLabel(s.ZoneLabel), "spec.zoneLabel: %s is not allowed; this operator allows %s", s.ZoneLabel,
		l.nodeLabels())
	p = append(p, l.checkKeys("serviceAccount.annotations", keysOf(s.ServiceAccount.Annotations), l.Annotations)...)
	p = append(p, l.checkPods("spec.pods", &s.Pods)...)
	for i := range s.DataCenters {
		if dc := &s.DataCenters[i]; dc.Region == region {
			p = append(p, l.checkPods("pods of "+dc.Name, &dc.Pods)...)
			p.require(dc.Etcd.Image == "" || l.AllowsImage(dc.Etcd.Image),
				"etcd.image (%s): %s is not allowed; this operator allows %s",
				dc.Name, dc.Etcd.Image, strings.Join(l.Images, ", "))
			if dc.Edge != nil {
				p = append(p, l.checkKeys("edge.service.annotations ("+dc.Name+")", keysOf(dc.Edge.Service.Annotations),
					l.Annotations)...)
			}
		}
	}
	return p
}

// checkPods returns what the settings of pods must not choose.
func (l Limits) checkPods(of string, s *PodSettings) (p problems) {
	p.require(s.PriorityClassName == "" || len(l.PriorityClasses) == 0 ||
		slices.Contains(l.PriorityClasses, s.PriorityClassName),
		"priorityClassName (%s): %s is not allowed; this operator allows %s", of, s.PriorityClassName,
		strings.Join(l.PriorityClasses, ", "))
	p = append(p, l.checkKeys("labels ("+of+")", keysOf(s.Labels), l.Labels)...)
	p = append(p, l.checkKeys("annotations ("+of+")", keysOf(s.Annotations), l.Annotations)...)
	for _, key := range keysOf(s.NodeSelector) {
		p.require(l.allowsNodeLabel(key), "nodeSelector (%s): %s is not allowed; this operator allows %s", of, key,
			l.nodeLabels())
	}
	for _, r := range s.NodeAffinity {
		p.require(l.allowsNodeLabel(string(r.Key)), "nodeAffinity (%s): %s is not allowed; this operator allows %s", of,
			r.Key, l.nodeLabels())
	}
	for _, c := range s.TopologySpreadConstraints {
		p.require(c.TopologyKey == corev1.LabelHostname || l.allowsNodeLabel(string(c.TopologyKey)),
			"topologySpreadConstraints (%s): %s is not allowed; this operator allows %s, %s", of, c.TopologyKey,
			corev1.LabelHostname, l.nodeLabels())
	}
	for _, t := range s.Tolerations {
		p.require(len(l.Tolerations) == 0 || slices.Contains(l.Tolerations, string(t.Key)),
			"tolerations (%s): %s is not allowed; this operator allows %s",
			of, describeKey(t), strings.Join(l.Tolerations, ", "))
	}
	return p
}

func (l Limits) checkKeys(field string, keys, allowed []string) (p problems) {
	for _, key := range keys {
		p.require(len(allowed) == 0 || slices.ContainsFunc(allowed, func(a string) bool {
			return key == a || strings.HasSuffix(a, "/") && strings.HasPrefix(key, a)
		}), "%s: %s is not allowed; this operator allows %s", field, key, strings.Join(allowed, ", "))
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
func describeKey(t Toleration) string {
	if t.Key == "" {
		return "a toleration without a key"
	}
	return string(t.Key)
}

func keysOf[M ~map[string]V, V any](m M) []string { return slices.Sorted(maps.Keys(m)) }
