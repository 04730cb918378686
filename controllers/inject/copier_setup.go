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
	"github.com/causalstore/causalstore/controllers/shutdown"
)

// SetupWithManager registers the controller. It reconciles a namespace when its labels, the store that it names, that
// store's configuration or a copy of it changes.
func (c *Copier) SetupWithManager(m ctrl.Manager) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return ctrl.NewControllerManagedBy(m).Named("copies").
		WatchesMetadata(ns, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1alpha1.CausalStore{}, handler.EnqueueRequestsFromMapFunc(c.requestsForStore),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(c.requestsForConfigMap)).
		Complete(shutdown.Quiet(c))
}

// requestsForStore returns requests for the namespaces that use a store of another namespace.
func (c *Copier) requestsForStore(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requestsForUsersOf(ctx, StoreRef{Namespace: o.GetNamespace(), Name: o.GetName()})
}

// requestsForConfigMap returns a request for the namespace of a copy, or those for the namespaces that need a copy of
// an original.
func (c *Copier) requestsForConfigMap(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[LabelCopyOf] != "" {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}}
	}
	store := o.GetLabels()[plan.LabelInstance]
	if store == "" {
		return nil
	}
	return c.requestsForUsersOf(ctx, StoreRef{Namespace: o.GetNamespace(), Name: store})
}

// requestsForUsersOf returns requests for the namespaces whose label names a store of another namespace.
func (c *Copier) requestsForUsersOf(ctx context.Context, use StoreRef) (all []reconcile.Request) {
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := c.Client.List(ctx, &namespaces, client.MatchingLabels{LabelInject: use.labelValue()}); err != nil {
		return nil // the cache has not started; when it does, all namespaces are reconciled
	}
	for _, ns := range namespaces.Items {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: ns.Name}})
	}
	return all
}
