package causalstore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

const (
	yes = metav1.ConditionTrue
	no  = metav1.ConditionFalse
)

// uids returns the identities of all pods.
func (k *cluster) uids() map[string]types.UID {
	k.t.Helper()
	var pods corev1.PodList
	if err := k.client.List(k.t.Context(), &pods, client.InNamespace(k.namespace)); err != nil {
		k.t.Fatal(err)
	}
	all := map[string]types.UID{}
	for _, p := range pods.Items {
		all[p.Name] = p.UID
	}
	return all
}

func TestStatusCountsThreeReadyRings(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("three-rings.yaml", nil)
	k.awaitCondition("rings", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("rings", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("rings", v1alpha1.ConditionStorageReady, yes, v1alpha1.ReasonShardsServe)
	k.awaitCondition("rings", v1alpha1.ConditionTopologyValid, yes, v1alpha1.ReasonTopologyAccepted)
	k.awaitCondition("rings", v1alpha1.ConditionPeersConnected, metav1.ConditionUnknown, v1alpha1.ReasonPeersUnknown)
	s := k.store("rings").Status
	if d := cmp.Diff(v1alpha1.Summary{Rings: "3/3", DataCenters: "3/3"}, s.Summary); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
	one, two := v1alpha1.Count{Ready: 1, Desired: 1, Updated: 1}, v1alpha1.Count{Ready: 2, Desired: 2, Updated: 2}
	want := v1alpha1.DataCenterStatus{Name: "north", Region: "local", Here: true, Coordinators: one, Caches: one,
		Shards: two,
		Images: []string{"causalstore:v1", "redis:7.4"}}
	if d := cmp.Diff(want, s.DataCenters[0]); d != "" {
		t.Errorf("data center (-want +got):\n%s", d)
	}
	if s.Topology.Epoch != 1 || s.Endpoint != "rings."+k.namespace+".svc:6379" {
		t.Errorf("epoch %d, endpoint %q", s.Topology.Epoch, s.Endpoint)
	}
}

func TestARolloutRestartsOnePodAtATimeShardsBeforeFront(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.await("all pods with the new image", func() (bool, string) {
		s := k.store("try").Status
		return slices.Equal(s.DataCenters[0].Images, []string{"causalstore:v2"}),
			strings.Join(s.DataCenters[0].Images, " ")
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	order, most := k.workloads.history()
	if want := []string{"try-here-shard-0-0", "try-here-shard-1-0", "try-here-cache-0",
		"try-here-cc-0"}; !slices.Equal(order,
		want) {
		t.Errorf("restarted %v, want %v", order, want)
	}
	if most > 1 {
		t.Errorf("%d pods were away at once, want at most one", most)
	}
}

func TestARolloutWaitsUntilTheLogsHaveDrained(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.uids()
	k.parts.setMeasure("try-here-cc-0", plan.Measure{Published: true, Incomplete: 5, StabilityLag: time.Minute,
		RingLag: map[string]time.Duration{"home": time.Minute}})
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.await("a reason to wait", func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionProgressing, yes, v1alpha1.ReasonRollingOut)
		return strings.Contains(c.Message, "try-here-cc-0 has 5 writes that are not in every ring (home)"), c.Message
	})
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted before the log had drained:\n%s", d)
	}
	k.parts.setMeasure("try-here-cc-0", plan.Measure{Published: true})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if images := k.store("try").Status.DataCenters[0].Images; !slices.Equal(images, []string{"causalstore:v2"}) {
		t.Errorf("images are %v", images)
	}
}

func TestABadImageBreaksOnePodAndAGoodImageRepairsIt(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.uids()
	k.workloads.fail("causalstore:bad")
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:bad" })
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	c := k.awaitCondition("try", v1alpha1.ConditionProgressing, yes, v1alpha1.ReasonRollingOut)
	k.await("a reason to wait", func() (bool, string) {
		c = k.awaitCondition("try", v1alpha1.ConditionProgressing, yes, v1alpha1.ReasonRollingOut)
		return strings.Contains(c.Message, "pod try-here-shard-0-0 is not ready"), c.Message
	})
	now := k.uids()
	delete(before, "try-here-shard-0-0")
	delete(now, "try-here-shard-0-0")
	if d := cmp.Diff(before, now); d != "" {
		t.Errorf("more than one pod has the bad image:\n%s", d)
	}
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
}

func TestAnotherVersionOfTheOperatorRestartsNothing(t *testing.T) {
	k := newCluster(t)
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	before := k.uids()
	stop()
	k.operator("local", "causalstore:v2")
	// A change that concerns no pod shows that the new operator works.
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted (-before +after):\n%s", d)
	}
	if images := k.store("try").Status.DataCenters[0].Images; !slices.Equal(images, []string{"causalstore:v1"}) {
		t.Errorf("images are %v, want the first operator's", images)
	}
}

