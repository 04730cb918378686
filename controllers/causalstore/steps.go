package causalstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/inject"
)

// growClaims asks for larger volumes. Whether a volume can grow depends on its storage class.
func (r *Reconciler) growClaims(ctx context.Context, seen *status.Observed, all []plan.ClaimSize) error {
	var errs []error
	for _, g := range all {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace,
			Name: g.Claim}}
		body := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, g.Size.String())
		if err := r.Client.Patch(ctx, c, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			errs = append(errs, fmt.Errorf("grow claim %s to %s: %w", g.Claim, g.Size.String(), err))
			continue
		}
		r.recordEvent(seen.Store, corev1.EventTypeNormal, "Grow", g.Claim, "Growing", "claim %s grows to %s", g.Claim,
			g.Size.String())
	}
	return errors.Join(errs...)
}

// deleteClaims deletes claims. Kubernetes keeps a claim until no pod uses it.
func (r *Reconciler) deleteClaims(ctx context.Context, seen *status.Observed, claims []string) error {
	var errs []error
	for _, name := range claims {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: name}}
		if err := ignoreGone(r.Client.Delete(ctx, c)); err != nil {
			errs = append(errs, fmt.Errorf("delete claim %s: %w", name, err))
			continue
		}
		r.recordEvent(seen.Store, corev1.EventTypeNormal, "Delete", name, "PartLeft",
			"claim %s is deleted: the part that used it has left", name)
	}
	return errors.Join(errs...)
}

// notifyPods marks pods with the epoch, so that their kubelets bring them the new configuration at once.
func (r *Reconciler) notifyPods(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	var errs []error
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, plan.AnnotationEpoch, p.Record.Epoch)
	for _, name := range p.Notify {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: name}}
		if err := ignoreGone(r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body))); err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s with epoch %d: %w", name, p.Record.Epoch, err))
		}
	}
	return errors.Join(errs...)
}

// notifySidecars does the same for pods of apps that have a sidecar of the store, while shards or coordinators change:
// a sidecar with the old topology is refused keys that have moved.
func (r *Reconciler) notifySidecars(ctx context.Context, seen *status.Observed, p plan.Plan) error {
	if len(p.Notify)+len(p.Resharding.Changes)+len(p.Scaling.ScaleDowns)+len(p.Scaling.Members.Changes) == 0 ||
		p.Record.Epoch == p.Record.RestartEpoch {
		return nil
	}
	namespaces := r.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range namespaces {
		errs = append(errs, r.notifySidecarsIn(ctx, namespace, seen, p))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) notifySidecarsIn(ctx context.Context, namespace string, seen *status.Observed, p plan.Plan) error {
	pods := metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.Uncached.List(ctx, &pods, client.InNamespace(namespace),
		client.MatchingLabels{inject.LabelStore: seen.Store.Name}); err != nil {
		return fmt.Errorf("list pods with sidecars: %w", err)
	}
	epoch := strconv.FormatInt(p.Record.Epoch, 10)
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, plan.AnnotationEpoch, epoch)
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		ours := strings.HasPrefix(pod.Annotations[inject.AnnotationInjected], seen.Store.Name+"/") &&
			pod.Namespace == seen.Store.Namespace ||
			strings.HasPrefix(pod.Annotations[inject.AnnotationInjected], seen.Store.Namespace+"/"+seen.Store.Name+"/")
		// The operator of another region marks the sidecars of its own data centers.
		dc := pod.Annotations[inject.AnnotationInjected][strings.LastIndex(pod.Annotations[inject.AnnotationInjected],
			"/")+1:]
		if !ours || !seen.IsLocal(dc) || pod.Annotations[plan.AnnotationEpoch] == epoch ||
			pod.DeletionTimestamp != nil {
			continue
		}
		if err := ignoreGone(r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, body))); err != nil {
			errs = append(errs, fmt.Errorf("mark pod %s/%s with epoch %s: %w", pod.Namespace, pod.Name, epoch, err))
		}
	}
	return errors.Join(errs...)
}

// recreate deletes StatefulSets without their pods. The pods keep running, and the StatefulSet that is applied next
// adopts them.
func (r *Reconciler) recreate(ctx context.Context, seen *status.Observed, names []string) error {
	var errs []error
	for i := range seen.StatefulSets {
		s := seen.StatefulSets[i].DeepCopy()
		if !slices.Contains(names, s.Name) {
			continue
		}
		if err := ignoreGone(r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID},
			client.PropagationPolicy(metav1.DeletePropagationOrphan))); err != nil {
			errs = append(errs, fmt.Errorf("delete StatefulSet %s without its pods: %w", s.Name, err))
			continue
		}
		r.applied.remove(seen.Store, "StatefulSet", s.Name)
	}
	return errors.Join(errs...)
}

// restart deletes pods, so that their StatefulSet creates them from its present template.
func (r *Reconciler) restart(ctx context.Context, seen *status.Observed, all []plan.Restart) error {
	var errs []error
	for _, p := range all {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Store.Namespace, Name: p.Pod}}
		if err := ignoreGone(r.Client.Delete(ctx, pod, client.Preconditions{UID: &p.UID})); err != nil {
			errs = append(errs, fmt.Errorf("restart pod %s: %w", p.Pod, err))
			continue
		}
		r.deleted.add(seen.Store, p.UID)
		r.recordEvent(seen.Store, corev1.EventTypeNormal, "Restart", p.Pod, "RollingOut",
			"pod %s restarts to apply a change of the spec", p.Pod)
	}
	return errors.Join(errs...)
}
