package inject

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// EnvAddress is the environment variable with the sidecar's address, in the app's containers.
const EnvAddress = "CAUSALSTORE_ADDRESS"

// RedirectContainer is the name of the init container that redirects the Services' addresses to the sidecar.
const RedirectContainer = "causalstore-redirect"

// labelPodSecurity on a namespace is the PodSecurity level that it enforces.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

// chooseMode returns the injection mode: that of the pod's annotation, or else that of the store. It refuses Redirect
// in namespaces that forbid what it needs, because the API server would reject the whole pod.
func chooseMode(r *Request) (v1alpha1.InjectionMode, *refusal) {
	mode := r.Store.Spec.Injection.Mode
	if own := r.Pod.Annotations[AnnotationMode]; own != "" {
		mode = v1alpha1.InjectionMode(own)
		if modes := []v1alpha1.InjectionMode{v1alpha1.InjectLoopbackNames, v1alpha1.InjectRedirect,
			v1alpha1.InjectExplicit}; !slices.Contains(modes, mode) {
			return "", refuse(ModeUnknown, "annotation %s is %s; use LoopbackNames, Redirect or Explicit",
				AnnotationMode, own)
		}
	}
	if mode != v1alpha1.InjectRedirect {
		return mode, nil
	}
	if level := r.Labels[labelPodSecurity]; level == "baseline" || level == "restricted" {
		return "",
			refuse(RedirectForbidden,
				"mode Redirect needs an init container with NET_ADMIN, and namespace %s enforces PodSecurity %s; set "+
					"annotation %s to LoopbackNames or Explicit",
				r.Namespace, level, AnnotationMode)
	}
	if !r.Store.Spec.Clients.Front.IsEnabled() {
		return "",
			refuse(RedirectImpossible,
				"CausalStore %s has no Services, because its front is off (spec.clients.front.enabled); set "+
					"annotation %s to LoopbackNames or Explicit",
				r.StoreRef, AnnotationMode)
	}
	for _, name := range serviceNames(r) {
		a, err := netip.ParseAddr(r.Addresses[name])
		if err != nil {
			return "",
				refuse(RedirectImpossible,
					"Service %s of namespace %s has no cluster IP yet, which mode Redirect needs; restart the pod "+
						"once it has one", name,
					r.Store.Namespace)
		}
		if !a.Is4() {
			return "",
				refuse(RedirectImpossible,
					"Service %s has address %s, and mode Redirect supports only IPv4; set annotation %s to "+
						"LoopbackNames or Explicit",
					name, a, AnnotationMode)
		}
	}
	return mode, nil
}

// serviceNames returns the Services that the sidecar replaces: the store's, and those of its data centers in this
// cluster.
func serviceNames(r *Request) []string {
	all := []string{r.Store.Name}
	for _, dc := range r.localDataCenters() {
		all = append(all, plan.DataCenterName(r.Store.Name, dc.Name))
	}
	return all
}

// addHostAliases makes the names of the store's Services resolve to the sidecar, so that the app keeps the name that it
// uses.
func addHostAliases(p *corev1.Pod, r *Request) {
	var names []string
	for _, s := range serviceNames(r) {
		if r.Namespace == r.Store.Namespace { // in another namespace the short name may be something else
			names = append(names, s)
		}
		inNamespace := s + "." + r.Store.Namespace
		names = append(names, inNamespace, inNamespace+".svc", inNamespace+".svc."+r.ClusterDomain)
	}
	p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: Address, Hostnames: names})
}

// addAddressEnv sets EnvAddress in every container of the app that does not set it itself.
func addAddressEnv(p *corev1.Pod) {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			if c.Name != Container && !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
				return e.Name == EnvAddress
			}) {
				c.Env = append(c.Env, corev1.EnvVar{Name: EnvAddress,
					Value: fmt.Sprintf("%s:%d", Address, plan.PortRedis)})
			}
		}
	}
}

// addRedirect adds an init container after the sidecar, which is listening by then. The container needs root to use
// NET_ADMIN, which applies to the pod's own network only; it has no other capability, and exits at once.
func addRedirect(p *corev1.Pod, r *Request, dc string) {
	args := []string{"redirect", fmt.Sprintf("--to=%s:%d", Address, plan.PortRedis)}
	for _, name := range serviceNames(r) {
		args = append(args, fmt.Sprintf("--from=%s:%d", r.Addresses[name], plan.PortRedis))
	}
	yes, no, root := true, false, int64(0)
	c := corev1.Container{Name: RedirectContainer, Image: r.image(dc), Args: args,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
				corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &no, RunAsUser: &root, RunAsGroup: &root,
			AllowPrivilegeEscalation: &no,
			ReadOnlyRootFilesystem:   &yes,
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"},
				Add: []corev1.Capability{"NET_ADMIN"}}}}
	i := slices.IndexFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == Container })
	p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, i+1, c)
}
