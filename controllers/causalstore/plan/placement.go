package plan

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// place adds to a pod template what the spec says about the pods of a data center, and where they run. Labels and
// annotations of the operator win; the schema refuses others with their keys.
func (b *builder) place(t *corev1.PodTemplateSpec, dc *v1alpha1.DataCenter, s workload) {
	set := b.spec.PodsOf(dc)
	t.Labels, t.Annotations = addTo(addTo(t.Labels, b.zoneLabels(dc, s.zones)), set.Labels),
		addTo(t.Annotations, set.Annotations)
	t.Spec.PriorityClassName = set.PriorityClassName
	t.Spec.NodeSelector = addTo(nil, set.NodeSelector)
	for _, a := range set.Tolerations {
		t.Spec.Tolerations = append(t.Spec.Tolerations,
			corev1.Toleration{Key: string(a.Key), Operator: a.Operator, Value: string(a.Value),
				Effect: a.Effect, TolerationSeconds: a.TolerationSeconds})
	}
	t.Spec.Affinity = b.affinity(s.zones, set.NodeAffinity)
	if s.hasMembers {
		b.separateMembers(t, dc, s)
	}
	t.Spec.TopologySpreadConstraints = b.spread(dc, s.component, set.TopologySpreadConstraints)
}

// zoneLabels returns the labels that say in which zones of a data center pods are kept. The Kubernetes scheduler
// chooses among several zones, so only a single one has a label. The operator restarts no pod because of them.
func (b *builder) zoneLabels(dc *v1alpha1.DataCenter, zones []string) map[string]string {
	labels := map[string]string{}
	switch of := b.spec.ZonesOf(dc); {
	case len(zones) == 0:
		return nil
	case slices.Equal(zones, of.Frontend):
		labels[LabelZones] = ZonesFrontend
	case slices.Equal(zones, of.Backend):
		labels[LabelZones] = ZonesBackend
	}
	if len(zones) == 1 {
		labels[LabelZone] = zones[0]
	}
	return labels
}

// separateMembers keeps the members of a group off each other's hosts: each is in a StatefulSet of its own. Those of a
// coordinator have the same number, those of a shard its label. Other pods of the component do not matter, so a data
// center needs only as many hosts as a group has members. With one zone, hosts may be scarce, and different ones are
// preferred only. Members that share several zones prefer different ones.
func (b *builder) separateMembers(t *corev1.PodTemplateSpec, dc *v1alpha1.DataCenter, s workload) {
	selector := map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: s.component}
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: selector}}
	if shard, ok := s.labels[LabelShard]; ok {
		selector[LabelShard] = shard
	} else {
		term.MatchLabelKeys = []string{appsv1.PodIndexLabel}
	}
	apart := &corev1.PodAntiAffinity{}
	prefer := func(term corev1.PodAffinityTerm) {
		apart.PreferredDuringSchedulingIgnoredDuringExecution = append(
			apart.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: term})
	}
	if b.spec.SingleZone() {
		prefer(term)
	} else {
		apart.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{term}
	}
	if s.component == ComponentShard && len(s.zones) > 1 {
		term.TopologyKey = b.spec.ZoneLabel
		prefer(term)
	}
	if t.Spec.Affinity == nil {
		t.Spec.Affinity = &corev1.Affinity{}
	}
	t.Spec.Affinity.PodAntiAffinity = apart
}

// addTo returns own with the entries of added whose keys it lacks. It returns nil if there are none.
func addTo[V ~string](own map[string]string, added map[string]V) map[string]string {
	if len(added) == 0 {
		return own
	}
	all := map[string]string{}
	for k, v := range added {
		all[k] = string(v)
	}
	maps.Copy(all, own)
	return all
}

// affinity keeps pods in their zones unconditionally: a coordinator in the zone of a shard would be lost with it.
// Without zones, any node will do. The requirements of the spec must hold as well.
func (b *builder) affinity(zones []string, more []v1alpha1.NodeRequirement) *corev1.Affinity {
	var all []corev1.NodeSelectorRequirement
	if len(zones) > 0 {
		all = append(all, corev1.NodeSelectorRequirement{Key: b.spec.ZoneLabel, Operator: corev1.NodeSelectorOpIn,
			Values: zones})
	}
	for _, r := range more {
		e := corev1.NodeSelectorRequirement{Key: string(r.Key), Operator: r.Operator}
		for _, v := range r.Values {
			e.Values = append(e.Values, string(v))
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return nil
	}
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: all}}}}}
}

// spread spreads the pods of a component as the spec says, or over zones and hosts as far as possible.
func (b *builder) spread(dc *v1alpha1.DataCenter, component string,
	requested []v1alpha1.SpreadConstraint) []corev1.TopologySpreadConstraint {
	if len(requested) == 0 {
		keys := []v1alpha1.LabelKey{v1alpha1.LabelKey(b.spec.ZoneLabel), corev1.LabelHostname}
		if b.spec.SingleZone() {
			keys = keys[1:]
		}
		for _, key := range keys {
			requested = append(requested, v1alpha1.SpreadConstraint{TopologyKey: key, MaxSkew: 1,
				WhenUnsatisfiable: corev1.ScheduleAnyway})
		}
	}
	var all []corev1.TopologySpreadConstraint
	for _, c := range requested {
		all = append(all, corev1.TopologySpreadConstraint{MaxSkew: c.MaxSkew, TopologyKey: string(c.TopologyKey),
			WhenUnsatisfiable: c.WhenUnsatisfiable,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
				LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: component}}})
	}
	return all
}
