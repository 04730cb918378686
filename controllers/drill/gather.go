package drill

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// operatorName is the label of the pods of the operator.
const operatorName = "causalstore-operator"

// Look reads what drills choose from. What the user may not read outside of the store's namespace is left out.
func Look(ctx context.Context, c client.Reader, s *v1alpha1.CausalStore) (*Landscape, error) {
	l := &Landscape{Store: s}
	zones := map[string]string{}
	var nodes corev1.NodeList
	switch err := c.List(ctx, &nodes); {
	case apierrors.IsForbidden(err):
	case err != nil:
		return nil, fmt.Errorf("list the nodes: %w", err)
	default:
		l.ZonesKnown = true
		for _, n := range nodes.Items {
			zones[n.Name] = n.Labels[s.Spec.ZoneLabel]
		}
	}
	var parts, apps, operators corev1.PodList
	if err := c.List(ctx, &parts, client.InNamespace(s.Namespace),
		client.MatchingLabels(plan.Labels(s.Name))); err != nil {
		return nil, fmt.Errorf("list the pods of %s: %w", s.Name, err)
	}
	for i := range parts.Items {
		if p := &parts.Items[i]; p.DeletionTimestamp.IsZero() && p.Labels[plan.LabelComponent] != "" {
			l.Parts = append(l.Parts, NewPod(s, p, zones[p.Spec.NodeName]))
		}
	}
	err := c.List(ctx, &apps, client.MatchingLabels{inject.LabelStore: s.Name})
	if apierrors.IsForbidden(err) {
		err = c.List(ctx, &apps, client.MatchingLabels{inject.LabelStore: s.Name}, client.InNamespace(s.Namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("list the pods with a sidecar of %s: %w", s.Name, err)
	}
	for i := range apps.Items {
		p := &apps.Items[i]
		if p.Labels[LabelCanary] != "" {
			continue // of a run that has ended, or of this one, which knows them
		}
		if of, ok := inject.SidecarOf(p); ok && of.Namespace == s.Namespace && p.Status.Phase == corev1.PodRunning {
			app := NewPod(s, p, zones[p.Spec.NodeName])
			app.DataCenter, app.Component = of.DataCenter, ComponentApp
			l.Apps = append(l.Apps, app)
		}
	}
	err = c.List(ctx, &operators, client.MatchingLabels{plan.LabelName: operatorName})
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list the pods of the operator: %w", err)
	}
	for i := range operators.Items {
		p := NewPod(s, &operators.Items[i], zones[operators.Items[i].Spec.NodeName])
		p.Component = ComponentOperator
		l.Operators = append(l.Operators, p)
	}
	sortPods(l.Parts)
	sortPods(l.Apps)
	sortPods(l.Operators)
	return l, nil
}

// MissingKinds returns the kinds of Chaos Mesh that the cluster does not have.
func MissingKinds(ctx context.Context, c client.Reader, namespace string, kinds []string) (missing []string,
	err error) {
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(chaosAPI.WithKind(kind + "List"))
		err := c.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		switch {
		case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			missing = append(missing, kind)
		case err != nil:
			return nil,
				fmt.Errorf("list %s in namespace %s: %w; you need the right to create, get, list and delete them there",
					kind, namespace, err)
		}
	}
	return missing, nil
}
