package kubectl

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// scaleDowns maps each data center whose number of coordinators is being reduced to the new number.
type scaleDowns map[string]int

// scaleDowns reads the scale-downs from the configuration of a store's parts. It returns nil if the user may not read
// ConfigMaps.
func (k *connection) scaleDowns(ctx context.Context, namespace, store string) (scaleDowns, error) {
	var maps corev1.ConfigMapList
	err := k.List(ctx, &maps, client.InNamespace(namespace), client.MatchingLabels(plan.Labels(store)))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the ConfigMaps of %s: %w", store, err)
	}
	configuration, err := plan.ReadPublishedTopology(maps.Items)
	if err != nil || configuration == nil {
		return nil, err
	}
	return scaleDownsOf(configuration), nil
}

func scaleDownsOf(configuration *plan.PublishedTopology) scaleDowns {
	all := scaleDowns{}
	for _, dc := range configuration.Topology.DCs {
		if dc.CoordinatorsBefore > 0 {
			all[dc.Name] = dc.Coordinators
		}
	}
	return all
}

// includes reports whether a pod is a coordinator that is being removed.
func (s scaleDowns) includes(p *corev1.Pod) bool {
	n, ok := s[p.Labels[plan.LabelDataCenter]]
	return ok && p.Labels[plan.LabelComponent] == plan.ComponentCoordinator && plan.Index(p) >= n
}

// explain describes a coordinator that is being removed.
func (s scaleDowns) explain(p *corev1.Pod) string {
	return fmt.Sprintf("being removed (scale down to %d): it stays until every ring has its writes",
		s[p.Labels[plan.LabelDataCenter]])
}

// unreadyReason returns why a pod is not ready: what the operator has learned from the pod, if it knows more than
// Kubernetes.
func (s scaleDowns) unreadyReason(p *corev1.Pod, store *v1alpha1.CausalStore, now time.Time) string {
	c := causeOf(p, store, now)
	switch {
	case s.includes(p) && c.Reason == diagnose.ReasonNotReady:
		return s.explain(p)
	case c.Reason == diagnose.ReasonNotReady && c.Message == "":
		return "not ready; its /readyz has the reason"
	case c.Reason == diagnose.ReasonNotReady:
		return "not ready: " + c.Message
	}
	return c.String()
}

// causeOf returns why a pod does not serve. What only the pod itself knows, the operator has put into the status.
func causeOf(p *corev1.Pod, store *v1alpha1.CausalStore, now time.Time) diagnose.Cause {
	c := diagnose.Of(p, nil, now)
	known := map[diagnose.Reason]func(diagnose.Reason) bool{ // what the operator knows better than the pod says
		diagnose.ReasonNotReady:      diagnose.IsReported,
		diagnose.ReasonUnschedulable: func(r diagnose.Reason) bool { return r == diagnose.ReasonUnbound },
	}[c.Reason]
	if known == nil {
		return c
	}
	for _, problem := range store.Status.Problems {
		if r := diagnose.Reason(problem.Reason); problem.Pod == p.Name && known(r) {
			return diagnose.Cause{Reason: r, Message: problem.Message,
				Lasting: diagnose.IsLasting(r) || r == diagnose.ReasonUnbound}
		}
	}
	return c
}
