package causalstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/etcd"
	"github.com/causalstore/causalstore/controllers/trust"
)

func newClusterWithEtcd(t *testing.T) *cluster {
	t.Helper()
	k := newCluster(t)
	k.etcdImage = "etcd:v3.6.8"
	return k
}

// threeMembers gives each coordinator three members.
func threeMembers(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Coordinators.Members = 3 }

// TestAnEtcdIsMadeRepairedAndRestartedForAnotherAuthority: the simulated pods are not etcds; package etcd tests those.
func TestAnEtcdIsMadeRepairedAndRestartedForAnotherAuthority(t *testing.T) {
	k := newClusterWithEtcd(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", threeMembers)
	k.awaitCondition("try", v1alpha1.ConditionEtcdReady, yes, v1alpha1.ReasonEtcdServes)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.await("the etcd to be founded", func() (bool, string) {
		var m corev1.ConfigMap
		k.get("try-here-etcd", &m)
		c, err := etcd.ParseCluster([]byte(m.Data[etcd.ClusterFile]))
		return err == nil && c.Founded, m.Data[etcd.ClusterFile]
	})

	// Without a quorum nothing but the condition says so: the store serves.
	k.workloads.fail("try-here-etcd-1")
	c := k.awaitCondition("try", v1alpha1.ConditionEtcdReady, no, v1alpha1.ReasonEtcdMissing)
	if !strings.Contains(c.Message, "here has 2 of 3") {
		t.Errorf("message: %s", c.Message)
	}
	k.workloads.fail("try-here-etcd-2")
	k.awaitCondition("try", v1alpha1.ConditionEtcdReady, no, v1alpha1.ReasonEtcdWithoutQuorum)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.workloads.repair("try-here-etcd-1")
	k.workloads.repair("try-here-etcd-2")
	k.awaitCondition("try", v1alpha1.ConditionEtcdReady, yes, v1alpha1.ReasonEtcdServes)

	// With another authority of the region, that of the etcd is replaced too: all members restart twice, one at a time.
	k.workloads.forgetHistory()
	var before corev1.Secret
	k.get("try-here-etcd-authority", &before)
	r := &rotation{cluster: k, name: "authority-local"}
	next := r.begin()
	r.ask(trust.RotateForce, trust.FieldNext)
	r.await(trust.FieldIssuing, next)
	bundle := func() []byte {
		var s corev1.Secret
		k.get("try-here-etcd-tls", &s)
		return s.Data[etcd.BundleFile]
	}
	awaitRoots := func(n int) {
		t.Helper()
		k.await("roots of the etcd", func() (bool, string) {
			return strings.Count(string(bundle()), "BEGIN") == n, string(bundle())
		})
		k.await("restarts of the etcd", func() (bool, string) { return k.etcdRuns(bundle()) })
	}
	awaitRoots(2)
	k.clock.ahead.Add(int64(15 * time.Minute)) // it issues
	k.await("the new authority to issue", func() (bool, string) {
		var s corev1.Secret
		k.get("try-here-etcd-authority", &s)
		return string(s.Data["issuing.crt"]) != string(before.Data["issuing.crt"]), "the old one issues"
	})
	k.clock.ahead.Add(int64(2 * time.Hour)) // the one before retires
	awaitRoots(1)
	if restarts, most := k.workloads.history(); most > 1 || !slices.Contains(restarts, "try-here-etcd-0") {
		t.Errorf("%d pods were away at once; restarts: %v", most, restarts)
	}
}

// etcdRuns reports whether all members have been started with a bundle, and serve.
func (k *cluster) etcdRuns(bundle []byte) (bool, string) {
	k.t.Helper()
	var s appsv1.StatefulSet
	if !k.exists("try-here-etcd", &s) {
		return false, "there is no StatefulSet"
	}
	var pods corev1.PodList
	if err := k.client.List(k.t.Context(), &pods, client.InNamespace(k.namespace),
		client.MatchingLabels{plan.LabelComponent: plan.ComponentEtcd}); err != nil {
		k.t.Fatal(err)
	}
	digest := s.Spec.Template.Annotations["causalstore.io/etcd-authority"]
	n := 0
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Annotations["causalstore.io/etcd-authority"] == digest && isReady(p) &&
			p.DeletionTimestamp == nil {
			n++
		}
	}
	return n == 3 && digest == etcd.BundleDigest(bundle), digest
}

// TestAnEtcdGoesWithItsStore: by deletionPolicy Delete its volumes too.
func TestAnEtcdGoesWithItsStore(t *testing.T) {
	k := newClusterWithEtcd(t)
	k.operator("local", "causalstore:v1")
	s := k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		threeMembers(s)
		s.Spec.DeletionPolicy = v1alpha1.DeletionDelete
	})
	k.awaitCondition("try", v1alpha1.ConditionEtcdReady, yes, v1alpha1.ReasonEtcdServes)
	var set appsv1.StatefulSet
	k.get("try-here-etcd", &set)
	if !metav1.IsControlledBy(&set, s) {
		t.Error("the StatefulSet is not the store's")
	}
	if err := k.client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	k.await("the volumes to go", func() (bool, string) {
		return !k.exists("data-try-here-etcd-0", &corev1.PersistentVolumeClaim{}), "the claim is there"
	})
}
