package plan

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/topology"
)

// disruptionBudgets say which pods of a data center may be evicted at a time. Pods that are not ready always may, so
// that they never keep a node from being drained.
//
// Each group of several members has a budget of its own, which lets one of them go: the others go on without it. Groups
// do not wait for each other, so a node that holds one member of each of many groups is drained at once. A member that
// joins counts as the one that is away: another pod could be the only one that has what the group has acknowledged.
// Parts with one member have one budget for each component, since nothing stands in for them: they go one after the
// other.
//
// Budgets count what has to be there. With maxUnavailable Kubernetes would compare with the replicas of all
// StatefulSets that have a pod in the group, which are other numbers: one of coordinators has a pod in each group, and
// one of a shard whose pod is gone is not seen.
func (b *builder) disruptionBudgets(dc *v1alpha1.DataCenter) []client.Object {
	counts := b.counts(dc)
	var all []client.Object
	for _, of := range []struct {
		part            topology.Part
		component       string
		groups, serving int
		label           string
	}{
		{topology.Coordinator, ComponentCoordinator, counts.RunningCoordinators(), b.servingCoordinators(dc),
			appsv1.PodIndexLabel},
		{topology.Middleman, ComponentShard, counts.RunningMiddlemen(), counts.RunningMiddlemen(), LabelShard},
	} {
		members := counts.Members(of.part)
		if members == 1 {
			all = append(all, b.budget(dc, of.component, "", nil, of.serving))
			continue
		}
		for i := range of.groups {
			n := strconv.Itoa(i)
			all = append(all, b.budget(dc, of.component, "-"+n, map[string]string{of.label: n}, members))
		}
	}
	if n := int(dc.Caches.Replicas); n > 0 {
		all = append(all, b.budget(dc, ComponentCache, "", nil, n))
	}
	return all
}

// budget lets one of n pods of a component go at a time, or none while a claim of one of them is being deleted: its
// volume would go with the pod.
func (b *builder) budget(dc *v1alpha1.DataCenter, component, suffix string, labels map[string]string,
	n int) *policyv1.PodDisruptionBudget {
	selector := map[string]string{LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: component}
	for key, value := range labels {
		selector[key] = value
	}
	spec := policyv1.PodDisruptionBudgetSpec{
		MinAvailable:               ptr(intstr.FromInt(max(n-1, 0))),
		UnhealthyPodEvictionPolicy: ptr(policyv1.AlwaysAllow),
		Selector:                   &metav1.LabelSelector{MatchLabels: selector},
	}
	if slices.ContainsFunc(EndingClaims(b.in), func(c EndingClaim) bool { return c.hasLabels(selector) }) {
		spec.MinAvailable, spec.UnhealthyPodEvictionPolicy = ptr(intstr.FromInt(b.pods(selector))),
			ptr(policyv1.IfHealthyBudget)
	}
	return &policyv1.PodDisruptionBudget{ObjectMeta: b.meta(DataCenterName(b.store.Name, dc.Name)+"-"+component+suffix,
		b.partLabels(dc, component)), Spec: spec}
}

// pods returns how many pods there are with some labels, and 1 if there is none.
func (b *builder) pods(selector map[string]string) int {
	n := 0
	for i := range b.in.Pods {
		if matches(selector, b.in.Pods[i].Labels) {
			n++
		}
	}
	return max(n, 1)
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// servingCoordinators returns how many coordinators of a data center serve: those that join or leave may not be ready
// for long, and must not count as the one that is away.
func (b *builder) servingCoordinators(dc *v1alpha1.DataCenter) int {
	d, served := findDataCenter(&b.layout, dc.Name), b.record.Served[dc.Name]
	if d.CoordinatorsBefore == nil && served == *d.Coordinators {
		return *d.Coordinators
	}
	return served
}
