package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/edge"
)

const edgeName = "orders-us-east-1-edge"

// regions returns the input of a plan for region us-east of a store of two regions.
func regions(t *testing.T) plan.Observed {
	t.Helper()
	return observed(t, "regions.yaml", "us-east")
}

// configured returns what the parts of data center us-east-1 are configured with.
func configured(t *testing.T, p plan.Plan) *contract.Config {
	t.Helper()
	return configuredBy(t, p, plan.PartsFile)
}

// configuredBy returns a configuration of data center us-east-1.
func configuredBy(t *testing.T, p plan.Plan, file string) *contract.Config {
	t.Helper()
	c, err := contract.ParseConfig([]byte(named[*corev1.ConfigMap](t, p, "orders-us-east-1").Data[file]))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPartsOfOtherRegionsAreDialedByTheirNamesThroughTheEgress(t *testing.T) {
	const id = "1c8f6a52-93f4-4f7e-8c0a-5b1f6d2e7a90"
	p := planned(t, regions(t))
	want := contract.Addresses{Coordinators: []string{"coordinator-0.eu-west-1." + id + ":7400"},
		Middlemen: []string{"middleman-0.eu-west-1." + id + ":7400"},
		Caches:    []string{"cache-0.eu-west-1." + id + ":7400"}}
	for file, egress := range map[string]string{plan.PartsFile: "7503", "front.yaml": "7503",
		plan.SidecarFile: "7500"} {
		c := configuredBy(t, p, file)
		want.Via = edgeName + ".shop.svc:" + egress
		if d := cmp.Diff(want, c.Addresses["eu-west-1"]); d != "" {
			t.Errorf("addresses of the other region in %s (-want +got):\n%s", file, d)
		}
		if via := c.Addresses["us-east-1"].Via; via != "" {
			t.Errorf("the own data center is dialed through %s in %s", via, file)
		}
	}
	s := named[*corev1.Service](t, p, edgeName)
	listening := map[int32]bool{}
	for _, port := range s.Spec.Ports {
		listening[port.Port] = port.TargetPort.IntVal == port.Port
	}
	if !listening[edge.PortEgress] || !listening[edge.PortEgressParts] || s.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("nothing listens there: %+v", s.Spec)
	}
}

// The members of shards have names of their own, by which the other regions dial them, and the edge leads there.
func TestMembersOfShardsAreDialedByTheirNamesThroughEdges(t *testing.T) {
	in := regions(t)
	in.Store.Spec.Storage.Replicas = 2
	p := planned(t, in)
	id := in.Store.Spec.ID
	if got, want := configured(t, p).Addresses["eu-west-1"].Middlemen,
		[]string{"middleman-0.eu-west-1." + id + ":7400", "middleman-0-2.eu-west-1." + id + ":7400"}; !slices.Equal(got,
		want) {
		t.Errorf("middlemen of the other region: %v, want %v", got, want)
	}
	files := named[*corev1.ConfigMap](t, p, edgeName).Data
	all := strings.Join(slices.Collect(maps.Values(files)), "\n")
	for _, text := range []string{"middleman-1-2.us-east-1." + id,
		"orders-us-east-1-s1-m2-0.orders-us-east-1-parts.shop.svc"} {
		if !strings.Contains(all, text) {
			t.Errorf("the configuration of the edge does not have %s", text)
		}
	}
}

// input is what the edge of us-east-1 should be configured for.
func input(in plan.Observed) edge.Input {
	bundle := func(region string) string { return in.Trust.Bundles[in.Trust.Domains[region]] }
	part := func(name, pod string) edge.Part {
		return edge.Part{Name: name + ".us-east-1." + in.Store.Spec.ID,
			Address: pod + ".orders-us-east-1-parts.shop.svc:7400"}
	}
	return edge.Input{StoreID: in.Store.Spec.ID, DataCenter: "us-east-1", TrustDomain: "us-east.1",
		Bundle: bundle("us-east"),
		Parts: []edge.Part{part("coordinator-0", "orders-us-east-1-cc-0"),
			part("coordinator-1", "orders-us-east-1-cc-1"),
			part("middleman-0", "orders-us-east-1-shard-0-0"), part("middleman-1", "orders-us-east-1-shard-1-0")},
		Peers: []edge.Peer{{DataCenter: "eu-west-1", Address: "edge.eu-west-1.example.com:15443",
			TrustDomain: "eu-west.1", Bundle: bundle("eu-west")}}}
}

// expectEdge checks the configuration of the edge of us-east-1.
func expectEdge(t *testing.T, got map[string]string, want edge.Input) {
	t.Helper()
	files, err := edge.Configure(want)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(files, got); d != "" {
		t.Errorf("the edge is configured for something else (-want +got):\n%s", d)
	}
}

