package kubectl

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

// here is a world in a real API server, whose pods nobody runs, and the commands for it.
type here struct {
	*testing.T
	*world
	kubeconfig string
	k          *connection
}

func inCluster(t *testing.T) *here {
	t.Helper()
	config := apiserver.ForTest(t)
	if err := apiserver.InstallCRDs(t.Context(), config, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
		t.Fatal(err)
	}
	h := &here{T: t, world: newWorld(t), kubeconfig: filepath.Join(t.TempDir(), "config")}
	if err := apiserver.WriteKubeconfig(h.kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	var err error
	if h.k, err = (&cluster{kubeconfig: h.kubeconfig, namespace: "shop"}).connect(); err != nil {
		t.Fatal(err)
	}
	h.store.UID = ""
	status := h.store.Status
	h.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, h.store)
	h.store.Status = status
	if err := h.k.Status().Update(t.Context(), h.store); err != nil {
		t.Fatal(err)
	}
	for i := range h.maps {
		h.maps[i].OwnerReferences = nil
		h.make(&h.maps[i])
	}
	for _, n := range []string{"us-a", "us-b", "us-c", "us-d"} {
		h.make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + n, Labels: map[string]string{"zone": n}}})
	}
	for i := range h.parts {
		p := &h.parts[i]
		is := p.Status
		is.PodIP, is.PodIPs = "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}} // where no API server connects to
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, Containers: []corev1.Container{{Name: "part", Image: "causalstore:v1"}}}
		h.make(p)
		p.Status = is
		if err := h.k.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *here) make(all ...client.Object) {
	h.Helper()
	for _, o := range all {
		if err := h.k.Create(h.Context(), o); err != nil {
			h.Fatal(err)
		}
	}
}

// run runs a command as people do.
func (h *here) run(line ...string) (string, error) {
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

func (h *here) says(want string, line ...string) {
	h.Helper()
	if out, err := h.run(line...); err != nil || !strings.Contains(out, want) {
		h.Errorf("%v: %v\n%s\nwant something with %q", line, err, out, want)
	}
}

func (h *here) fails(want string, line ...string) {
	h.Helper()
	if out, err := h.run(line...); err == nil || !strings.Contains(err.Error(), want) {
		h.Errorf("%v: %v\n%s\nwant an error with %q", line, err, out, want)
	}
}

func TestTheCommandsWorkOnARealAPIServer(t *testing.T) {
	h := inCluster(t)
	h.says("shop/orders: ready", "status")
	h.says("orders-virginia-shard-1-0", "topology")
	h.says("not all round trips are known: ask orders-", "topology", "orders")
	h.says(`by its tag "user:1"`, "explain", "key", "{user:1}:cart")
	h.says("round trips from virginia are not known", "explain", "key", "k", "--from", "virginia")
	h.says("it is a cache of store orders", "explain", "pod", "orders-oregon-cache-0")
	h.fails("has answered; the first: shop/orders-", "top", "--once")
	h.fails("--interval 0s: give a time", "top", "--interval", "0s")

	h.says("resume orders --namespace shop", "pause", "orders")
	h.says("nothing to do, spec.paused is true", "pause", "orders")
	if err := h.k.Get(t.Context(), client.ObjectKeyFromObject(h.store), h.store); err != nil || !h.store.Spec.Paused {
		t.Errorf("after pause: paused %t (%v)", h.store.Spec.Paused, err)
	}
	h.says("carries it out again", "resume", "orders")
	if err := h.k.Get(t.Context(), client.ObjectKeyFromObject(h.store), h.store); err != nil || h.store.Spec.Paused {
		t.Errorf("after resume: paused %t (%v)", h.store.Spec.Paused, err)
	}
	h.fails("has no CausalStore carts", "pause", "carts")

	carts := h.store.DeepCopy()
	carts.ObjectMeta = metav1.ObjectMeta{Name: "carts", Namespace: "shop"}
	h.make(carts)
	h.fails("name one: carts, orders", "topology")
	h.fails("either it runs none of its data centres", "explain", "key", "k", "--store", "carts")
	h.fails("no pod of shop/carts runs", "top", "carts")
	h.says("carts\norders\n", "__complete", "status", "")
	h.fails("has no CausalStore", "status", "--namespace", "default")

	h.leave(t)
	h.says("it is a coordinator of store orders, data centre virginia; it leaves, since there are to be 1", "explain", "pod", "orders-virginia-cc-1")
	h.says("coordinator   it leaves", "topology", "orders")
	h.says("coordinator   ready on", "topology", "orders")

	t.Run("who may not use pods/proxy is told what to ask for", func(t *testing.T) {
		k := h.as(t, "reader", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get",
			"list"}})
		if _, err := k.readAll(t.Context(), []process{{"shop", "orders-virginia-cc-0", "virginia", 7480}}); err == nil ||
			!strings.Contains(err.Error(), "verb get on resource pods/proxy") {
			t.Error(err)
		}
		zones, err := k.zones(t.Context(), h.store)
		if err != nil || zones != nil {
			t.Errorf("zones of nodes that must not be looked at: %v (%v)", zones, err)
		}
		if l, err := k.leaving(t.Context(), "shop", "orders"); err != nil || l != nil {
			t.Errorf("coordinators that leave, where ConfigMaps may not be looked at: %v (%v)", l, err)
		}
		if _, err := k.apps(t.Context(), h.store); err != nil {
			t.Errorf("apps, where only this namespace may be looked at: %v", err)
		}
	})
}

// leave lets one of the two coordinators of virginia leave, as far as the parts are told.
func (h *here) leave(t *testing.T) {
	t.Helper()
	for i := range h.maps {
		m := &h.maps[i]
		is := strings.Replace(m.Data["causalstore.yaml"], "    coordinators: 2\n    name: virginia\n",
			"    coordinators: 1\n    coordinatorsBefore: 2\n    name: virginia\n", 1)
		if is == m.Data["causalstore.yaml"] {
			continue
		}
		m.Data["causalstore.yaml"] = strings.Replace(is, "epoch: ", "epoch: 1", 1)
		if err := h.k.Update(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("no ConfigMap says how many coordinators virginia has")
}

// as is a connection of a user who may do something in the namespace.
func (h *here) as(t *testing.T, user string, may rbacv1.PolicyRule) *connection {
	t.Helper()
	meta := metav1.ObjectMeta{Name: user, Namespace: "shop"}
	h.make(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{may}}, &rbacv1.RoleBinding{ObjectMeta: meta,
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
