// Package v1alpha1 is the Kubernetes API of CausalStore. Its one resource, CausalStore, describes a whole deployment
// across all of its data centers. The same manifest is applied in the cluster of every region; each cluster's operator
// manages the data centers of its own region.
//
// CEL rules in the generated CRD check manifests at admission. Validate and ValidateChange repeat these checks in Go,
// for clusters whose CRD is older or has no rules.
//
// +kubebuilder:object:generate=true
// +groupName=causalstore.io
package v1alpha1

// Dangerous types are numbers with a fraction, which not every language keeps exactly: here places on a map, for which
// that does not matter.
//go:generate go tool controller-gen object paths=.
//go:generate go tool controller-gen crd:allowDangerousTypes=true paths=. output:crd:dir=../../config/crd/bases
//go:generate cp ../../config/crd/bases/causalstore.io_causalstores.yaml ../../charts/causalstore/files/crd.yaml
//go:generate go run ./internal/reference ../../config/crd/bases/causalstore.io_causalstores.yaml ../../docs/reference.md

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "causalstore.io", Version: "v1alpha1"}

var (
	// SchemeBuilder registers the types of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addTypes)
	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CausalStore{}, &CausalStoreList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
