package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Manifest returns an object as it is applied: with its kind, and without status and empty fields. With server-side
// apply an empty field would claim the ownership of that field.
func Manifest(o client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(o, scheme)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", gvk.Kind, o.GetName(), err)
	}
	removeEmpty(fields)
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// removeEmpty removes every status and every null at any depth: StatefulSets contain claims.
func removeEmpty(in any) {
	switch in := in.(type) {
	case map[string]any:
		for k, v := range in {
			if v == nil || k == "status" {
				delete(in, k)
				continue
			}
			removeEmpty(v)
		}
	case []any:
		for _, v := range in {
			removeEmpty(v)
		}
	}
}
