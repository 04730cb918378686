package causalstore_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// TestAStoreWithoutAVolumeIsCreatedAgainWithAnySpec: its record is kept, and what it says binds only as long as there
// is a volume.
func TestAStoreWithoutAVolumeIsCreatedAgainWithAnySpec(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.Storage.Volume.StorageClassName, s.Spec.DataCenters[0].Coordinators.Volume.StorageClassName = ptr(
			noSuchClass), ptr(noSuchClass)
	})
	k.await("claims without a volume", func() (bool, string) { n := k.claims(); return n == 3, "" })
	k.await("a record", func() (bool, string) {
		return k.exists(plan.RecordName("try", "local"), &corev1.ConfigMap{}), "there is none"
	})
	k.deleteWithOwned("try")
	if n := k.claims(); n > 0 {
		t.Errorf("%d claims that were never bound are left", n)
	}
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.Storage.Volume.StorageClassName, s.Spec.DataCenters[0].Coordinators.Volume.StorageClassName = ptr(
			"fast"), ptr("fast")
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)

	// With volumes another topology is refused, and the message says what gives them up.
	k.deleteWithOwned("try")
	another := func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Name, s.Spec.Rings[0].DataCenters = "there", []string{"there"}
		s.Spec.Rings[0].Name = "another"
	}
	k.sample("one-data-center.yaml", another)
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonTopologyChanged)
	remedy := "delete persistentvolumeclaims -l app.kubernetes.io/instance=try"
	if !strings.Contains(c.Message, remedy) {
		t.Fatalf("the message does not say what helps: %s", c.Message)
	}
	// It does.
	k.deleteWithOwned("try")
	if err := k.client.DeleteAllOf(t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace(k.namespace),
		client.MatchingLabels{plan.LabelInstance: "try"}); err != nil {
		t.Fatal(err)
	}
	k.await("the claims to go", func() (bool, string) { return k.claims() == 0, "they are there" })
	k.sample("one-data-center.yaml", another)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionTopologyValid, yes, v1alpha1.ReasonTopologyAccepted)
}

// deleteWithOwned deletes a store, and what it owns, as the garbage collector does, which this API server lacks.
func (k *cluster) deleteWithOwned(name string) {
	k.t.Helper()
	owner := k.store(name).UID
	k.delete(name)
	for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{}, &corev1.ConfigMapList{}, &corev1.SecretList{},
		&networkingv1.NetworkPolicyList{}, &policyv1.PodDisruptionBudgetList{}} {
		if err := k.client.List(k.t.Context(), list, client.InNamespace(k.namespace)); err != nil {
			k.t.Fatal(err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			if c := metav1.GetControllerOf(o.(client.Object)); c == nil || c.UID != owner {
				return nil
			}
			return client.IgnoreNotFound(k.client.Delete(k.t.Context(), o.(client.Object)))
		})
		if err != nil {
			k.t.Fatal(err)
		}
	}
	k.await("the pods to go", func() (bool, string) { return len(k.uids()) == 0, "they are there" })
}
