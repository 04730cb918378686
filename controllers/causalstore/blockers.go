package causalstore

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// +kubebuilder:rbac:groups="",resources=events,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get

// refusalAge is how old the last attempt of a StatefulSet to make a pod may be. Kubernetes waits up to 17 minutes
// between attempts.
const refusalAge = 20 * time.Minute

// findBlockers fills in what Kubernetes says only elsewhere than in pods: why pods cannot be made, and why claims get
// no volume. What the operator may not read remains unknown.
func (r *Reconciler) findBlockers(ctx context.Context, in *status.Observed) error {
	in.Uncreated, in.Unbound = map[string]string{}, map[string]string{}
	for i := range in.StatefulSets {
		s := &in.StatefulSets[i]
		if s.Spec.Replicas == nil || s.Status.Replicas >= *s.Spec.Replicas {
			continue
		}
		var all corev1.EventList
		err := r.Uncached.List(ctx, &all, client.InNamespace(s.Namespace),
			client.MatchingFields{"involvedObject.uid": string(s.UID), "reason": "FailedCreate"})
		if apierrors.IsForbidden(err) {
			break
		}
		if err != nil {
			return fmt.Errorf("list the events of StatefulSet %s: %w", s.Name, err)
		}
		last := in.Now.Add(-refusalAge)
		for _, e := range all.Items {
			if at := e.LastTimestamp.Time; at.After(last) {
				last, in.Uncreated[s.Name] = at, e.Message
			}
		}
	}
	for _, c := range in.Claims {
		if c.Spec.VolumeName != "" || c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == "" {
			continue
		}
		if c.Spec.StorageClassName == nil {
			in.Unbound[c.Name] = "it names no StorageClass, and the cluster had no default one when it was made"
			continue
		}
		class := &storagev1.StorageClass{}
		err := r.Uncached.Get(ctx, client.ObjectKey{Name: *c.Spec.StorageClassName}, class)
		switch {
		case apierrors.IsForbidden(err):
			return nil
		case apierrors.IsNotFound(err):
			in.Unbound[c.Name] = fmt.Sprintf("StorageClass %s does not exist", *c.Spec.StorageClassName)
		case err != nil:
			return fmt.Errorf("read StorageClass %s: %w", *c.Spec.StorageClassName, err)
		}
	}
	return nil
}
