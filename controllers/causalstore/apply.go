package causalstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/serverside"
)

// apply applies the objects of a plan, of which live are those that exist. The record comes first; if it cannot be
// written nothing else is, because an epoch that a part has seen must not be forgotten.
func (r *Reconciler) apply(ctx context.Context, seen *status.Observed, p plan.Plan, live []client.Object) error {
	recreated := map[string]bool{}
	for _, name := range p.Recreate {
		recreated[name] = true // it is applied when it is gone
	}
	var errs []error
	for i, o := range p.Apply {
		if _, ok := o.(*appsv1.StatefulSet); ok && recreated[o.GetName()] {
			continue
		}
		err := r.applyOne(ctx, seen, o, live[i])
		if err != nil && i == 0 {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// applyOne creates an object, or changes the live one, which is the store's.
func (r *Reconciler) applyOne(ctx context.Context, seen *status.Observed, o, live client.Object) error {
	u, err := plan.Manifest(o, r.Scheme)
	if err != nil {
		return err
	}
	if live != nil {
		if r.isOfAnotherRegion(seen.Store, live) {
			return nil
		}
		if r.applied.contains(seen.Store, u, live.GetResourceVersion()) {
			return nil
		}
		if err := r.removeConflictingPorts(ctx, live, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), o.GetName(), err)
		}
	}
	key := u.DeepCopy()
	again := r.applied.includes(seen.Store, key)
	var before *unstructured.Unstructured
	if again && live != nil {
		before = r.readBefore(ctx, key)
	}
	if err := serverside.Write(ctx, r.Client, u, live, plan.ManagedBy); err != nil {
		return fmt.Errorf("apply %s %s: %w", key.GetKind(), o.GetName(), err)
	}
	r.applied.add(seen.Store, key, u.GetResourceVersion())
	if again {
		r.reportPutBack(seen, live, before, u)
	}
	return nil
}

// removeConflictingPorts removes ports that keep the planned ports out of a Service. Server-side apply identifies a
// port by its number, so a port whose number was changed by someone else counts as another port; but it has the name of
// the planned one, and names must be unique.
func (r *Reconciler) removeConflictingPorts(ctx context.Context, live, planned client.Object) error {
	is, ok := live.(*corev1.Service)
	if !ok {
		return nil
	}
	ports := slices.Clone(planned.(*corev1.Service).Spec.Ports)
	conflict := false
	for _, p := range is.Spec.Ports {
		same := func(q corev1.ServicePort) bool { return q.Port == p.Port && q.Protocol == p.Protocol }
		named := func(q corev1.ServicePort) bool { return q.Name == p.Name }
		switch {
		case slices.ContainsFunc(ports, same):
		case slices.ContainsFunc(ports, named):
			conflict = true
		default:
			ports = append(ports, p)
		}
	}
	if !conflict {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": is.ResourceVersion}, "spec": map[string]any{"ports": ports}})
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, is.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}
