// Package inject adds a sidecar to the pods of namespaces that ask for it, so that an app's Redis client becomes
// causally consistent without a change to the app. A pure function decides how to change a pod. The webhook around it
// never prevents the creation of a pod: a pod without a sidecar uses the store's Service, which is causally consistent
// too, with one session per connection.
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
	// LabelInject on a namespace names the store whose sidecar its pods get, see ParseStoreRef. On a pod, "false" opts
	// out.
	LabelInject = "causalstore.io/inject"
	// LabelRequired on a namespace, if "true", makes the API server refuse pods that should have a sidecar and cannot
	// get one.
	LabelRequired = "causalstore.io/inject-required"
	// AnnotationDataCenter on a pod names its data center, if the cluster has several.
	AnnotationDataCenter = "causalstore.io/data-center"
	// AnnotationSidecarDataCenter on a pod is the data center that its sidecar starts with, if the pod leaves the
	// choice to the zone of its node: see Binder.
	AnnotationSidecarDataCenter = "causalstore.io/sidecar-data-center"
	// AnnotationMode on a pod overrides the store's injection mode.
	AnnotationMode = "causalstore.io/injection-mode"
	// AnnotationInjected on a pod names the store and data center of its sidecar.
	AnnotationInjected = "causalstore.io/injected"
	// LabelStore on a pod names the store of its sidecar, so that selectors can match such pods.
	LabelStore = plan.LabelSidecarOf
	// AnnotationNotInjected on a pod has the reason why it has no sidecar.
	AnnotationNotInjected = "causalstore.io/not-injected"
)

// Reason is why a pod has no sidecar.
type Reason string

// Reasons. Injected means that the pod has got a sidecar.
const (
	Injected             Reason = ""
	OptedOut             Reason = "OptedOut"
	AlreadyInjected      Reason = "AlreadyInjected"
	HostNetwork          Reason = "HostNetwork"
	StoreNotFound        Reason = "StoreNotFound"
	StoreNotHere         Reason = "StoreNotHere"
	StoreRefused         Reason = "StoreRefused"
	NotAdmitted          Reason = "NotAdmitted"
	ConfigurationMissing Reason = "ConfigurationMissing"
	DataCenterUnknown    Reason = "DataCenterUnknown"
	ModeUnknown          Reason = "ModeUnknown"
	RedirectForbidden    Reason = "RedirectForbidden"
	RedirectImpossible   Reason = "RedirectImpossible"
	PartOfStore          Reason = "PartOfStore"
)

// MayRun reports whether a pod without a sidecar may run where sidecars are required: it has one already, is a part of
// a store, or was opted out.
func (r Reason) MayRun() bool {
	return r == Injected || r == AlreadyInjected || r == PartOfStore || r == OptedOut
}

// Request is the input of a decision.
type Request struct {
	Pod *corev1.Pod
	// Namespace of the pod, and its labels.
	Namespace string
	Labels    map[string]string
	// StoreRef names the store that the namespace asks for; Store is that store, or nil if it does not exist.
	StoreRef StoreRef
	Store    *v1alpha1.CausalStore
	// Refused is why the operator does not run the store: its author may not choose what it asks for.
	Refused []string
	// Copied reports whether a copy of a ConfigMap exists in the pod's namespace. It is used if the store is in another
	// one.
	Copied func(configMap string) bool
	// Addresses maps the names of the store's Services to their cluster IPs.
	Addresses map[string]string
	// Region of the operator, and all regions whose data centers are in this cluster, that one included.
	Region  string
	Regions map[string]bool
	// Images are those that the data centers run, by name, for stores that set none. Image is that of the operator, for
	// stores of which nothing runs yet.
	Images map[string]string
	Image  string
	// ClusterDomain is the DNS domain of the cluster's Services.
	ClusterDomain string
}

// Decision is the output: the pod as it should be created.
type Decision struct {
	// Pod is a copy of the pod with the sidecar, or with an annotation that says why it has none.
	Pod *corev1.Pod
	// Reason is why the pod has no sidecar, Message the same for users.
	Reason  Reason
	Message string
}

// refusal is why a pod gets no sidecar; nil means that it gets one.
type refusal struct {
	reason  Reason
	message string
}

