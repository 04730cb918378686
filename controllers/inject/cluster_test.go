package inject_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore"
	"github.com/causalstore/causalstore/controllers/command"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/lab/ports"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	apiserver.Main(m)
}

// cluster is a real API server with an operator's webhook and copier, which have the rights of the manifests.
type cluster struct {
	*testing.T
	client     client.Client
	injections *prometheus.CounterVec
	census     *inject.Census
	stop       func()
	pods       int
	// ahead is how far the time of the copier is ahead.
	ahead atomic.Int64
}

const operatorUser = "system:serviceaccount:causalstore-system:causalstore-operator"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := apiserver.ForTest(t)
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
	scheme, err := command.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	k := &cluster{T: t, client: c, injections: inject.NewInjections()}
	k.grantOperatorRights()
	k.runOperator(config)
	return k
}

// grantOperatorRights gives the operator the rights of the manifests.
func (k *cluster) grantOperatorRights() {
	k.Helper()
	for _, file := range []string{"rbac/role.yaml", "webhook/rbac.yaml"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "config", file))
		if err != nil {
			k.Fatal(err)
		}
		for _, doc := range strings.Split(string(b), "---\n") {
			role := &rbacv1.ClusterRole{}
			if err := yaml.Unmarshal([]byte(doc), role); err != nil {
				k.Fatal(err)
			}
			if role.Kind != "ClusterRole" {
				continue
			}
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: operatorUser}}}
			for _, o := range []client.Object{role, binding} {
				if err := k.client.Create(k.Context(), o); client.IgnoreAlreadyExists(err) != nil {
					k.Fatal(err)
				}
			}
		}
	}
}

// now is the time of the copier.
func (k *cluster) now() time.Time { return time.Now().Add(time.Duration(k.ahead.Load())) }

// runOperator runs the webhook and the copier until stop is called or the test ends.
func (k *cluster) runOperator(config *rest.Config) {
	k.Helper()
	port := int(netip.MustParseAddrPort(ports.ForTest(k)).Port())
	configuration := k.registerWebhooks(fmt.Sprintf("https://localhost:%d", port))
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: operatorUser}
	certificate, skip := &inject.ServingCertificate{}, true
	m, err := ctrl.NewManager(config, ctrl.Options{Scheme: k.client.Scheme(), Cache: causalstore.CacheOptions(),
		Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port,
			TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = certificate.Certificate }}})})
	if err != nil {
		k.Fatal(err)
	}
	for path, required := range map[string]bool{inject.Path: false, inject.PathRequired: true} {
		m.GetWebhookServer().Register(path,
			&webhook.Admission{Handler: &inject.Webhook{Client: m.GetClient(), Events: m.GetEventRecorder("test"),
				Region: "local", Image: "causalstore:v1", ClusterDomain: "cluster.local", Injections: k.injections,
				Required: required}})
	}
	m.GetWebhookServer().Register(inject.PathBind,
		&webhook.Admission{Handler: &inject.Binder{Client: m.GetClient(), Uncached: m.GetAPIReader(),
			Region: "local"}})
	if err := m.Add(&inject.Rotator{ServingCertificate: certificate, Client: m.GetClient(), Uncached: m.GetAPIReader(),
		Namespace: "default",
		Secret:    "webhook",
		Host:      "localhost", Configuration: configuration.Name, Now: time.Now}); err != nil {
		k.Fatal(err)
	}
	if err := (&inject.Copier{Client: m.GetClient(), Uncached: m.GetAPIReader(), Scheme: m.GetScheme(),
		Region: "local", Now: k.now, Trust: &trust.Keeper{Client: m.GetClient(), Uncached: m.GetAPIReader(),
			Namespace: "default", Name: "authority",
			Region: "local", TrustDomain: "local.test", Now: k.now}}).SetupWithManager(m); err != nil {
		k.Fatal(err)
	}
	k.census = &inject.Census{Client: m.GetClient(), Uncached: m.GetAPIReader(), Interval: 100 * time.Millisecond}
	if err := m.Add(k.census); err != nil {
		k.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stopped := false
	k.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			k.Errorf("the manager ended: %v", err)
		}
	}
	k.Cleanup(func() {
		k.stop()
		if err := k.client.Delete(context.Background(), configuration); err != nil {
			k.Error(err)
		}
	})
	k.waitFor("the webhook to serve", certificate.Serving)
}

// registerWebhooks creates the webhook configuration of the manifests, for a server at a URL.
func (k *cluster) registerWebhooks(url string) *admissionv1.MutatingWebhookConfiguration {
	k.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "config", "webhook", "configuration.yaml"))
	if err != nil {
		k.Fatal(err)
	}
	c := &admissionv1.MutatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(b, c); err != nil {
		k.Fatal(err)
	}
	for i := range c.Webhooks {
		to := url + *c.Webhooks[i].ClientConfig.Service.Path
		c.Webhooks[i].ClientConfig = admissionv1.WebhookClientConfig{URL: &to}
	}
	k.create(c)
	return c
}

func (k *cluster) create(all ...client.Object) {
	k.Helper()
	for _, o := range all {
		if err := k.client.Create(k.Context(), o); err != nil {
			k.Fatal(err)
		}
	}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func (k *cluster) store(namespace, name string) *v1alpha1.CausalStore {
	k.Helper()
	s := &v1alpha1.CausalStore{}
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  storage: {engine: Embedded}
  dataCenters: [{name: here, region: local, zones: {frontend: [a], backend: [b]}}]
  rings: [{name: only, dataCenters: [here]}]`), s); err != nil {
		k.Fatal(err)
	}
	s.Namespace, s.Name = namespace, name
	k.create(s)
	return s
}

// pod creates an app's pod that PodSecurity level "restricted" admits.
func (k *cluster) pod(namespace, metadata string, options ...client.CreateOption) *corev1.Pod {
	k.Helper()
	k.pods++
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte("metadata: "+metadata+`
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: app, image: app, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`), p); err != nil {
		k.Fatal(err)
	}
	p.Namespace, p.Name = namespace, fmt.Sprintf("app-%d", k.pods)
	if err := k.client.Create(k.Context(), p, options...); err != nil {
		k.Fatalf("create pod %d: %v", k.pods, err)
	}
	return p
}

func injected(p *corev1.Pod) bool {
	return len(p.Spec.InitContainers) > 0 && p.Spec.InitContainers[0].Name == inject.Container
}

// expectEvent waits for an event of an object that contains a text.
func (k *cluster) expectEvent(namespace, about, text string) {
	k.Helper()
	k.waitFor("an event of "+about+": "+text, func() bool {
		var events eventsv1.EventList
		if err := k.client.List(k.Context(), &events, client.InNamespace(namespace)); err != nil {
			k.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == "NotInjected" && e.Regarding.Kind+"/"+e.Regarding.Name == about &&
				strings.Contains(e.Note, text) {
				return true
			}
		}
		return false
	})
}

// waitFor waits until done returns true.
func (k *cluster) waitFor(what string, done func() bool) {
	k.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.Fatalf("timed out waiting for %s", what)
		}
	}
}
