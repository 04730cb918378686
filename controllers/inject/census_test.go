package inject_test

import (
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// countedPods returns what the operator's metric says of a namespace, by reason.
func (k *cluster) countedPods(namespace string) map[string]float64 {
	k.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(k.census)
	families, err := r.Gather()
	if err != nil {
		k.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if labels := labelsOf(m); labels["pod_namespace"] == namespace {
				counts[labels["store_namespace"]+"/"+labels["store"]+" "+labels["reason"]] = m.GetGauge().GetValue()
			}
		}
	}
	return counts
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// TestPodsThatRunWithoutTheirSidecarAreCounted has pods that were there before the namespace asked, pods that cannot
// have one, and pods that need none.
func TestPodsThatRunWithoutTheirSidecarAreCounted(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("census", nil))
	ended := plainPod("census", "ended", nil)
	k.create(plainPod("census", "early-1", nil), plainPod("census", "early-2", nil), ended,
		plainPod("census", "part", map[string]string{plan.LabelManagedBy: plan.ManagedBy}),
		plainPod("census", "out", map[string]string{inject.LabelInject: "false"}))
	ended.Status.Phase = corev1.PodSucceeded
	if err := k.client.Status().Update(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	k.store("census", "orders")
	ask := func(store string) {
		t.Helper()
		ns := namespace("census", map[string]string{inject.LabelInject: store})
		if err := k.client.Update(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want map[string]float64) {
		t.Helper()
		k.waitFor("the counts", func() bool { return maps.Equal(want, k.countedPods("census")) })
	}
	ask("orders")
	expect(map[string]float64{"census/orders Missed": 2})
	k.waitFor("a pod with a sidecar", func() bool {
		p := plainPod("census", "app", nil)
		return k.client.Create(t.Context(), p, client.DryRunAll) == nil && injected(p)
	})
	k.create(plainPod("census", "app", nil))
	host := plainPod("census", "host", nil)
	host.Spec.HostNetwork = true
	k.create(host)
	expect(map[string]float64{"census/orders Missed": 2, "census/orders HostNetwork": 1})
	if err := k.client.Delete(t.Context(), plainPod("census", "early-1", nil)); err != nil {
		t.Fatal(err)
	}
	expect(map[string]float64{"census/orders Missed": 1, "census/orders HostNetwork": 1})
	ask("payments")
	expect(map[string]float64{"census/payments Missed": 1, "census/payments HostNetwork": 1,
		"census/payments OtherStore": 1})
	ask("")
	expect(nil)
}
