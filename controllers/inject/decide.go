// Package inject puts a sidecar into the pods of namespaces that ask for it, so that an app's own Redis client becomes causal
// without a change to the app. What is done to a pod is decided by a pure function; the webhook around it never keeps a pod
// from being made: a pod without a sidecar reaches the store's Service, which is causal too, with a session per connection.
package inject

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Labels and annotations.
const (
	// LabelInject on a namespace names the store whose sidecar its pods get: see UseOf. On a pod, "false" opts out.
	LabelInject = "causalstore.io/inject"
	// AnnotationDataCenter on a pod names its data centre, where there are several in the cluster.
	AnnotationDataCenter = "causalstore.io/data-center"
	// AnnotationMode on a pod says how its traffic reaches its sidecar, instead of as the store says.
	AnnotationMode = "causalstore.io/injection-mode"
	// AnnotationInjected on a pod says which store and data centre its sidecar is of.
	AnnotationInjected = "causalstore.io/injected"
	// LabelStore on a pod names the store that its sidecar is of, so that such pods can be selected.
	LabelStore = "causalstore.io/store"
	// AnnotationNotInjected on a pod says why it has no sidecar.
	AnnotationNotInjected = "causalstore.io/not-injected"
)

// Reason is why a pod has no sidecar.
type Reason string

// The reasons.
const (
	Injected             Reason = ""
	OptedOut             Reason = "OptedOut"
	AlreadyInjected      Reason = "AlreadyInjected"
	HostNetwork          Reason = "HostNetwork"
	StoreNotFound        Reason = "StoreNotFound"
	StoreNotHere         Reason = "StoreNotHere"
	NotAdmitted          Reason = "NotAdmitted"
	ConfigurationMissing Reason = "ConfigurationMissing"
	DataCenterUnknown    Reason = "DataCenterUnknown"
	ModeUnknown          Reason = "ModeUnknown"
	RedirectForbidden    Reason = "RedirectForbidden"
	RedirectImpossible   Reason = "RedirectImpossible"
	PartOfStore          Reason = "PartOfStore"
)

// Request is what a decision depends on.
type Request struct {
	Pod *corev1.Pod
	// Namespace of the pod, and its labels.
	Namespace string
	Labels    map[string]string
	// Use is the store that the namespace asks for, and Store that store, or nil if there is none of that name.
	Use   Use
	Store *v1alpha1.CausalStore
	// Copied says whether what a sidecar needs is in the pod's namespace, if the store is elsewhere.
	Copied func(configMap string) bool
	// Addresses are those of the store's Services that are there, by their names.
	Addresses map[string]string
	// Region that is run here.
	Region string
	// Image of the sidecar, for stores that name none.
	Image string
	// ClusterDomain is what names of Services end in.
	ClusterDomain string
}

// Decision is what becomes of a pod.
type Decision struct {
	// Pod with the sidecar, or with an annotation that says why not. It is a copy.
	Pod *corev1.Pod
	// Reason why there is no sidecar, and Message for people.
	Reason  Reason
	Message string
}

// refusal is why there is no sidecar; nil is none.
type refusal struct {
	reason  Reason
	message string
}

