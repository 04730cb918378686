package causalstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/trust"
)

const edgeName = "orders-us-east-1-edge"

// trustRegions makes operators trust the regions of the sample, and returns what they know of them.
func (k *cluster) trustRegions() map[string]trust.Entry {
	k.t.Helper()
	entries := map[string]trust.Entry{}
	for _, region := range []string{"eu-west-1", "ap-southeast-1"} {
		a, err := trust.Create(region+".other", time.Now())
		if err != nil {
			k.t.Fatal(err)
		}
		entries[region] = trust.Entry{Region: region, TrustDomain: a.TrustDomain, Sequence: a.Sequence,
			Bundle: a.Bundle()}
		k.peer(entries[region])
	}
	return entries
}

// edgePods returns the pods of edges by name, as long as they do not stop.
func (k *cluster) edgePods() map[string]types.UID {
	k.t.Helper()
	var pods corev1.PodList
	if err := k.client.List(k.t.Context(), &pods, client.InNamespace(k.namespace),
		client.MatchingLabels{plan.LabelComponent: plan.ComponentEdge}); err != nil {
		k.t.Fatal(err)
	}
	all := map[string]types.UID{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil {
			all[p.Name] = p.UID
		}
	}
	return all
}

// edgeFiles returns the configuration of the edge in one text.
func (k *cluster) edgeFiles() string {
	k.t.Helper()
	m := &corev1.ConfigMap{}
	k.get(edgeName, m)
	return fmt.Sprint(m.Data)
}

// uidsOfParts returns the pods that are not of an edge.
func (k *cluster) uidsOfParts() map[string]types.UID {
	all := k.uids()
	maps.DeleteFunc(all, func(name string, _ types.UID) bool { return strings.HasPrefix(name, edgeName+"-") })
	return all
}

func TestAnEdgeIsMadeConfiguredAndReplaced(t *testing.T) {
	k := newCluster(t)
	k.edgeImage = "envoy:v1"
	entries := k.trustRegions()
	stop := k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	c := k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, no, v1alpha1.ReasonEdgeWithoutAddress)
	if !strings.Contains(c.Message, "orders-us-east-1-ingress (type LoadBalancer)") {
		t.Error(c.Message)
	}
	k.workloads.balance("203.0.113.7")
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, yes, v1alpha1.ReasonEdgesServe)
	want := &v1alpha1.EdgeStatus{Pods: v1alpha1.Count{Ready: 2, Desired: 2, Updated: 2}, Address: "203.0.113.7:15443"}
	if d := cmp.Diff(want, k.store("orders").Status.DataCenters[0].Edge); d != "" {
		t.Errorf("status of the edge (-want +got):\n%s", d)
	}
	k.certificate("orders-us-east-1-edge-tls", "0", k.trustOf("orders-us-east-1"))

	// What Envoy watches restarts nothing, and its pods are notified of it.
	k.awaitCondition("orders", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	before := k.edgePods()
	k.update("orders", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[1].Edge.Address = "other.example.com:443" })
	k.await("the new address in the configuration", func() (bool, string) {
		return strings.Contains(k.edgeFiles(), "other.example.com"), "the old one"
	})
	eu := entries["eu-west-1"]
	k.update("orders", func(s *v1alpha1.CausalStore) { s.Spec.Paused = true }) // revocation does not wait
	k.peer(trust.Entry{Region: eu.Region, TrustDomain: eu.TrustDomain, Revoked: true})
	k.await("the revoked region to be left out", func() (bool, string) {
		return !strings.Contains(k.edgeFiles(), "other.example.com"), "it is there"
	})
	c = k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, no, v1alpha1.ReasonEdgePeersUntrusted)
	if !strings.Contains(c.Message, "not trusted: eu-west-1;") {
		t.Error(c.Message)
	}
	k.awaitEdgeNotified()
	if d := cmp.Diff(before, k.edgePods()); d != "" {
		t.Errorf("the edge restarted (-before +after):\n%s", d)
	}

	// Another image does, and no part restarts.
	k.update("orders", func(s *v1alpha1.CausalStore) { s.Spec.Paused = false })
	parts := k.uidsOfParts()
	stop()
	k.edgeImage = "envoy:v2"
	k.operator("us-east-1", "causalstore:v2")
	k.awaitReplaced(before)
	before = k.edgePods()
	k.update("orders", func(s *v1alpha1.CausalStore) {
		s.Spec.DataCenters[0].Edge.Resources.Limits = corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("3Gi"),
		}
	})
	k.awaitReplaced(before)
	if d := cmp.Diff(parts, k.uidsOfParts()); d != "" {
		t.Errorf("parts restarted (-before +after):\n%s", d)
	}
}

