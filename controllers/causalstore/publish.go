package causalstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// finalizersPatch sets the finalizers if the store still has the version that was read.
func finalizersPatch(store *v1alpha1.CausalStore) []byte {
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": store.ResourceVersion,
		"finalizers": store.Finalizers}})
	if err != nil {
		panic(err) // unreachable: strings can always be encoded
	}
	return b
}

// publishStatus writes the status, of which some is published already, and records an event for each condition that has
// changed. If operators of other regions write it too, it must be the status that was read.
func (r *Reconciler) publishStatus(ctx context.Context, seen *status.Observed,
	published v1alpha1.CausalStoreStatus) error {
	before := seen.Store.DeepCopy()
	before.Status = published
	own := status.Of(*seen)
	is := status.Combine(published, own, r.Region)
	if equality.Semantic.DeepEqual(before.Status, is) {
		return nil
	}
	after := before.DeepCopy()
	after.Status = is
	patch := client.MergeFrom(before)
	if len(is.Regions) > 0 {
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	if err := r.Client.Status().Patch(ctx, after, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	r.recordProblems(before, seen.Store.Status.Problems, own.Problems)
	for _, c := range is.Conditions {
		was := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		log.FromContext(ctx).Info("condition", "type", c.Type, "status", c.Status, "reason", c.Reason,
			"message", c.Message)
		if was == nil && !needsAttention(&c) {
			continue // the normal first state of a store needs no event
		}
		kind := corev1.EventTypeNormal
		if needsAttention(&c) {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(before, nil, kind, c.Reason, "Observe", "%s is %s: %s", c.Type, c.Status, c.Message)
	}
	return nil
}

// recordProblems records an event for each pod that has stopped to serve for a new reason. Those that resolve
// themselves need none.
func (r *Reconciler) recordProblems(store *v1alpha1.CausalStore, were, are []v1alpha1.PodProblem) {
	for _, p := range are {
		known := slices.ContainsFunc(were, func(q v1alpha1.PodProblem) bool {
			return q.Pod == p.Pod && q.Reason == p.Reason
		})
		if known || !diagnose.IsEventful(diagnose.Reason(p.Reason)) {
			continue
		}
		r.recordEvent(store, corev1.EventTypeWarning, "Observe", p.Pod, p.Reason, "pod %s: %s", p.Pod, p.Message)
	}
}

// needsAttention reports whether people should look at a condition.
func needsAttention(c *metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionDegraded, v1alpha1.ConditionUnderReplicated:
		return c.Status == metav1.ConditionTrue
	case v1alpha1.ConditionTopologyValid, v1alpha1.ConditionPeersConnected, v1alpha1.ConditionPeersTrusted,
		v1alpha1.ConditionCertificatesCurrent,
		v1alpha1.ConditionVolumesKept:
		return c.Status == metav1.ConditionFalse
	case v1alpha1.ConditionEdgesReady:
		return c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonEdgesStarting
	case v1alpha1.ConditionEtcdReady:
		return c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonEtcdStarting
	}
	return false
}
