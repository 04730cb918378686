package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Abort ends a run: it asks the command that runs it to heal and report, and deletes the experiments at once, also if that command has died.
func Abort(ctx context.Context, c client.Client, r *record.Run, why string) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: record.Name(r.Store, r.ID)}}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{record.AnnotationAbort: why}}})
	if err != nil {
		return err
	}
	errs := []error{wrap("ask for the end of the run", c.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)))}
	for _, kind := range []string{KindPod, KindNetwork, KindTime, KindIO} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(chaosAPI.WithKind(kind + "List"))
		if err := c.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels{record.LabelRun: r.ID}); err != nil {
			if len(r.Experiments) > 0 {
				errs = append(errs, fmt.Errorf("list %s: %w", kind, err))
			}
			continue
		}
		for i := range list.Items {
			errs = append(errs, wrap("delete "+kind+" "+list.Items[i].GetName(), client.IgnoreNotFound(c.Delete(ctx, &list.Items[i]))))
		}
	}
	return errors.Join(errs...)
}