func no(reason Reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// Decide puts the sidecar into a pod, or says why not.
func Decide(r Request) Decision {
	d := Decision{Pod: r.Pod.DeepCopy()}
	dc, mode, no := choose(&r)
	if no != nil {
		d.Reason, d.Message = no.reason, no.message
		if d.Reason != AlreadyInjected && d.Reason != PartOfStore {
			d.Pod.Annotations = set(d.Pod.Annotations, AnnotationNotInjected, fmt.Sprintf("%s: %s", d.Reason, d.Message))
		}
		return d
	}
	d.Pod.Annotations = set(d.Pod.Annotations, AnnotationInjected, r.Use.injected(r.Namespace, dc))
	d.Pod.Labels = set(d.Pod.Labels, LabelStore, r.Store.Name)
	addSidecar(d.Pod, &r, dc)
	switch mode {
	case v1alpha1.InjectExplicit:
		addEnv(d.Pod)
	case v1alpha1.InjectRedirect:
		addRedirect(d.Pod, &r)
	default:
		addNames(d.Pod, &r)
	}
	return d
}

func set(in map[string]string, key, value string) map[string]string {
	if in == nil {
		in = map[string]string{}
	}
	in[key] = value
	return in
}

// choose finds the data centre of a pod, and how its traffic reaches the sidecar; or the reason not to inject.
func choose(r *Request) (dc string, mode v1alpha1.InjectionMode, why *refusal) {
	if why = unfit(r); why != nil {
		return "", "", why
	}
	if r.Namespace != r.Use.Namespace && !admits(r.Store, r.Labels) {
		return "", "", no(NotAdmitted, "CausalStore %s does not let namespace %s connect; let its spec.access.namespaces select it", r.Use, r.Namespace)
	}
	if dc, why = place(r); why != nil {
		return "", "", why
	}
	if name := r.Use.configMap(r.Namespace, dc); r.Namespace != r.Use.Namespace && !r.Copied(name) {
		return "", "", no(ConfigurationMissing, "the operator has not copied the sidecar's configuration to ConfigMap %s of the namespace yet; restart the pod when it is there",
			name)
	}
	mode, why = chooseMode(r)
	return dc, mode, why
}

// unfit: there is nothing that a sidecar could be of, or the pod cannot have one.
func unfit(r *Request) *refusal {
	p := r.Pod
	switch {
	case p.Labels[plan.LabelManagedBy] == plan.ManagedBy:
		return no(PartOfStore, "it is a part of a store itself")
	case p.Labels[LabelInject] == "false":
		return no(OptedOut, "the pod has label %s=false", LabelInject)
	case slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == Container }):
		return no(AlreadyInjected, "it has a sidecar")
	case p.Spec.HostNetwork:
		return no(HostNetwork, "the pod shares the network of its node; use the Service %s of namespace %s", r.Use.Name,
			r.Use.Namespace)
	case r.Store == nil:
		return no(StoreNotFound, "namespace %s has no CausalStore %s; create it, or correct the label %s of namespace %s",
			r.Use.Namespace, r.Use.Name,
			LabelInject, r.Namespace)
	}
	return nil
}

// admits says whether a store lets pods of another namespace connect.
func admits(s *v1alpha1.CausalStore, namespace map[string]string) bool {
	if s.Spec.Access.Namespaces == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Access.Namespaces)
	return err == nil && selector.Matches(labels.Set(namespace))
}

// place: where there are several data centres, the pod says which is its own, by name or by the zones that it may run in.
func place(r *Request) (string, *refusal) {
	p, here := r.Pod, here(r.Store, r.Region)
	if name := p.Annotations[AnnotationDataCenter]; name != "" {
		for _, dc := range here {
			if dc.Name == name {
				return name, nil
			}
		}
		return "", no(DataCenterUnknown, "annotation %s is %s, which is not one of this cluster's data centres (%s)",
			AnnotationDataCenter, name, list(here))
	}
	switch len(here) {
	case 0:
		return "", no(StoreNotHere, "CausalStore %s has no data centre in region %s; use the Service of another region",
			r.Store.Name, r.Region)
	case 1:
		return here[0].Name, nil
	}
	zone := p.Spec.NodeSelector[r.Store.Spec.ZoneLabel]
	for _, dc := range here {
		if zone != "" && (slices.Contains(dc.Zones.Frontend, zone) || slices.Contains(dc.Zones.Backend, zone)) {
			return dc.Name, nil
		}
	}
	return "", no(DataCenterUnknown, "this cluster has several data centres (%s); name one in annotation %s, or a zone in nodeSelector", list(here),
		AnnotationDataCenter)
}

// here are the data centres of a store that are run in a region.
func here(s *v1alpha1.CausalStore, region string) (all []v1alpha1.DataCenter) {
	for _, dc := range s.Spec.DataCenters {
		if dc.Region == region {
			all = append(all, dc)
		}
	}
	return all
}

func list(all []v1alpha1.DataCenter) string {
	var names []string
	for _, dc := range all {
		names = append(names, dc.Name)
	}
	return strings.Join(names, ", ")
}
