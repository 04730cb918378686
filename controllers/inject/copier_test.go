package inject_test

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// read returns the data of a copy, or nil if it is not there.
func (k *cluster) read(namespace string, o client.Object, name string) map[string]string {
	k.Helper()
	err := k.client.Get(k.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		k.Fatal(err)
	}
	data := map[string]string{}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		data = o.Data
	case *corev1.Secret:
		for name, b := range o.Data {
			data[name] = string(b)
		}
	}
	return data
}

func (k *cluster) configuration() map[string]string {
	return k.read("web", &corev1.ConfigMap{}, "orders-here.store")
}

// identityOfSidecars returns whom the certificate in namespace web is of, or "" if there is none.
func (k *cluster) identityOfSidecars() string {
	k.Helper()
	files := k.read("web", &corev1.Secret{}, "orders-here-sidecar-tls.store")
	if files == nil {
		return ""
	}
	pair, err := tls.X509KeyPair([]byte(files["tls.crt"]), []byte(files["tls.key"]))
	if err != nil {
		k.Fatal(err)
	}
	return pair.Leaf.URIs[0].String()
}

// update changes an object that others may change concurrently.
func update[T client.Object](k *cluster, o T, f func(T)) {
	k.Helper()
	k.waitFor("an update without conflict", func() bool {
		if err := k.client.Get(k.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			k.Fatal(err)
		}
		f(o)
		err := k.client.Update(k.Context(), o)
		if err != nil && !apierrors.IsConflict(err) {
			k.Fatal(err)
		}
		return err == nil
	})
}

// TestPodsOfAnotherNamespaceGetASidecarIfTheStoreAdmitsThem follows the copies that they need: created, kept equal to
// the originals, and deleted when no pod needs them.
func TestPodsOfAnotherNamespaceGetASidecarIfTheStoreAdmitsThem(t *testing.T) {
	k := newCluster(t)
	web := namespace("web", map[string]string{inject.LabelInject: "orders.store", "team": "a"})
	k.create(namespace("store", nil), web)
	store := k.store("store", "orders")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "store", Name: "orders-here",
		Labels: plan.Labels("orders")},
		Data: map[string]string{"causalstore.yaml": "first",
			plan.TrustFile: "{storeID: 7d1e, dataCenters: {here: local.test}}"}}
	k.create(config, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "store", Name: "orders-keys"},
		Data: map[string][]byte{"storage-password": []byte("secret")}})

	reason := func() string { return k.pod("web", "{}").Annotations[inject.AnnotationNotInjected] }
	k.waitFor("a pod that is not admitted", func() bool {
		return reason() == "NotAdmitted: CausalStore store/orders does not admit namespace web; select the namespace "+
			"in its spec.access.namespaces"
	})
	if k.configuration() != nil || k.identityOfSidecars() != "" {
		t.Error("a namespace that is not admitted has copies")
	}

	update(k, store, func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	})
	var p *corev1.Pod
	k.waitFor("a pod with a sidecar", func() bool {
		p = k.pod("web", "{}")
		return injected(p)
	})
	if p.Annotations[inject.AnnotationInjected] != "store/orders/here" {
		t.Errorf("annotations %v", p.Annotations)
	}
	if got := k.read("web", &corev1.Secret{}, "orders-keys.store"); got != nil {
		t.Errorf("the keys of the store are copied: %v", got)
	}
	if is := k.identityOfSidecars(); is != "spiffe://local.test/7d1e/dc/here/sidecar/web" {
		t.Errorf("the sidecars of the namespace are %q", is)
	}

	update(k, config, func(m *corev1.ConfigMap) { m.Data["causalstore.yaml"] = "second" })
	k.waitFor("the copy to follow", func() bool { return k.configuration()["causalstore.yaml"] == "second" })
	if err := k.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web",
		Name: "orders-here.store"}}); err != nil {
		t.Fatal(err)
	}
	k.waitFor("the copy to be back", func() bool { return k.configuration()["causalstore.yaml"] == "second" })

	// Digests of passwords follow too, if sidecars ask for passwords.
	users := func() string { return k.read("web", &corev1.Secret{}, "orders-acl.store")[plan.KeyUsersFile] }
	original := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "store", Name: "orders-acl",
		Labels: plan.Labels("orders"),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(store,
			v1alpha1.GroupVersion.WithKind("CausalStore"))}},
		Data: map[string][]byte{plan.KeyUsersFile: []byte("first")}}
	k.create(original)
	if users() != "" {
		t.Error("users are copied although sidecars ask for no passwords")
	}
	update(k, store, func(s *v1alpha1.CausalStore) {
		s.Spec.Clients = v1alpha1.Clients{UsersSecret: "people", SidecarPasswords: true}
	})
	k.waitFor("the copy of the users", func() bool { return users() == "first" })
	update(k, original, func(s *corev1.Secret) { s.Data[plan.KeyUsersFile] = []byte("second") })
	k.waitFor("the copy of the users to follow", func() bool { return users() == "second" })
	k.waitFor("a sidecar that asks for passwords", func() bool {
		return slices.Contains(k.pod("web", "{}").Spec.InitContainers[0].Args,
			"--users-file=/etc/causalstore-users/users.acl")
	})

	// Pods with a sidecar need the copies. The copier notices within a minute that the last one has gone.
	update(k, store, func(s *v1alpha1.CausalStore) { s.Spec.Access.Namespaces = nil })
	k.waitFor("a pod that is not admitted any more", func() bool { return reason() != "" })
	if k.configuration() == nil || k.identityOfSidecars() == "" {
		t.Error("the copies were deleted although a pod needs them")
	}
	var pods corev1.PodList
	if err := k.client.List(t.Context(), &pods, client.InNamespace("web")); err != nil {
		t.Fatal(err)
	}
	none := int64(0)
	for i := range pods.Items {
		if err := k.client.Delete(t.Context(), &pods.Items[i],
			&client.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Fatal(err)
		}
	}
	update(k, web, func(n *corev1.Namespace) { n.Labels["looked"] = "again" })
	k.waitFor("the copies to be deleted", func() bool { return k.configuration() == nil && users() == "" })
	if is := k.identityOfSidecars(); is != "" {
		t.Errorf("the certificate of %s is left", is)
	}
}

