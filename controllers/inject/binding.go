package inject

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// PathBind is the URL path of the webhook for the binding of pods to nodes.
const PathBind = "/bind"

// Binder chooses the data center of pods that name none, when the scheduler binds them to a node: before that, nobody
// knows in which zone they run. The API server copies the annotations of a binding to the pod, and the kubelet sees the
// pod only after that, so that the sidecar starts with the right data center.
//
// If the webhook does not answer, the pod keeps the first data center of the cluster, which the other webhook has given
// it. That is further away, and as consistent.
type Binder struct {
	Client client.Reader
	// Uncached reads the pods of apps.
	Uncached client.Reader
	// Region of the operator.
	Region string
	// Namespaces are those that the operator may use; if empty, all.
	Namespaces []string
}

// Handle implements admission.Handler. It refuses no binding.
func (b *Binder) Handle(ctx context.Context, request admission.Request) admission.Response {
	binding := &corev1.Binding{}
	if err := json.Unmarshal(request.Object.Raw, binding); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the binding: %w", err))
	}
	name := client.ObjectKey{Namespace: request.Namespace, Name: request.Name}
	annotations, err := b.annotations(ctx, name, binding.Target.Name)
	if err != nil {
		log.FromContext(ctx).Error(err, "data center not chosen by the node", "pod", name, "node", binding.Target.Name)
		return admission.Allowed("").WithWarnings("causalstore: the sidecar keeps its data center: " + err.Error())
	}
	if len(annotations) == 0 {
		return admission.Allowed("")
	}
	for k, v := range annotations {
		binding.Annotations = withEntry(binding.Annotations, k, v)
	}
	patched, err := json.Marshal(binding)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, patched)
}

// annotations returns those with the data center of the zone of a node, if the pod leaves the choice to its node.
func (b *Binder) annotations(ctx context.Context, name client.ObjectKey, node string) (map[string]string, error) {
	if !serves(b.Namespaces, name.Namespace) {
		return nil, nil
	}
	pod := &corev1.Pod{}
	if err := b.Uncached.Get(ctx, name, pod); err != nil {
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	sidecar, ok := SidecarOf(pod)
	if !ok || pod.Annotations[AnnotationSidecarDataCenter] == "" {
		return nil, nil
	}
	ref := StoreRef{Namespace: sidecar.Namespace, Name: sidecar.Store}
	if !serves(b.Namespaces, ref.Namespace) {
		return nil, nil // another operator has injected the sidecar
	}
	store := &v1alpha1.CausalStore{}
	if err := b.Client.Get(ctx, client.ObjectKey(ref), store); err != nil {
		return nil, fmt.Errorf("read CausalStore %s: %w", ref, err)
	}
	n := &metav1.PartialObjectMetadata{}
	n.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := b.Client.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
		return nil, fmt.Errorf("read node %s: %w", node, err)
	}
	regions, _, err := findDataCenters(ctx, b.Client, store, b.Region)
	if err != nil {
		return nil, err
	}
	dc := dataCenterOfZone(dataCentersOf(store, regions), n.Labels[store.Spec.ZoneLabel])
	if dc == "" || dc == sidecar.DataCenter {
		return nil, nil // the zone is of no data center: the pod keeps the first one
	}
	return map[string]string{AnnotationSidecarDataCenter: dc,
		AnnotationInjected: ref.injectedAnnotation(name.Namespace, dc)}, nil
}

// dataCenterOfZone returns the data center that has a zone, or "".
func dataCenterOfZone(all []v1alpha1.DataCenter, zone string) string {
	for _, dc := range all {
		if zone != "" && (slices.Contains(dc.Zones.Frontend, zone) || slices.Contains(dc.Zones.Backend, zone)) {
			return dc.Name
		}
	}
	return ""
}
