package inject_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/inject"
)

func TestTheAPIServerGetsSidecarsFromTheWebhookAndMakesPodsWithoutIt(t *testing.T) {
	k := newCluster(t)
	k.make(namespace("shop", map[string]string{inject.LabelInject: "orders", "pod-security.kubernetes.io/enforce": "restricted"}))
	store := k.store("shop", "orders")
	var p *corev1.Pod
	k.until("a pod with a sidecar", func() bool {
		p = k.pod("shop", "{}")
		return injected(p)
	})
	if p.Annotations[inject.AnnotationInjected] != "orders/here" || p.Spec.HostAliases[0].IP != inject.Address || p.Labels[inject.LabelStore] != "orders" {
		t.Errorf("annotations %v, labels %v, host aliases %v", p.Annotations, p.Labels, p.Spec.HostAliases)
	}
	k.stop()
	if p = k.pod("shop", "{}"); injected(p) {
		t.Error("a sidecar was injected, and nobody serves the webhook")
	}
	if err := k.client.Delete(t.Context(), store); err != nil {
		t.Fatal(err)
	}
}

// TestEachPodWithoutASidecarIsCountedAndToldOf: the reason is in an annotation, in a metric, and in an event of the pod's owner or,
// for a pod that nobody owns, of the pod.
func TestEachPodWithoutASidecarIsCountedAndToldOf(t *testing.T) {
	k := newCluster(t)
	k.make(namespace("told", map[string]string{inject.LabelInject: "carts", "pod-security.kubernetes.io/enforce": "restricted"}))
	counted := func(reason inject.Reason) float64 {
		return testutil.ToFloat64(k.injections.WithLabelValues(string(reason)))
	}
	const owned = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: 1-2, controller: true}]"
	k.until("the webhook to know the namespace", func() bool {
		return k.pod("told",
			"{}").Annotations[inject.AnnotationNotInjected] != ""
	})
	k.event("told", "Pod/app-1", "no CausalStore carts")
	k.store("told", "carts")
	k.until("the webhook to know the store", func() bool { return injected(k.pod("told", "{}")) })
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
		before := counted(c.reason)
		dry := k.pod("told", c.metadata, client.DryRunAll)
		if !strings.HasPrefix(dry.Annotations[inject.AnnotationNotInjected], string(c.reason)) || counted(c.reason) != before {
			t.Errorf("%s: a pod that is not made has annotations %v, and %v are counted more", c.reason, dry.Annotations,
				counted(c.reason)-before)
		}
		p := k.pod("told", c.metadata)
		if injected(p) || !strings.HasPrefix(p.Annotations[inject.AnnotationNotInjected],
			string(c.reason)) || counted(c.reason) != before+1 {
			t.Errorf("%s: annotations %v, %v counted, want %v", c.reason, p.Annotations, counted(c.reason), before+1)
		}
		if c.event != "" {
			k.event("told", "ReplicaSet/web", c.event)
		}
	}
	if n := testutil.ToFloat64(k.injections.WithLabelValues("Injected")); n < 1 {
		t.Errorf("%v pods with a sidecar are counted", n)
	}
}
