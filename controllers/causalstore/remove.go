package causalstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// remove handles the deletion of a store. Kubernetes deletes the objects that the store owns. The volumes, and the
// objects that they are useless without, have no owner: they are deleted if the policy says so. The store goes only when a
// pass has found no volume: a StatefulSet that is just being deleted may still create a claim.
func (r *Reconciler) remove(ctx context.Context, store *v1alpha1.CausalStore) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(store, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if store.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		if found, err := r.deleteVolumes(ctx, store); err != nil || found {
			return ctrl.Result{RequeueAfter: volumesInterval}, err
		}
	}
	controllerutil.RemoveFinalizer(store, v1alpha1.Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(r.patchFinalizers(ctx, store))
}

// volumesInterval is the time between two passes that delete volumes.
const volumesInterval = time.Second

// deleteVolumes deletes the StatefulSets first, because they would create new claims, and reports whether there was one or a claim. It
// does not wait for what is being deleted: pods hold their claims until they have stopped.
func (r *Reconciler) deleteVolumes(ctx context.Context, store *v1alpha1.CausalStore) (found bool, err error) {
	var errs []error
	var sets appsv1.StatefulSetList
	if err := r.Uncached.List(ctx, &sets, ofStore(store)...); err != nil {
		return false, fmt.Errorf("list StatefulSets: %w", err)
	}
	for i := range sets.Items {
		if s := &sets.Items[i]; metav1.IsControlledBy(s, store) && s.DeletionTimestamp == nil {
			found = true
			errs = append(errs, ignoreGone(r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID},
				client.PropagationPolicy(metav1.DeletePropagationBackground))))
		}
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Uncached.List(ctx, &claims, ofStore(store)...); err != nil {
		return false, fmt.Errorf("list claims: %w", err)
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; plan.IsClaimOfStore(store.Name, c) && c.DeletionTimestamp == nil {
			found = true
			errs = append(errs, ignoreGone(r.Client.Delete(ctx, c, client.Preconditions{UID: &c.UID})))
		}
	}
	kept := []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: plan.KeysName(store.Name)}}}
	for _, dc := range store.Spec.DataCenters {
		kept = append(kept, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace,
			Name: plan.RecordName(store.Name, dc.Region)}})
	}
	for _, o := range kept {
		errs = append(errs, r.deleteKept(ctx, store, o))
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("delete the volumes of store %s: %w", store.Name, err)
	}
	return found, nil
}