func TestForeignObjectsAreNotReplacedByCopiesNorDeletedAsCopies(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("source", nil), namespace("target",
		map[string]string{inject.LabelInject: "orders.source", "team": "a"}))
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "orders-here-sidecar-tls.source"},
		Data: map[string][]byte{"theirs": []byte("yes")}}
	k.create(theirs)
	store := k.store("source", "orders")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "source", Name: "orders-here",
		Labels: plan.Labels("orders")},
		Data: map[string]string{"causalstore.yaml": "first",
			plan.TrustFile: "{storeID: 7d1e, dataCenters: {here: local.test}}"}}
	k.create(config)
	update(k, store, func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	})
	// The Secret is written first, so the copy of the ConfigMap shows that the operator has come past it.
	secret := func() map[string]string { return k.read("target", &corev1.Secret{}, "orders-here-sidecar-tls.source") }
	copied := func() bool { return k.read("target", &corev1.ConfigMap{}, "orders-here.source") != nil }
	reason := func() string { return k.pod("target", "{}").Annotations[inject.AnnotationNotInjected] }
	k.waitFor("a pod whose namespace has no copies", func() bool {
		return strings.HasPrefix(reason(), "ConfigurationMissing")
	})
	if d := cmp.Diff(map[string]string{"theirs": "yes"}, secret()); d != "" {
		t.Errorf("a foreign Secret was changed:\n%s", d)
	}
	if err := k.client.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	k.waitFor("the copies", func() bool { return copied() && secret()["tls.crt"] != "" })

	// Somebody replaces the copied Secret by one of their own; the ConfigMap is pruned, and their Secret stays.
	update(k,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "target", Name: "orders-here-sidecar-tls.source"}},
		func(s *corev1.Secret) {
			s.Labels, s.Data = nil, map[string][]byte{"theirs": []byte("yes")}
		})
	update(k, store, func(s *v1alpha1.CausalStore) { s.Spec.Access.Namespaces = nil })
	k.waitFor("the copy of the ConfigMap to be deleted", func() bool { return !copied() })
	if d := cmp.Diff(map[string]string{"theirs": "yes"}, secret()); d != "" {
		t.Errorf("a foreign Secret was changed or deleted:\n%s", d)
	}
}

// TestCopiesFollowWhileCertificatesCannotBeRenewed: among them is whom sidecars trust, which others may wait for.
func TestCopiesFollowWhileCertificatesCannotBeRenewed(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("lender", nil), namespace("borrower",
		map[string]string{inject.LabelInject: "orders.lender", "team": "a"}))
	store := k.store("lender", "orders")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lender", Name: "orders-here",
		Labels: plan.Labels("orders")},
		Data: map[string]string{"causalstore.yaml": "first",
			plan.TrustFile: "{storeID: 7d1e, dataCenters: {here: local.test}}"}}
	k.create(config)
	update(k, store, func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	})
	copied := func() string { return k.read("borrower", &corev1.ConfigMap{}, "orders-here.lender")[plan.TrustFile] }
	certificate := func() string {
		return k.read("borrower", &corev1.Secret{}, "orders-here-sidecar-tls.lender")["tls.crt"]
	}
	k.waitFor("the copies", func() bool { return copied() != "" && certificate() != "" })
	authority := &corev1.Secret{}
	if err := k.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "authority"},
		authority); err != nil {
		t.Fatal(err)
	}
	if err := k.client.Delete(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	var before string
	for n := 0; ; n++ { // certificates are renewed until the keeper notices
		before = certificate()
		k.ahead.Add(int64(25 * time.Hour))
		trusts := fmt.Sprintf("{storeID: 7d1e, dataCenters: {here: local.test, there: other-%d.test}}", n)
		update(k, config, func(m *corev1.ConfigMap) { m.Data[plan.TrustFile] = trusts })
		k.waitFor("the copy to follow", func() bool { return copied() == trusts })
		if certificate() == before {
			break
		}
	}
	k.create(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "authority", Labels: authority.Labels},
			Data: authority.Data})
	k.waitFor("renewal", func() bool {
		update(k, config, func(m *corev1.ConfigMap) { m.Data["causalstore.yaml"] += "x" })
		return certificate() != before
	})
}
