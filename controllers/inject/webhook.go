package inject

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Paths of the webhook: Path for pods that may run without a sidecar, PathRequired for those that must not.
const (
	Path         = "/inject"
	PathRequired = "/require"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Webhook handles the creation of pods in namespaces that ask for sidecars.
type Webhook struct {
	Client client.Reader
	Events events.EventRecorder
	// Region, Image and ClusterDomain are passed on in Request.
	Region, Image, ClusterDomain string
	// Limits are what authors of stores may choose. Namespaces are those that the operator may use; if empty, all.
	Limits     v1alpha1.Limits
	Namespaces []string
	// Injections counts pods by result: "Injected", "Error", or the Reason.
	Injections *prometheus.CounterVec
	// Required makes it refuse pods that should have a sidecar and cannot get one.
	Required bool
}

// NewInjections returns the counter for Webhook.Injections. All results start at zero, because the increase of a series
// that appears with its first event is zero, and an alert on it would miss that event.
func NewInjections() *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "causalstore_injections_total",
		Help: "Pods created in namespaces that ask for sidecars, by result: Injected, Error, or the reason why not."},
		[]string{"result"})
	for _, r := range []Reason{OptedOut, AlreadyInjected, HostNetwork, StoreNotFound, StoreNotHere, StoreRefused,
		NotAdmitted, ConfigurationMissing,
		DataCenterUnknown, ModeUnknown, RedirectForbidden, RedirectImpossible, PartOfStore, resultInjected,
		resultError} {
		c.WithLabelValues(string(r))
	}
	return c
}

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
	}
	r := Request{Pod: pod, Namespace: request.Namespace, Region: w.Region, Image: w.Image,
		ClusterDomain: w.ClusterDomain}
	asked, err := w.completeRequest(ctx, &r)
	if err != nil {
		w.Injections.WithLabelValues(resultError).Inc()
		log.FromContext(ctx).Error(err, "sidecar not injected", "namespace", r.Namespace, "pod", r.Pod.Name,
			"generateName", r.Pod.GenerateName)
		if !w.Required { // an error would refuse the pod: the failurePolicy does not concern answers
			return admission.Allowed("").WithWarnings("causalstore: no sidecar: " + err.Error())
		}
		return admission.Errored(http.StatusInternalServerError,
			fmt.Errorf("the pod needs a sidecar, which could not be added: %w", err))
	}
	if !asked {
		return admission.Allowed("the namespace does not ask for a sidecar")
	}
	d := Decide(r)
	if request.DryRun == nil || !*request.DryRun { // a dry run creates no pod
		w.report(ctx, &r, d)
	}
	if w.Required && !d.Reason.MayRun() {
		return admission.Denied(
			fmt.Sprintf(
				"the pod needs a sidecar and cannot get one: %s: %s; label %s=false on the pod lets it run without",
				d.Reason, d.Message, LabelInject))
	}
	patched, err := json.Marshal(d.Pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, patched)
}

// completeRequest fills in the store that the namespace asks for, and what exists of it. It reports whether the
// namespace asks for one.
func (w *Webhook) completeRequest(ctx context.Context, r *Request) (asked bool, err error) {
	if !serves(w.Namespaces, r.Namespace) {
		return false, nil
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := w.Client.Get(ctx, client.ObjectKey{Name: r.Namespace}, ns); err != nil {
		return false, fmt.Errorf("read namespace %s: %w", r.Namespace, err)
	}
	r.Labels = ns.Labels
	if r.StoreRef, asked = ParseStoreRef(r.Namespace, ns.Labels); !asked {
		return false, nil
	}
	if !serves(w.Namespaces, r.StoreRef.Namespace) {
		return true, nil // as for a store that does not exist
	}
	store := &v1alpha1.CausalStore{}
	err = w.Client.Get(ctx, client.ObjectKey(r.StoreRef), store)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read CausalStore %s: %w", r.StoreRef, err)
	}
	r.Store, r.Refused = store, w.Limits.Check(&store.Spec, w.Region)
	if r.Regions, r.Images, err = findDataCenters(ctx, w.Client, store, w.Region); err != nil {
		return false, err
	}
	r.Copied = func(name string) bool {
		return w.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &corev1.ConfigMap{}) == nil
	}
	r.Addresses = map[string]string{}
	for _, name := range serviceNames(r) {
		s := &corev1.Service{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: r.StoreRef.Namespace, Name: name}, s); err == nil {
			r.Addresses[name] = s.Spec.ClusterIP
		}
	}
	return true, nil
}

