package kubectl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func TestStatusShowsWhatIsWrong(t *testing.T) {
	for _, name := range []string{"unprocessed", "ready", "rolling", "scale-down", "operator-away", "region-away",
		"other-version", "two-regions-begun", "two-regions"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var given struct {
				Store v1alpha1.CausalStore `json:"store"`
				Pods  []corev1.Pod         `json:"pods"`
				// ScaleDowns has the new number of coordinators of each data center that is scaled down.
				ScaleDowns scaleDowns    `json:"scaleDowns"`
				Nodes      []corev1.Node `json:"nodes"`
			}
			if err := yaml.UnmarshalStrict(b, &given); err != nil {
				t.Fatal(err)
			}
			pods := storePods{given.Pods, given.ScaleDowns, nodesByName(given.Nodes)}
			var out bytes.Buffer
			if err := writeStatus(&out, &given.Store, pods, testTime); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

// testTime is the present of the golden files.
var testTime = time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)

func TestExplainPodDescribesTheSidecarOrWhyThereIsNone(t *testing.T) {
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels: map[string]string{"causalstore.io/inject": "orders"}}}
	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	for _, c := range []struct {
		pod       string
		namespace *corev1.Namespace
		want      string
	}{
		{
			"metadata: {labels: {app.kubernetes.io/managed-by: causalstore-operator, app.kubernetes.io/component: " +
				"cache, app.kubernetes.io/instance: orders, causalstore.io/data-center: east}}",
			plain, "cache of store orders, data center east"},
		{
			"metadata: {labels: {app.kubernetes.io/managed-by: causalstore-operator, app.kubernetes.io/component: " +
				"coordinator, app.kubernetes.io/instance: orders, causalstore.io/data-center: west, " +
				"apps.kubernetes.io/pod-index: '1'}}",
			plain, "coordinator of store orders, data center west; being removed (scale down to 1)"},
		{
			"metadata: {labels: {app.kubernetes.io/managed-by: causalstore-operator, app.kubernetes.io/component: " +
				"coordinator, app.kubernetes.io/instance: orders, causalstore.io/data-center: west, " +
				"apps.kubernetes.io/pod-index: '0'}}",
			plain, "coordinator of store orders, data center west\n"},
		{
			"{metadata: {namespace: shop, annotations: {causalstore.io/injected: orders/east}}, spec: {hostAliases: " +
				"[{ip: 127.67.83.1, hostnames: [orders, orders.shop]}]}}",
			labelled,
			"sidecar of store shop/orders, data center east, at 127.67.83.1:6379; these names resolve to it: " +
				"orders orders.shop"},
		{
			"{metadata: {namespace: web, annotations: {causalstore.io/injected: shop/orders/east}}, spec: " +
				"{initContainers: [{name: causalstore-redirect, args: [--from=10.0.0.1:6379, " +
				"--from=10.0.0.2:6379]}]}, status: {initContainerStatuses: [{name: causalstore-redirect, image: x, " +
				"imageID: x, ready: false, restartCount: 1, state: {waiting: {reason: CrashLoopBackOff}}}]}}",
			labelled,
			"sidecar of store shop/orders, data center east, at 127.67.83.1:6379; connections to these addresses are " +
				"redirected to it: 10.0.0.1:6379 10.0.0.2:6379; init container causalstore-redirect fails " +
				"(CrashLoopBackOff)"},
		{"metadata: {annotations: {causalstore.io/not-injected: 'OptedOut: the pod has a label'}}", labelled,
			"no sidecar: OptedOut: the pod has a label"},
		{"metadata: {}", labelled, "the webhook was not called"},
		{"metadata: {}", plain, "namespace shop has no label causalstore.io/inject"},
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(c.pod), p); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := writePod(&out, p, c.namespace, scaleDowns{"west": 1}); err != nil ||
			!strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %q, want %q (%v)", c.pod, out.String(), c.want, err)
		}
	}
}