func refuse(reason Reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// Decide adds the sidecar to a pod, or returns why not.
func Decide(r Request) Decision {
	d := Decision{Pod: r.Pod.DeepCopy()}
	if r.Regions == nil {
		r.Regions = map[string]bool{r.Region: true}
	}
	c, refused := choose(&r)
	if refused != nil {
		d.Reason, d.Message = refused.reason, refused.message
		if d.Reason != AlreadyInjected && d.Reason != PartOfStore {
			d.Pod.Annotations = withEntry(d.Pod.Annotations, AnnotationNotInjected,
				fmt.Sprintf("%s: %s", d.Reason, d.Message))
		}
		return d
	}
	delete(d.Pod.Annotations, AnnotationNotInjected) // of another operator's webhook
	d.Pod.Annotations = withEntry(d.Pod.Annotations, AnnotationInjected,
		r.StoreRef.injectedAnnotation(r.Namespace, c.dataCenter))
	if c.byNode {
		d.Pod.Annotations = withEntry(d.Pod.Annotations, AnnotationSidecarDataCenter, c.dataCenter)
	}
	d.Pod.Labels = withEntry(d.Pod.Labels, LabelStore, r.Store.Name)
	addSidecar(d.Pod, &r, c)
	switch c.mode {
	case v1alpha1.InjectExplicit:
		addAddressEnv(d.Pod)
	case v1alpha1.InjectRedirect:
		addRedirect(d.Pod, &r, c.dataCenter)
	default:
		addHostAliases(d.Pod, &r)
	}
	return d
}

func withEntry(in map[string]string, key, value string) map[string]string {
	if in == nil {
		in = map[string]string{}
	}
	in[key] = value
	return in
}

// choice is what kind of sidecar a pod gets.
type choice struct {
	dataCenter string
	// byNode is whether the zone of the pod's node may still replace the data center, when the pod is bound to a node.
	byNode bool
	mode   v1alpha1.InjectionMode
}

// choose returns the data center of a pod and its injection mode, or why the pod gets no sidecar.
func choose(r *Request) (c choice, refused *refusal) {
	if refused = checkPod(r); refused != nil {
		return c, refused
	}
	if r.Namespace != r.StoreRef.Namespace && !admits(r.Store, r.Labels) {
		return c,
			refuse(NotAdmitted,
				"CausalStore %s does not admit namespace %s; select the namespace in its spec.access.namespaces",
				r.StoreRef, r.Namespace)
	}
	if c.dataCenter, c.byNode, refused = chooseDataCenter(r); refused != nil {
		return c, refused
	}
	for _, dc := range c.candidates(r) {
		if name := r.StoreRef.configMap(r.Namespace, dc); r.Namespace != r.StoreRef.Namespace && !r.Copied(name) {
			return c, refuse(ConfigurationMissing,
				"the operator has not copied the sidecar's configuration to ConfigMap %s in the namespace yet; "+
					"restart the pod once it exists",
				name)
		}
	}
	c.mode, refused = chooseMode(r)
	return c, refused
}

// candidates returns the data centers that the sidecar may start with.
func (c choice) candidates(r *Request) []string {
	if !c.byNode {
		return []string{c.dataCenter}
	}
	var all []string
	for _, dc := range r.localDataCenters() {
		all = append(all, dc.Name)
	}
	return all
}

// checkPod refuses pods that cannot have a sidecar, or whose store does not exist.
func checkPod(r *Request) *refusal {
	p := r.Pod
	switch {
	case p.Labels[plan.LabelManagedBy] == plan.ManagedBy:
		return refuse(PartOfStore, "the pod is a part of a store")
	case p.Labels[LabelInject] == "false":
		return refuse(OptedOut, "the pod has label %s=false", LabelInject)
	case slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == Container }):
		return refuse(AlreadyInjected, "the pod already has a sidecar")
	case p.Spec.HostNetwork:
		return refuse(HostNetwork, "the pod uses the network of its node; connect to the Service %s of namespace %s",
			r.StoreRef.Name,
			r.StoreRef.Namespace)
	case r.Store == nil:
		return refuse(StoreNotFound,
			"namespace %s has no CausalStore %s; create it, or correct the label %s of namespace %s",
			r.StoreRef.Namespace, r.StoreRef.Name,
			LabelInject, r.Namespace)
	case len(r.Refused) > 0:
		return refuse(StoreRefused, "CausalStore %s: %s", r.StoreRef, strings.Join(r.Refused, "; "))
	}
	return nil
}

// admits reports whether a store lets pods of another namespace connect.
func admits(s *v1alpha1.CausalStore, namespace map[string]string) bool {
	if s.Spec.Access.Namespaces == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Access.Namespaces)
	return err == nil && selector.Matches(labels.Set(namespace))
}

// chooseDataCenter returns the data center of a pod. If the cluster has several, the pod selects one by annotation, or
// by a zone in its nodeSelector. If it does neither, the zone of its node decides when the scheduler has found one;
// until then it has the first data center.
func chooseDataCenter(r *Request) (name string, byNode bool, refused *refusal) {
	p, here := r.Pod, r.localDataCenters()
	if name := p.Annotations[AnnotationDataCenter]; name != "" {
		for _, dc := range here {
			if dc.Name == name {
				return name, false, nil
			}
		}
		return "", false, refuse(DataCenterUnknown,
			"annotation %s is %s, which is not one of this cluster's data centers (%s)",
			AnnotationDataCenter, name, joinNames(here))
	}
	switch len(here) {
	case 0:
		return "", false,
			refuse(StoreNotHere,
				"CausalStore %s has no data center in region %s; connect to the Service of another region",
				r.Store.Name, r.Region)
	case 1:
		return here[0].Name, false, nil
	}
	if name := dataCenterOfZone(here, p.Spec.NodeSelector[r.Store.Spec.ZoneLabel]); name != "" {
		return name, false, nil
	}
	return here[0].Name, !r.Store.Spec.SingleZone(), nil
}

// localDataCenters returns the data centers of the store in this cluster.
func (r *Request) localDataCenters() []v1alpha1.DataCenter { return dataCentersOf(r.Store, r.Regions) }

// dataCentersOf returns the data centers of a store in some regions, with the zones that they use.
func dataCentersOf(s *v1alpha1.CausalStore, regions map[string]bool) (all []v1alpha1.DataCenter) {
	for _, dc := range s.Spec.DataCenters {
		if regions[dc.Region] {
			dc.Zones = s.Spec.ZonesOf(&dc)
			all = append(all, dc)
		}
	}
	return all
}

func joinNames(all []v1alpha1.DataCenter) string {
	var names []string
	for _, dc := range all {
		names = append(names, dc.Name)
	}
	return strings.Join(names, ", ")
}
