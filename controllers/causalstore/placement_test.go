package causalstore_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// podsOf returns the pods of a store.
func (k *cluster) podsOf(store string) []corev1.Pod {
	k.t.Helper()
	var pods corev1.PodList
	if err := k.client.List(k.t.Context(), &pods, client.InNamespace(k.namespace),
		client.MatchingLabels(plan.Labels(store))); err != nil {
		k.t.Fatal(err)
	}
	return pods.Items
}

func TestAStoreOfOneZoneNeedsNoZonesAndSaysWhatItGivesUp(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("single-zone.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, yes, v1alpha1.ReasonSingleZone)
	if !strings.Contains(c.Message, "nothing protects from the loss of the zone") {
		t.Errorf("message: %s", c.Message)
	}
	pods := k.podsOf("try")
	if len(pods) != 6 {
		t.Errorf("%d pods, want 6", len(pods))
	}
	for _, p := range pods {
		if a := p.Spec.Affinity; a != nil {
			t.Errorf("pod %s has an affinity: %v", p.Name, a)
		}
		for _, s := range p.Spec.TopologySpreadConstraints {
			if s.WhenUnsatisfiable != corev1.ScheduleAnyway || s.TopologyKey != corev1.LabelHostname {
				t.Errorf("pod %s requires spread over %s", p.Name, s.TopologyKey)
			}
		}
	}
}

func TestTheSwitchAloneMakesAStoreOfMissingZonesRun(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Zones = v1alpha1.Zones{Frontend: []string{"zone-x"}, Backend: []string{"zone-y"}}
	})
	k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonZoneWithoutNodes)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Placement = v1alpha1.PlacementSingleZone })
	k.awaitCondition("try", v1alpha1.ConditionTopologyValid, yes, v1alpha1.ReasonSingleZone)
	k.await("pods that may run anywhere", func() (bool, string) {
		for _, p := range k.podsOf("try") {
			if p.Spec.Affinity != nil {
				return false, p.Name + " must be in a zone"
			}
		}
		return true, ""
	})
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}

func TestLabelsAndAnnotationsReachARunningStorePodByPod(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.podsOf("try")
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.Pods.Labels = v1alpha1.Labels{"team": "shop", "tier": "store"}
		s.Spec.DataCenters[0].Pods = v1alpha1.PodSettings{Labels: v1alpha1.Labels{"tier": "here"},
			Annotations: v1alpha1.Annotations{"example.com/note": "yes"}}
		s.Spec.ServiceAccount.Annotations = v1alpha1.Annotations{"example.com/role": "reader"}
	})
	k.await("labels and annotations on all pods", func() (bool, string) {
		for _, p := range k.podsOf("try") {
			if p.Labels["team"] != "shop" || p.Labels["tier"] != "here" || p.Annotations["example.com/note"] != "yes" {
				return false, p.Name + " lacks them"
			}
		}
		return true, ""
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if order, most := k.workloads.history(); len(order) != len(before) || most > 1 {
		t.Errorf("%v restarted, %d at once; want %d, one at a time", order, most, len(before))
	}
	account := &corev1.ServiceAccount{}
	k.get("try", account)
	if account.Annotations["example.com/role"] != "reader" {
		t.Errorf("annotations of the ServiceAccount: %v", account.Annotations)
	}
	// What the operator finds pods by is as before.
	for _, p := range before {
		now := &corev1.Pod{}
		k.get(p.Name, now)
		ours := func(labels map[string]string) map[string]string {
			labels = maps.Clone(labels)
			maps.DeleteFunc(labels, func(key, _ string) bool {
				return slices.Contains([]string{"team", "tier", appsv1.StatefulSetRevisionLabel}, key)
			})
			return labels
		}
		if d := cmp.Diff(ours(p.Labels), ours(now.Labels)); d != "" {
			t.Errorf("labels of %s (-before +after):\n%s", p.Name, d)
		}
	}
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.Pods, s.Spec.DataCenters[0].Pods, s.Spec.ServiceAccount = v1alpha1.PodSettings{}, v1alpha1.PodSettings{},
			v1alpha1.ServiceAccount{}
	})
	k.await("labels and annotations to be removed", func() (bool, string) {
		k.get("try", account)
		for _, p := range k.podsOf("try") {
			if p.Labels["team"] != "" || p.Annotations["example.com/note"] != "" {
				return false, p.Name + " has them"
			}
		}
		return account.Annotations["example.com/role"] == "", "the ServiceAccount has its annotation"
	})
}

// Kubernetes creates no pod with a class that does not exist, so the first pod that restarts for it would not come
// back.
func TestAPriorityClassThatDoesNotExistRestartsNothing(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before, class := k.uids(), "important-"+k.namespace
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Pods.PriorityClassName = class })
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonSpecRefused)
	if !strings.Contains(c.Message, "PriorityClass "+class+" does not exist in this cluster; create it") {
		t.Errorf("message: %s", c.Message)
	}
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted:\n%s", d)
	}
	k.create(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Value: 1000})
	k.await("the priority of all pods", func() (bool, string) {
		for _, p := range k.podsOf("try") {
			if p.Spec.PriorityClassName != class || p.Spec.Priority == nil || *p.Spec.Priority != 1000 {
				return false, p.Name + " has another"
			}
		}
		return true, ""
	})
}
