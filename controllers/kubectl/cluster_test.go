package kubectl

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// testCluster is a fixture in a real API server, where no pod runs, and runs commands against it.
type testCluster struct {
	*testing.T
	*fixture
	kubeconfig string
	k          *connection
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	apiserver.InstallCRDs(t, filepath.Join("..", "..", "config", "crd", "bases"))
	h := &testCluster{T: t, fixture: newFixture(t), kubeconfig: apiserver.Kubeconfig(t)}
	var err error
	if h.k, err = (&cluster{kubeconfig: h.kubeconfig, namespace: "shop"}).connect(); err != nil {
		t.Fatal(err)
	}
	if h.k.Client, err = client.New(h.k.config, client.Options{Scheme: h.k.Scheme()}); err != nil {
		// tests make objects of which commands know nothing
		t.Fatal(err)
	}
	h.store.UID = ""
	status := h.store.Status
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, h.store)
	h.store.Status = status
	h.store.Status.HeartbeatTime = &metav1.Time{Time: time.Now()}
	if err := h.k.Status().Update(t.Context(), h.store); err != nil {
		t.Fatal(err)
	}
	for i := range h.maps {
		h.maps[i].OwnerReferences = nil
		h.create(&h.maps[i])
	}
	for _, n := range []string{"us-a", "us-b", "us-c", "us-d"} {
		h.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + n, Labels: map[string]string{"zone": n}}})
	}
	h.createOperator()
	for i := range h.parts {
		p := &h.parts[i]
		status := p.Status
		// the API server refuses to connect to it
		status.PodIP, status.PodIPs = "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName,
			Containers: []corev1.Container{{Name: "part", Image: "causalstore:v1"}}}
		h.create(p)
		p.Status = status
		if err := h.k.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// createOperator makes a pod of an operator that is ready, and its lease.
func (h *testCluster) createOperator() {
	h.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system", Name: "causalstore-1",
		Labels: labelsOfOperator},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "causalstore:v1"}}}}
	lease := leaseOf("us", time.Now().Add(time.Hour)) // nobody renews it
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}, p, lease)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := h.k.Status().Update(h.Context(), p); err != nil {
		h.Fatal(err)
	}
}

func (h *testCluster) create(all ...client.Object) {
	h.Helper()
	for _, o := range all {
		if err := h.k.Create(h.Context(), o); err != nil {
			h.Fatal(err)
		}
	}
}

