package inject_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	apiserver.Main(m)
}

// restricted is an app as PodSecurity's level "restricted" wants it.
const restricted = `
metadata: {name: %s, namespace: shop, labels: %s, ownerReferences: %s}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: app, image: app, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`

func TestTheAPIServerGetsSidecarsFromTheWebhookAndMakesPodsWithoutIt(t *testing.T) {
	config := apiserver.ForTest(t)
	if err := apiserver.InstallCRDs(t.Context(), config, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	ignore, none, path := admissionv1.Ignore, admissionv1.SideEffectClassNone, fmt.Sprintf("https://localhost:%d%s", port,
		inject.Path)
	store := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: orders, namespace: shop}
spec:
  storage: {engine: Embedded}
  dataCenters: [{name: here, region: local, zones: {frontend: [a], backend: [b]}}]
  rings: [{name: only, dataCenters: [here]}]`), store); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{inject.LabelInject: "orders",
			"pod-security.kubernetes.io/enforce": "restricted"}}},
		store,
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "injector"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "inject.causalstore.io", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &ignore,
				ClientConfig: admissionv1.WebhookClientConfig{URL: &path},
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: inject.LabelInject,
					Operator: metav1.LabelSelectorOpExists}}},
				Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
			}}},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	keeper := &inject.Keeper{Namespace: "default", Secret: "webhook", Host: "localhost", Configuration: "injector", Now: time.Now}
	m, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = keeper.Certificate }}})})
	if err != nil {
		t.Fatal(err)
	}
	keeper.Client, keeper.Uncached = m.GetClient(), m.GetAPIReader()
	injections := inject.NewInjections()
	m.GetWebhookServer().Register(inject.Path, &webhook.Admission{Handler: &inject.Webhook{Client: m.GetClient(),
		Events: m.GetEventRecorder("test"),
		Region: "local", Image: "causalstore:v1", ClusterDomain: "cluster.local", Injections: injections}})
	if err := m.Add(keeper); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()

	n := 0
	pod := func(labels, owners string) *corev1.Pod {
		t.Helper()
		n++
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(fmt.Appendf(nil, restricted, fmt.Sprintf("app-%d", n), labels, owners), p); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatalf("make pod %d: %v", n, err)
		}
		return p
	}
	var p *corev1.Pod
	until(t, "a pod with a sidecar", func() bool {
		if !keeper.Serving() {
			return false
		}
		p = pod("{}", "[]")
		return len(p.Spec.InitContainers) == 1 && p.Spec.InitContainers[0].Name == inject.Container
	})
	if p.Annotations[inject.AnnotationInjected] != "orders/here" || p.Spec.HostAliases[0].IP != inject.Address {
		t.Errorf("annotations %v, host aliases %v", p.Annotations, p.Spec.HostAliases)
	}
	if p = pod(`{causalstore.io/inject: "false"}`,
		"[]"); len(p.Spec.InitContainers) > 0 || !strings.HasPrefix(p.Annotations[inject.AnnotationNotInjected], "OptedOut") {
		t.Errorf("a pod that opts out has %d init containers and annotations %v", len(p.Spec.InitContainers), p.Annotations)
	}
	if testutil.ToFloat64(injections.WithLabelValues("Injected")) < 1 || testutil.ToFloat64(injections.WithLabelValues("OptedOut")) != 1 {
		t.Error("the counters do not say what was done")
	}
	if err := c.Delete(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	until(t, "a pod without a sidecar, since the store has gone", func() bool {
		p = pod("{}", "[{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: 1-2, controller: true}]")
		return strings.HasPrefix(p.Annotations[inject.AnnotationNotInjected], "StoreNotFound")
	})
	until(t, "an event that says so", func() bool {
		var events eventsv1.EventList
		if err := c.List(t.Context(), &events, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == "NotInjected" && e.Regarding.Name == "web" && strings.Contains(e.Note, "no CausalStore orders") {
				return true
			}
		}
		return false
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the manager ended: %v", err)
	}
	if p = pod("{}", "[]"); len(p.Spec.InitContainers) > 0 {
		t.Error("a sidecar was injected, and nobody serves the webhook")
	}
}

// until waits until done says so.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}
