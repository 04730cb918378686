package inject_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

var rewrite = flag.Bool("rewrite", false, "write what is made of pods to the golden files")

const app = `
metadata: {name: app}
spec:
  initContainers: [{name: migrate, image: app}]
  containers: [{name: app, image: app, env: [{name: REDIS, value: "orders:6379"}]}, {name: log, image: log}]
`

// request is for an app in the namespace of a store with one data centre here and one elsewhere.
func request(t *testing.T, pod string) inject.Request {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(pod), p); err != nil {
		t.Fatal(err)
	}
	s := &v1alpha1.CausalStore{}
	s.Name, s.Namespace = "orders", "shop"
	s.Spec.ZoneLabel = "zone"
	s.Spec.DataCenters = []v1alpha1.DataCenter{
		{Name: "east", Region: "us", Zones: v1alpha1.Zones{Frontend: []string{"a"}, Backend: []string{"b"}}},
		{Name: "paris", Region: "eu", Zones: v1alpha1.Zones{Frontend: []string{"f"}, Backend: []string{"g"}}}}
	return inject.Request{Pod: p, Namespace: "shop", Use: inject.Use{Namespace: "shop", Name: "orders"}, Store: s,
		Region: "us", Image: "causalstore:v1",
		ClusterDomain: "cluster.local", Addresses: map[string]string{"orders": "10.96.0.10", "orders-east": "10.96.0.11"}}
}

// elsewhere lets the app be in another namespace, which the store lets connect, and where its configuration is.
func elsewhere(r *inject.Request) {
	r.Namespace, r.Labels = "web", map[string]string{"team": "shop"}
	r.Store.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	r.Copied = func(name string) bool { return name == "orders-east.shop" }
}

func TestAPodGetsASidecarInTheWayThatTheStoreSays(t *testing.T) {
	for name, given := range map[string]func(*inject.Request){
		"LoopbackNames": func(*inject.Request) {},
		"Explicit":      func(r *inject.Request) { r.Store.Spec.Injection.Mode = v1alpha1.InjectExplicit },
		"Redirect":      func(r *inject.Request) { r.Store.Spec.Injection.Mode = v1alpha1.InjectRedirect },
		"elsewhere":     elsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, app)
			r.Store.Spec.ImagePullSecrets = []v1alpha1.PullSecret{{Name: "pull"}}
			given(&r)
			before := r.Pod.DeepCopy()
			d := inject.Decide(r)
			if d.Reason != inject.Injected {
				t.Fatalf("not injected: %s %s", d.Reason, d.Message)
			}
			if diff := cmp.Diff(before, r.Pod); diff != "" {
				t.Errorf("the pod that was given has changed:\n%s", diff)
			}
			got, err := yaml.Marshal(d.Pod)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *rewrite {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-was +is); is that meant? Then -rewrite:\n%s", diff)
			}
			r.Pod = d.Pod
			if again := inject.Decide(r); again.Reason != inject.AlreadyInjected {
				t.Errorf("a second time: %q, want %s", again.Reason, inject.AlreadyInjected)
			}
			d.Pod.Namespace = r.Namespace // as the API server sets it
			if of, ok := inject.SidecarOf(d.Pod); !ok || of != (inject.Sidecar{Namespace: "shop", Store: "orders",
				DataCenter: "east"}) {
				t.Errorf("its sidecar is of %v, %t", of, ok)
			}
		})
	}
}

func TestAPodsOwnWordOnItsModeCounts(t *testing.T) {
	r := request(t, "metadata: {annotations: {causalstore.io/injection-mode: Explicit}}\nspec: {containers: [{name: app}, {name: set, env: [{name: CAUSALSTORE_ADDRESS, value: mine}]}]}")
	r.Store.Spec.Injection.Mode = v1alpha1.InjectRedirect
	p := inject.Decide(r).Pod
	if len(p.Spec.InitContainers) != 1 || p.Spec.Containers[0].Env[0].Value != inject.Address+":6379" {
		t.Errorf("%d init containers, and the app is told %v", len(p.Spec.InitContainers), p.Spec.Containers[0].Env)
	}
	if env := p.Spec.Containers[1].Env; len(env) != 1 || env[0].Value != "mine" {
		t.Errorf("a container that says itself where the sidecar is now has %v", env)
	}
}

func TestTheLabelOfANamespaceNamesAStoreThereOrElsewhere(t *testing.T) {
	for label, want := range map[string]inject.Use{"orders": {Namespace: "web", Name: "orders"},
		"orders.shop": {Namespace: "shop", Name: "orders"}} {
		if got, ok := inject.UseOf("web", map[string]string{inject.LabelInject: label}); !ok || got != want {
			t.Errorf("%s: %v, %t; want %v", label, got, ok, want)
		}
	}
	if _, ok := inject.UseOf("web", nil); ok {
		t.Error("a namespace without the label asks for a store")
	}
}