// TestTheSampleOfTwoRegionsBecomesReadyAsItsGuideSays follows docs/regions.md in one region: what is missing shows,
// step by step.
func TestTheSampleOfTwoRegionsBecomesReadyAsItsGuideSays(t *testing.T) {
	k := newCluster(t)
	k.edgeImage = "envoy:v1"
	k.operator("us", "causalstore:v1")
	k.sample("two-regions.yaml", nil)
	c := k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, no, v1alpha1.ReasonRegionsNotTrusted)
	if !strings.Contains(c.Message, "eu (eu-1)") {
		t.Error(c.Message)
	}
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, no, v1alpha1.ReasonEdgeWithoutAddress)
	k.workloads.balance("203.0.113.7")
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, no, v1alpha1.ReasonEdgePeersUntrusted)
	a, err := trust.Create("eu.other", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	k.peer(trust.Entry{Region: "eu", TrustDomain: a.TrustDomain, Sequence: a.Sequence, Bundle: a.Bundle()})
	k.awaitCondition("orders", v1alpha1.ConditionPeersTrusted, yes, v1alpha1.ReasonRegionsTrusted)
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, yes, v1alpha1.ReasonEdgesServe)
	if got, want := k.store("orders").Status.DataCenters[0].Edge.Address, "203.0.113.7:15443"; got != want {
		t.Errorf("the address of the edge is %q, want %q", got, want)
	}
}

// awaitEdgeNotified waits until the pods of the edge are marked with its configuration.
func (k *cluster) awaitEdgeNotified() {
	k.t.Helper()
	k.await("pods of the edge to be notified", func() (bool, string) {
		in := plan.Observed{Store: k.store("orders"), Region: "us-east-1"}
		var pods corev1.PodList
		var configs corev1.ConfigMapList
		for _, l := range []client.ObjectList{&pods, &configs} {
			if err := k.client.List(k.t.Context(), l, client.InNamespace(k.namespace),
				client.MatchingLabels{plan.LabelComponent: plan.ComponentEdge}); err != nil {
				k.t.Fatal(err)
			}
		}
		in.EdgePods, in.ConfigMaps = pods.Items, configs.Items
		all := plan.EdgeNotices(in)
		return len(pods.Items) > 0 && len(configs.Items) == 1 && len(all) == 0, fmt.Sprint(all)
	})
}

// awaitReplaced waits until none of some pods of an edge is left, and all others serve.
func (k *cluster) awaitReplaced(before map[string]types.UID) {
	k.t.Helper()
	k.await("the pods of the edge to be replaced", func() (bool, string) {
		now := k.edgePods()
		for name := range now {
			if _, old := before[name]; old {
				return false, fmt.Sprint(now)
			}
		}
		return len(now) == 2, fmt.Sprint(now)
	})
	k.awaitCondition("orders", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
}

func TestWithoutAnImageOfEdgesAStoreServesAndSaysWhatIsMissing(t *testing.T) {
	k := newCluster(t)
	k.trustRegions()
	k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	c := k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, no, v1alpha1.ReasonEdgeImageMissing)
	if !strings.Contains(c.Message, "us-east-1; set edge.image.repository and edge.image.tag of the chart") {
		t.Error(c.Message)
	}
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("orders", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
	k.await("an event", func() (bool, string) {
		var all eventsv1.EventList
		if err := k.client.List(t.Context(), &all, client.InNamespace(k.namespace)); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(all.Items, func(e eventsv1.Event) bool {
			return e.Reason == v1alpha1.ReasonEdgeImageMissing && e.Type == corev1.EventTypeWarning
		}), "none"
	})
	if k.exists(edgeName, &appsv1.Deployment{}) {
		t.Error("there is a Deployment without an image")
	}
}

// serveEdges starts the operator of one of three regions that trust each other, and waits until the edges of a store
// serve there. stop stops the operator.
func (k *cluster) serveEdges() (stop func()) {
	k.t.Helper()
	k.edgeImage = "envoy:v1"
	k.trustRegions()
	k.workloads.balance("203.0.113.7")
	stop = k.operator("us-east-1", "causalstore:v1")
	k.sample("three-regions.yaml", nil)
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, yes, v1alpha1.ReasonEdgesServe)
	return stop
}

