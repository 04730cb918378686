package inject_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

var rewrite = flag.Bool("rewrite", false, "write the injected pods to the golden files")

const app = `
metadata: {name: app}
spec:
  initContainers: [{name: migrate, image: app}]
  containers: [{name: app, image: app, env: [{name: REDIS, value: "orders:6379"}]}, {name: log, image: log}]
`

// request returns one for an app in the namespace of a store that has a data center in this cluster and one in another.
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
	return inject.Request{Pod: p, Namespace: "shop", StoreRef: inject.StoreRef{Namespace: "shop", Name: "orders"},
		Store:  s,
		Region: "us", Image: "causalstore:v1",
		ClusterDomain: "cluster.local",
		Addresses:     map[string]string{"orders": "10.96.0.10", "orders-east": "10.96.0.11"}}
}

func TestASidecarHasTheResourcesOfTheStore(t *testing.T) {
	memory := func(r inject.Request) (limit, goLimit string) {
		c := inject.Decide(r).Pod.Spec.InitContainers[0]
		of := c.Resources.Limits[corev1.ResourceMemory]
		for _, e := range c.Env {
			if e.Name == "GOMEMLIMIT" {
				goLimit = e.Value
			}
		}
		return of.String(), goLimit
	}
	r := request(t, app)
	if limit, _ := memory(r); limit != plan.SidecarDemand.MemoryLimit {
		t.Errorf("by default its memory limit is %s", limit)
	}
	r = request(t, app)
	r.Store.Spec.Clients.SidecarResources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	if limit, goLimit := memory(r); limit != "1Gi" || goLimit != "966367638" {
		t.Errorf("its memory limit is %s and that of the Go runtime %s", limit, goLimit)
	}
}

// otherNamespace moves the app to another namespace, which the store admits and which has the copies.
func otherNamespace(r *inject.Request) {
	r.Namespace, r.Labels = "web", map[string]string{"team": "shop"}
	r.Store.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
	r.Copied = func(name string) bool { return name == "orders-east.shop" }
}

func TestAPodGetsASidecarByTheInjectionModeOfTheStore(t *testing.T) {
	for name, given := range map[string]func(*inject.Request){
		"LoopbackNames":  func(*inject.Request) {},
		"Explicit":       func(r *inject.Request) { r.Store.Spec.Injection.Mode = v1alpha1.InjectExplicit },
		"Redirect":       func(r *inject.Request) { r.Store.Spec.Injection.Mode = v1alpha1.InjectRedirect },
		"OtherNamespace": otherNamespace,
		"ByNode":         twoHere,
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
				t.Errorf("Decide changed its input:\n%s", diff)
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
				t.Errorf("the pod differs (-want +got); if that is intended, run with -rewrite:\n%s", diff)
			}
			r.Pod = d.Pod
			if again := inject.Decide(r); again.Reason != inject.AlreadyInjected {
				t.Errorf("the second time: %q, want %s", again.Reason, inject.AlreadyInjected)
			}
			d.Pod.Namespace = r.Namespace // as the API server sets it
			if of, ok := inject.SidecarOf(d.Pod); !ok || of != (inject.Sidecar{Namespace: "shop", Store: "orders",
				DataCenter: "east"}) {
				t.Errorf("its sidecar is of %v, %t", of, ok)
			}
		})
	}
}

func TestAnAnnotationOfThePodOverridesTheInjectionMode(t *testing.T) {
	r := request(t,
		"metadata: {annotations: {causalstore.io/injection-mode: Explicit}}\nspec: {containers: [{name: app}, {name: "+
			"set, env: [{name: CAUSALSTORE_ADDRESS, value: mine}]}]}")
	r.Store.Spec.Injection.Mode = v1alpha1.InjectRedirect
	p := inject.Decide(r).Pod
	if len(p.Spec.InitContainers) != 1 || p.Spec.Containers[0].Env[0].Value != inject.Address+":6379" {
		t.Errorf("%d init containers, and the app has %v", len(p.Spec.InitContainers), p.Spec.Containers[0].Env)
	}
	if env := p.Spec.Containers[1].Env; len(env) != 1 || env[0].Value != "mine" {
		t.Errorf("a container that sets the address itself now has %v", env)
	}
}

