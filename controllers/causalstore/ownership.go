package causalstore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// findLive returns the existing objects of a plan, nil for each that does not exist, and notes those that are not the
// store's in seen.Conflicts. It looks before anything is written: with a foreign ServiceAccount, for example, pods
// would run with the rights of somebody else.
func (r *Reconciler) findLive(ctx context.Context, seen *status.Observed,
	planned []client.Object) ([]client.Object, error) {
	all := make([]client.Object, len(planned))
	for i, o := range planned {
		live, err := r.live(ctx, o)
		if err != nil {
			return nil, err
		}
		all[i] = live
		if live == nil {
			continue
		}
		gvk, err := apiutil.GVKForObject(o, r.Scheme)
		if err != nil {
			return nil, err
		}
		if why := plan.Foreign(seen.Store, o, live, gvk.Kind); why != "" {
			seen.Conflicts = append(seen.Conflicts, why)
		}
	}
	return all, nil
}

// live returns the present object, or nil. The cache has only objects with the operator's label, and no Secrets, so an
// object that is not in it is read from the API server.
func (r *Reconciler) live(ctx context.Context, o client.Object) (client.Object, error) {
	readers := []client.Reader{r.Client, r.Uncached}
	if _, ok := o.(*corev1.Secret); ok {
		readers = readers[1:]
	}
	for _, reader := range readers {
		live := o.DeepCopyObject().(client.Object)
		err := reader.Get(ctx, client.ObjectKeyFromObject(o), live)
		if err == nil {
			return live, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil, nil
}

// deleteKept deletes an object without owner, if it has the labels of the store.
func (r *Reconciler) deleteKept(ctx context.Context, store *v1alpha1.CausalStore, o client.Object) error {
	if err := r.Uncached.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !plan.HasLabels(store, o) {
		return nil
	}
	return client.IgnoreNotFound(r.Client.Delete(ctx, o,
		client.Preconditions{UID: ptr(o.GetUID()), ResourceVersion: ptr(o.GetResourceVersion())}))
}
