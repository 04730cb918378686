package causalstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

func TestDeletionsAndChangesAreRevertedAndAdditionsStay(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	policy := &networkingv1.NetworkPolicy{}
	k.get("try-parts", policy)
	if err := k.client.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{}
	k.get("try", service)
	service.Spec.Selector[plan.LabelComponent], service.Annotations = "nobody", map[string]string{"somebody": "else"}
	if err := k.client.Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	k.await("the policy to be created again", func() (bool, string) {
		return k.exists("try-parts", &networkingv1.NetworkPolicy{}), "it does not exist"
	})
	k.await("the selector to be reverted", func() (bool, string) {
		k.get("try", service)
		return service.Spec.Selector[plan.LabelComponent] == plan.ComponentCoordinator, "it is another"
	})
	if service.Annotations["somebody"] != "else" {
		t.Error("a foreign annotation was removed")
	}
}

func TestAChangedPortIsRevertedAndAnAddedPortStays(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := &corev1.Service{}
	k.get("try", before)
	for what, change := range map[string]func([]corev1.ServicePort) []corev1.ServicePort{
		"number": func(p []corev1.ServicePort) []corev1.ServicePort { p[0].Port = 6380; return p },
		"target": func(p []corev1.ServicePort) []corev1.ServicePort { p[0].TargetPort = intstr.FromInt32(1); return p },
		"name":   func(p []corev1.ServicePort) []corev1.ServicePort { p[0].Name = "other"; return p },
	} {
		k.await("a change of the "+what, func() (bool, string) {
			s := &corev1.Service{}
			k.get("try", s)
			s.Spec.Ports = change(s.Spec.Ports)
			err := k.client.Update(t.Context(), s)
			return err == nil, fmt.Sprint(err)
		})
		k.await("the port to be reverted after a change of the "+what, func() (bool, string) {
			s := &corev1.Service{}
			k.get("try", s)
			d := cmp.Diff(before.Spec.Ports, s.Spec.Ports)
			return d == "", d
		})
	}
	k.await("an added port", func() (bool, string) {
		s := &corev1.Service{}
		k.get("try", s)
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 1234, Protocol: corev1.ProtocolTCP,
			TargetPort: intstr.FromString("redis")})
		s.Spec.Ports[0].Port = 6380
		err := k.client.Update(t.Context(), s)
		return err == nil, fmt.Sprint(err)
	})
	k.await("both ports", func() (bool, string) {
		s := &corev1.Service{}
		k.get("try", s)
		is := map[string]int32{}
		for _, p := range s.Spec.Ports {
			is[p.Name] = p.Port
		}
		d := cmp.Diff(map[string]int32{"redis": 6379, "more": 1234}, is)
		return d == "", d
	})
}

func TestPruningDeletesOnlyOwnedObjects(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	s := k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	left := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "abandoned", Namespace: k.namespace,
		Labels: plan.Labels("try"),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s,
			v1alpha1.GroupVersion.WithKind("CausalStore"))}}}
	others := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "others", Namespace: k.namespace,
		Labels: plan.Labels("try")}}
	k.create(others)
	k.create(left)
	k.await("the abandoned object to be deleted", func() (bool, string) {
		return !k.exists("abandoned", &corev1.ConfigMap{}), "it exists"
	})
	if !k.exists("others", &corev1.ConfigMap{}) {
		t.Error("a ConfigMap that the store does not own was pruned")
	}
}

func TestTwoStoresThatNeedTheSameNameDoNotConflict(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Name = "a"; renameDC(s, "b-c") })
	k.awaitCondition("a", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.uids()
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Name = "a-b"; renameDC(s, "c") })
	c := k.awaitCondition("a-b", v1alpha1.ConditionReady, no, v1alpha1.ReasonObjectConflict)
	if !strings.Contains(c.Message,
		"ConfigMap a-b-c is owned by CausalStore a, so it is left alone; rename one of the two") {
		t.Errorf("the message does not name the object and the remedy: %s", c.Message)
	}
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods of the first store were changed:\n%s", d)
	}
}

func renameDC(s *v1alpha1.CausalStore, name string) {
	s.Spec.DataCenters[0].Name, s.Spec.Rings[0].DataCenters = name, []string{name}
}

func TestVolumesGrowWithoutARestart(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.Storage.Volume.StorageClassName = ptr("fast")
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.uids()
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Storage.Volume.Size = "3Gi" })
	size := func(c corev1.PersistentVolumeClaim) string { return c.Spec.Resources.Requests.Storage().String() }
	k.await("claims and StatefulSet to ask for 3Gi", func() (bool, string) {
		claim, set := &corev1.PersistentVolumeClaim{}, &appsv1.StatefulSet{}
		k.get("data-try-here-shard-1-0", claim)
		if !k.exists("try-here-shard-1", set) {
			return false, "the StatefulSet is being recreated"
		}
		sizes := size(*claim) + " " + size(set.Spec.VolumeClaimTemplates[0])
		return sizes == "3Gi 3Gi", sizes
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	claim := &corev1.PersistentVolumeClaim{}
	k.get("data-try-here-cc-0", claim)
	if size(*claim) != "1Gi" {
		t.Errorf("the claim of a coordinator has grown to %s as well", size(*claim))
	}
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted (-before +after):\n%s", d)
	}
}

// claims counts the claims that are not being deleted. The protection of claims that pods use is not simulated.
func (k *cluster) claims() (n int) {
	k.t.Helper()
	var all corev1.PersistentVolumeClaimList
	if err := k.client.List(k.t.Context(), &all, client.InNamespace(k.namespace)); err != nil {
		k.t.Fatal(err)
	}
	for _, c := range all.Items {
		if c.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (k *cluster) delete(name string) {
	k.t.Helper()
	if err := k.client.Delete(k.t.Context(), k.store(name)); err != nil {
		k.t.Fatal(err)
	}
	k.await(name+" to be deleted", func() (bool, string) {
		return !k.exists(name, &v1alpha1.CausalStore{}), "it exists"
	})
}

func TestADeletedStoreKeepsItsVolumesKeysAndRecord(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	keys := &corev1.Secret{}
	k.get(plan.KeysName("try"), keys)
	k.delete("try")
	if n := k.claims(); n != 3 {
		t.Errorf("%d of 3 claims are left", n)
	}
	kept := &corev1.Secret{}
	k.get(plan.KeysName("try"), kept)
	record := &corev1.ConfigMap{}
	k.get(plan.RecordName("try", "local"), record)
	if d := cmp.Diff(keys.Data, kept.Data); d != "" || len(keys.OwnerReferences) > 0 ||
		len(record.OwnerReferences) > 0 {
		t.Errorf("keys or record would be deleted with the store: %s", d)
	}
}

func TestDeletionPolicyDeleteDeletesTheVolumes(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.delete("try")
	k.await("all claims to be deleted", func() (bool, string) { return k.claims() == 0, "some exist" })
	if k.exists(plan.KeysName("try"), &corev1.Secret{}) ||
		k.exists(plan.RecordName("try", "local"), &corev1.ConfigMap{}) {
		t.Error("keys or record are left")
	}
}

func TestAPausedStoreCanBeDeleted(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DeletionPolicy, s.Spec.Paused = v1alpha1.DeletionDelete, true
	})
	k.awaitCondition("try", v1alpha1.ConditionPaused, yes, v1alpha1.ReasonChangesPending)
	k.delete("try")
}
