package kubectl

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

func TestASidecarIsMissingOrOldIfItIsNotWhatTheWebhookWouldInject(t *testing.T) {
	want := expectedSidecar{store: inject.StoreRef{Namespace: "shop", Name: "orders"},
		images:    map[string]string{"east": "causalstore:v2", "west": "causalstore:v3"},
		addresses: []string{"10.0.0.1", "10.0.0.2"}}
	const sidecar = "initContainers: [{name: causalstore-sidecar, image: 'causalstore:v2'}"
	const injected = "metadata: {namespace: web, annotations: {causalstore.io/injected: shop/orders/east}}"
	for _, c := range []struct{ pod, says string }{
		{"{" + injected + ", spec: {" + sidecar + "]}}", ""},
		{"{metadata: {labels: {causalstore.io/inject: 'false'}}}", ""},
		{"{metadata: {labels: {app.kubernetes.io/managed-by: causalstore-operator}}}", ""},
		{"{status: {phase: Succeeded}}", ""},
		{"{metadata: {}}", "no sidecar: the webhook did not answer"},
		{"{metadata: {annotations: {causalstore.io/not-injected: 'HostNetwork: it uses that of its node'}}}",
			"no sidecar: HostNetwork: it uses"},
		{"{" + injected + ", spec: {initContainers: [{name: causalstore-sidecar, image: 'causalstore:v1'}]}}",
			"it runs causalstore:v1, and the store causalstore:v2"},
		{"{metadata: {namespace: web, annotations: {causalstore.io/injected: shop/orders/west}}, spec: {" + sidecar +
			"]}}", "it runs causalstore:v2, and the store causalstore:v3"},
		{
			"{metadata: {namespace: web, annotations: {causalstore.io/injected: shop/orders/west, " +
				"causalstore.io/sidecar-data-center: west}}, spec: {" + sidecar + "]}}", "",
		},
		{"{metadata: {namespace: web, annotations: {causalstore.io/injected: shop/carts/east}}, spec: {" + sidecar +
			"]}}", "is of store shop/carts"},
		{"{" + injected + ", spec: {" + sidecar +
			", {name: causalstore-redirect, args: ['--from=10.0.0.1:6379', '--from=10.0.0.2:6379']}]}}", ""},
		{"{" + injected + ", spec: {" + sidecar +
			", {name: causalstore-redirect, args: ['--from=10.0.0.1:6379', '--from=10.0.0.9:6379']}]}}",
			"the address 10.0.0.2"},
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(c.pod), p); err != nil {
			t.Fatalf("%s: %v", c.pod, err)
		}
		if got := checkSidecar(p, want); !strings.Contains(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%s:\n%q, want %q", c.pod, got, c.says)
		}
	}
}

// testCheck simulates a ReplicaSet of two pods that were created while the webhook was away. Those that it creates
// again have a sidecar.
func (h *testCluster) testCheck(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web",
		Labels: map[string]string{inject.LabelInject: "orders.shop"}}}
	h.create(ns)
	pod := func(name string, injected bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1-2-3", Controller: new(true)}}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
		if injected {
			p.Annotations = map[string]string{inject.AnnotationInjected: "shop/orders/virginia"}
			p.Spec.InitContainers = []corev1.Container{{Name: inject.Container, Image: "causalstore:v1"}}
		}
		return p
	}
	create := func(ctx context.Context, p *corev1.Pod) error {
		if err := h.k.Create(ctx, p); err != nil {
			return err
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return h.k.Status().Update(ctx, p)
	}
	for _, name := range []string{"web-a", "web-b"} {
		if err := create(t.Context(), pod(name, false)); err != nil {
			t.Fatal(err)
		}
	}
	lone := pod("web-lone", false)
	lone.OwnerReferences = nil
	h.create(lone)
	h.expectError("3 pods have no sidecar, or an old one", "check", "--all-namespaces")
	h.expectError("namespace shop has no label", "check")
	h.expectError("must be positive", "check", "--timeout", "0s")

	ctx, cancel := context.WithCancel(t.Context())
	ended, fewest := make(chan error, 1), 2
	go func() {
		ended <- h.simulateReplicaSet(ctx, func(n int) error {
			return create(ctx, pod(fmt.Sprintf("web-new-%d", n), true))
		}, &fewest)
	}()
	out, err := h.run("check", "--namespace", "web", "--restart", "--interval", "0s", "--timeout", "2m")
	cancel()
	if end := <-ended; end != nil {
		t.Error(end)
	}
	if err == nil || !strings.Contains(err.Error(), "1 pods are left alone") ||
		!strings.Contains(out, "web/web-b was restarted") {
		t.Errorf("%v\n%s", err, out)
	}
	if fewest < 1 {
		t.Error("both pods were away at once")
	}
	if err := h.k.Delete(t.Context(), lone); err != nil {
		t.Fatal(err)
	}
	h.expectOutput("every pod that should have a sidecar has a current one", "check", "--namespace", "web")
}

// simulateReplicaSet keeps the number of pods of namespace web with an owner at two, and notes the fewest that it saw.
func (h *testCluster) simulateReplicaSet(ctx context.Context, create func(n int) error, fewest *int) error {
	for made := 0; ; {
		var pods corev1.PodList
		if err := h.k.List(ctx, &pods, client.InNamespace("web")); err != nil {
			return client.IgnoreNotFound(ignoreCanceled(ctx, err))
		}
		have := 0
		for i := range pods.Items {
			if metav1.GetControllerOf(&pods.Items[i]) != nil && plan.Ready(&pods.Items[i]) {
				have++
			}
		}
		if *fewest = min(*fewest, have); have < 2 {
			made++
			if err := create(made); err != nil {
				return ignoreCanceled(ctx, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
