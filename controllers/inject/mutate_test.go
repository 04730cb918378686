package inject_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
	return inject.Request{Pod: p, Name: "orders", Store: s, Region: "us", Image: "causalstore:v1", ClusterDomain: "cluster.local"}
}

func TestAPodGetsASidecarInTheWayThatTheStoreSays(t *testing.T) {
	for _, mode := range []v1alpha1.InjectionMode{v1alpha1.InjectLoopbackNames, v1alpha1.InjectExplicit} {
		t.Run(string(mode), func(t *testing.T) {
			r := request(t, app)
			r.Store.Spec.Injection.Mode = mode
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
			golden := filepath.Join("testdata", string(mode)+".yaml")
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
			if again := inject.Decide(inject.Request{Pod: d.Pod, Name: r.Name, Store: r.Store,
				Region: r.Region}); again.Reason != inject.AlreadyInjected {
				t.Errorf("a second time: %q, want %s", again.Reason, inject.AlreadyInjected)
			}
		})
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
		if len(d.Pod.Spec.InitContainers) != len(r.Pod.Spec.InitContainers) || len(d.Pod.Spec.HostAliases) > 0 {
			t.Errorf("%s: the pod was changed", c.pod)
		}
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
