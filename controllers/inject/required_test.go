package inject_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// plainPod returns a pod of an app.
func plainPod(namespace, name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
}

// TestANamespaceThatRequiresSidecarsHasNoPodWithoutOne covers pods that cannot get one, and a webhook that is away.
func TestANamespaceThatRequiresSidecarsHasNoPodWithoutOne(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("strict", map[string]string{inject.LabelInject: "orders", inject.LabelRequired: "true"}),
		namespace("lax", map[string]string{inject.LabelInject: "orders"}))
	refused := func(p *corev1.Pod, says string) {
		t.Helper()
		k.waitFor("the refusal of pod "+p.Name, func() bool {
			err := k.client.Create(t.Context(), p.DeepCopy(), client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), says)
		})
	}
	refused(plainPod("strict", "early", nil), "StoreNotFound")
	k.create(plainPod("strict", "out", map[string]string{inject.LabelInject: "false"}), plainPod("lax", "early", nil))
	k.store("strict", "orders")
	k.waitFor("a pod with a sidecar", func() bool {
		p := plainPod("strict", "app", nil)
		return k.client.Create(t.Context(), p) == nil && injected(p)
	})
	host := plainPod("strict", "host", nil)
	host.Spec.HostNetwork = true
	refused(host, "HostNetwork")
	host.Namespace = "lax"
	k.create(host)
	k.stop()
	refused(plainPod("strict", "late", nil), "failed calling webhook")
	k.create(plainPod("lax", "late", nil), plainPod("strict", "out-2", map[string]string{inject.LabelInject: "false"}))
}

// TestTheNodeOfAPodDecidesItsDataCenter binds pods as a scheduler does.
func TestTheNodeOfAPodDecidesItsDataCenter(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("zones", map[string]string{inject.LabelInject: "zoned"}))
	s := &v1alpha1.CausalStore{ObjectMeta: metav1.ObjectMeta{Namespace: "zones", Name: "zoned"}}
	s.Spec.Storage.Engine = v1alpha1.EngineEmbedded
	for name, zone := range map[string]string{"east": "e", "west": "w"} {
		s.Spec.DataCenters = append(s.Spec.DataCenters, v1alpha1.DataCenter{Name: name, Region: "local",
			Zones: v1alpha1.Zones{Frontend: []string{zone + "1"}, Backend: []string{zone + "2"}}})
	}
	s.Spec.Rings = []v1alpha1.Ring{{Name: "only", DataCenters: []string{"east", "west"}}}
	k.create(s)
	for _, zone := range []string{"e1", "w1", "w2", "x"} {
		k.create(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "zoned-" + zone,
				Labels: map[string]string{corev1.LabelTopologyZone: zone}}})
	}
	first := s.Spec.DataCenters[0].Name
	k.waitFor("a pod with a sidecar", func() bool {
		p := plainPod("zones", "probe", nil)
		return k.client.Create(t.Context(), p, client.DryRunAll) == nil && injected(p)
	})
	for zone, want := range map[string]string{"e1": "east", "w1": "west", "w2": "west", "x": first} {
		p := plainPod("zones", "app-"+zone, nil)
		k.create(p)
		if err := k.client.SubResource("binding").Create(t.Context(), p,
			&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "zoned-" + zone}}); err != nil {
			t.Fatal(err)
		}
		if err := k.client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		if of, ok := inject.SidecarOf(p); !ok || of.DataCenter != want ||
			p.Annotations[inject.AnnotationSidecarDataCenter] != want || p.Spec.NodeName != "zoned-"+zone {
			t.Errorf("on node zoned-%s the sidecar is of %+v, with annotations %v; want %s", zone, of,
				p.Annotations, want)
		}
	}
	named := plainPod("zones", "named", nil)
	named.Annotations = map[string]string{inject.AnnotationDataCenter: "east"}
	k.create(named)
	if err := k.client.SubResource("binding").Create(t.Context(), named,
		&corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "zoned-w1"}}); err != nil {
		t.Fatal(err)
	}
	if err := k.client.Get(t.Context(), client.ObjectKeyFromObject(named), named); err != nil {
		t.Fatal(err)
	}
	if of, _ := inject.SidecarOf(named); of.DataCenter != "east" {
		t.Errorf("a pod that names its data center has a sidecar of %+v", of)
	}
}

