package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Use names the store that the pods of a namespace use.
type Use types.NamespacedName

// UseOf returns which store the label of a namespace names: one of the namespace itself ("orders"), or of another one, as in host
// names ("orders.shop"). Names of stores have no dots.
func UseOf(namespace string, labels map[string]string) (u Use, ok bool) {
	label, ok := labels[LabelInject]
	if !ok || label == "" {
		return Use{}, false
	}
	name, of, elsewhere := strings.Cut(label, ".")
	if !elsewhere {
		of = namespace
	}
	return Use{Namespace: of, Name: name}, true
}

// label is what names the store from any namespace.
func (u Use) label() string { return u.Name + "." + u.Namespace }

func (u Use) String() string { return u.Namespace + "/" + u.Name }

// configMap is what a sidecar in a namespace reads its configuration from. A pod can use what is in its own namespace only, so
// that of a store elsewhere is copied there, under a name with a dot, which nothing of a store has.
func (u Use) configMap(namespace, dc string) string {
	return u.copied(namespace, plan.DataCenterName(u.Name, dc))
}

// keys is the Secret with the key of session tokens.
func (u Use) keys(namespace string) string { return u.copied(namespace, plan.KeysName(u.Name)) }

func (u Use) copied(namespace, name string) string {
	if namespace == u.Namespace {
		return name
	}
	return name + "." + u.Namespace
}

// Sidecar is what a sidecar is of.
type Sidecar struct{ Namespace, Store, DataCenter string }

// SidecarOf returns what the sidecar of a pod is of, or false if it has none.
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

// injected is the annotation that SidecarOf reads.
func (u Use) injected(namespace, dc string) string {
	if namespace == u.Namespace {
		return u.Name + "/" + dc
	}
	return u.Namespace + "/" + u.Name + "/" + dc
}