func TestAPausedStoreIsNotChangedButReported(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Paused, s.Spec.Image = true, "causalstore:v2" })
	k.awaitCondition("try", v1alpha1.ConditionPaused, yes, v1alpha1.ReasonChangesPending)
	k.workloads.fail("try-here-cache-0")
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	s := &appsv1.StatefulSet{}
	k.get("try-here-cc", s)
	if image := s.Spec.Template.Spec.Containers[0].Image; image != "causalstore:v1" {
		t.Errorf("a paused store has image %s", image)
	}
	k.workloads.repair("try-here-cache-0")
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Paused = false })
	k.awaitCondition("try", v1alpha1.ConditionPaused, no, v1alpha1.ReasonNotPaused)
	k.await("the new image", func() (bool, string) {
		k.get("try-here-cc", s)
		return s.Spec.Template.Spec.Containers[0].Image == "causalstore:v2", s.Spec.Template.Spec.Containers[0].Image
	})
}

func TestALostShardMakesOnlyItsRingUnavailable(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("three-rings.yaml", nil)
	k.awaitCondition("rings", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.workloads.fail("rings-east-shard-1-0")
	c := k.awaitCondition("rings", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonDataMissing)
	if !strings.Contains(c.Message, "ring-east") || !strings.Contains(c.Message, "1 of 2 shards") {
		t.Errorf("the message does not say what is missing: %s", c.Message)
	}
	for _, r := range k.store("rings").Status.Rings {
		want := v1alpha1.RingComplete
		if r.Name == "ring-east" {
			want = v1alpha1.RingUnavailable
		}
		if r.Availability != want {
			t.Errorf("ring %s is %s, want %s", r.Name, r.Availability, want)
		}
	}
	k.workloads.repair("rings-east-shard-1-0")
	k.awaitCondition("rings", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.workloads.fail("rings-east-cache-0")
	k.awaitCondition("rings", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonPartsMissing)
	k.awaitCondition("rings", v1alpha1.ConditionStorageReady, yes, v1alpha1.ReasonShardsServe)
	if s := k.store("rings").Status; s.Summary.Rings != "2/3" || s.Rings[1].Availability != v1alpha1.RingDegraded {
		t.Errorf("rings %s, and %s is %s", s.Summary.Rings, s.Rings[1].Name, s.Rings[1].Availability)
	}
}

func TestAZoneWithoutNodesIsNamed(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Zones.Backend = []string{"zone-b",
			"zone-x"}
	})
	c := k.awaitCondition("try", v1alpha1.ConditionTopologyValid, no, v1alpha1.ReasonZoneWithoutNodes)
	if !strings.Contains(c.Message, "zone-x (of here)") || strings.Contains(c.Message, "zone-b") {
		t.Errorf("message: %s", c.Message)
	}
}

func TestAnOperatorChangesOnlyItsOwnRegion(t *testing.T) {
	k := newCluster(t)
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	for name := range k.uids() {
		if !strings.HasPrefix(name, "orders-us-east-1-") {
			t.Errorf("pod %s is of another region", name)
		}
	}
	s := k.store("orders").Status
	if s.Rings[0].Availability != v1alpha1.RingComplete || s.Rings[1].Availability != v1alpha1.RingUnknown {
		t.Errorf("rings are %s and %s; want Complete, judged by this region, and Unknown", s.Rings[0].Availability,
			s.Rings[1].Availability)
	}
	if s.Summary.DataCenters != "1/1" || s.DataCenters[1].Here {
		t.Errorf("data centers: %s, %+v", s.Summary.DataCenters, s.DataCenters[1])
	}
}

func TestAnOperatorWithoutADataCenterCreatesNothing(t *testing.T) {
	k := newCluster(t)
	k.operator("mars", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, no, v1alpha1.ReasonNothingHere)
	if pods := k.uids(); len(pods) > 0 || k.exists("try", &corev1.Service{}) {
		t.Errorf("it has created pods %v, or a Service", pods)
	}
}
