package causalstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/inject"
)

// grow asks for more bytes. Whether the volume can grow is up to its storage class.
func (r *Reconciler) grow(ctx context.Context, seen *status.Observed, all []plan.Growth) error {
	var errs []error
	for _, g := range all {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: g.Claim}}
		body := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, g.Size.String())
		if err := r.Client.Patch(ctx, c, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			errs = append(errs, fmt.Errorf("grow claim %s to %s: %w", g.Claim, g.Size.String(), err))
			continue
		}
		r.event(seen.Store, "GrowVolume", "Growing", "claim %s is to have %s", g.Claim, g.Size.String())
	}
	return errors.Join(errs...)
}

// drop deletes claims. Those that pods still use go when these have ended.
func (r *Reconciler) drop(ctx context.Context, seen *status.Observed, claims []string) error {
	var errs []error
	for _, name := range claims {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: name}}
		if err := gone(r.Client.Delete(ctx, c)); err != nil {
			errs = append(errs, fmt.Errorf("delete claim %s: %w", name, err))
			continue
		}
		r.event(seen.Store, "DeleteVolume", "PartLeft", "claim %s is deleted: who had it has left", name)
	}
	return errors.Join(errs...)
}

// tell marks pods with the epoch, so that their kubelets bring them the configuration that says it.
func (r *Reconciler) tell(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	var errs []error
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, plan.AnnotationEpoch, p.Record.Epoch)
	for _, name := range p.Tell {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: name}}
		if err := gone(r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body))); err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s with epoch %d: %w", name, p.Record.Epoch, err))
		}
	}
	return errors.Join(errs...)
}

// tellSidecars does the same for apps' pods with sidecars of the store, while numbers change: those that have not heard are
// refused what has moved.
func (r *Reconciler) tellSidecars(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	if len(p.Tell)+len(p.Reshape.Changes)+len(p.Regroup.Changes) == 0 || p.Record.Epoch == p.Record.Since {
		return nil
	}
	pods := metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.Uncached.List(ctx, &pods, client.MatchingLabels{inject.LabelStore: seen.Store.Name}); err != nil {
		return fmt.Errorf("list pods with sidecars: %w", err)
	}
	epoch := strconv.FormatInt(p.Record.Epoch, 10)
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, plan.AnnotationEpoch, epoch)
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		of := strings.HasPrefix(pod.Annotations[inject.AnnotationInjected], seen.Store.Name+"/") && pod.Namespace == seen.Store.Namespace ||
			strings.HasPrefix(pod.Annotations[inject.AnnotationInjected], seen.Store.Namespace+"/"+seen.Store.Name+"/")
		if !of || pod.Annotations[plan.AnnotationEpoch] == epoch || pod.DeletionTimestamp != nil {
			continue
		}
		if err := gone(r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body))); err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s of namespace %s with epoch %s: %w", pod.Name, pod.Namespace, epoch, err))
		}
	}
	return errors.Join(errs...)
}

// recreate deletes StatefulSets around their pods, which go on, and are adopted by the one that is applied then.
func (r *Reconciler) recreate(ctx context.Context, seen *status.Observed, names []string) error {
	var errs []error
	for _, name := range names {
		s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: name}}
		if err := gone(r.Client.Delete(ctx, s, client.PropagationPolicy(metav1.DeletePropagationOrphan))); err != nil {
			errs = append(errs, fmt.Errorf("delete StatefulSet %s around its pods: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// restart deletes pods, so that they come back as their StatefulSet has them now.
func (r *Reconciler) restart(ctx context.Context, seen *status.Observed, all []plan.Restart) error {
	var errs []error
	for _, p := range all {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: p.Pod}}
		if err := gone(r.Client.Delete(ctx, pod, client.Preconditions{UID: &p.UID})); err != nil {
			errs = append(errs, fmt.Errorf("restart pod %s: %w", p.Pod, err))
			continue
		}
		r.event(seen.Store, "RestartPod", "RollingOut", "pod %s restarts, to become what the spec asks for", p.Pod)
	}
	return errors.Join(errs...)
}

// remove lets a store go. What it owns is collected by Kubernetes. The volumes, and what they are useless without, are owned by
// nobody: they go if the policy says so. Nothing is waited for.
func (r *Reconciler) remove(ctx context.Context, store *v1alpha1.CausalStore) error {
	if !controllerutil.ContainsFinalizer(store, v1alpha1.Finalizer) {
		return nil
	}
	if store.Spec.DeletionPolicy == v1alpha1.DeletionDelete {
		if err := r.deleteVolumes(ctx, store); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(store, v1alpha1.Finalizer)
	return client.IgnoreNotFound(r.patchFinalizers(ctx, store))
}

// deleteVolumes deletes the StatefulSets first: they would make new claims for pods that end.
func (r *Reconciler) deleteVolumes(ctx context.Context, store *v1alpha1.CausalStore) error {
	var errs []error
	var sets appsv1.StatefulSetList
	if err := r.Client.List(ctx, &sets, ofStore(store)...); err != nil {
		return fmt.Errorf("list StatefulSets: %w", err)
	}
	for i := range sets.Items {
		errs = append(errs, gone(r.Client.Delete(ctx, &sets.Items[i],
			client.PropagationPolicy(metav1.DeletePropagationBackground))))
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Client.List(ctx, &claims, ofStore(store)...); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	for i := range claims.Items {
		errs = append(errs, gone(r.Client.Delete(ctx, &claims.Items[i])))
	}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: plan.KeysName(store.Name)}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: store.Namespace, Name: plan.RecordName(store.Name)}},
	} {
		errs = append(errs, gone(r.Client.Delete(ctx, o)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete what the volumes hold: %w", err)
	}
	return nil
}
