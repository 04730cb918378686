package causalstore

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// reasonPutBack is the reason of events about objects of a store that somebody else has deleted or changed.
const reasonPutBack = "PutBack"

// readBefore reads an object as it is before the operator applies to it what it has applied before. The cache is too
// old for that, and has no field managers. It returns nil if the object does not exist, or cannot be read: then nothing
// is known of a change.
func (r *Reconciler) readBefore(ctx context.Context, planned *unstructured.Unstructured) *unstructured.Unstructured {
	before := &unstructured.Unstructured{}
	before.SetGroupVersionKind(planned.GroupVersionKind())
	if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(planned), before); err != nil {
		return nil
	}
	return before
}

// reportPutBack records an event if applying what was applied before has made an object again, or has changed it:
// somebody else had deleted or changed it. What an operator before this one has applied is not known.
func (r *Reconciler) reportPutBack(seen *status.Observed, live client.Object,
	before, applied *unstructured.Unstructured) {
	text := ""
	switch {
	case live == nil:
		text = "was deleted, and is made again; the audit log of the API server has who deleted it"
	case before != nil && !equality.Semantic.DeepEqual(content(before), content(applied)):
		text = "was changed" + lastWriter(before) + ", and is put back"
	default:
		return
	}
	name := applied.GetKind() + " " + applied.GetName()
	r.recordEvent(seen.Store, corev1.EventTypeWarning, "Apply", name, reasonPutBack, "%s %s", name, text)
}

// content is an object without what every write changes, and without its status, which is not the operator's.
func content(u *unstructured.Unstructured) map[string]any {
	o := maps.Clone(u.Object)
	metadata := maps.Clone(o["metadata"].(map[string]any)) // an object from the API server has it
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		delete(metadata, field)
	}
	o["metadata"] = metadata
	delete(o, "status")
	return o
}

// lastWriter names the field manager that changed an object last, apart from the operator and from updates of its
// status. It is empty if none is known.
func lastWriter(o client.Object) string {
	name, at := "", time.Time{}
	for _, f := range o.GetManagedFields() {
		if f.Manager == plan.ManagedBy || f.Subresource != "" || f.Time == nil ||
			f.Time.Before(&metav1.Time{Time: at}) {
			continue
		}
		name, at = f.Manager, f.Time.Time
	}
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" by %s at %s", name, at.UTC().Format(time.RFC3339))
}