func TestAnEdgeLeadsToThePartsOfItsDataCenterAndToTrustedRegions(t *testing.T) {
	in := regions(t)
	expectEdge(t, named[*corev1.ConfigMap](t, planned(t, in), edgeName).Data, input(in))

	in = executed(in, planned(t, in))
	delete(in.Trust.Domains, "eu-west")
	want := input(in)
	want.Peers = nil
	expectEdge(t, named[*corev1.ConfigMap](t, planned(t, in), edgeName).Data, want)
	if got := in.UntrustedPeers(); !slices.Equal(got, []string{"eu-west-1"}) {
		t.Errorf("untrusted: %v", got)
	}
	// A paused store's edges follow as well, by the last spec that was applied.
	renewed, err := plan.RenewTrust(in, *in.Record)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(renewed, func(m *corev1.ConfigMap) bool { return m.Name == edgeName })
	if i < 0 {
		t.Fatalf("the edge still trusts it: %d ConfigMaps are renewed", len(renewed))
	}
	expectEdge(t, renewed[i].Data, want)
}

func TestAnEdgeFollowsTheLayoutWithoutARestart(t *testing.T) {
	in := regions(t)
	before := planned(t, in)
	in = executed(in, before)
	runPods(&in)
	in.Store.Spec.DataCenters[0].Shards = 3
	after := planned(t, in)
	want := input(in)
	want.Parts = append(want.Parts, edge.Part{Name: "middleman-2.us-east-1." + in.Store.Spec.ID,
		Address: "orders-us-east-1-shard-2-0.orders-us-east-1-parts.shop.svc:7400"})
	expectEdge(t, named[*corev1.ConfigMap](t, after, edgeName).Data, want)
	if d := cmp.Diff(named[*appsv1.Deployment](t, before, edgeName),
		named[*appsv1.Deployment](t, after, edgeName)); d != "" {
		t.Errorf("the edge restarts (-before +after):\n%s", d)
	}
}

func TestAnEdgeRestartsForWhatItDoesNotWatch(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*plan.Observed)
		want   bool
	}{
		"nothing": {func(*plan.Observed) {}, false},
		"the address": {func(in *plan.Observed) {
			in.Store.Spec.DataCenters[1].Edge.Address = "other.example.com:443"
		}, false},
		"a bundle": {func(in *plan.Observed) {
			in.Trust.Bundles["eu-west.1"] += in.Trust.Bundles["eu-west.1"]
		}, false},
		"trust":           {func(in *plan.Observed) { delete(in.Trust.Domains, "eu-west") }, false},
		"access":          {func(in *plan.Observed) { in.Store.Spec.Access.Namespaces = nil }, false},
		"number of pods":  {func(in *plan.Observed) { in.Store.Spec.DataCenters[0].Edge.Replicas = 3 }, false},
		"the store image": {func(in *plan.Observed) { in.Store.Spec.Image = "causalstore:v2" }, false},
		"the image":       {func(in *plan.Observed) { in.EdgeImage = "envoy:v2" }, true},
		"resources": {func(in *plan.Observed) {
			in.Store.Spec.DataCenters[0].Edge.Resources.Limits = corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("2Gi"),
			}
		}, true},
		"the annotation": {func(in *plan.Observed) {
			in.Store.Annotations = map[string]string{plan.AnnotationRestart: "now"}
		}, true},
		"a pod setting": {func(in *plan.Observed) { in.Store.Spec.Pods.PriorityClassName = "important" }, true},
	} {
		in := regions(t)
		before := planned(t, in)
		in = executed(in, before)
		c.change(&in)
		was, is := named[*appsv1.Deployment](t, before, edgeName),
			named[*appsv1.Deployment](t, planned(t, in), edgeName)
		if d := cmp.Diff(was.Spec.Template, is.Spec.Template); (d != "") != c.want {
			t.Errorf("a change of %s: restarts %t, want %t:\n%s", what, d != "", c.want, d)
		}
	}
}

func TestOnlyDataCentersWithPartsInOtherClustersHaveAnEdge(t *testing.T) {
	edges := func(p plan.Plan) (all []string) {
		for _, o := range p.Apply {
			if o.GetLabels()[plan.LabelComponent] == plan.ComponentEdge {
				all = append(all, o.GetName())
			}
		}
		return all
	}
	in := regions(t)
	in.Neighbors = map[string]bool{"eu-west-1": true}
	p := planned(t, in)
	if all := edges(p); len(all) > 0 {
		t.Errorf("the other data center is in this cluster, and there is an edge: %v", all)
	}
	if to := configured(t, p).Addresses["eu-west-1"]; to.Via != "" ||
		to.Middlemen[0] != "orders-eu-west-1-shard-0-0.orders-eu-west-1-parts.shop.svc:7400" {
		t.Errorf("its parts are dialed at %+v", to)
	}
	one := observed(t, "one.yaml", "local")
	one.Store.Spec.DataCenters[0].Edge = &v1alpha1.Edge{Address: "edge.example.com:443"}
	if all := edges(planned(t, one)); len(all) > 0 {
		t.Errorf("a store of one region has an edge: %v", all)
	}
}

