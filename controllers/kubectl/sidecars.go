package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// sidecarProblem is a pod that should have a sidecar and has none, or an old one.
type sidecarProblem struct {
	namespace, pod string
	uid            string
	// owner is the controller that replaces the pod when it is deleted, or nil.
	owner *metav1.OwnerReference
	text  string
}

func (p sidecarProblem) String() string { return fmt.Sprintf("%s/%s: %s", p.namespace, p.pod, p.text) }

// expectedSidecar is the sidecar that the pods of a namespace should have now.
type expectedSidecar struct {
	store inject.StoreRef
	// images that the store's parts run, by data center; one that is unknown is missing.
	images map[string]string
	// addresses are those of the store's Services, which mode Redirect leads to the sidecar; nil if they are unknown.
	addresses []string
}

// isCurrent reports whether a sidecar of a data center has the right image, as far as that is known. If the pod's node
// has chosen the data center, the image was chosen before, for another one of this cluster.
func (want expectedSidecar) isCurrent(p *corev1.Pod, dc, image string) bool {
	if want.images[dc] == "" || want.images[dc] == image {
		return true
	}
	return p.Annotations[inject.AnnotationSidecarDataCenter] != "" &&
		slices.Contains(slices.Collect(maps.Values(want.images)), image)
}

// checkSidecar returns what is wrong with the sidecar of a pod; it is empty if nothing is.
func checkSidecar(p *corev1.Pod, want expectedSidecar) string {
	if isPart(p) || p.Labels[inject.LabelInject] == "false" || p.DeletionTimestamp != nil ||
		p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return ""
	}
	i := slices.IndexFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == inject.Container })
	of, ok := inject.SidecarOf(p)
	switch {
	case i < 0 || !ok:
		return "no sidecar: " + cmp.Or(p.Annotations[inject.AnnotationNotInjected],
			"the webhook did not answer when the pod was created")
	case of.Namespace != want.store.Namespace || of.Store != want.store.Name:
		return fmt.Sprintf("its sidecar is of store %s/%s, and the namespace asks for %s", of.Namespace, of.Store,
			want.store)
	case !want.isCurrent(p, of.DataCenter, p.Spec.InitContainers[i].Image):
		return fmt.Sprintf("its sidecar is old: it runs %s, and the store %s", p.Spec.InitContainers[i].Image,
			want.images[of.DataCenter])
	}
	if j := slices.IndexFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == inject.RedirectContainer
	}); j >= 0 {
		for _, a := range want.addresses {
			if from := fmt.Sprintf("--from=%s:%d", a, plan.PortRedis); !slices.Contains(p.Spec.InitContainers[j].Args,
				from) {
				return fmt.Sprintf(
					"a Service of the store has the address %s, which its rules do not lead to the sidecar", a)
			}
		}
	}
	return ""
}

// sidecarProblems returns the pods whose sidecar of a store is missing or old, in all namespaces that ask for that
// store.
func (k *connection) sidecarProblems(ctx context.Context, s *v1alpha1.CausalStore) ([]sidecarProblem, error) {
	var namespaces corev1.NamespaceList
	if err := k.List(ctx, &namespaces, client.HasLabels{inject.LabelInject}); err != nil {
		return nil, err
	}
	var all []sidecarProblem
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		ref, ok := inject.ParseStoreRef(ns.Name, ns.Labels)
		if !ok || ref.Namespace != s.Namespace || ref.Name != s.Name {
			continue
		}
		found, err := k.checkNamespace(ctx, ns)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// checkNamespace returns the pods of a namespace whose sidecar is missing or old.
func (k *connection) checkNamespace(ctx context.Context, ns *corev1.Namespace) ([]sidecarProblem, error) {
	ref, ok := inject.ParseStoreRef(ns.Name, ns.Labels)
	if !ok {
		return nil, nil
	}
	want, err := k.expectedSidecar(ctx, ref)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := k.List(ctx, &pods, client.InNamespace(ns.Name)); err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s: %w", ns.Name, err)
	}
	var all []sidecarProblem
	for i := range pods.Items {
		p := &pods.Items[i]
		if text := checkSidecar(p, want); text != "" {
			all = append(all, sidecarProblem{p.Namespace, p.Name, string(p.UID), metav1.GetControllerOf(p), text})
		}
	}
	slices.SortFunc(all, func(a, b sidecarProblem) int { return strings.Compare(a.pod, b.pod) })
	return all, nil
}

// expectedSidecar returns what sidecars of a store should be. What the user may not read stays unknown, and is not
// checked.
func (k *connection) expectedSidecar(ctx context.Context, ref inject.StoreRef) (expectedSidecar, error) {
	want := expectedSidecar{store: ref}
	store := &v1alpha1.CausalStore{}
	if err := k.Get(ctx, client.ObjectKey(ref), store); err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return want, nil
		}
		return want, fmt.Errorf("read CausalStore %s: %w", ref, err)
	}
	want.images = map[string]string{}
	for _, dc := range store.Spec.DataCenters {
		if want.images[dc.Name] = store.Spec.Image; store.Spec.Image != "" {
			continue
		}
		record := &corev1.ConfigMap{}
		if err := k.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: plan.RecordName(ref.Name, dc.Region)},
			record); err == nil {
			if known, err := plan.ReadRecord(record); err == nil {
				want.images[dc.Name] = known.Image
			}
		}
	}
	names := []string{store.Name}
	for _, dc := range store.Status.DataCenters {
		if dc.Here {
			names = append(names, plan.DataCenterName(store.Name, dc.Name))
		}
	}
	for _, name := range names {
		s := &corev1.Service{}
		if err := k.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: name}, s); err == nil &&
			s.Spec.ClusterIP != "" {
			want.addresses = append(want.addresses, s.Spec.ClusterIP)
		}
	}
	return want, nil
}