func TestAnEdgeThatIsLostIsReported(t *testing.T) {
	k := newCluster(t)
	k.serveEdges()
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.workloads.fail("envoy:v1")
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, no, v1alpha1.ReasonEdgesMissing)
	k.awaitCondition("orders", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonEdgesMissing)
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.workloads.repair("envoy:v1")
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, yes, v1alpha1.ReasonEdgesServe)
	k.awaitCondition("orders", v1alpha1.ConditionDegraded, no, v1alpha1.ReasonNotDegraded)
}

// TestAnEdgeGoesWhenTheOtherRegionsAreInThisCluster: what is not needed any more is pruned, and comes back when it is
// needed.
func TestAnEdgeGoesWhenTheOtherRegionsAreInThisCluster(t *testing.T) {
	k := newCluster(t)
	k.serveEdges()
	objects := map[string]client.Object{"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{},
		"ConfigMap":           &corev1.ConfigMap{},
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "NetworkPolicy": &networkingv1.NetworkPolicy{}}
	for kind, o := range objects {
		if !k.exists(edgeName, o) {
			t.Errorf("there is no %s", kind)
		}
	}
	k.operator("eu-west-1", "causalstore:v1")
	k.operator("ap-southeast-1", "causalstore:v1")
	for kind, o := range objects {
		k.await("the "+kind+" to go", func() (bool, string) { return !k.exists(edgeName, o), "it exists" })
	}
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, yes, v1alpha1.ReasonNoEdges)
}

// TestTheObjectsOfAnEdgeGoWithTheStore: this API server has no garbage collector, which deletes what the store owns.
func TestTheObjectsOfAnEdgeGoWithTheStore(t *testing.T) {
	k := newCluster(t)
	k.edgeImage = "envoy:v1"
	k.trustRegions()
	k.operator("us-east-1", "causalstore:v1")
	s := k.sample("three-regions.yaml", nil)
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	for _, of := range []struct {
		name string
		is   client.Object
	}{{edgeName, &appsv1.Deployment{}}, {edgeName, &corev1.Service{}}, {edgeName, &corev1.ConfigMap{}},
		{edgeName, &networkingv1.NetworkPolicy{}},
		{edgeName, &policyv1.PodDisruptionBudget{}}, {"orders-us-east-1-ingress", &corev1.Service{}},
		{"orders-us-east-1-edge-tls", &corev1.Secret{}}} {
		k.await(of.name, func() (bool, string) { return k.exists(of.name, of.is), "it is missing" })
		if owners := of.is.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != s.UID {
			t.Errorf("%T %s is owned by %v", of.is, of.name, owners)
		}
	}
	k.delete("orders")
}

// TestAnEdgeStaysWhileTheAuthorityOfItsRegionCannotBeUsed: it goes on with the certificate and the authorities that it
// has.
func TestAnEdgeStaysWhileTheAuthorityOfItsRegionCannotBeUsed(t *testing.T) {
	k := newCluster(t)
	stop := k.serveEdges()
	before := k.edgePods()
	stop()
	own, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	k.get("authority-us-east-1", own)
	k.get("authority-us-east-1", secret)
	secret.Data = map[string][]byte{"ca.crt": []byte("damaged")}
	if err := errors.Join(k.client.Delete(t.Context(), own), k.client.Update(t.Context(), secret)); err != nil {
		t.Fatal(err)
	}
	k.operator("us-east-1", "causalstore:v1")
	k.awaitCondition("orders", v1alpha1.ConditionCertificatesCurrent, no, v1alpha1.ReasonCertificatesNotRenewed)
	k.update("orders", func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	}) // a plan is carried out
	k.awaitCondition("orders", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("orders", v1alpha1.ConditionEdgesReady, yes, v1alpha1.ReasonEdgesServe)
	if d := cmp.Diff(before, k.edgePods()); d != "" {
		t.Errorf("pods of the edge have gone (-before +after):\n%s", d)
	}
	if !k.exists("orders-us-east-1-ingress", &corev1.Service{}) || !k.exists(edgeName, &corev1.ConfigMap{}) {
		t.Error("objects of the edge were deleted")
	}
}
