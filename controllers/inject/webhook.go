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
		Help: "Pods of namespaces that ask for sidecars, by what became of them: Injected, or the reason why not."}, []string{"result"})
}

// Handle implements admission.Handler.
func (w *Webhook) Handle(ctx context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
	}
	r := Request{Pod: pod, Region: w.Region, Image: w.Image, ClusterDomain: w.ClusterDomain}
	if err := w.complete(ctx, request.Namespace, &r); err != nil {
		return admission.Errored(http.StatusInternalServerError, err) // the API server lets the pod pass: failurePolicy is Ignore
	}
	if r.Name == "" {
		return admission.Allowed("the namespace does not ask for a sidecar")
	}
	d := Decide(r)
	w.tell(ctx, request.Namespace, r, d)
	is, err := json.Marshal(d.Pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, is)
}

// complete finds the store that a namespace asks for, and the image that its parts run.
func (w *Webhook) complete(ctx context.Context, namespace string, r *Request) error {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := w.Client.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return fmt.Errorf("read namespace %s: %w", namespace, err)
	}
	if r.Name = ns.Labels[LabelInject]; r.Name == "" {
		return nil
	}
	store := &v1alpha1.CausalStore{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.Name}, store)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read CausalStore %s: %w", r.Name, err)
	}
	r.Store = store
	record := &corev1.ConfigMap{}
	if err := w.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: plan.RecordName(r.Name)}, record); err == nil {
		if known, err := plan.ReadRecord(record); err == nil && known.Image != "" {
			r.Image = known.Image // sidecars are of the version of the parts, also after an upgrade of the operator
		}
	}
	return nil
}

// tell lets people know why there is no sidecar: at the owner of the pod, since the pod is not there yet.
func (w *Webhook) tell(ctx context.Context, namespace string, r Request, d Decision) {
	result := string(d.Reason)
	if d.Reason == Injected {
		result = "Injected"
	}
	w.Injections.WithLabelValues(result).Inc()
	if d.Reason == Injected || d.Reason == AlreadyInjected || d.Reason == PartOfStore {
		return
	}
	log.FromContext(ctx).Info("not injected", "namespace", namespace, "pod", r.Pod.Name, "generateName", r.Pod.GenerateName,
		"reason", d.Reason, "message", d.Message)
	if o := metav1.GetControllerOf(r.Pod); o != nil && d.Reason != OptedOut {
		owner := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: o.APIVersion, Kind: o.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: o.Name, UID: o.UID}}
		w.Events.Eventf(owner, nil, corev1.EventTypeWarning, "NotInjected", "Inject", "%s: %s", d.Reason, d.Message)
	}
}
