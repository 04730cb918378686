package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// regionStatus is a status as the operator of a region writes it, of a store with a data center in "us" and one in "eu".
func regionStatus(region, summary string, ready metav1.ConditionStatus, ring v1alpha1.Availability, epoch int64) v1alpha1.CausalStoreStatus {
	return v1alpha1.CausalStoreStatus{ObservedGeneration: 3, Topology: v1alpha1.TopologyStatus{Epoch: epoch},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "Because", Message: "of " + region},
			{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: "No", Message: "fine"}},
		Summary:     v1alpha1.Summary{Rings: "1/1", DataCenters: summary, VisibilityLag: "<100ms"},
		DataCenters: []v1alpha1.DataCenterStatus{{Name: "a", Region: "us", Here: region == "us"}, {Name: "b", Region: "eu", Here: region == "eu"}},
		Rings:       []v1alpha1.RingStatus{{Name: "r", Availability: ring, Message: region}}}
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
	us, eu := regionStatus("us", "1/1", metav1.ConditionTrue, v1alpha1.RingComplete, 4), regionStatus("eu", "0/1", metav1.ConditionFalse, v1alpha1.RingDegraded, 2)
	eu.Summary.VisibilityLag, eu.ObservedGeneration = "1.2s, 1 unknown", 2
	if d := cmp.Diff(v1alpha1.CausalStoreStatus{}, OfRegion(&us, "eu")); d != "" {
		t.Errorf("before eu has written, its status is that of us:\n%s", d)
	}
	first := Combine(us, eu, "eu")
	second := Combine(Combine(eu, us, "us"), us, "us")
	for _, s := range []v1alpha1.CausalStoreStatus{first, second, Combine(first, us, "us")} {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		if c.Status != metav1.ConditionFalse || c.Message != "eu: of eu" {
			t.Errorf("Ready is %s: %s", c.Status, c.Message)
		}
		if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse || c.Message != "eu: fine; us: fine" {
			t.Errorf("Degraded is %s: %s", c.Status, c.Message)
		}
		want := v1alpha1.Summary{Rings: "0/1", DataCenters: "1/2", VisibilityLag: "1.2s, 1 unknown"}
		if d := cmp.Diff(want, s.Summary); d != "" || s.ObservedGeneration != 2 || s.Topology.Epoch != 4 {
			t.Errorf("generation %d, epoch %d; summary (-want +got):\n%s", s.ObservedGeneration, s.Topology.Epoch, d)
		}
		if !s.DataCenters[0].Here || !s.DataCenters[1].Here || s.Rings[0].Availability != v1alpha1.RingDegraded {
			t.Errorf("data centers %+v, rings %+v", s.DataCenters, s.Rings)
		}
		for region, own := range map[string]v1alpha1.CausalStoreStatus{"us": us, "eu": eu} {
			own.DataCenters = s.DataCenters
			if d := cmp.Diff(own, OfRegion(&s, region)); d != "" {
				t.Errorf("what %s has written (-want +got):\n%s", region, d)
			}
		}
	}
}
