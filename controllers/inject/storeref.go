package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// StoreRef names a store.
type StoreRef types.NamespacedName

// ParseStoreRef returns the store that the label of a namespace names: a store of the same namespace ("orders"), or of
// another one, as in host names ("orders.shop"). Names of stores have no dots.
func ParseStoreRef(namespace string, labels map[string]string) (ref StoreRef, ok bool) {
	label, ok := labels[LabelInject]
	if !ok || label == "" {
		return StoreRef{}, false
	}
	name, other, ok := strings.Cut(label, ".")
	if !ok {
		other = namespace
	}
	return StoreRef{Namespace: other, Name: name}, true
}

// labelValue returns the value of LabelInject that names the store from any namespace.
func (ref StoreRef) labelValue() string { return ref.Name + "." + ref.Namespace }

func (ref StoreRef) String() string { return ref.Namespace + "/" + ref.Name }

// configMap returns the name of the ConfigMap with the configuration of a sidecar in a namespace. A pod can mount only
// objects of its own namespace, so the ConfigMap of a store in another one is copied, to a name with a dot, which no
// object of a store has.
func (ref StoreRef) configMap(namespace, dc string) string {
	return ref.copyName(namespace, plan.DataCenterName(ref.Name, dc))
}

// usersSecret returns the name of the Secret with the users whose passwords sidecars ask for.
func (ref StoreRef) usersSecret(namespace string) string {
	return ref.copyName(namespace, plan.UsersName(ref.Name))
}

// certificatesSecret returns the name of the Secret with the certificate of the sidecars in a namespace.
func (ref StoreRef) certificatesSecret(namespace, dc string) string {
	return ref.copyName(namespace, plan.SidecarCertificatesName(ref.Name, dc))
}

// certificatesOf returns the name of the Secret that belongs to a copied ConfigMap.
func (ref StoreRef) certificatesOf(configMap string) string {
	dc := strings.TrimPrefix(strings.TrimSuffix(configMap, "."+ref.Namespace), ref.Name+"-")
	return plan.SidecarCertificatesName(ref.Name, dc) + "." + ref.Namespace
}

// copyName returns the name that an object of the store has in a namespace.
func (ref StoreRef) copyName(namespace, name string) string {
	if namespace == ref.Namespace {
		return name
	}
	return name + "." + ref.Namespace
}

// Sidecar names the store and data center of a sidecar.
type Sidecar struct{ Namespace, Store, DataCenter string }

// SidecarOf returns the store and data center of a pod's sidecar, or false if it has none.
func SidecarOf(p *corev1.Pod) (Sidecar, bool) {
	words := strings.Split(p.Annotations[AnnotationInjected], "/")
	switch len(words) {
	case 2:
		return Sidecar{p.Namespace, words[0], words[1]}, true
	case 3:
		return Sidecar{words[0], words[1], words[2]}, true
	}
	return Sidecar{}, false
}

// injectedAnnotation returns the value of AnnotationInjected, which SidecarOf reads.
func (ref StoreRef) injectedAnnotation(namespace, dc string) string {
	if namespace == ref.Namespace {
		return ref.Name + "/" + dc
	}
	return ref.Namespace + "/" + ref.Name + "/" + dc
}
