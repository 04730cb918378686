package shutdown

import (
	"context"
	"errors"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestErrorsCountUntilTheOperatorStops(t *testing.T) {
	failed := errors.New("read Secret: the server is away")
	r := Quiet(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, failed
	}))
	ctx, stop := context.WithCancel(t.Context())
	if _, err := r.Reconcile(ctx, ctrl.Request{}); !errors.Is(err, failed) {
		t.Errorf("while it works: %v", err)
	}
	stop()
	if _, err := r.Reconcile(ctx, ctrl.Request{}); err != nil {
		t.Errorf("after it was told to stop: %v", err)
	}
}
