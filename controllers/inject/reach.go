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

// EnvAddress tells the app's containers where the sidecar is.
const EnvAddress = "CAUSALSTORE_ADDRESS"

// RedirectContainer is the name of the init container that leads the Services' addresses to the sidecar.
const RedirectContainer = "causalstore-redirect"

// labelPodSecurity on a namespace is what its pods must keep to.
const labelPodSecurity = "pod-security.kubernetes.io/enforce"

// chooseMode: the pod's own word counts more than the store's. Redirect needs what not every namespace allows; a pod that asked for
// it there would not be made at all.
func chooseMode(r *Request) (v1alpha1.InjectionMode, *refusal) {
	mode := r.Store.Spec.Injection.Mode
	if own := r.Pod.Annotations[AnnotationMode]; own != "" {
		mode = v1alpha1.InjectionMode(own)
		if modes := []v1alpha1.InjectionMode{v1alpha1.InjectLoopbackNames, v1alpha1.InjectRedirect,
			v1alpha1.InjectExplicit}; !slices.Contains(modes, mode) {
			return "", no(ModeUnknown, "annotation %s is %s; give LoopbackNames, Redirect or Explicit", AnnotationMode, own)
		}
	}
	if mode != v1alpha1.InjectRedirect {
		return mode, nil
	}
	if level := r.Labels[labelPodSecurity]; level == "baseline" || level == "restricted" {
		return "", no(RedirectForbidden, "mode Redirect needs an init container with NET_ADMIN, and namespace %s enforces PodSecurity %s; give annotation %s: LoopbackNames or Explicit",
			r.Namespace, level, AnnotationMode)
	}
	for _, name := range services(r) {
		a, err := netip.ParseAddr(r.Addresses[name])
		if err != nil {
			return "", no(RedirectImpossible, "Service %s of namespace %s has no address yet, which mode Redirect needs; restart the pod when it is there", name,
				r.Store.Namespace)
		}
		if !a.Is4() {
			return "", no(RedirectImpossible, "Service %s has address %s, and mode Redirect works with IPv4 only; give annotation %s: LoopbackNames or Explicit",
				name, a, AnnotationMode)
		}
	}
	return mode, nil
}

// services are those whose clients the sidecar serves: the store's, and those of its data centres here.
func services(r *Request) []string {
	all := []string{r.Store.Name}
	for _, dc := range here(r.Store, r.Region) {
		all = append(all, plan.DataCenterName(r.Store.Name, dc.Name))
	}
	return all
}

// addNames lets the names of the store's Services lead to the sidecar: the app goes on to use the name that it has.
func addNames(p *corev1.Pod, r *Request) {
	var names []string
	for _, s := range services(r) {
		if r.Namespace == r.Store.Namespace { // elsewhere, it may be a name of something else
			names = append(names, s)
		}
		inNamespace := s + "." + r.Store.Namespace
		names = append(names, inNamespace, inNamespace+".svc", inNamespace+".svc."+r.ClusterDomain)
	}
	p.Spec.HostAliases = append(p.Spec.HostAliases, corev1.HostAlias{IP: Address, Hostnames: names})
}

// addEnv tells every container of the app where the sidecar is, unless it has a word of its own on that.
func addEnv(p *corev1.Pod) {
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			if c.Name != Container && !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == EnvAddress }) {
				c.Env = append(c.Env, corev1.EnvVar{Name: EnvAddress, Value: fmt.Sprintf("%s:%d", Address, plan.PortRedis)})
			}
		}
	}
}

// addRedirect puts an init container right behind the sidecar, which listens by then. It needs root to use NET_ADMIN, which is about
// the pod's own network only; it has nothing else, and ends at once.
func addRedirect(p *corev1.Pod, r *Request) {
	args := []string{"redirect", fmt.Sprintf("--to=%s:%d", Address, plan.PortRedis)}
	for _, name := range services(r) {
		args = append(args, fmt.Sprintf("--from=%s:%d", r.Addresses[name], plan.PortRedis))
	}
	yes, no, root := true, false, int64(0)
	c := corev1.Container{Name: RedirectContainer, Image: r.image(), Args: args,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
				corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &no, RunAsUser: &root, RunAsGroup: &root,
			AllowPrivilegeEscalation: &no,
			ReadOnlyRootFilesystem:   &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN"}}}}
	i := slices.IndexFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == Container })
	p.Spec.InitContainers = slices.Insert(p.Spec.InitContainers, i+1, c)
}
