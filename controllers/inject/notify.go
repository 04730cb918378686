package inject

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// NotifyOfTrust marks the pods of a namespace that have a sidecar of a data center with the digest of the trust file
// that its ConfigMap there has, so that their kubelets bring it to them at once.
func NotifyOfTrust(ctx context.Context, c client.Client, uncached client.Reader, namespace string, of Sidecar,
	file string) error {
	pods := metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := uncached.List(ctx, &pods, client.InNamespace(namespace),
		client.MatchingLabels{LabelStore: of.Store}); err != nil {
		return fmt.Errorf("list the pods with sidecars of namespace %s: %w", namespace, err)
	}
	digest := plan.TrustDigest(file)
	var errs []error
	for i := range pods.Items {
		p := &pods.Items[i]
		is, ok := SidecarOf(&corev1.Pod{ObjectMeta: p.ObjectMeta})
		if dc := p.Annotations[AnnotationSidecarDataCenter]; dc != "" {
			is.DataCenter = dc
		}
		if !ok || is != of || p.Annotations[plan.AnnotationTrust] == digest || p.DeletionTimestamp != nil {
			continue
		}
		errs = append(errs, Annotate(ctx, c, namespace, p.Name, plan.AnnotationTrust, digest))
	}
	return errors.Join(errs...)
}

// Annotate sets an annotation of a pod, unless it is gone.
func Annotate(ctx context.Context, c client.Client, namespace, pod, key, value string) error {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod}}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := c.Patch(ctx, o, client.RawPatch(types.MergePatchType, body)); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark pod %s/%s: %w", namespace, pod, err)
	}
	return nil
}
