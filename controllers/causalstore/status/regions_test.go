package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// regionStatus is a status as the operator of a region writes it, of a store with a data center in "us" and one in
// "eu".
func regionStatus(region, summary string, ready metav1.ConditionStatus, ring v1alpha1.Availability,
	epoch int64) v1alpha1.CausalStoreStatus {
	return v1alpha1.CausalStoreStatus{ObservedGeneration: 3, Topology: v1alpha1.TopologyStatus{Epoch: epoch},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "Because",
			Message: "of " + region},
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: "No", Message: "fine"}},
		Summary: v1alpha1.Summary{Rings: "1/1", DataCenters: summary, VisibilityLag: "<100ms"},
		DataCenters: []v1alpha1.DataCenterStatus{{Name: "a", Region: "us", Here: region == "us"},
			{Name: "b", Region: "eu", Here: region == "eu"}},
		Rings: []v1alpha1.RingStatus{{Name: "r", Availability: ring, Message: region}}}
}

func TestWithOneOperatorTheStatusIsWhatItReports(t *testing.T) {
	own := regionStatus("us", "1/1", metav1.ConditionTrue, v1alpha1.RingComplete, 4)
	for _, published := range []v1alpha1.CausalStoreStatus{{}, own} {
		if d := cmp.Diff(own, Combine(published, own, "us")); d != "" {
			t.Errorf("(-want +got)\n%s", d)
		}
	}
	if d := cmp.Diff(own, OfRegion(&own, "us")); d != "" {
		t.Errorf("its own (-want +got):\n%s", d)
	}
}

func TestTheStatusCombinesTheRegionsWhicheverWritesLast(t *testing.T) {
	us, eu := regionStatus("us", "1/1", metav1.ConditionTrue, v1alpha1.RingComplete, 4),
		regionStatus("eu", "0/1", metav1.ConditionFalse, v1alpha1.RingDegraded, 2)
	eu.Summary.VisibilityLag, eu.ObservedGeneration = "1.2s, 1 unknown", 2
	if d := cmp.Diff(v1alpha1.CausalStoreStatus{}, OfRegion(&us, "eu")); d != "" {
		t.Errorf("before eu has written, its status is that of us:\n%s", d)
	}
	us.HeartbeatTime, eu.HeartbeatTime = &metav1.Time{Time: time.Unix(70, 0)}, &metav1.Time{Time: time.Unix(60, 0)}
	us.Problems, eu.Problems = []v1alpha1.PodProblem{{Pod: "z", Reason: "DataLost"}},
		[]v1alpha1.PodProblem{{Pod: "y", Reason: "OOMKilled"}}
	first := Combine(us, eu, "eu")
	second := Combine(Combine(eu, us, "us"), us, "us")
	for _, s := range []v1alpha1.CausalStoreStatus{first, second, Combine(first, us, "us")} {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		if c.Status != metav1.ConditionFalse || c.Message != "eu: of eu" {
			t.Errorf("Ready is %s: %s", c.Status, c.Message)
		}
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse ||
			c.Message != "eu: fine; us: fine" {
			t.Errorf("Degraded is %s: %s", c.Status, c.Message)
		}
		want := v1alpha1.Summary{Rings: "0/1", DataCenters: "1/2", VisibilityLag: "1.2s, 1 unknown"}
		if d := cmp.Diff(want, s.Summary); d != "" || s.ObservedGeneration != 2 || s.Topology.Epoch != 4 {
			t.Errorf("generation %d, epoch %d; summary (-want +got):\n%s", s.ObservedGeneration, s.Topology.Epoch, d)
		}
		if d := cmp.Diff([]v1alpha1.PodProblem{eu.Problems[0], us.Problems[0]}, s.Problems); d != "" ||
			s.HeartbeatTime.Unix() != 60 {
			t.Errorf("heartbeat of %s, want that of the region that is late; problems (-want +got):\n%s",
				s.HeartbeatTime, d)
		}
		if !s.DataCenters[0].Here || !s.DataCenters[1].Here || s.Rings[0].Availability != v1alpha1.RingDegraded {
			t.Errorf("data centers %+v, rings %+v", s.DataCenters, s.Rings)
		}
		for region, own := range map[string]v1alpha1.CausalStoreStatus{"us": us, "eu": eu} {
			if d := cmp.Diff(own, OfRegion(&s, region)); d != "" {
				t.Errorf("what %s has written (-want +got):\n%s", region, d)
			}
		}
	}
}

func TestTheProblemsOfSeveralRegionsAreBounded(t *testing.T) {
	us, eu := regionStatus("us", "1/1", metav1.ConditionTrue, v1alpha1.RingComplete, 4),
		regionStatus("eu", "1/1", metav1.ConditionTrue, v1alpha1.RingComplete, 4)
	for i := range maxProblems {
		us.Problems = append(us.Problems, v1alpha1.PodProblem{Pod: fmt.Sprintf("b%02d", i)})
		eu.Problems = append(eu.Problems, v1alpha1.PodProblem{Pod: fmt.Sprintf("a%02d", i)})
	}
	s := Combine(us, eu, "eu")
	if len(s.Problems) != maxProblems || s.Problems[0].Pod != "a00" || len(s.Regions[0].Problems) != maxProblems ||
		len(s.Regions[1].Problems) != maxProblems {
		t.Errorf("%d problems, the first of %+v", len(s.Problems), s.Problems[0])
	}
}

// TestAStatusOfTwoRegionsIsNotWrittenWithoutNeed: what the operator of a region finds in the entry that it has written
// is what it would write, or the heartbeat would be new at every look.
func TestAStatusOfTwoRegionsIsNotWrittenWithoutNeed(t *testing.T) {
	s := &v1alpha1.CausalStore{}
	s.Name, s.Namespace = "s", "ns"
	for _, name := range []string{"us", "eu"} {
		s.Spec.DataCenters = append(s.Spec.DataCenters,
			v1alpha1.DataCenter{Name: "dc-" + name, Region: name, Shards: 1})
	}
	s.Spec.Rings = []v1alpha1.Ring{{Name: "r", DataCenters: []string{"dc-us", "dc-eu"}}}
	look := func(region string, at int64) v1alpha1.CausalStoreStatus {
		own := s.DeepCopy()
		own.Status = OfRegion(&s.Status, region)
		in := Observed{}
		in.Store, in.Region, in.Now = own, region, time.Unix(at, 0)
		return Combine(s.Status, Of(in), region)
	}
	for at, region := range []string{"us", "eu", "us", "eu"} {
		s.Status = look(region, 1000+int64(at))
	}
	for _, region := range []string{"us", "eu"} {
		if d := cmp.Diff(s.Status, look(region, 1030)); d != "" {
			t.Errorf("after 30 s the operator of %s writes (-was +is):\n%s", region, d)
		}
		if got := look(region, 1100); cmp.Equal(s.Status, got) {
			t.Errorf("after 100 s the operator of %s writes no heartbeat", region)
		}
	}
}

func TestARegionWithoutDataCentersIsNoLongerInTheStatus(t *testing.T) {
	us, eu := regionStatus("us", "1/1", metav1.ConditionTrue, v1alpha1.RingComplete, 4),
		regionStatus("eu", "0/1", metav1.ConditionFalse, v1alpha1.RingDegraded, 2)
	both := Combine(us, eu, "eu")
	us.DataCenters = us.DataCenters[:1]
	if d := cmp.Diff(us, Combine(both, us, "us")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
