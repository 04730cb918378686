package inject_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

func TestTheWebhookInjectsSidecarsAndPodsAreCreatedWithoutIt(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("shop", map[string]string{inject.LabelInject: "orders",
		"pod-security.kubernetes.io/enforce": "restricted"}))
	store := k.store("shop", "orders")
	var p *corev1.Pod
	k.waitFor("a pod with a sidecar", func() bool {
		p = k.pod("shop", "{}")
		return injected(p)
	})
	if p.Annotations[inject.AnnotationInjected] != "orders/here" || p.Spec.HostAliases[0].IP != inject.Address ||
		p.Labels[inject.LabelStore] != "orders" {
		t.Errorf("annotations %v, labels %v, host aliases %v", p.Annotations, p.Labels, p.Spec.HostAliases)
	}
	k.stop()
	if p = k.pod("shop", "{}"); injected(p) {
		t.Error("a sidecar was injected although the webhook does not run")
	}
	if err := k.client.Delete(t.Context(), store); err != nil {
		t.Fatal(err)
	}
}

// TestTheReasonForAMissingSidecarIsInAnnotationMetricAndEvent expects the event on the pod's owner or, for a pod
// without one, on the pod.
func TestTheReasonForAMissingSidecarIsInAnnotationMetricAndEvent(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("told", map[string]string{inject.LabelInject: "carts",
		"pod-security.kubernetes.io/enforce": "restricted"}))
	count := func(reason inject.Reason) float64 {
		return testutil.ToFloat64(k.injections.WithLabelValues(string(reason)))
	}
	const owned = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: 1-2, controller: true}]"
	k.waitFor("the webhook to know the namespace", func() bool {
		return k.pod("told",
			"{}").Annotations[inject.AnnotationNotInjected] != ""
	})
	k.expectEvent("told", "Pod/app-1", "no CausalStore carts")
	k.store("told", "carts")
	k.waitFor("the webhook to know the store", func() bool { return injected(k.pod("told", "{}")) })
	for _, c := range []struct {
		metadata string
		reason   inject.Reason
		event    string
	}{
		{`{labels: {causalstore.io/inject: "false"}}`, inject.OptedOut, ""},
		{`{annotations: {causalstore.io/data-center: mars}, ` + owned + `}`, inject.DataCenterUnknown, "is mars"},
		{`{annotations: {causalstore.io/injection-mode: Magic}, ` + owned + `}`, inject.ModeUnknown, "is Magic"},
		{`{annotations: {causalstore.io/injection-mode: Redirect}, ` + owned + `}`, inject.RedirectForbidden,
			"PodSecurity restricted"},
	} {
		before := count(c.reason)
		dry := k.pod("told", c.metadata, client.DryRunAll)
		if !strings.HasPrefix(dry.Annotations[inject.AnnotationNotInjected], string(c.reason)) ||
			count(c.reason) != before {
			t.Errorf("%s: the pod of a dry run has annotations %v, and the count grew by %v", c.reason, dry.Annotations,
				count(c.reason)-before)
		}
		p := k.pod("told", c.metadata)
		if injected(p) || !strings.HasPrefix(p.Annotations[inject.AnnotationNotInjected],
			string(c.reason)) || count(c.reason) != before+1 {
			t.Errorf("%s: annotations %v, %v counted, want %v", c.reason, p.Annotations, count(c.reason), before+1)
		}
		if c.event != "" {
			k.expectEvent("told", "ReplicaSet/web", c.event)
		}
	}
	if n := testutil.ToFloat64(k.injections.WithLabelValues("Injected")); n < 1 {
		t.Errorf("counted %v pods with a sidecar", n)
	}
}

// TestASidecarHasTheImageThatTheStoreRuns covers stores without spec.image after an upgrade of the operator, whose own
// image is causalstore:v1 here.
func TestASidecarHasTheImageThatTheStoreRuns(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("older", map[string]string{inject.LabelInject: "orders"}))
	store := k.store("older", "orders")
	meta := func(name string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "older", Name: name, Labels: plan.Labels("orders")}
		m.Labels[plan.LabelDataCenter] = "here"
		return m
	}
	selector := map[string]string{"app": "x"}
	set := &appsv1.StatefulSet{ObjectMeta: meta("orders-here-cc"), Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: selector},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coordinator", Image: "causalstore:runs"}}}}}}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(store,
		v1alpha1.GroupVersion.WithKind("CausalStore"))}
	k.create(set)
	imageIs := func(want string) {
		t.Helper()
		k.waitFor("a sidecar with image "+want, func() bool {
			p := k.pod("older", "{}")
			return injected(p) && p.Spec.InitContainers[0].Image == want
		})
	}
	imageIs("causalstore:runs") // while there is no record
	record := &corev1.ConfigMap{ObjectMeta: meta(plan.RecordName("orders", "local")),
		Data: map[string]string{"epoch": "1", "image": "causalstore:recorded"}}
	k.create(record)
	imageIs("causalstore:recorded")
	update(k, store, func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:spec" })
	imageIs("causalstore:spec")
}
