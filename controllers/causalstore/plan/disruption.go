package plan

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// disruptionBudgets allow one pod of each component to be evicted at a time, and pods that are not ready always, so
// that a node can be drained at any time. Coordinators that join or leave may not be ready for long, and must not count
// as the one that is away. Members of coordinators that join do: another pod could be the only one that has what the group
// has acknowledged.
func (b *builder) disruptionBudgets(dc *v1alpha1.DataCenter) []client.Object {
	var all []client.Object
	for _, component := range []string{ComponentCoordinator, ComponentCache, ComponentShard} {
		if component == ComponentCache && dc.Caches.Replicas == 0 {
			continue
		}
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: b.meta(DataCenterName(b.store.Name, dc.Name)+"-"+component, b.partLabels(dc, component)),
			Spec: policyv1.PodDisruptionBudgetSpec{
				MaxUnavailable:             ptr(intstr.FromInt32(1)),
				UnhealthyPodEvictionPolicy: ptr(policyv1.AlwaysAllow),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{
					LabelInstance: b.store.Name, LabelDataCenter: dc.Name, LabelComponent: component}},
			},
		}
		if n := b.servingDuringChange(dc); component == ComponentCoordinator && n > 0 {
			budget.Spec.MaxUnavailable, budget.Spec.MinAvailable = nil, ptr(intstr.FromInt32(n-1))
		}
		all = append(all, budget)
	}
	return all
}

// servingDuringChange returns how many coordinators of a data center serve while others join or leave, and 0 if none
// do.
func (b *builder) servingDuringChange(dc *v1alpha1.DataCenter) int32 {
	d, served := findDataCenter(&b.layout, dc.Name), b.record.Served[dc.Name]
	if d.CoordinatorsBefore == nil && served == *d.Coordinators {
		return 0
	}
	return int32(served * membersOf(d, topology.Coordinator))
}