func TestAPodWithoutASidecarSaysWhy(t *testing.T) {
	for _, c := range []struct {
		pod    string
		given  func(*inject.Request)
		reason inject.Reason
		says   string
	}{
		{"metadata: {labels: {causalstore.io/inject: 'false'}}", nil, inject.OptedOut, "causalstore.io/inject=false"},
		{"spec: {hostNetwork: true}", nil, inject.HostNetwork, "Service orders"},
		{app, func(r *inject.Request) { r.Store = nil }, inject.StoreNotFound, "no CausalStore orders"},
		{app, func(r *inject.Request) { r.Region = "mars" }, inject.StoreNotHere, "region mars"},
		{app, twoHere, inject.DataCenterUnknown, "east, west"},
		{"metadata: {annotations: {causalstore.io/data-center: paris}}", nil, inject.DataCenterUnknown, "is paris"},
		{"metadata: {annotations: {causalstore.io/injection-mode: Magic}}", nil, inject.ModeUnknown,
			"give LoopbackNames, Redirect or Explicit"},
		{app, redirectIn("restricted"), inject.RedirectForbidden, "namespace shop enforces PodSecurity restricted"},
		{app, redirectIn("baseline"), inject.RedirectForbidden, "give annotation causalstore.io/injection-mode"},
		{app, redirectTo(""), inject.RedirectImpossible, "Service orders-east of namespace shop has no address yet"},
		{app, redirectTo("None"), inject.RedirectImpossible, "restart the pod"},
		{app, redirectTo("fd00::1"), inject.RedirectImpossible, "IPv4 only"},
		{app, func(r *inject.Request) { elsewhere(r); r.Labels = nil }, inject.NotAdmitted, "spec.access.namespaces"},
		{app, func(r *inject.Request) { elsewhere(r); r.Store.Spec.Access.Namespaces = nil }, inject.NotAdmitted,
			"shop/orders does not let namespace web"},
		{app, func(r *inject.Request) { elsewhere(r); r.Copied = func(string) bool { return false } },
			inject.ConfigurationMissing, "ConfigMap orders-east.shop"},
	} {
		r := request(t, c.pod)
		if c.given != nil {
			c.given(&r)
		}
		d := inject.Decide(r)
		if d.Reason != c.reason || !strings.Contains(d.Message, c.says) {
			t.Errorf("%s: %s %q, want %s with %q", c.pod, d.Reason, d.Message, c.reason, c.says)
		}
		if note := d.Pod.Annotations[inject.AnnotationNotInjected]; !strings.HasPrefix(note, string(c.reason)+": ") {
			t.Errorf("%s: the pod's annotation says %q", c.pod, note)
		}
		if len(d.Pod.Spec.InitContainers) != len(r.Pod.Spec.InitContainers) || d.Pod.Labels[inject.LabelStore] != "" || len(d.Pod.Spec.HostAliases) > 0 {
			t.Errorf("%s: the pod was changed", c.pod)
		}
	}
}

func redirectIn(level string) func(*inject.Request) {
	return func(r *inject.Request) {
		r.Store.Spec.Injection.Mode = v1alpha1.InjectRedirect
		r.Labels = map[string]string{"pod-security.kubernetes.io/enforce": level}
	}
}

func redirectTo(address string) func(*inject.Request) {
	return func(r *inject.Request) {
		r.Store.Spec.Injection.Mode = v1alpha1.InjectRedirect
		r.Addresses["orders-east"] = address
	}
}

func twoHere(r *inject.Request) {
	r.Store.Spec.DataCenters = append(r.Store.Spec.DataCenters,
		v1alpha1.DataCenter{Name: "west", Region: "us", Zones: v1alpha1.Zones{Frontend: []string{"c"}, Backend: []string{"d"}}})
}

func TestAPodSaysItsDataCentreByNameOrByZone(t *testing.T) {
	for pod, want := range map[string]string{
		"metadata: {annotations: {causalstore.io/data-center: east}}": "orders/east",
		"spec: {nodeSelector: {zone: d}}":                             "orders/west",
	} {
		r := request(t, pod)
		twoHere(&r)
		if got := inject.Decide(r).Pod.Annotations[inject.AnnotationInjected]; got != want {
			t.Errorf("%s: %q, want %q", pod, got, want)
		}
	}
}

func TestPartsOfStoresAreLeftAlone(t *testing.T) {
	r := request(t, app)
	r.Pod.Labels = plan.Labels("orders")
	before := r.Pod.DeepCopy()
	if d := inject.Decide(r); d.Reason != inject.PartOfStore || cmp.Diff(before, d.Pod) != "" {
		t.Errorf("%s, %s", d.Reason, cmp.Diff(before, d.Pod))
	}
}
