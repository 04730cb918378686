package inject_test

import (
	"testing"

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

func (k *cluster) keys() map[string]string {
	return k.read("web", &corev1.Secret{}, "orders-keys.store")
}

// change changes an object that others may change, too.
func change[T client.Object](k *cluster, o T, f func(T)) {
	k.Helper()
	k.until("a change", func() bool {
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

// TestPodsOfAnotherNamespaceGetASidecarIfTheStoreLetsThem: what they need is copied, kept as it is in the store's namespace, and goes
// when nobody needs it any more.
func TestPodsOfAnotherNamespaceGetASidecarIfTheStoreLetsThem(t *testing.T) {
	k := newCluster(t)
	web := namespace("web", map[string]string{inject.LabelInject: "orders.store", "team": "a"})
	k.make(namespace("store", nil), web)
	store := k.store("store", "orders")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "store", Name: "orders-here", Labels: plan.Labels("orders")},
		Data: map[string]string{"causalstore.yaml": "first"}}
	k.make(config, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "store", Name: "orders-keys"},
		Data: map[string][]byte{plan.KeyToken: []byte("token"), "storage-password": []byte("secret")}})

	why := func() string { return k.pod("web", "{}").Annotations[inject.AnnotationNotInjected] }
	k.until("a pod that is not admitted", func() bool {
		return why() == "NotAdmitted: CausalStore store/orders does not let namespace web connect; let its spec.access.namespaces select it"
	})
	if k.configuration() != nil || k.keys() != nil {
		t.Error("there are copies in a namespace that may not connect")
	}

	change(k, store, func(s *v1alpha1.CausalStore) {
		s.Spec.Access.Namespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	})
	var p *corev1.Pod
	k.until("a pod with a sidecar", func() bool {
		p = k.pod("web", "{}")
		return injected(p)
	})
	if p.Annotations[inject.AnnotationInjected] != "store/orders/here" {
		t.Errorf("annotations %v", p.Annotations)
	}
	if got := k.keys(); len(got) != 1 || got[plan.KeyToken] != "token" {
		t.Errorf("of the store's keys %v were copied, want that of tokens alone", got)
	}

	change(k, config, func(m *corev1.ConfigMap) { m.Data["causalstore.yaml"] = "second" })
	k.until("the copy to follow", func() bool { return k.configuration()["causalstore.yaml"] == "second" })
	if err := k.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "web",
		Name: "orders-here.store"}}); err != nil {
		t.Fatal(err)
	}
	k.until("the copy to be back", func() bool { return k.configuration()["causalstore.yaml"] == "second" })

	// A pod that has a sidecar may need them. That it has gone is noticed at the latest after a minute.
	change(k, store, func(s *v1alpha1.CausalStore) { s.Spec.Access.Namespaces = nil })
	k.until("a pod that is not admitted any more", func() bool { return why() != "" })
	if k.configuration() == nil || k.keys() == nil {
		t.Error("the copies have gone, and a pod needs them")
	}
	var pods corev1.PodList
	if err := k.client.List(t.Context(), &pods, client.InNamespace("web")); err != nil {
		t.Fatal(err)
	}
	none := int64(0)
	for i := range pods.Items {
		if err := k.client.Delete(t.Context(), &pods.Items[i], &client.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Fatal(err)
		}
	}
	change(k, web, func(n *corev1.Namespace) { n.Labels["looked"] = "again" })
	k.until("the copies to go", func() bool { return k.configuration() == nil && k.keys() == nil })
}
