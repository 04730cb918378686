package causalstore

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/shutdown"
)

// maxConcurrentReconciles is how many stores are reconciled at the same time.
const maxConcurrentReconciles = 4

// CacheOptions restrict the cache to the objects that the operator has created, however much else is in the cluster,
// and to some namespaces, if any are given.
func CacheOptions(namespaces ...string) cache.Options {
	var all map[string]cache.Config
	for _, name := range namespaces {
		if all == nil {
			all = map[string]cache.Config{}
		}
		all[name] = cache.Config{}
	}
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{plan.LabelManagedBy: plan.ManagedBy})}
	return cache.Options{
		DefaultNamespaces: all,
		DefaultTransform:  cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}: ours, &appsv1.Deployment{}: ours, &corev1.Pod{}: ours,
			&corev1.PersistentVolumeClaim{}: ours, &corev1.Service{}: ours,
			&corev1.ConfigMap{}: ours, &corev1.ServiceAccount{}: ours, &networkingv1.NetworkPolicy{}: ours,
			&policyv1.PodDisruptionBudget{}: ours,
		},
	}
}

// SetupWithManager registers the reconciler for changes of stores and of their objects. Changes of the status of a
// store do not count, because the reconciler writes it.
func (r *Reconciler) SetupWithManager(m ctrl.Manager) error {
	spec := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return ctrl.NewControllerManagedBy(m).
		For(&v1alpha1.CausalStore{}, builder.WithPredicates(spec)).
		Owns(&appsv1.StatefulSet{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(storeOf)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(storeOf)).
		WatchesMetadata(node, handler.EnqueueRequestsFromMapFunc(r.allStores),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Trust.Changes(), handler.EnqueueRequestsFromMapFunc(r.allStores))).
		WithOptions(controller.Options{MaxConcurrentReconciles: maxConcurrentReconciles}).
		Complete(shutdown.Quiet(r))
}

// storeOf returns the store that a pod or claim belongs to.
func storeOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[plan.LabelInstance]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

// allStores returns all stores: a node whose zone changes may concern any of them.
func (r *Reconciler) allStores(ctx context.Context, _ client.Object) []reconcile.Request {
	var stores v1alpha1.CausalStoreList
	if err := r.Client.List(ctx, &stores); err != nil {
		return nil // every store is reconciled again after idleInterval
	}
	var all []reconcile.Request
	for i := range stores.Items {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&stores.Items[i])})
	}
	return all
}
