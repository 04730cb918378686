package drill

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/e2e/apiserver"
	"github.com/causalstore/causalstore/lab/canary"
)

func TestCanariesAreAskedThroughTheAPIServerAndErrorsHideTheToken(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		if strings.Contains(r.URL.Path, "/report") {
			_, _ = w.Write([]byte(`{"dataCenter":"paris","next":{"bytes":9}}`))
			return
		}
		http.Error(w, "no such pod", http.StatusNotFound)
	}))
	defer server.Close()
	core, err := typedv1.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := &Pods{REST: core.RESTClient(), Store: fixtureStore(t), run: &record.Run{ID: "20260102-030405-abcd"},
		token: "hush"}
	r, err := c.Report(t.Context(), CanaryID{"paris", record.Front}, canary.Position{Bytes: 5, Samples: 1})
	if err != nil || r.Next.Bytes != 9 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := c.Stop(t.Context(), CanaryID{"paris", record.Sidecar}); err == nil ||
		strings.Contains(err.Error(), "hush") {
		t.Errorf("an error of the canary: %v", err)
	}
	want := "GET /api/v1/namespaces/shop/pods/orders-drill-paris-abcd:7480/proxy/hush/report?bytes=5&incarnation=&samples=1\nPOST /api/v1/namespaces/shop/pods/orders-drill-paris-sidecar-abcd:7482/proxy/hush/stop"
	if got := strings.Join(asked, "\n"); got != want {
		t.Errorf("asked\n%s\nwant\n%s", got, want)
	}
}

func TestThePodOfACanaryMeetsTheLevelRestricted(t *testing.T) {
	c, err := client.New(apiserver.ForTest(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := fixtureStore(t)
	s.Namespace = "restricted-canaries"
	s.Spec.Clients.UsersSecret = "users"
	s.Spec.Clients.Front.TLS = &v1alpha1.FrontTLS{SecretName: "front"}
	if err := c.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace,
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}); err != nil {
		t.Fatal(err)
	}
	r := &record.Run{ID: "20260102-030405-abcd", Drill: "az-b", Store: s.Name}
	p := CanaryPod(s, r, "causalstore:v1", CanaryID{"paris", record.Front}, "secretsecret", "token", 10*time.Minute)
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	args := strings.Join(p.Spec.Containers[0].Args, " ")
	for _, want := range []string{"--address=orders-paris.restricted-canaries.svc:6380",
		"--users-dir=/etc/causalstore/users", "--front-certificate-dir=/etc/causalstore/front", "--duration=10m0s",
		"--ttl=20m0s"} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in: %s", want, args)
		}
	}
}

