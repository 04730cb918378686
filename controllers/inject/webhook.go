package inject

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
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

// Path is where the webhook is served.
const Path = "/inject"

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Webhook answers for each pod that is to be made in a namespace that asks for sidecars.
type Webhook struct {
	Client client.Reader
	Events events.EventRecorder
	// Region, Image and ClusterDomain are those of Request.
	Region, Image, ClusterDomain string
	// Injections counts what became of pods, by reason; "Injected" are those with a sidecar.
	Injections *prometheus.CounterVec
}

// NewInjections returns the counter.
func NewInjections() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "causalstore_injections_total",
		Help: "Pods of namespaces that ask for sidecars, by what became of them: Injected, Error, or the reason why not."}, []string{"result"})
}

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
	}
	r := Request{Pod: pod, Namespace: request.Namespace, Region: w.Region, Image: w.Image, ClusterDomain: w.ClusterDomain}
	asked, err := w.complete(ctx, &r)
	if err != nil {
		w.Injections.WithLabelValues(resultError).Inc()
		return admission.Errored(http.StatusInternalServerError, err) // the API server lets the pod pass: failurePolicy is Ignore
	}
	if !asked {
		return admission.Allowed("the namespace does not ask for a sidecar")
	}
	d := Decide(r)
	if request.DryRun == nil || !*request.DryRun { // else the pod is not made
		w.tell(ctx, &r, d)
	}
	is, err := json.Marshal(d.Pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, is)
}

// complete finds the store that a namespace asks for, if it asks for one, and what of it there is.
func (w *Webhook) complete(ctx context.Context, r *Request) (asked bool, err error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := w.Client.Get(ctx, client.ObjectKey{Name: r.Namespace}, ns); err != nil {
		return false, fmt.Errorf("read namespace %s: %w", r.Namespace, err)
	}
	r.Labels = ns.Labels
	if r.Use, asked = UseOf(r.Namespace, ns.Labels); !asked {
		return false, nil
	}
	store := &v1alpha1.CausalStore{}
	err = w.Client.Get(ctx, client.ObjectKey(r.Use), store)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read CausalStore %s: %w", r.Use, err)
	}
	r.Store = store
	record := &corev1.ConfigMap{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: r.Use.Namespace, Name: plan.RecordName(r.Use.Name)}, record); err == nil {
		if known, err := plan.ReadRecord(record); err == nil && known.Image != "" {
			r.Image = known.Image // sidecars are of the version of the parts, also after an upgrade of the operator
		}
	}
	r.Copied = func(name string) bool {
		return w.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &corev1.ConfigMap{}) == nil
	}
	r.Addresses = map[string]string{}
	for _, name := range services(r) {
		s := &corev1.Service{}
		if err := w.Client.Get(ctx, client.ObjectKey{Namespace: r.Use.Namespace, Name: name}, s); err == nil {
			r.Addresses[name] = s.Spec.ClusterIP
		}
	}
	return true, nil
}

// What is counted, beside the reasons not to inject.
const (
	resultInjected = "Injected"
	resultError    = "Error"
)

// tell lets people know why there is no sidecar.
func (w *Webhook) tell(ctx context.Context, r *Request, d Decision) {
	result := string(d.Reason)
	if d.Reason == Injected {
		result = resultInjected
	}
	w.Injections.WithLabelValues(result).Inc()
	if d.Reason == Injected || d.Reason == AlreadyInjected || d.Reason == PartOfStore {
		return
	}
	log.FromContext(ctx).Info("not injected", "namespace", r.Namespace, "pod", r.Pod.Name, "generateName", r.Pod.GenerateName,
		"reason", d.Reason, "message", d.Message)
	if about := subject(r); about != nil && d.Reason != OptedOut {
		// Events about the same object with the same reason and action count as one: another cause must be another one.
		w.Events.Eventf(about, nil, corev1.EventTypeWarning, "NotInjected", string(d.Reason), "%s: %s", d.Reason, d.Message)
	}
}

// subject of an event is the owner of the pod, which is not there yet itself. A pod that nobody owns has a name already.
func subject(r *Request) runtime.Object {
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