// run runs a command as a user does.
func (h *testCluster) run(line ...string) (string, error) {
	h.Helper()
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(append([]string{line[0], "--kubeconfig", h.kubeconfig, "--namespace", "shop"}, line[1:]...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage = true
	err := cmd.ExecuteContext(h.Context())
	return out.String(), err
}

func (h *testCluster) expectOutput(want string, line ...string) {
	h.Helper()
	if out, err := h.run(line...); err != nil || !strings.Contains(out, want) {
		h.Errorf("%v: %v\n%s\nwant output with %q", line, err, out, want)
	}
}

func (h *testCluster) expectError(want string, line ...string) {
	h.Helper()
	if out, err := h.run(line...); err == nil || !strings.Contains(err.Error(), want) {
		h.Errorf("%v: %v\n%s\nwant an error with %q", line, err, out, want)
	}
}

func TestCommandsWorkOnARealAPIServer(t *testing.T) {
	h := newTestCluster(t)
	h.expectOutput("shop/orders: ready", "status")
	h.expectOutput("orders-virginia-shard-1-0", "topology")
	h.expectOutput("some round trips are unknown: read metrics of orders-", "topology", "orders")
	h.expectOutput(`determined by its tag "user:1"`, "explain", "key", "{user:1}:cart")
	h.expectOutput("round trips from virginia are unknown", "explain", "key", "k", "--from", "virginia")
	h.expectOutput("cache of store orders", "explain", "pod", "orders-oregon-cache-0")
	h.expectError("answered; the first error: shop/orders-", "top", "--once")
	h.expectError("--interval 0s: use a time", "top", "--interval", "0s")

	h.expectOutput("resume orders --namespace shop", "pause", "orders")
	h.expectOutput("nothing to do, spec.paused is already true", "pause", "orders")
	if err := h.k.Get(t.Context(), client.ObjectKeyFromObject(h.store), h.store); err != nil || !h.store.Spec.Paused {
		t.Errorf("after pause: paused %t (%v)", h.store.Spec.Paused, err)
	}
	h.expectOutput("applies changes again", "resume", "orders")
	if err := h.k.Get(t.Context(), client.ObjectKeyFromObject(h.store), h.store); err != nil || h.store.Spec.Paused {
		t.Errorf("after resume: paused %t (%v)", h.store.Spec.Paused, err)
	}
	h.expectError("has no CausalStore carts", "pause", "carts")

	carts := h.store.DeepCopy()
	carts.ObjectMeta = metav1.ObjectMeta{Name: "carts", Namespace: "shop"}
	h.create(carts)
	h.expectError("name one of: carts, orders", "topology")
	h.expectError("either none of its data centers is in this cluster", "explain", "key", "k", "--store", "carts")
	h.expectError("no pod of shop/carts runs", "top", "carts")
	h.expectOutput("carts\norders\n", "__complete", "status", "")
	h.expectError("has no CausalStore", "status", "--namespace", "default")

	h.scaleDown(t)
	h.expectOutput("coordinator of store orders, data center virginia; being removed (scale down to 1)", "explain",
		"pod", "orders-virginia-cc-1")
	h.expectOutput("coordinator   being removed", "topology", "orders")
	h.expectOutput("coordinator   ready on", "topology", "orders")

	t.Run("a support bundle has everything but secrets", h.testSupportBundle)
	t.Run("pods without a sidecar are listed, and restarted one by one", h.testCheck)
	t.Run("contexts of several clusters are shown together, also if one is away", h.testContexts)
	t.Run("regions trust each other, revoke it, and rotate their authority", h.testTrust)
	h.expectOutput("8 of 8 serve", "doctor", "orders")
	t.Run("drills are listed, shown, scheduled, reported and compared", h.testDrills)
	lost := h.pod(t, "orders-virginia-shard-0-0")
	lost.Status.Conditions[0].Status = corev1.ConditionFalse
	if err := h.k.Status().Update(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	h.expectError("1 problems found", "doctor", "orders")
	t.Run("the live page opens, or the command says why not", h.testConsole)

	t.Run("a user without the right to pods/proxy learns what to ask for", func(t *testing.T) {
		k := h.connectAs(t, "reader", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"get",
				"list"}})
		if _, err := k.readAll(t.Context(),
			[]process{{"shop", "orders-virginia-cc-0", "virginia", 7480}}); err == nil ||
			!strings.Contains(err.Error(), "verb get on resource pods/proxy") {
			t.Error(err)
		}
		zones, err := k.nodeZones(t.Context(), h.store)
		if err != nil || zones != nil {
			t.Errorf("zones without the right to list nodes: %v (%v)", zones, err)
		}
		if l, err := k.scaleDowns(t.Context(), "shop", "orders"); err != nil || l != nil {
			t.Errorf("scale-downs without the right to list ConfigMaps: %v (%v)", l, err)
		}
		if _, err := k.appPods(t.Context(), h.store); err != nil {
			t.Errorf("apps, with the right to list pods in this namespace only: %v", err)
		}
	})
	t.Run("forget dc excludes a data center", func(t *testing.T) { testForget(t, h) })
}

// scaleDown removes one of the two coordinators of virginia from the configuration of the parts.
func (h *testCluster) scaleDown(t *testing.T) {
	t.Helper()
	for i := range h.maps {
		m := &h.maps[i]
		scaled := strings.Replace(m.Data["causalstore.yaml"], "    coordinators: 2\n    name: virginia\n",
			"    coordinators: 1\n    coordinatorsBefore: 2\n    name: virginia\n", 1)
		if scaled == m.Data["causalstore.yaml"] {
			continue
		}
		m.Data["causalstore.yaml"] = strings.Replace(scaled, "epoch: ", "epoch: 1", 1)
		if err := h.k.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no ConfigMap has the number of coordinators of virginia")
}

// connectAs returns the connection of a user with one right in the namespace.
func (h *testCluster) connectAs(t *testing.T, user string, may rbacv1.PolicyRule) *connection {
	t.Helper()
	meta := metav1.ObjectMeta{Name: user, Namespace: "shop"}
	h.create(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{may}}, &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}})
	config := rest.CopyConfig(h.k.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: h.k.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return &connection{c, config, "shop"}
}
