package charts_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/trust"
)

// conditionAlert matches the expression of an alert on a condition.
var conditionAlert = regexp.MustCompile(
	`^max by \(store_namespace, store\) \(causalstore_store_condition\{condition="(\w+)"(?:,reason(!?=)"(\w+)")?\}\) == (-?[01])$`)

// fires reports whether an alert on a condition fires for a store with a status.
func fires(t *testing.T, expr string, s v1alpha1.CausalStoreStatus) bool {
	t.Helper()
	m := conditionAlert.FindStringSubmatch(expr)
	if m == nil {
		t.Fatalf("an alert on a condition has an unknown form: %s", expr)
	}
	values := map[metav1.ConditionStatus]int{metav1.ConditionTrue: 1, metav1.ConditionFalse: 0,
		metav1.ConditionUnknown: -1}
	for _, c := range s.Conditions {
		if c.Type == m[1] && (m[2] == "" || (c.Reason == m[3]) == (m[2] == "=")) {
			return strconv.Itoa(values[c.Status]) == m[4]
		}
	}
	return false
}

// observed returns a store of two rings, one of them here, in which all is well.
func observed() status.Observed {
	s := &v1alpha1.CausalStore{}
	s.Name, s.Namespace = "s", "ns"
	s.Spec.ZoneLabel, s.Spec.Storage.Replicas = "zone", 1
	for name, region := range map[string]string{"here": "r", "there": "q"} {
		s.Spec.DataCenters = append(s.Spec.DataCenters,
			v1alpha1.DataCenter{Name: name, Region: region, Shards: 1, Coordinators: v1alpha1.Coordinators{Replicas: 1},
				Zones: v1alpha1.Zones{Frontend: []string{"a"}, Backend: []string{"b"}}})
		s.Spec.Rings = append(s.Spec.Rings, v1alpha1.Ring{Name: "of-" + name, DataCenters: []string{name}})
	}
	in := status.Observed{WebhookInstalled: true, Webhook: true}
	in.Store, in.Region, in.Now, in.ZoneOf = s, "r", time.Unix(1000, 0), map[string]string{"n1": "a", "n2": "b"}
	for _, part := range []string{plan.ComponentCoordinator, plan.ComponentShard} {
		in.Pods = append(in.Pods,
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: part,
				Labels: map[string]string{plan.LabelDataCenter: "here", plan.LabelComponent: part}},
				Status: corev1.PodStatus{
					Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				}})
	}
	in.Measured = map[string]plan.Measure{plan.ComponentCoordinator: {Published: true,
		Answering: map[string]bool{"there": true}}}
	in.Authority = &trust.State{Region: "r", TrustDomain: "r.1", Bundle: "authority",
		Peers: map[string]trust.Entry{"q.1": {Region: "q", TrustDomain: "q.1"}}}
	in.Trust.Domains, in.EdgeImage = map[string]string{"r": "r.1", "q": "q.1"}, "envoy:v1"
	for i := range s.Spec.DataCenters {
		s.Spec.DataCenters[i].Edge = &v1alpha1.Edge{Address: "edge.example.com:443", Replicas: 2,
			Service: v1alpha1.EdgeService{Type: corev1.ServiceTypeNodePort}}
	}
	in.Deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: plan.EdgeName("s", "here")},
		Status: appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}}}
	in.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: plan.IngressName("s", "here")},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort,
			Ports: []corev1.ServicePort{{Port: 443, NodePort: 30443}}}}}
	in.Certificates.Add(in.Now.Add(trust.LeafLife), nil)
	s.Status = status.Of(in)
	return in
}

func isHere(dc v1alpha1.DataCenter) bool { return dc.Name == "here" }

// TestEveryAlertOnAConditionCanFire: each fires in its situation, and none in a store in which all is well.
func TestEveryAlertOnAConditionCanFire(t *testing.T) {
	lose := func(i int) func(*status.Observed) {
		return func(in *status.Observed) { in.Pods[i].Status.Conditions[0].Status = corev1.ConditionFalse }
	}
	situations := map[string]func(*status.Observed){
		"CausalStoreDataUnavailable": lose(1),
		"CausalStoreDegraded":        lose(0),
		"CausalStoreNotReady":        lose(0),
		"CausalStoreVolumeClaimDeleted": func(in *status.Observed) {
			in.Claims = append(in.Claims,
				corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-s-here-shard-0-0",
					DeletionTimestamp: &metav1.Time{Time: in.Now},
					Labels: map[string]string{plan.LabelDataCenter: "here",
						plan.LabelComponent: plan.ComponentShard, plan.LabelShard: "0"}}})
		},
		"CausalStoreSpecNotApplied": func(in *status.Observed) { in.Forbidden = []string{"spec.rings"} },
		"CausalStorePeersDisconnected": func(in *status.Observed) {
			in.Measured[plan.ComponentCoordinator].Answering["there"] = false
		},
		"CausalStorePeersNotTrusted": func(in *status.Observed) { in.Authority.Peers = nil },
		"CausalStoreCertificatesNotRenewed": func(in *status.Observed) {
			in.Certificates.Add(in.Now, errors.New("the disk of etcd is full"))
		},
		"CausalStoreEtcdNotReady": func(in *status.Observed) {
			in.Store.Spec.DataCenters[slices.IndexFunc(in.Store.Spec.DataCenters, isHere)].Coordinators.Members = 3
		},
		"CausalStoreEtcdWithoutQuorum": func(in *status.Observed) {
			in.Store.Spec.DataCenters[slices.IndexFunc(in.Store.Spec.DataCenters, isHere)].Coordinators.Members = 3
			in.EtcdImage = "etcd:v1"
			for i := range in.Store.Status.Conditions {
				if c := &in.Store.Status.Conditions[i]; c.Type == v1alpha1.ConditionEtcdReady {
					c.Reason = v1alpha1.ReasonEtcdServes // it has served
				}
			}
		},
		"CausalStoreEdgesNotReady": func(in *status.Observed) { in.Deployments = nil },
		"CausalStorePeersUnknown":  func(in *status.Observed) { delete(in.Measured, plan.ComponentCoordinator) },
		"CausalStoreChangeStuck":   func(in *status.Observed) { in.Rollout.Outdated = 1 },
		"CausalStorePausedWithChanges": func(in *status.Observed) {
			in.Store.Spec.Paused, in.Pending = true, []string{"spec.image"}
		},
		"CausalStoreInjectionNotReady": func(in *status.Observed) { in.Webhook = false },
		"CausalStoreDrillFailed": func(in *status.Observed) {
			in.Store.Status.Conditions = append(in.Store.Status.Conditions,
				metav1.Condition{Type: v1alpha1.ConditionDrillPassed, Status: metav1.ConditionFalse,
					Reason: v1alpha1.ReasonPromiseBroken})
		},
	}
	for _, a := range alerts(t) {
		if !strings.Contains(a.Expr, "causalstore_store_condition") {
			continue
		}
		change := situations[a.Alert]
		if change == nil {
			t.Errorf("no situation is known in which %s fires", a.Alert)
			continue
		}
		delete(situations, a.Alert)
		in := observed()
		if fires(t, a.Expr, status.Of(in)) {
			t.Errorf("%s fires although all is well: %+v", a.Alert, status.Of(in).Conditions)
		}
		if change(&in); !fires(t, a.Expr, status.Of(in)) {
			t.Errorf("%s does not fire: %+v", a.Alert, status.Of(in).Conditions)
		}
	}
	for name := range situations {
		t.Errorf("there is no alert %s", name)
	}
}
