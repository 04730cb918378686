package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Manifest returns an object as it is applied: with its kind, and without what only the cluster can say. An empty field in it
// would be a claim to that field.
func Manifest(o client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(o, scheme)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	strip(fields)
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// strip removes every status and every null, at any depth: StatefulSets have claims within.
func strip(in any) {
	switch in := in.(type) {
	case map[string]any:
		for k, v := range in {
			if v == nil || k == "status" {
				delete(in, k)
				continue
			}
			strip(v)
		}
	case []any:
		for _, v := range in {
			strip(v)
		}
	}
}
