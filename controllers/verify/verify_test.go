package verify_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/verify"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/lab/ports"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	apiserver.Main(m)
}

const lease = "operator.local.causalstore.io"

// testInstallation is an installation whose parts the test plays, and the addresses behind the names of its Services.
type testInstallation struct {
	*testing.T
	client   client.Client
	services map[string]string
	in       *verify.Installation
}

func newTestInstallation(t *testing.T) *testInstallation {
	t.Helper()
	config := apiserver.ForTest(t)
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &testInstallation{T: t, client: c, services: map[string]string{}}
	s.in = &verify.Installation{Client: c, Namespace: "system",
		Selector: labels.SelectorFromSet(labels.Set{"app": "operator"}), Replicas: 1, Lease: lease,
		Webhook: "injector", Store: types.NamespacedName{Namespace: "shop", Name: "orders"}, Dial: s.dial}
	return s
}

func (s *testInstallation) dial(ctx context.Context, network, address string) (net.Conn, error) {
	to, ok := s.services[address]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

func (s *testInstallation) create(all ...client.Object) {
	s.Helper()
	for _, o := range all {
		if err := s.client.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
}

// run runs the checks for a second.
func (s *testInstallation) run() (string, error) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	var out bytes.Buffer
	err := s.in.Run(ctx, &out)
	return out.String(), err
}

// TestEachCheckFailsWithARemedyUntilItsPartIsInstalled installs one part after the other.
func TestEachCheckFailsWithARemedyUntilItsPartIsInstalled(t *testing.T) {
	s := newTestInstallation(t)
	expectFailures := func(want ...string) {
		t.Helper()
		out, err := s.run()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d of 5 checks", len(want))) {
			t.Errorf("%v, want %d failures\n%s", err, len(want), out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("want %q in\n%s", w, out)
			}
		}
	}
	expectFailures("crds.install=false", "0 of 1 pods are ready; run: kubectl -n system",
		"does not exist yet; see the operator's log",
		"read MutatingWebhookConfiguration injector",
		"read CausalStore shop/orders")
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "operator-1", Namespace: "system",
		Labels: map[string]string{"app": "operator"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "causalstore"}}}}
	s.create(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	holder := "operator-1"
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease, Namespace: "system"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	s.create(held)
	s.registerWebhook()
	expectFailures("no operator renews lease", "has no caBundle yet", "correct the Helm value test.store")

	s.renewLease(held)
	s.serveWebhook()
	store := s.createStore()
	expectFailures("is not ready: 1 of 2 shards")
	store.Status.Conditions[0].Status = metav1.ConditionTrue
	if err := s.client.Status().Update(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	expectFailures("spec.access.namespaces of the store must select namespace system")
	s.startStore()
	out, err := s.run()
	if err != nil || strings.Count(out, "ok    ") != 5 || !strings.Contains(out, "was read in 2 data centers") {
		t.Errorf("%v\n%s", err, out)
	}
}

// renewLease renews the lease until the test ends, as a leader does.
func (s *testInstallation) renewLease(held *coordinationv1.Lease) {
	ctx, cancel := context.WithCancel(s.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		for ctx.Err() == nil {
			held.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			if err := s.client.Update(ctx, held); err != nil && ctx.Err() == nil {
				s.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	s.Cleanup(ended.Wait)
	s.Cleanup(cancel)
}

const service = "webhook.system.svc"

// registerWebhook creates a webhook configuration for a Service that has no server yet.
func (s *testInstallation) registerWebhook() {
	s.Helper()
	none, path := admissionv1.SideEffectClassNone, inject.Path
	s.create(&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "injector"},
		Webhooks: []admissionv1.MutatingWebhook{{Name: "inject.causalstore.io", AdmissionReviewVersions: []string{"v1"},
			SideEffects: &none,
			ClientConfig: admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Name: "webhook",
				Namespace: "system", Path: &path}}}}})
}

// serveWebhook runs the webhook, with its certificate.
func (s *testInstallation) serveWebhook() {
	s.Helper()
	address := netip.MustParseAddrPort(ports.ForTest(s))
	s.services[service+":443"] = address.String()
	certificate := &inject.ServingCertificate{}
	m, err := ctrl.NewManager(apiserver.ForTest(s),
		ctrl.Options{Scheme: s.client.Scheme(), Metrics: server.Options{BindAddress: "0"},
			WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: int(address.Port()),
				TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = certificate.Certificate }}})})
	if err != nil {
		s.Fatal(err)
	}
	m.GetWebhookServer().Register(inject.Path, &webhook.Admission{Handler: &inject.Webhook{Client: m.GetClient(),
		Events: m.GetEventRecorder("test"),
		Region: "local", Image: "causalstore:v1", Injections: inject.NewInjections()}})
	if err := m.Add(&inject.Rotator{ServingCertificate: certificate, Client: m.GetClient(), Uncached: m.GetAPIReader(),
		Namespace: "system",
		Secret:    "webhook", Host: service,
		Configuration: "injector", Now: time.Now}); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
	for deadline := time.Now().Add(2 * time.Minute); !certificate.Serving(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the webhook does not serve")
		}
	}
}

// createStore creates a CausalStore that is not ready.
func (s *testInstallation) createStore() *v1alpha1.CausalStore {
	s.Helper()
	store := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: orders, namespace: shop}
spec:
  storage: {engine: Embedded}
  dataCenters:
  - {name: east, region: local, zones: {frontend: [a], backend: [b]}}
  - {name: west, region: local, zones: {frontend: [c], backend: [d]}}
  rings: [{name: first, dataCenters: [east]}, {name: second, dataCenters: [west]}]`), store); err != nil {
		s.Fatal(err)
	}
	if err := s.client.Create(s.Context(), store); err != nil {
		s.Fatal(err)
	}
	store.Status = v1alpha1.CausalStoreStatus{
		DataCenters: []v1alpha1.DataCenterStatus{{Name: "east", Region: "local", Here: true},
			{Name: "west", Region: "local",
				Here: true}},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
			Reason:  v1alpha1.ReasonPartsNotReady,
			Message: "1 of 2 shards", LastTransitionTime: metav1.Now()}}}
	if err := s.client.Status().Update(s.Context(), store); err != nil {
		s.Fatal(err)
	}
	return store
}

// startStore runs the store's parts, and maps the names of its Services to its fronts.
func (s *testInstallation) startStore() {
	s.Helper()
	topo, err := topology.Parse([]byte(`{epoch: 1, dataCenters: [{name: east}, {name: west}],
rings: [{name: first, dataCenters: [east]}, {name: second, dataCenters: [west]}]}`))
	if err != nil {
		s.Fatal(err)
	}
	d, err := local.Start(s.Context(), local.Options{Topology: topo, Engine: "embedded", DataDir: s.TempDir(),
		Scope: node.ScopeConnection, Cache: true,
		Host: "127.0.0.1"})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := d.Close(); err != nil {
			s.Error(err)
		}
	})
	for i, e := range d.Endpoints() {
		s.services["orders-"+e.Name+".shop.svc:6379"] = e.RESP
		if i == 0 {
			s.services["orders.shop.svc:6379"] = e.RESP
		}
	}
}
