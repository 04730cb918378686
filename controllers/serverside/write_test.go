package serverside_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/causalstore/causalstore/controllers/serverside"
	"github.com/causalstore/causalstore/e2e/apiserver"
)

func TestMain(m *testing.M) { apiserver.Main(m) }

const owner = "writer"

// TestAnObjectThatOthersChangeAtOnceIsWritten: controllers write the status of a new object before its creator has made
// the fields its own.
func TestAnObjectThatOthersChangeAtOnceIsWritten(t *testing.T) {
	plain, err := client.NewWithWatch(apiserver.ForTest(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	c := interceptor.NewClient(plain,
		interceptor.Funcs{Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption) error {
			if p.Type() == types.JSONPatchType && others < 3 {
				others++
				now := &corev1.ConfigMap{}
				if err := to.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
					return err
				}
				metav1.SetMetaDataAnnotation(&now.ObjectMeta, "other", string(rune('a'+others)))
				if err := to.Update(ctx, now, client.FieldOwner("other")); err != nil {
					return err
				}
			}
			return to.Patch(ctx, o, p, options...)
		}})
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "written", "namespace": "default"},
		"data":     map[string]any{"a": "1", "b": "2"}}}
	if err := serverside.Write(t.Context(), c, u.DeepCopy(), nil, owner); err != nil {
		t.Fatal(err)
	}
	is := &corev1.ConfigMap{}
	if err := plain.Get(t.Context(), client.ObjectKeyFromObject(u), is); err != nil {
		t.Fatal(err)
	}
	if others == 0 || is.Annotations["other"] == "" || is.Data["a"] != "1" {
		t.Errorf("others wrote %d times; the object is %+v", others, is)
	}
	// A later apply removes what it leaves out.
	u.Object["data"] = map[string]any{"a": "1"}
	if err := serverside.Write(t.Context(), c, u, is, owner); err != nil {
		t.Fatal(err)
	}
	if err := plain.Get(t.Context(), client.ObjectKeyFromObject(u), is); err != nil || len(is.Data) != 1 ||
		is.Annotations["other"] == "" {
		t.Errorf("%v: data %v, annotations %v", err, is.Data, is.Annotations)
	}
}