func TestTheLabelOfANamespaceNamesAStoreOfItsOwnOrOfAnotherNamespace(t *testing.T) {
	for label, want := range map[string]inject.StoreRef{"orders": {Namespace: "web", Name: "orders"},
		"orders.shop": {Namespace: "shop", Name: "orders"}} {
		if got, ok := inject.ParseStoreRef("web", map[string]string{inject.LabelInject: label}); !ok || got != want {
			t.Errorf("%s: %v, %t; want %v", label, got, ok, want)
		}
	}
	if _, ok := inject.ParseStoreRef("web", nil); ok {
		t.Error("a namespace without the label asks for a store")
	}
}

func TestAPodWithoutASidecarHasTheReason(t *testing.T) {
	for _, c := range []struct {
		pod    string
		given  func(*inject.Request)
		reason inject.Reason
		want   string
	}{
		{"metadata: {labels: {causalstore.io/inject: 'false'}}", nil, inject.OptedOut, "causalstore.io/inject=false"},
		{"spec: {hostNetwork: true}", nil, inject.HostNetwork, "Service orders"},
		{app, func(r *inject.Request) { r.Store = nil }, inject.StoreNotFound, "no CausalStore orders"},
		{app, func(r *inject.Request) { r.Region = "mars" }, inject.StoreNotHere, "region mars"},
		{"metadata: {annotations: {causalstore.io/data-center: paris}}", twoHere, inject.DataCenterUnknown,
			"east, west"},
		{"metadata: {annotations: {causalstore.io/data-center: paris}}", nil, inject.DataCenterUnknown, "is paris"},
		{"metadata: {annotations: {causalstore.io/injection-mode: Magic}}", nil, inject.ModeUnknown,
			"use LoopbackNames, Redirect or Explicit"},
		{app, redirectIn("restricted"), inject.RedirectForbidden, "namespace shop enforces PodSecurity restricted"},
		{app, redirectIn("baseline"), inject.RedirectForbidden, "set annotation causalstore.io/injection-mode"},
		{app, redirectTo(""), inject.RedirectImpossible, "Service orders-east of namespace shop has no cluster IP yet"},
		{app, redirectTo("None"), inject.RedirectImpossible, "restart the pod"},
		{app, redirectTo("fd00::1"), inject.RedirectImpossible, "only IPv4"},
		{app, func(r *inject.Request) {
			otherNamespace(r)
			r.Labels = nil
		}, inject.NotAdmitted, "spec.access.namespaces"},
		{app, func(r *inject.Request) { otherNamespace(r); r.Store.Spec.Access.Namespaces = nil }, inject.NotAdmitted,
			"shop/orders does not admit namespace web"},
		{app, func(r *inject.Request) { otherNamespace(r); r.Copied = func(string) bool { return false } },
			inject.ConfigurationMissing, "ConfigMap orders-east.shop"},
	} {
		r := request(t, c.pod)
		if c.given != nil {
			c.given(&r)
		}
		d := inject.Decide(r)
		if d.Reason != c.reason || !strings.Contains(d.Message, c.want) {
			t.Errorf("%s: %s %q, want %s with %q", c.pod, d.Reason, d.Message, c.reason, c.want)
		}
		if note := d.Pod.Annotations[inject.AnnotationNotInjected]; !strings.HasPrefix(note, string(c.reason)+": ") {
			t.Errorf("%s: the pod's annotation is %q", c.pod, note)
		}
		if len(d.Pod.Spec.InitContainers) != len(r.Pod.Spec.InitContainers) || d.Pod.Labels[inject.LabelStore] != "" ||
			len(d.Pod.Spec.HostAliases) > 0 {
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
		v1alpha1.DataCenter{Name: "west", Region: "us",
			Zones: v1alpha1.Zones{Frontend: []string{"c"}, Backend: []string{"d"}}})
}

func TestAPodSelectsItsDataCenterByAnnotationOrByZone(t *testing.T) {
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

func TestNoZoneSelectsADataCenterOfAStoreInOneZone(t *testing.T) {
	for _, pod := range []string{"{}", "spec: {nodeSelector: {zone: d}}"} {
		r := request(t, pod)
		twoHere(&r)
		r.Store.Spec.Placement = v1alpha1.PlacementSingleZone
		annotations := inject.Decide(r).Pod.Annotations
		if got := annotations[inject.AnnotationInjected]; got != "orders/east" {
			t.Errorf("%s: %q, want the first data center", pod, got)
		}
		if got := annotations[inject.AnnotationSidecarDataCenter]; got != "" {
			t.Errorf("%s: the node is to choose the data center (%q)", pod, got)
		}
	}
}

func TestPartsOfStoresAreNotInjected(t *testing.T) {
	r := request(t, app)
	r.Pod.Labels = plan.Labels("orders")
	before := r.Pod.DeepCopy()
	if d := inject.Decide(r); d.Reason != inject.PartOfStore || cmp.Diff(before, d.Pod) != "" {
		t.Errorf("%s, %s", d.Reason, cmp.Diff(before, d.Pod))
	}
}

// Where the operators of two regions share a cluster, both webhooks see every pod, and must not contradict each other.
func TestWebhooksOfTwoRegionsDecideTheSame(t *testing.T) {
	for metadata, want := range map[string]string{
		"{}": "orders/east",
		"{annotations: {causalstore.io/data-center: mars}}":  "DataCenterUnknown",
		"{annotations: {causalstore.io/data-center: paris}}": "orders/paris",
		"{annotations: {causalstore.io/data-center: east}}":  "orders/east",
	} {
		for _, order := range [][]string{{"us", "eu"}, {"eu", "us"}} {
			r := request(t, "metadata: "+metadata+"\nspec: {containers: [{name: app, image: app}]}")
			r.Regions, r.Images = map[string]bool{"us": true, "eu": true},
				map[string]string{"east": "causalstore:east", "paris": "causalstore:paris"}
			for _, region := range order {
				r.Region, r.Image = region, "causalstore:of-"+region
				r.Pod = inject.Decide(r).Pod
			}
			got, refused := r.Pod.Annotations[inject.AnnotationInjected],
				r.Pod.Annotations[inject.AnnotationNotInjected]
			if got != want && (want == "" || !strings.HasPrefix(refused, want)) || got != "" && refused != "" {
				t.Errorf("%s by %v: sidecar of %q, refused %q; want %s", metadata, order, got, refused, want)
			}
			if _, dc, _ := strings.Cut(got, "/"); got != "" && r.Pod.Spec.InitContainers[0].Image != "causalstore:"+dc {
				t.Errorf("%s by %v: the sidecar has image %s", metadata, order, r.Pod.Spec.InitContainers[0].Image)
			}
		}
	}
}

// The webhook of an operator that does not know yet that another one runs the store is called first.
func TestASidecarReplacesTheReasonOfAnotherWebhook(t *testing.T) {
	r := request(t, app)
	r.Region = "mars"
	r.Pod = inject.Decide(r).Pod
	if !strings.HasPrefix(r.Pod.Annotations[inject.AnnotationNotInjected], "StoreNotHere") {
		t.Fatalf("annotations %v", r.Pod.Annotations)
	}
	r.Region = "us"
	if p := inject.Decide(r).Pod; p.Annotations[inject.AnnotationInjected] == "" ||
		p.Annotations[inject.AnnotationNotInjected] != "" {
		t.Errorf("annotations %v", p.Annotations)
	}
}
