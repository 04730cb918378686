package causalstore

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// finalizers is a patch that sets them, if the store is still the version that was read.
func finalizers(store *v1alpha1.CausalStore) []byte {
	b, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": store.ResourceVersion,
		"finalizers": store.Finalizers}})
	if err != nil {
		panic(err) // words always have an encoding
	}
	return b
}

// report writes the status, and tells people of each condition that has changed.
func (r *Reconciler) report(ctx context.Context, seen *status.Observed) error {
	before := seen.Store
	is := status.Of(*seen)
	if equality.Semantic.DeepEqual(before.Status, is) {
		return nil
	}
	after := before.DeepCopy()
	after.Status = is
	if err := r.Client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("write status: %w", err))
	}
	for _, c := range is.Conditions {
		was := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		log.FromContext(ctx).Info("condition", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		if was == nil && !bad(c.Type, string(c.Status)) {
			continue // how a store begins is no news
		}
		kind := corev1.EventTypeNormal
		if bad(c.Type, string(c.Status)) {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(before, nil, kind, c.Reason, "Observe", "%s is %s: %s", c.Type, c.Status, c.Message)
	}
	return nil
}

// bad says whether people should look at a condition.
func bad(condition, is string) bool {
	switch condition {
	case v1alpha1.ConditionDegraded:
		return is == "True"
	case v1alpha1.ConditionTopologyValid, v1alpha1.ConditionPeersConnected:
		return is == "False"
	}
	return false
}
