package causalstore

import (
	"context"
	"fmt"
	"slices"

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
		ZoneOf: map[string]string{}, Now: r.Now()}, Webhook: r.Webhook != nil && r.Webhook()}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&sets, &pods, &claims} {
		if err := r.Client.List(ctx, list, ofStore(store)...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	in.StatefulSets = slices.DeleteFunc(sets.Items, func(s appsv1.StatefulSet) bool { return !metav1.IsControlledBy(&s, store) })
	in.Pods, in.Claims = pods.Items, claims.Items
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
	return in, r.readKeys(ctx, in)
}

// ofStore selects the objects of a store.
func ofStore(store *v1alpha1.CausalStore) []client.ListOption {
	return []client.ListOption{client.InNamespace(store.Namespace), client.MatchingLabels(plan.Labels(store.Name))}
}

func (r *Reconciler) readRecord(ctx context.Context, store *v1alpha1.CausalStore) (*plan.Record, error) {
	m := &corev1.ConfigMap{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: store.Namespace, Name: plan.RecordName(store.Name)}, m)
	if err != nil {
		return nil, wrapUnlessGone("read the record", err)
	}
	if !plan.HasLabels(store, m) {
		return nil, nil
	}
	return plan.ReadRecord(m)
}

// readKeys reads the keys of the store, or makes new ones that are not written yet. Keys in a Secret that is not the
// store's are not used: whoever wrote it would know them.
func (r *Reconciler) readKeys(ctx context.Context, in *status.Observed) error {
	fresh, err := plan.NewKeys(r.Random)
	if err != nil {
		return err
	}
	in.Keys = fresh
	s := &corev1.Secret{}
	err = r.Uncached.Get(ctx, client.ObjectKey{Namespace: in.Store.Namespace, Name: plan.KeysName(in.Store.Name)}, s)
	if err != nil {
		return wrapUnlessGone("read the keys", err)
	}
	if plan.HasLabels(in.Store, s) {
		in.Keys = plan.ReadKeys(s, fresh)
	}
	return nil
}

// wrapUnlessGone says what has failed, unless an object does not exist.
func wrapUnlessGone(what string, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
