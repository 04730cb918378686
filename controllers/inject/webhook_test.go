package inject_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/inject"
)

func TestTheWebhookInjectsSidecarsAndPodsAreCreatedWithoutIt(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("shop", map[string]string{inject.LabelInject: "orders", "pod-security.kubernetes.io/enforce": "restricted"}))
	store := k.store("shop", "orders")
	var p *corev1.Pod
	k.waitFor("a pod with a sidecar", func() bool {
		p = k.pod("shop", "{}")
		return injected(p)
	})
	if p.Annotations[inject.AnnotationInjected] != "orders/here" || p.Spec.HostAliases[0].IP != inject.Address || p.Labels[inject.LabelStore] != "orders" {
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
	k.create(namespace("told", map[string]string{inject.LabelInject: "carts", "pod-security.kubernetes.io/enforce": "restricted"}))
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
		{`{annotations: {causalstore.io/injection-mode: Redirect}, ` + owned + `}`, inject.RedirectForbidden, "PodSecurity restricted"},
	} {
		before := count(c.reason)
		dry := k.pod("told", c.metadata, client.DryRunAll)
		if !strings.HasPrefix(dry.Annotations[inject.AnnotationNotInjected], string(c.reason)) || count(c.reason) != before {
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
