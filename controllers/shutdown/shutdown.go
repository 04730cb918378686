// Package shutdown ends the work of the operator without the errors that ending it causes.
package shutdown

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Quiet returns a reconciler whose errors do not count when the operator is told to stop: all requests that are under
// way fail then, and the next operator begins anew. An ERROR in the log would make people look for a cause.
func Quiet(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if err != nil && ctx.Err() != nil {
			return ctrl.Result{}, nil
		}
		return result, err
	})
}