// TestTheNodeChoosesAmongTheDataCentersOfAllRegionsInTheCluster: whichever operator's webhook is called, a data center
// of another region counts if it runs here.
func TestTheNodeChoosesAmongTheDataCentersOfAllRegionsInTheCluster(t *testing.T) {
	k := newCluster(t)
	k.create(namespace("both", nil))
	s := &v1alpha1.CausalStore{ObjectMeta: metav1.ObjectMeta{Namespace: "both", Name: "orders"}}
	s.Spec.ID, s.Spec.Storage.Engine = "7d1e0b5c-2f7a-4a57-9a3c-0d6f6b1f5e21", v1alpha1.EngineEmbedded
	for _, dc := range []struct{ name, region, zone string }{{"east", "local", "both-e"}, {"paris", "eu", "both-p"},
		{"tokyo", "jp", "both-t"}} {
		s.Spec.DataCenters = append(s.Spec.DataCenters, v1alpha1.DataCenter{Name: dc.name, Region: dc.region,
			Zones: v1alpha1.Zones{Frontend: []string{dc.zone}, Backend: []string{dc.zone + "-2"}},
			Edge:  &v1alpha1.Edge{Address: dc.name + ".example.com:7400"}})
		k.create(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: dc.zone,
				Labels: map[string]string{corev1.LabelTopologyZone: dc.zone}}})
	}
	s.Spec.Rings = []v1alpha1.Ring{{Name: "only", DataCenters: []string{"east", "paris", "tokyo"}}}
	k.create(s)
	labels := plan.Labels("orders")
	labels[plan.LabelDataCenter] = "paris"
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "both", Name: "orders-paris-shard-0",
		Labels: labels}}
	set.Spec = appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPod("", "", nil).Spec}}
	if err := controllerutil.SetControllerReference(s, set, k.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	p := plainPod("both", "app", nil)
	p.Annotations = map[string]string{inject.AnnotationInjected: "orders/east",
		inject.AnnotationSidecarDataCenter: "east"}
	k.create(set, p)
	for _, c := range []struct {
		node, want string
		namespaces []string
	}{{"both-e", "", nil}, {"both-p", "paris", nil}, {"both-t", "", nil}, {"both-p", "paris", []string{"both"}},
		{"both-p", "", []string{"other"}}} {
		raw, err := json.Marshal(&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "both", Name: "app"},
			Target: corev1.ObjectReference{Kind: "Node", Name: c.node}})
		if err != nil {
			t.Fatal(err)
		}
		b := &inject.Binder{Client: k.client, Uncached: k.client, Region: "local", Namespaces: c.namespaces}
		got := b.Handle(t.Context(),
			admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "both", Name: "app",
				Object: runtime.RawExtension{Raw: raw}}})
		chosen, err := json.Marshal(got.Patches)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Allowed || len(got.Warnings) > 0 || (len(got.Patches) > 0) != (c.want != "") ||
			!strings.Contains(string(chosen), c.want) {
			t.Errorf("on node %s, with namespaces %v: %s, %v; want %q", c.node, c.namespaces, chosen,
				got.Warnings, c.want)
		}
	}
}

// unreadable is a client that can read nothing.
type unreadable struct{}

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is away")
}

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("the API server is away")
}

// TestAnErrorRefusesAPodOnlyWhereASidecarIsRequired: the failurePolicy concerns webhooks that do not answer, not their
// answers.
func TestAnErrorRefusesAPodOnlyWhereASidecarIsRequired(t *testing.T) {
	raw, err := json.Marshal(plainPod("shop", "app", nil))
	if err != nil {
		t.Fatal(err)
	}
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "shop",
		Object: runtime.RawExtension{Raw: raw}}}
	w := &inject.Webhook{Client: unreadable{}, Injections: inject.NewInjections()}
	if a := w.Handle(t.Context(), request); !a.Allowed || len(a.Warnings) != 1 ||
		!strings.Contains(a.Warnings[0], "away") {
		t.Errorf("where none is required, the answer is %+v", a)
	}
	w.Required = true
	if a := w.Handle(t.Context(), request); a.Allowed || a.Result.Code != http.StatusInternalServerError {
		t.Errorf("where one is required, the answer is %+v", a)
	}
}