func TestWithoutAnImageAnEdgeHasNoPodsAndARunningOneStays(t *testing.T) {
	in := regions(t)
	before := planned(t, in)
	in.EdgeImage = ""
	p := planned(t, in)
	if has(p, "Deployment", edgeName) || has(p, "PodDisruptionBudget", edgeName) || !has(p, "Service", edgeName) {
		t.Error("the plan has pods without an image, or lacks the Service")
	}
	in = executed(in, before)
	if d := cmp.Diff(named[*appsv1.Deployment](t, before, edgeName),
		named[*appsv1.Deployment](t, planned(t, in), edgeName)); d != "" {
		t.Errorf("a running edge changes because the operator has no image (-before +after):\n%s", d)
	}
}

func TestPodsOfAnEdgeAreReplacedOneByOneAfterANewOneIsReady(t *testing.T) {
	d := named[*appsv1.Deployment](t, planned(t, regions(t)), edgeName).Spec
	if u := d.Strategy.RollingUpdate; u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.IntValue() != 1 ||
		*d.Replicas != 2 {
		t.Errorf("an edge may be without pods: %+v", d.Strategy)
	}
	c, grace := d.Template.Spec.Containers[0], *d.Template.Spec.TerminationGracePeriodSeconds
	if sleep := c.Lifecycle.PreStop.Sleep.Seconds; sleep < 5 || grace <= sleep {
		t.Errorf("a pod that stops goes on for %d s, of %d s: clients of the Service cannot have left", sleep, grace)
	}
	if limit := c.Resources.Limits.Memory().Value(); limit <= edge.HeapBytes {
		t.Errorf("the limit of %d bytes is no more than what Envoy may use", limit)
	}
	for _, v := range d.Template.Spec.Volumes {
		if v.Secret != nil && v.Secret.SecretName != "orders-us-east-1-edge-tls" {
			t.Errorf("the proxy has Secret %s", v.Secret.SecretName)
		}
	}
}

func TestTheServiceOfAnEdgeIsAsTheSpecSays(t *testing.T) {
	in := regions(t)
	of := &in.Store.Spec.DataCenters[0].Edge.Service
	is := func() *corev1.Service { return named[*corev1.Service](t, planned(t, in), "orders-us-east-1-ingress") }
	if s := is(); s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.Ports[0].Port != 15443 ||
		s.Spec.Ports[0].TargetPort.IntValue() != edge.PortIngress ||
		s.Annotations["example.com/internal"] != "true" || s.Spec.LoadBalancerClass != nil {
		t.Errorf("the default is %+v with annotations %v", s.Spec, s.Annotations)
	}
	of.Port, of.NodePort, of.LoadBalancerClass = 443, 30443, "example.com/internal"
	s := is()
	if s.Spec.Ports[0].Port != 443 || s.Spec.Ports[0].NodePort != 30443 ||
		*s.Spec.LoadBalancerClass != "example.com/internal" {
		t.Errorf("the Service is %+v", s.Spec)
	}
	for want, given := range map[string]func(*corev1.Service){
		"": func(*corev1.Service) {},
		"203.0.113.7:443": func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}
		},
		"lb.example.com:443": func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.com"}}
		},
		":30443": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
		"10.0.0.7:443": func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "10.0.0.7"
		},
		"[2001:db8::7]:443": func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "2001:db8::7"
		},
	} {
		s := s.DeepCopy()
		if given(s); plan.EdgeAddress(s) != want {
			t.Errorf("the address is %q, want %q", plan.EdgeAddress(s), want)
		}
	}
}

func TestEveryoneReachesTheIngressClientsTheEgressAndOnlyPartsTheirs(t *testing.T) {
	in := regions(t)
	rules := named[*networkingv1.NetworkPolicy](t, planned(t, in), edgeName).Spec.Ingress
	want := map[int32][]networkingv1.NetworkPolicyPeer{edge.PortIngress: nil, edge.PortHTTP: nil,
		edge.PortEgress: {{PodSelector: &metav1.LabelSelector{}}, {NamespaceSelector: in.Store.Spec.Access.Namespaces}},
		edge.PortEgressParts: {
			{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{plan.LabelInstance: "orders",
					plan.LabelDataCenter: "us-east-1"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: plan.LabelComponent,
						Operator: metav1.LabelSelectorOpIn, Values: []string{"coordinator", "shard", "cache"}}}}}}}
	got := map[int32][]networkingv1.NetworkPolicyPeer{}
	for _, r := range rules {
		for _, p := range r.Ports {
			got[p.Port.IntVal] = r.From
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("who is admitted to which port (-want +got):\n%s", d)
	}
}

