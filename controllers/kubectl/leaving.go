package kubectl

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// leaving are the data centres that coordinators leave, with how many stay.
type leaving map[string]int

// leaving reads it from what the parts of a store are told. Who may not look at that is not shown it.
func (k *connection) leaving(ctx context.Context, namespace, store string) (leaving, error) {
	var maps corev1.ConfigMapList
	err := k.List(ctx, &maps, client.InNamespace(namespace), client.MatchingLabels(plan.Labels(store)))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the ConfigMaps of %s: %w", store, err)
	}
	told, err := plan.ReadTold(maps.Items)
	if err != nil || told == nil {
		return nil, err
	}
	return leavingOf(told), nil
}

func leavingOf(told *plan.Told) leaving {
	l := leaving{}
	for _, dc := range told.Topology.DCs {
		if dc.CoordinatorsBefore > 0 {
			l[dc.Name] = dc.Coordinators
		}
	}
	return l
}

// has says whether a pod is a coordinator that leaves.
func (l leaving) has(p *corev1.Pod) bool {
	n, some := l[p.Labels[plan.LabelDataCenter]]
	return some && p.Labels[plan.LabelComponent] == plan.ComponentCoordinator && plan.Index(p) >= n
}

// says is what is to be known of a coordinator that leaves.
func (l leaving) says(p *corev1.Pod) string {
	return fmt.Sprintf("it leaves, since there are to be %d, and goes when all that it has is in every ring",
		l[p.Labels[plan.LabelDataCenter]])
}

// why a pod does not serve.
func (l leaving) why(p *corev1.Pod) string {
	if p.DeletionTimestamp != nil {
		return "it is ending"
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", c.Name, w.Reason, w.Message), ": ")
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	if l.has(p) {
		return l.says(p)
	}
	return "not ready; its /readyz says why"
}
