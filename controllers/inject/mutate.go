// Package inject puts a sidecar into the pods of namespaces that ask for it, so that an app's own Redis client becomes causal
// without a change to the app. What is done to a pod is decided by a pure function; the webhook around it never keeps a pod
// from being made: a pod without a sidecar reaches the store's Service, which is causal too, with a session per connection.
package inject

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Labels and annotations.
const (
	// LabelInject on a namespace names the store, of that namespace, whose sidecar its pods get. On a pod, "false" opts out.
	LabelInject = "causalstore.io/inject"
	// AnnotationDataCenter on a pod names its data centre, where there are several in the cluster.
	AnnotationDataCenter = "causalstore.io/data-center"
	// AnnotationInjected on a pod says which store and data centre its sidecar is of.
	AnnotationInjected = "causalstore.io/injected"
	// AnnotationNotInjected on a pod says why it has no sidecar.
	AnnotationNotInjected = "causalstore.io/not-injected"
)

// Container is the name of the sidecar, Address where it listens, beside the store's port: an address of the loopback network
// that nobody else uses.
const (
	Container = "causalstore-sidecar"
	Address   = "127.67.83.1"
)

// EnvAddress tells the app's containers where the sidecar is.
const EnvAddress = "CAUSALSTORE_ADDRESS"

// Reason is why a pod has no sidecar.
type Reason string

// The reasons.
const (
	Injected          Reason = ""
	OptedOut          Reason = "OptedOut"
	AlreadyInjected   Reason = "AlreadyInjected"
	HostNetwork       Reason = "HostNetwork"
	StoreNotFound     Reason = "StoreNotFound"
	StoreNotHere      Reason = "StoreNotHere"
	DataCenterUnknown Reason = "DataCenterUnknown"
	PartOfStore       Reason = "PartOfStore"
)

// Request is what a decision depends on.
type Request struct {
	Pod *corev1.Pod
	// Name of the store that the namespace asks for, and the store, or nil if there is none of that name.
	Name  string
	Store *v1alpha1.CausalStore
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

// Decide puts the sidecar into a pod, or says why not.
func Decide(r Request) Decision {
	d := Decision{Pod: r.Pod.DeepCopy()}
	dc, reason, message := choose(r)
	if reason != Injected {
		d.Reason, d.Message = reason, message
		if reason != AlreadyInjected && reason != PartOfStore {
			annotate(d.Pod, AnnotationNotInjected, fmt.Sprintf("%s: %s", reason, message))
		}
		return d
	}
	annotate(d.Pod, AnnotationInjected, r.Store.Name+"/"+dc)
	addSidecar(d.Pod, r, dc)
	switch r.Store.Spec.Injection.Mode {
	case v1alpha1.InjectExplicit:
		addEnv(d.Pod)
	default:
		addNames(d.Pod, r)
	}
	return d
}

func annotate(p *corev1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

// choose finds the data centre of a pod, or the reason not to inject.
func choose(r Request) (dc string, reason Reason, message string) {
	p := r.Pod
	switch {
	case p.Labels[plan.LabelManagedBy] == plan.ManagedBy:
		return "", PartOfStore, "it is a part of a store itself"
	case p.Labels[LabelInject] == "false":
		return "", OptedOut, "the pod has label " + LabelInject + "=false"
	case slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == Container }):
		return "", AlreadyInjected, "it has a sidecar"
	case p.Spec.HostNetwork:
		return "", HostNetwork, "the pod shares the network of its node; use the Service " + r.Name
	case r.Store == nil:
		return "", StoreNotFound, fmt.Sprintf("the namespace has no CausalStore %s; create it, or correct the label %s of the namespace",
			r.Name, LabelInject)
	}
	var here []v1alpha1.DataCenter
	for _, dc := range r.Store.Spec.DataCenters {
		if dc.Region == r.Region {
			here = append(here, dc)
		}
	}
	return place(p, here, r)
}