// TestAllPodsOfTheDataCenterAndNoOthersReachTheEgressForParts: but for those of the edge itself, which do not dial it.
func TestAllPodsOfTheDataCenterAndNoOthersReachTheEgressForParts(t *testing.T) {
	p := planned(t, regions(t))
	var admits []labels.Selector
	for _, r := range named[*networkingv1.NetworkPolicy](t, p, edgeName).Spec.Ingress {
		if r.Ports[0].Port.IntVal != edge.PortEgressParts {
			continue
		}
		for _, from := range r.From {
			s, err := metav1.LabelSelectorAsSelector(from.PodSelector)
			if err != nil || from.NamespaceSelector != nil || s.Empty() {
				t.Fatalf("it admits %+v (%v)", from, err)
			}
			admits = append(admits, s)
		}
	}
	admitted := func(pod map[string]string) bool {
		return slices.ContainsFunc(admits, func(s labels.Selector) bool { return s.Matches(labels.Set(pod)) })
	}
	sets := 0
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok {
			sets++
			if pod := s.Spec.Template.Labels; !admitted(pod) {
				t.Errorf("pods of %s are not admitted: %v", s.Name, pod)
			}
		}
	}
	if sets < 3 {
		t.Fatalf("there are %d StatefulSets", sets)
	}
	if app := map[string]string{plan.LabelSidecarOf: "orders", plan.LabelDataCenter: "us-east-1",
		plan.LabelInstance: "orders"}; admitted(app) {
		t.Error("a pod with a sidecar is admitted")
	}
}

// TestTheServiceOfThePartsHasNoPortOfAnEdge: it selects edges too, and Prometheus scrapes its port http.
func TestTheServiceOfThePartsHasNoPortOfAnEdge(t *testing.T) {
	p := planned(t, regions(t))
	ports := map[string]bool{}
	for _, c := range named[*appsv1.Deployment](t, p, edgeName).Spec.Template.Spec.Containers[0].Ports {
		ports[c.Name] = true
	}
	for _, port := range named[*corev1.Service](t, p, "orders-us-east-1-parts").Spec.Ports {
		if port.TargetPort.StrVal == "" || ports[port.TargetPort.StrVal] {
			t.Errorf("port %s of the parts leads to %s of edges", port.Name, port.TargetPort.String())
		}
	}
}

func TestPodsOfEdgesAreNotifiedOnceTheirConfigurationIsThere(t *testing.T) {
	in := regions(t)
	in = executed(in, planned(t, in))
	in.EdgePods = []corev1.Pod{
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{plan.LabelDataCenter: "us-east-1"}}},
	}
	first := plan.EdgeNotices(in)["a"]
	if first == "" {
		t.Fatal("the pod is not notified")
	}
	in.EdgePods[0].Annotations = map[string]string{plan.AnnotationEdge: first}
	if all := plan.EdgeNotices(in); len(all) > 0 {
		t.Errorf("it is notified again: %v", all)
	}
	delete(in.Trust.Domains, "eu-west")
	p := planned(t, in)
	if all := plan.EdgeNotices(in); len(all) > 0 {
		t.Errorf("it is notified before the ConfigMap has the configuration: %v", all)
	}
	in = executed(in, p)
	if second := plan.EdgeNotices(in)["a"]; second == "" || second == first {
		t.Errorf("notified of %q after %q", second, first)
	}
}

func TestTheEdgeHasACertificateOfItsOwnRole(t *testing.T) {
	in := regions(t)
	secrets, err := plan.Certificates(in, planned(t, in).Record)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(secrets, func(s plan.CertificateSecret) bool {
		return s.Secret.Name == "orders-us-east-1-edge-tls"
	})
	if i < 0 {
		t.Fatal("no Secret is planned")
	}
	want := map[string]contract.Identity{"0": {TrustDomain: "us-east.1", StoreID: in.Store.Spec.ID,
		DataCenter: "us-east-1", Role: contract.RoleEdge, Member: "0"}}
	if d := cmp.Diff(want, maps.Clone(secrets[i].Identities)); d != "" {
		t.Error(d)
	}
}

func TestAPausedStoreSaysWhichEdgesWouldChange(t *testing.T) {
	in := regions(t)
	in = executed(in, planned(t, in))
	if texts := plan.DescribePending(in, planned(t, in)); len(texts) > 0 {
		t.Errorf("nothing has changed: %q", texts)
	}
	in.EdgeImage = "envoy:v2"
	if texts := strings.Join(plan.DescribePending(in, planned(t, in)),
		"; "); texts != "Deployments of edges to create or change: "+edgeName {
		t.Error(texts)
	}
}
