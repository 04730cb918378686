package causalstore

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// gather reads what exists of a store.
func (r *Reconciler) gather(ctx context.Context, store *v1alpha1.CausalStore) (*status.Observed, error) {
	in := &status.Observed{Observed: plan.Observed{Store: store, Region: r.Region, Image: r.Image, SameZone: r.SameZone,
		ZoneOf: map[string]string{}, Now: r.Now()}, WebhookInstalled: r.Webhook != nil, Webhook: r.Webhook != nil && r.Webhook()}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&sets, &pods, &claims} {
		if err := r.Client.List(ctx, list, ofStore(store)...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	in.StatefulSets, in.Pods, in.Claims = sets.Items, pods.Items, claims.Items
	nodes := metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	if err := r.Client.List(ctx, &nodes, client.HasLabels{store.Spec.ZoneLabel}); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		in.ZoneOf[n.Name] = n.Labels[store.Spec.ZoneLabel]
	}
	var err error
	if in.Record, err = r.readRecord(ctx, store); err != nil {
		return nil, err
	}
	in.Keys, err = r.readKeys(ctx, store)
	return in, err
}

// ofStore selects the objects of a store.
func ofStore(store *v1alpha1.CausalStore) []client.ListOption {
	return []client.ListOption{client.InNamespace(store.Namespace), client.MatchingLabels(plan.Labels(store.Name))}
}

func (r *Reconciler) readRecord(ctx context.Context, store *v1alpha1.CausalStore) (*plan.Record, error) {
	m := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: store.Namespace, Name: plan.RecordName(store.Name)}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	return plan.ReadRecord(m)
}

// readKeys returns the keys of the store, or new ones that are not written yet.
func (r *Reconciler) readKeys(ctx context.Context, store *v1alpha1.CausalStore) (plan.Keys, error) {
	fresh, err := plan.NewKeys(r.Random)
	if err != nil {
		return plan.Keys{}, err
	}
	s := &corev1.Secret{}
	err = r.Uncached.Get(ctx, client.ObjectKey{Namespace: store.Namespace, Name: plan.KeysName(store.Name)}, s)
	if apierrors.IsNotFound(err) {
		return fresh, nil
	}
	if err != nil {
		return plan.Keys{}, fmt.Errorf("read the keys: %w", err)
	}
	return plan.ReadKeys(s, fresh), nil
}