// place: where there are several data centres, the pod says which is its own, by name or by the zones that it may run in.
func place(p *corev1.Pod, here []v1alpha1.DataCenter, r Request) (dc string, reason Reason, message string) {
	if name := p.Annotations[AnnotationDataCenter]; name != "" {
		for _, dc := range here {
			if dc.Name == name {
				return name, Injected, ""
			}
		}
		return "", DataCenterUnknown, fmt.Sprintf("annotation %s is %s, which is not one of this cluster's data centres (%s)",
			AnnotationDataCenter, name, list(here))
	}
	switch len(here) {
	case 0:
		return "", StoreNotHere, fmt.Sprintf("CausalStore %s has no data centre in region %s; use the Service of another region",
			r.Name, r.Region)
	case 1:
		return here[0].Name, Injected, ""
	}
	zone := p.Spec.NodeSelector[r.Store.Spec.ZoneLabel]
	for _, dc := range here {
		if zone != "" && (slices.Contains(dc.Zones.Frontend, zone) || slices.Contains(dc.Zones.Backend, zone)) {
			return dc.Name, Injected, ""
		}
	}
	return "", DataCenterUnknown, fmt.Sprintf("this cluster has several data centres (%s); name one in annotation %s, or a zone in nodeSelector",
		list(here), AnnotationDataCenter)
}

func list(all []v1alpha1.DataCenter) string {
	var names []string
	for _, dc := range all {
		names = append(names, dc.Name)
	}
	return strings.Join(names, ", ")
}

// addSidecar puts the container first, so that other init containers can use it, too. Kubernetes starts it before the app and
// ends it after.
func addSidecar(p *corev1.Pod, r Request, dc string) {
	image := r.Store.Spec.Image
	if image == "" {
		image = r.Image
	}
	always, yes, no, user := corev1.ContainerRestartPolicyAlways, true, false, int64(65532)
	c := corev1.Container{
		Name: Container, Image: image, RestartPolicy: &always,
		Args: []string{"sidecar", "--config=/etc/causalstore/causalstore.yaml", fmt.Sprintf("--listen-redis=%s:%d", Address,
			plan.PortRedis),
			fmt.Sprintf("--listen-http=:%d", plan.PortHTTP)},
		Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "230MiB"}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
				corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}},
		Ports: []corev1.ContainerPort{{Name: "causal-http", ContainerPort: plan.PortHTTP, Protocol: corev1.ProtocolTCP}},
		// The app waits until the sidecar listens, and not until the store is there: it may be able to do without.
		StartupProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
			Port: intstr.FromInt32(plan.PortHTTP)}},
			PeriodSeconds: 1, FailureThreshold: 60},
		LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz",
			Port: intstr.FromInt32(plan.PortHTTP)}},
			PeriodSeconds: 10, TimeoutSeconds: 6, FailureThreshold: 6},
		SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		VolumeMounts: []corev1.VolumeMount{{Name: "causalstore-config", MountPath: "/etc/causalstore", ReadOnly: true},
			{Name: "causalstore-keys", MountPath: "/etc/causalstore-keys", ReadOnly: true}},
	}
	p.Spec.InitContainers = append([]corev1.Container{c}, p.Spec.InitContainers...)
	readable := int32(0o444)
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "causalstore-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: plan.DataCenterName(r.Store.Name, dc)}}}},
		// Of the store's secrets, only the key of session tokens.
		corev1.Volume{Name: "causalstore-keys",
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: plan.KeysName(r.Store.Name),
				DefaultMode: &readable, Items: []corev1.KeyToPath{{Key: plan.KeyToken, Path: plan.KeyToken}}}}})
}

// addNames lets the names of the store's Services lead to the sidecar: the app goes on to use the name that it has.
func addNames(p *corev1.Pod, r Request) {
	var names []string
	services := []string{r.Store.Name}
	for _, dc := range r.Store.Spec.DataCenters {
		if dc.Region == r.Region {
			services = append(services, plan.DataCenterName(r.Store.Name, dc.Name))
		}
	}
	for _, s := range services {
		inNamespace := s + "." + r.Store.Namespace
		names = append(names, s, inNamespace, inNamespace+".svc", inNamespace+".svc."+r.ClusterDomain)
	}
	p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: Address, Hostnames: names})
}

// addEnv tells every container of the app where the sidecar is.
func addEnv(p *corev1.Pod) {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name != Container {
				containers[i].Env = append(containers[i].Env, corev1.EnvVar{Name: EnvAddress, Value: fmt.Sprintf("%s:%d", Address,
					plan.PortRedis)})
			}
		}
	}
}
