package causalstore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// foreign creates objects of somebody else that have the names of objects of the store "try".
func (k *cluster) foreign() []client.Object {
	k.t.Helper()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: k.namespace, Name: name} }
	all := []client.Object{
		&corev1.Service{ObjectMeta: meta("try"),
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "payments"},
				Ports: []corev1.ServicePort{{Name: "web", Port: 80}}}},
		&corev1.ServiceAccount{ObjectMeta: meta("try")},
		&corev1.ConfigMap{ObjectMeta: meta("try-here"), Data: map[string]string{"theirs": "yes"}},
		&corev1.ConfigMap{ObjectMeta: meta(plan.RecordName("try", "local")), Data: map[string]string{"epoch": "7"}},
		&corev1.Secret{ObjectMeta: meta(plan.KeysName("try")),
			Data: map[string][]byte{"storage-password": []byte("known to others")}},
	}
	for _, o := range all {
		k.create(o)
	}
	return all
}

func TestForeignObjectsAreNeitherTakenOverNorDeleted(t *testing.T) {
	k := newCluster(t)
	theirs := k.foreign()
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonObjectConflict)
	for _, want := range []string{
		"Service try exists and was not made for this store", "ServiceAccount try exists", "ConfigMap try-here exists",
		"delete or rename it, or give the store another name",
		"kubectl -n " + k.namespace +
			" label secret try-keys app.kubernetes.io/name=causalstore app.kubernetes.io/instance=try " +
			"app.kubernetes.io/managed-by=causalstore-operator",
		"ConfigMap " + plan.RecordName("try", "local") + " exists without the labels of this store",
	} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("the condition does not say %q: %s", want, c.Message)
		}
	}
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonObjectConflict)
	if k.exists("try-here-cc", &appsv1.StatefulSet{}) {
		t.Error("a StatefulSet was created, whose pods would have a foreign ServiceAccount")
	}
	k.delete("try")
	for _, o := range theirs {
		now := o.DeepCopyObject().(client.Object)
		k.get(o.GetName(), now)
		if now.GetResourceVersion() != o.GetResourceVersion() || now.GetDeletionTimestamp() != nil {
			t.Errorf("%T %s was changed or deleted: %s", o, o.GetName(), cmp.Diff(o, now))
		}
	}
}

func TestAStoreIsCreatedWhenForeignObjectsAreGone(t *testing.T) {
	k := newCluster(t)
	theirs := k.foreign()
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonObjectConflict)
	for _, o := range theirs {
		if s, ok := o.(*corev1.Secret); ok { // the keys are handed over instead
			s.Labels = plan.Labels("try")
			if err := k.client.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := k.client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	s := &corev1.Secret{}
	k.get(plan.KeysName("try"), s)
	if string(s.Data["storage-password"]) != "known to others" {
		t.Error("the key of the Secret that was handed over is not used")
	}
}

func TestDeletionPolicyDeleteLeavesWhatOnlyHasTheLabels(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	claim, set := &corev1.PersistentVolumeClaim{}, &appsv1.StatefulSet{}
	k.get("data-try-here-cc-0", claim)
	k.get("try-here-cc", set)
	others := claim.DeepCopy()
	others.ObjectMeta = metav1.ObjectMeta{Namespace: k.namespace, Name: "backup", Labels: claim.Labels}
	theirs := set.DeepCopy()
	theirs.ObjectMeta = metav1.ObjectMeta{Namespace: k.namespace, Name: "theirs", Labels: set.Labels}
	theirs.Spec.Replicas = ptr(int32(0))
	k.create(others)
	k.create(theirs)
	k.delete("try")
	k.await("the claim of the store to be deleted", func() (bool, string) {
		return !k.exists("data-try-here-cc-0", &corev1.PersistentVolumeClaim{}), "it exists"
	})
	if k.get("backup", others); others.DeletionTimestamp != nil {
		t.Error("a claim that no StatefulSet of the store has made was deleted")
	}
	if k.get("theirs", theirs); theirs.DeletionTimestamp != nil {
		t.Error("a StatefulSet that the store does not own was deleted")
	}
}

// A field that a plan leaves out must go, also if the creation of the object has set it.
func TestAllFieldsThatTheOperatorSetsBelongToServerSideApply(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	for _, o := range []client.Object{&corev1.Service{}, &corev1.ServiceAccount{}} {
		k.get("try", o)
		for _, f := range o.GetManagedFields() {
			if f.Manager == plan.ManagedBy && f.Operation != metav1.ManagedFieldsOperationApply {
				t.Errorf("%T: the operator owns fields by %s", o, f.Operation)
			}
		}
	}
}
