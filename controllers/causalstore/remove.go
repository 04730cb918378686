package causalstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// objects that they are useless without, have no owner: they are deleted if the policy says so. Claims that were never
// bound hold nothing and go with either policy: a store that is created again, perhaps with another storage class,
// could not use them. The store goes only when a pass has found nothing to delete: a StatefulSet that is just being
// deleted may still create a claim.
func (r *Reconciler) remove(ctx context.Context, store *v1alpha1.CausalStore) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(store, v1alpha1.Finalizer) {
		return ctrl.Result{}, nil
	}
	if found, err := r.deleteVolumes(ctx, store, store.Spec.DeletionPolicy == v1alpha1.DeletionDelete); err != nil ||
		found {
		return ctrl.Result{RequeueAfter: volumesInterval}, err
	}
	controllerutil.RemoveFinalizer(store, v1alpha1.Finalizer)
	return ctrl.Result{}, client.IgnoreNotFound(r.patchFinalizers(ctx, store))
}

// volumesInterval is the time between two passes that delete volumes.
const volumesInterval = time.Second

// deleteVolumes deletes the claims of a store, or only those that were never bound, and reports whether there was one.
// It deletes the StatefulSets first, because they would create new claims. It does not wait for volumes that are being
// deleted: pods hold their claims until they have stopped. It waits for claims that were never bound, which no pod that
// runs can hold: a store that is created again must not find them.
func (r *Reconciler) deleteVolumes(ctx context.Context, store *v1alpha1.CausalStore, all bool) (found bool, err error) {
	var claims corev1.PersistentVolumeClaimList
	if err := r.Uncached.List(ctx, &claims, ofStore(store)...); err != nil {
		return false, fmt.Errorf("list claims: %w", err)
	}
	claims.Items = slices.DeleteFunc(claims.Items, func(c corev1.PersistentVolumeClaim) bool {
		return !plan.IsClaimOfStore(store.Name, &c) || all && c.DeletionTimestamp != nil || !all && plan.IsBound(&c)
	})
	if !all && len(claims.Items) == 0 {
		return false, nil
	}
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
	for i := range claims.Items {
		c := &claims.Items[i]
		if found = true; c.DeletionTimestamp != nil {
			continue
		}
		errs = append(errs,
			ignoreGone(r.Client.Delete(ctx, c, client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion})))
	}
	if all {
		errs = append(errs, r.deleteAllKept(ctx, store)...)
	}
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("delete the volumes of store %s: %w", store.Name, err)
	}
	return found, nil
}

// deleteAllKept deletes the keys and the records of a store, without which volumes are useless.
func (r *Reconciler) deleteAllKept(ctx context.Context, store *v1alpha1.CausalStore) (errs []error) {
	kept := []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: plan.KeysName(store.Name)}},
	}
	for _, dc := range store.Spec.DataCenters {
		kept = append(kept, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace,
			Name: plan.RecordName(store.Name, dc.Region)}})
	}
	for _, o := range kept {
		errs = append(errs, r.deleteKept(ctx, store, o))
	}
	return errs
}
