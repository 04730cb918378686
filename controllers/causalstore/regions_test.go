package causalstore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// objectsOf returns the identities of the objects of a store that an operator prunes, and the region of each.
func (k *cluster) objectsOf(store string) (uids map[string]types.UID, regions map[string]string) {
	k.t.Helper()
	uids, regions = map[string]types.UID{}, map[string]string{}
	for _, l := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}} {
		if err := k.client.List(k.t.Context(), l, client.InNamespace(k.namespace),
			client.MatchingLabels(plan.Labels(store))); err != nil {
			k.t.Fatal(err)
		}
		add := func(kind string, o client.Object) {
			uids[kind+" "+o.GetName()], regions[kind+" "+o.GetName()] = o.GetUID(), o.GetLabels()[plan.LabelRegion]
		}
		switch l := l.(type) {
		case *appsv1.StatefulSetList:
			for _, o := range l.Items {
				add("StatefulSet", &o)
			}
		case *corev1.ServiceList:
			for _, o := range l.Items {
				add("Service", &o)
			}
		case *corev1.ConfigMapList:
			for _, o := range l.Items {
				add("ConfigMap", &o)
			}
		case *corev1.ServiceAccountList:
			for _, o := range l.Items {
				add("ServiceAccount", &o)
			}
		}
	}
	return uids, regions
}

func TestOperatorsOfTwoRegionsRunAStoreInOneCluster(t *testing.T) {
	k := newCluster(t)
	k.operator("us-east-1", "causalstore:v1")
	k.operator("eu-west-1", "causalstore:v2")
	k.sample("three-regions.yaml", nil)
	k.await("both regions to report", func() (bool, string) {
		s := k.store("orders").Status
		return len(s.Regions) == 2 && s.ObservedGeneration == 1, cmp.Diff(nil, s.Regions)
	})
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("orders", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before, regions := k.objectsOf("orders")
	for name, want := range map[string]string{"StatefulSet orders-us-east-1-cc": "us-east-1",
		"StatefulSet orders-eu-west-1-cc":   "eu-west-1",
		"ConfigMap orders-record.us-east-1": "us-east-1", "ConfigMap orders-record.eu-west-1": "eu-west-1"} {
		if regions[name] != want {
			t.Errorf("%s belongs to region %q, want %s", name, regions[name], want)
		}
	}
	pods := k.uids()

	// Both carry out a change, and neither touches what is the other's.
	k.update("orders", func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	})
	k.await("both regions to have seen the change", func() (bool, string) {
		s := k.store("orders")
		return s.Status.ObservedGeneration == s.Generation, cmp.Diff(s.Generation, s.Status.ObservedGeneration)
	})
	after, _ := k.objectsOf("orders")
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("objects were deleted or created again (-before +after):\n%s", d)
	}
	if d := cmp.Diff(pods, k.uids()); d != "" {
		t.Errorf("pods restarted (-before +after):\n%s", d)
	}

	s := k.store("orders").Status
	if s.Summary.DataCenters != "2/2" || !s.DataCenters[0].Here || len(s.Conditions) == 0 {
		t.Errorf("the status is not that of both: %+v", s)
	}
	if c := s.Conditions[slices.IndexFunc(s.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionReady
	})]; !strings.Contains(c.Message, "us-east-1: ") || !strings.Contains(c.Message, "eu-west-1: ") {
		t.Errorf("the condition does not speak of both: %s", c.Message)
	}
	config := &corev1.ConfigMap{}
	k.await("the parts of one region to be told the addresses of the other in this cluster", func() (bool, string) {
		k.get("orders-us-east-1", config)
		text := config.Data["causalstore.yaml"]
		return strings.Contains(text, "orders-eu-west-1-cc-0.orders-eu-west-1-parts."+k.namespace+".svc:7400"), text
	})
	k.workloads.fail("orders-eu-west-1-cache-0")
	c := k.awaitCondition("orders", v1alpha1.ConditionReady, no, v1alpha1.ReasonPartsNotReady)
	if !strings.HasPrefix(c.Message, "eu-west-1: ") || strings.Contains(c.Message, "us-east-1: ") {
		t.Errorf("the condition does not say which region it is about: %s", c.Message)
	}
	k.workloads.repair("orders-eu-west-1-cache-0")
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
}