// TestTheAPIServerSaysWhetherCanariesCanHaveASidecar plays the webhook: its decision is the real one.
func TestTheAPIServerSaysWhetherCanariesCanHaveASidecar(t *testing.T) {
	real, err := client.NewWithWatch(apiserver.ForTest(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := fixtureStore(t)
	s.Namespace, s.Spec.Clients.UsersSecret, s.Spec.Clients.SidecarPasswords = "injected-canaries", "users", true
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := real.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	l := fixtureLandscape(t)
	l.Store = s
	c := &Pods{Client: real, Store: s, Image: "causalstore:v1"}
	if err := c.PlanSidecars(t.Context(), l, SidecarsIfPossible); err != nil || len(l.Canaries) != 0 ||
		!strings.Contains(l.NoSidecars, "has no label causalstore.io/inject=orders") {
		t.Errorf("no webhook: %v, %q, %v", l.Canaries, l.NoSidecars, err)
	}
	if err := c.PlanSidecars(t.Context(), l, SidecarsRequired); err == nil ||
		!strings.Contains(err.Error(), "required") {
		t.Errorf("no webhook, and sidecars are required: %v", err)
	}
	if err := c.PlanSidecars(t.Context(), l, SidecarsOff); err != nil || l.NoSidecars != "turned off" {
		t.Errorf("turned off: %q, %v", l.NoSidecars, err)
	}
	refused := false
	c.Client = interceptor.NewClient(real,
		interceptor.Funcs{Create: func(ctx context.Context, to client.WithWatch, o client.Object,
			options ...client.CreateOption) error {
			r := inject.Request{Pod: o.(*corev1.Pod), Namespace: s.Namespace,
				StoreRef: inject.StoreRef{Namespace: s.Namespace, Name: s.Name}, Store: s, Region: "here",
				Image: "causalstore:v1"}
			if refused {
				r.Refused = []string{"too large"}
			}
			inject.Decide(r).Pod.DeepCopyInto(r.Pod)
			return to.Create(ctx, o, options...)
		}})
	if err := c.PlanSidecars(t.Context(), l, SidecarsRequired); err != nil || len(l.Canaries) != 3 ||
		l.NoSidecars != "" {
		t.Fatalf("with a webhook: %v, %q, %v", l.Canaries, l.NoSidecars, err)
	}
	var pods corev1.PodList
	if err := real.List(t.Context(), &pods, client.InNamespace(s.Namespace)); err != nil || len(pods.Items) > 0 {
		t.Errorf("the preflight has created %d pods (%v)", len(pods.Items), err)
	}
	p := CanaryPod(s, &record.Run{ID: l.RunID, Drill: "az-f", Store: s.Name}, c.Image,
		CanaryID{"paris", record.Sidecar}, "secretsecret", "token", 10*time.Minute)
	if err := c.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Name != l.Canaries[2].Name || sidecarProblem(s, "paris", p) != nil || sidecarProblem(s, "oregon", p) == nil {
		t.Errorf("pod %s, annotations %v; planned %v", p.Name, p.Annotations, l.Canaries)
	}
	args := strings.Join(p.Spec.Containers[0].Args, " ")
	for _, want := range []string{"--address=$(CAUSALSTORE_ADDRESS)", "--one-session=true", "--name=paris/sidecar",
		"--users-dir="} {
		if !strings.Contains(args, want) {
			t.Errorf("no %s in: %s", want, args)
		}
	}
	if terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(
		terms) != 1 || terms[0].MatchExpressions[0].Values[0] != "e" {
		t.Errorf("it is not kept in AZ-F: %+v", terms)
	}
	refused = true
	if err := c.PlanSidecars(t.Context(), l, SidecarsIfPossible); err != nil ||
		!strings.Contains(l.NoSidecars, "StoreRefused") {
		t.Errorf("the webhook refuses: %q, %v", l.NoSidecars, err)
	}
}

func TestWhatACommandThatDiedLeavesBehindIsFoundAndRemoved(t *testing.T) {
	c, err := client.New(apiserver.ForTest(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	apiserver.InstallCRDs(t, filepath.Join("testdata", "crds"))
	s := fixtureStore(t)
	s.Namespace = "remainders"
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: record.LockName(s.Name),
		Labels:      record.Labels(s.Name, "az-f", "run-new1"),
		Annotations: map[string]string{record.AnnotationExpires: now().Add(time.Hour).Format(time.RFC3339)}}}
	create := func(all ...client.Object) {
		t.Helper()
		for _, o := range all {
			if err := c.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, lock)
	for _, id := range []string{"run-old1", "run-new1"} {
		r := &record.Run{ID: id, Drill: "az-f", Store: s.Name, Namespace: s.Namespace}
		create(CanaryPod(s, r, "causalstore:v1", CanaryID{"paris", record.Sidecar}, "secretsecret", "token",
			time.Minute),
			Fault{Kind: KindPod, What: "stop", Victims: []Pod{{Namespace: "x", Name: "y"}}}.Object(r, 0, time.Minute))
	}
	pod := func(name string, labels map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "causalstore:v1"}}}}
	}
	// Chaos Mesh keeps an object for each pod that it has hit, with rules that name their experiment.
	rules := func(pod string, sources ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(chaosAPI.WithKind(KindPodNetwork))
		o.SetNamespace(s.Namespace)
		o.SetName(pod)
		var tables []any
		for _, source := range sources {
			tables = append(tables, map[string]any{"name": "n", "direction": "input", "ipsets": []any{"i"},
				"source": source})
		}
		_ = unstructured.SetNestedSlice(o.Object, tables, "spec", "iptables") // spec is a map
		return o
	}
	lasting := Fault{Kind: KindNetwork, What: "cut", Victims: []Pod{{Namespace: "x", Name: "y"}},
		Targets: []Pod{{Namespace: "x", Name: "z"}}}.Object(
		&record.Run{ID: "run-new1", Drill: "az-f", Store: s.Name, Namespace: s.Namespace}, 0, time.Minute)
	gone, foreign := "remainders/orders-drill-run-old1-0-cut", "remainders/experiment-of-somebody"
	create(lasting, pod("orders-a", plan.Labels(s.Name)), pod("orders-b", plan.Labels(s.Name)),
		pod("orders-c", plan.Labels(s.Name)), pod("other", nil),
		rules("orders-a"), rules("orders-b", gone, foreign, s.Namespace+"/"+lasting.GetName()),
		rules("orders-c", foreign), rules("other"))
	create(CanaryPod(s, &record.Run{ID: "run-prob", Drill: drillProbe, Store: s.Name}, "causalstore:v1",
		CanaryID{"paris", record.Front}, "secretsecret", "token", time.Minute))
	found := func() string {
		t.Helper()
		all, _, err := FindRemainders(t.Context(), c, s.Namespace, s.Name)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range all {
			names = append(names, r.String())
		}
		return strings.Join(names, "\n")
	}
	want := "Pod remainders/orders-drill-paris-sidecar-old1 of run run-old1\nPodChaos " +
		"remainders/orders-drill-run-old1-0-stop of run run-old1\n" +
		"PodNetworkChaos remainders/orders-a, which does nothing\nPodNetworkChaos remainders/orders-b: 1 rules of " +
		"experiments that are gone"
	if got := found(); got != want {
		t.Errorf("found\n%s\nwant\n%s", got, want)
	}
	if _, held, err := FindRemainders(t.Context(), c, s.Namespace, s.Name); err != nil || held == nil ||
		held.Labels[record.LabelRun] != "run-new1" {
		t.Errorf("the run that is under way: %v (%v)", held, err)
	}
	x := &Runner{Client: c, Out: io.Discard, run: &record.Run{Namespace: s.Namespace, Store: s.Name}}
	x.removeEarlierCanaries(t.Context())
	if got := found(); strings.Contains(got, "Pod remainders") || !strings.Contains(got, "PodChaos") {
		t.Errorf("after a run has removed canaries of earlier ones:\n%s", got)
	}
	lock.Annotations[record.AnnotationExpires] = now().Add(-time.Hour).Format(time.RFC3339)
	if err := c.Update(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	all, held, err := FindRemainders(t.Context(), c, s.Namespace, s.Name)
	if err != nil || len(all) != 7 || held != nil {
		t.Fatalf("after the lock has expired: %v, lock %v (%v)", all, held, err)
	}
	if err := RemoveRemainders(t.Context(), c, all); err != nil {
		t.Fatal(err)
	}
	if got := found(); got != "PodNetworkChaos remainders/orders-b: 1 rules of experiments that are gone" {
		// the experiment that lasted
		t.Errorf("still there:\n%s", got)
	}
	left := rules("orders-b")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(left), left); err != nil {
		t.Fatal(err)
	}
	if tables, _, _ := unstructured.NestedSlice(left.Object, "spec", "iptables"); len(tables) != 2 {
		t.Errorf("rules that are left: %v", tables)
	}
}
