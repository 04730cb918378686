package causalstore

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// prune deletes objects that this operator has made for the store and that are no longer in the plan. It never deletes
// claims.
func (r *Reconciler) prune(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	planned := map[string]bool{}
	for _, o := range p.Apply {
		planned[fmt.Sprintf("%T %s", o, o.GetName())] = true
	}
	var errs []error
	for _, l := range prunedKinds() {
		if err := r.Client.List(ctx, l, ofStore(seen.Store)...); err != nil {
			errs = append(errs, fmt.Errorf("list %T: %w", l, err))
			continue
		}
		for _, o := range items(l) {
			if planned[fmt.Sprintf("%T %s", o, o.GetName())] || seen.KeepsEdges() &&
				o.GetLabels()[plan.LabelComponent] == plan.ComponentEdge || !metav1.IsControlledBy(o, seen.Store) ||
				!r.hasMade(seen, o) ||
				o.GetDeletionTimestamp() != nil {
				continue
			}
			if err := ignoreGone(r.Client.Delete(ctx, o, client.Preconditions{UID: ptr(o.GetUID())})); err != nil {
				errs = append(errs, fmt.Errorf("prune %T %s: %w", o, o.GetName(), err))
				continue
			}
			r.applied.remove(seen.Store, reflect.TypeOf(o).Elem().Name(), o.GetName())
		}
	}
	return errors.Join(errs...)
}

// hasMade reports whether the operator of this region has made an object of the store. Operators of earlier versions
// did not write the region.
func (r *Reconciler) hasMade(seen *status.Observed, o client.Object) bool {
	if region := o.GetLabels()[plan.LabelRegion]; region != "" {
		return region == r.Region
	}
	dc := o.GetLabels()[plan.LabelDataCenter]
	return dc == "" || seen.IsLocal(dc)
}

// prunedKinds returns empty lists of the kinds that are pruned.
func prunedKinds() []client.ObjectList {
	return []client.ObjectList{&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{},
		&corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}}
}

// items returns the objects of a list.
func items(l client.ObjectList) []client.Object {
	var all []client.Object
	switch l := l.(type) {
	case *appsv1.StatefulSetList:
		all = pointers[appsv1.StatefulSet](l.Items)
	case *appsv1.DeploymentList:
		all = pointers[appsv1.Deployment](l.Items)
	case *corev1.ServiceList:
		all = pointers[corev1.Service](l.Items)
	case *corev1.ConfigMapList:
		all = pointers[corev1.ConfigMap](l.Items)
	case *corev1.ServiceAccountList:
		all = pointers[corev1.ServiceAccount](l.Items)
	case *networkingv1.NetworkPolicyList:
		all = pointers[networkingv1.NetworkPolicy](l.Items)
	case *policyv1.PodDisruptionBudgetList:
		all = pointers[policyv1.PodDisruptionBudget](l.Items)
	}
	return all
}

func pointers[T any, P interface {
	*T
	client.Object
}](values []T) []client.Object {
	var all []client.Object
	for i := range values {
		all = append(all, P(&values[i]))
	}
	return all
}

func ptr[T any](v T) *T { return &v }