func TestARegionThatIsAwayIsAConditionAndBlocksNothing(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	report := func(eu, ap contract.Peer) {
		eu.DataCenter, ap.DataCenter = "eu-west-1", "ap-southeast-1"
		k.parts.mu.Lock()
		defer k.parts.mu.Unlock()
		k.parts.reports["orders-us-east-1-cc-0"] = contract.Readiness{Ready: true, Peers: []contract.Peer{eu, ap}}
		for i := range 2 {
			k.parts.measures[fmt.Sprintf("orders-us-east-1-cc-%d", i)] = plan.Measure{Published: true}
		}
	}
	report(contract.Peer{State: contract.PeerConnected}, contract.Peer{State: contract.PeerOtherVersion, Version: "v9"})
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("orders", v1alpha1.ConditionPeersConnected, yes, v1alpha1.ReasonPeersVersion)

	report(contract.Peer{State: contract.PeerConnected},
		contract.Peer{State: contract.PeerOtherManifest, Error: "it runs other rings"})
	c := k.awaitCondition("orders", v1alpha1.ConditionPeersConnected, no, v1alpha1.ReasonPeersManifest)
	if !strings.Contains(c.Message, "ap-southeast-1 (ring pacific) is refused: it runs other rings") {
		t.Errorf("message: %s", c.Message)
	}
	report(contract.Peer{State: contract.PeerUnreachable}, contract.Peer{State: contract.PeerConnected})
	k.awaitCondition("orders", v1alpha1.ConditionPeersConnected, no, v1alpha1.ReasonRegionsAway)
	k.update("orders", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Caches.Replicas = 3 })
	k.await("a third cache", func() (bool, string) {
		s := k.store("orders").Status
		return s.ObservedGeneration == 2 && s.DataCenters[0].Caches.Ready == 3,
			fmt.Sprintf("%+v", s.DataCenters[0].Caches)
	})
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("orders", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("orders", v1alpha1.ConditionPeersConnected, no, v1alpha1.ReasonRegionsAway)
}

func TestAnOperatorLeavesStoresOfOtherRegionsAlone(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.operator("mars", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	if s := k.store("try").Status; len(s.Regions) > 0 {
		t.Errorf("an operator without a data center reports on the store: %+v", s.Regions)
	}
}

func TestASecondOperatorOfARegionLeavesAStoreUntilTheFirstHasGone(t *testing.T) {
	k := newCluster(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "operator.local"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("first"), LeaseDurationSeconds: ptr(int32(3600)),
			RenewTime: ptr(metav1.NewMicroTime(time.Now()))}}
	k.create(lease)
	k.identity = k.namespace
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	stop()
	k.identity = "default"
	k.operator("local", "causalstore:v2")
	k.await("an event that says why", func() (bool, string) {
		var events eventsv1.EventList
		if err := k.client.List(t.Context(), &events, client.InNamespace(k.namespace)); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool {
			return e.Reason == "RegionTaken" && strings.Contains(e.Note,
				"the operator in namespace "+k.namespace+" also runs region local")
		}), "none"
	})
	record := &corev1.ConfigMap{}
	if k.get("try-record.local", record); record.Data["operator"] != k.namespace {
		t.Errorf("the store is run by %q", record.Data["operator"])
	}
	lease.Spec.HolderIdentity = ptr("")
	if err := k.client.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	// to be reconciled now
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.await("the second operator to take over", func() (bool, string) {
		k.get("try-record.local", record)
		return record.Data["operator"] == "default", record.Data["operator"]
	})
}

func TestALostRecordIsRecoveredWithoutARestart(t *testing.T) {
	k := newCluster(t)
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before, record := k.uids(), &corev1.ConfigMap{}
	k.get("try-record.local", record)
	stop()
	if err := k.client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	k.operator("local", "causalstore:v2")
	k.await("the record to be made again", func() (bool, string) {
		return k.exists(record.Name, &corev1.ConfigMap{}), "it is missing"
	})
	again := &corev1.ConfigMap{}
	k.get(record.Name, again)
	if d := cmp.Diff(record.Data, again.Data); d != "" {
		t.Errorf("the record differs (-lost +recovered):\n%s", d)
	}
	// A change that concerns no pod shows that the operator has carried out a plan with that record.
	k.update("try", func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	})
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	if d := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(k.uids()))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(before, k.uids()); d != "" {
		t.Errorf("pods restarted (-before +after):\n%s", d)
	}
	if images := k.store("try").Status.DataCenters[0].Images; !slices.Equal(images, []string{"causalstore:v1"}) {
		t.Errorf("images are %v, want the first operator's", images)
	}
}