// findDataCenters returns the regions that have data centers of a store in this cluster, the operator's included, and
// the images that run, by data center. Operators of several regions thus decide the same, so that it does not matter
// whose webhook is called first.
func findDataCenters(ctx context.Context, c client.Reader, store *v1alpha1.CausalStore,
	region string) (regions map[string]bool, images map[string]string, err error) {
	regions, images = map[string]bool{region: true}, map[string]string{}
	var sets appsv1.StatefulSetList
	if err := c.List(ctx, &sets, client.InNamespace(store.Namespace),
		client.MatchingLabels(plan.Labels(store.Name))); err != nil {
		return nil, nil, fmt.Errorf("list the StatefulSets of CausalStore %s/%s: %w", store.Namespace, store.Name, err)
	}
	for _, dc := range store.Spec.DataCenters {
		running := slices.DeleteFunc(slices.Clone(sets.Items), func(s appsv1.StatefulSet) bool {
			return s.Labels[plan.LabelDataCenter] != dc.Name || !metav1.IsControlledBy(&s, store)
		})
		regions[dc.Region] = regions[dc.Region] || len(running) > 0
		record := &corev1.ConfigMap{}
		err := c.Get(ctx, client.ObjectKey{Namespace: store.Namespace, Name: plan.RecordName(store.Name, dc.Region)},
			record)
		if client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("read the record of CausalStore %s/%s: %w", store.Namespace, store.Name, err)
		}
		images[dc.Name] = plan.RunningImage(running)
		if err != nil || !plan.HasLabels(store, record) {
			continue
		}
		known, err := plan.ReadRecord(record)
		if err != nil {
			return nil, nil, err
		}
		images[dc.Name] = cmp.Or(known.Image, images[dc.Name])
	}
	return regions, images, nil
}

// Results that are counted, besides the reasons not to inject.
const (
	resultInjected = "Injected"
	resultError    = "Error"
)

// report counts a decision, and logs and records in an event why a pod has no sidecar.
func (w *Webhook) report(ctx context.Context, r *Request, d Decision) {
	result := string(d.Reason)
	if d.Reason == Injected {
		result = resultInjected
	}
	w.Injections.WithLabelValues(result).Inc()
	if d.Reason == Injected || d.Reason == AlreadyInjected || d.Reason == PartOfStore {
		return
	}
	log.FromContext(ctx).Info("sidecar not injected", "namespace", r.Namespace, "pod", r.Pod.Name, "generateName",
		r.Pod.GenerateName,
		"reason", d.Reason, "message", d.Message)
	if subject := eventSubject(r); subject != nil && d.Reason != OptedOut {
		// Kubernetes merges events with the same object, reason and action, so the action names the cause.
		w.Events.Eventf(subject, nil, corev1.EventTypeWarning, "NotInjected", string(d.Reason), "%s: %s",
			d.Reason, d.Message)
	}
}

// eventSubject returns the object of the event: the pod's owner, because the pod does not exist yet, or the pod if it
// has no owner and so has a name already.
func eventSubject(r *Request) runtime.Object {
	if o := metav1.GetControllerOf(r.Pod); o != nil {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: o.APIVersion, Kind: o.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: o.Name, UID: o.UID}}
	}
	if r.Pod.Name == "" {
		return nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Pod.Name}}
}

// serves reports whether an operator may use a namespace.
func serves(namespaces []string, name string) bool {
	return len(namespaces) == 0 || slices.Contains(namespaces, name)
}
