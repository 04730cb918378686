// Package v1alpha1 is the Kubernetes API of CausalStore: one resource, CausalStore, that describes a whole deployment over all
// of its data centres. The same manifest is given to the cluster of every region; each cluster's operator looks after the data
// centres of its own region.
//
// What can be said about a manifest alone is checked at admission, by CEL rules in the generated CRD. Validate and
// ValidateChange say the same in Go, for clusters where the CRD's rules are missing or older.
//
// +kubebuilder:object:generate=true
// +groupName=causalstore.io
package v1alpha1

//go:generate go tool controller-gen object paths=.
//go:generate go tool controller-gen crd paths=. output:crd:dir=../../config/crd/bases
//go:generate cp ../../config/crd/bases/causalstore.io_causalstores.yaml ../../charts/causalstore/files/crd.yaml

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of this package.
var GroupVersion = schema.GroupVersion{Group: "causalstore.io", Version: "v1alpha1"}

var (
	// SchemeBuilder collects the types of this package.
	SchemeBuilder = runtime.NewSchemeBuilder(addTypes)
	// AddToScheme makes a scheme know the types of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &CausalStore{}, &CausalStoreList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
