package inject

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// SetupWithManager lets a manager call Reconcile for a namespace when its label, the store that it asks for, that store's
// configuration or a copy of it has changed.
func (c *Copier) SetupWithManager(m ctrl.Manager) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ctrl.NewControllerManagedBy(m).Named("copies").
		WatchesMetadata(ns, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1alpha1.CausalStore{}, handler.EnqueueRequestsFromMapFunc(c.ofStore),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.ofConfigMap)).
		Complete(c)
}

// ofStore are the namespaces that ask for a store of another one.
func (c *Copier) ofStore(ctx context.Context, o client.Object) []reconcile.Request {
	return c.asking(ctx, Use{Namespace: o.GetNamespace(), Name: o.GetName()})
}

// ofConfigMap are the namespace of a copy, or those that want a copy of it.
func (c *Copier) ofConfigMap(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[LabelCopyOf] != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	}
	store := o.GetLabels()[plan.LabelInstance]
	if store == "" {
		return nil
	}
	return c.asking(ctx, Use{Namespace: o.GetNamespace(), Name: store})
}

func (c *Copier) asking(ctx context.Context, use Use) (all []reconcile.Request) {
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.Client.List(ctx, &namespaces, client.MatchingLabels{LabelInject: use.label()}); err != nil {
		return nil // the cache has not begun; then all namespaces are looked at
	}
	for _, ns := range namespaces.Items {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: ns.Name}})
	}
	return all
}
