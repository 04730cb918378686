package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/drill/record"
)

// Abort ends a run: it asks the command that runs it to heal and report, and deletes the experiments at once, also if
// that command has died. It returns until when that is not known: the end of the lock of the run. If it has passed, the
// run is kept as aborted, and the time is zero.
func Abort(ctx context.Context, c client.Client, r *record.Run, why string) (known time.Time, err error) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: record.Name(r.Store, r.ID)}}
	body, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": map[string]string{record.AnnotationAbort: why}}})
	if err != nil {
		return known, err
	}
	errs := []error{wrap("ask for the end of the run", c.Patch(ctx, m, client.RawPatch(types.MergePatchType, body)))}
	for _, kind := range []string{KindPod, KindNetwork, KindTime, KindIO} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(chaosAPI.WithKind(kind + "List"))
		if err := c.List(ctx, list, client.InNamespace(r.Namespace),
			client.MatchingLabels{record.LabelRun: r.ID}); err != nil {
			if len(r.Experiments) > 0 {
				errs = append(errs, fmt.Errorf("list %s: %w", kind, err))
			}
			continue
		}
		for i := range list.Items {
			errs = append(errs, wrap("delete "+kind+" "+list.Items[i].GetName(),
				client.IgnoreNotFound(c.Delete(ctx, &list.Items[i]))))
		}
	}
	lock := &corev1.ConfigMap{}
	err = c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: record.LockName(r.Store)}, lock)
	switch {
	case client.IgnoreNotFound(err) != nil:
		errs = append(errs, wrap("read the lock of the store", err))
	case err == nil && lock.Labels[record.LabelRun] == r.ID && !record.Expired(lock, now()):
		known = record.Expiry(lock)
	default:
		errs = append(errs, keepAborted(ctx, c, r, why))
	}
	return known, errors.Join(errs...)
}

// keepAborted ends the record of a run whose command has died.
func keepAborted(ctx context.Context, c client.Client, r *record.Run, why string) error {
	kept := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: record.Name(r.Store, r.ID)}, kept); err != nil {
		return wrap("read the run", err)
	}
	if runs := record.All([]corev1.ConfigMap{*kept}); len(runs) != 1 || runs[0].Outcome != record.Running {
		return nil // it has ended in order since r was read: its record comes before the end of its lock
	}
	r.Outcome, r.Reason, r.Ended = record.Aborted, "asked for: "+why+"; the command that ran it had died", now()
	m, err := r.ConfigMap()
	if err != nil {
		return err
	}
	return patchRecord(ctx, c, m)
}
