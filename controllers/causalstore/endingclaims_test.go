package causalstore_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// TestADeletedClaimShowsInConditionAndEventAndItsPodIsNotTaken: the pod still serves, so nothing else shows that its
// next restart takes the data.
func TestADeletedClaimShowsInConditionAndEventAndItsPodIsNotTaken(t *testing.T) {
	const pod, claim = "try-here-shard-0-0", "data-try-here-shard-0-0"
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionVolumesKept, yes, v1alpha1.ReasonClaimsKept)
	k.await("the claim", func() (bool, string) {
		return k.exists(claim, &corev1.PersistentVolumeClaim{}), "there is none"
	})
	if err := k.client.Delete(t.Context(),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: claim}}); err != nil {
		t.Fatal(err)
	}
	c := k.awaitCondition("try", v1alpha1.ConditionVolumesKept, no, v1alpha1.ReasonClaimTerminating)
	if !strings.Contains(c.Message, claim+", of pod "+pod) {
		t.Errorf("message: %s", c.Message)
	}
	k.awaitEvent(v1alpha1.ReasonClaimTerminating,
		"VolumesKept is False: claims that were deleted while a pod uses them: "+claim)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	budget := &policyv1.PodDisruptionBudget{}
	k.await("a budget that lets no shard go", func() (bool, string) {
		k.get("try-here-shard", budget)
		return budget.Spec.MinAvailable.IntValue() == 2 &&
			*budget.Spec.UnhealthyPodEvictionPolicy == policyv1.IfHealthyBudget, budget.Spec.String()
	})
	before := k.uids()[pod]
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.await("a rollout that waits", func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionProgressing, yes, v1alpha1.ReasonRollingOut)
		return strings.Contains(c.Message, "claim "+claim+" is being deleted"), c.Message
	})
	if now := k.uids()[pod]; now != before {
		t.Errorf("pod %s restarted, and took the volume with it", pod)
	}
}
