// Package causalstore carries out CausalStores: gather what is there, plan (pure), apply, prune, report.
//
// It touches the data centres of its own region only, and asks no other region: a region that is gone holds up nobody. It is
// never in the way of data: while it is away, everything that runs goes on.
package causalstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

//go:generate go tool controller-gen rbac:roleName=causalstore-operator paths=../... output:rbac:dir=../../config/rbac
//go:generate cp ../../config/rbac/role.yaml ../../charts/causalstore/files/role.yaml

// +kubebuilder:rbac:groups=causalstore.io,resources=causalstores,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=causalstore.io,resources=causalstores/status,verbs=patch
// +kubebuilder:rbac:groups=causalstore.io,resources=causalstores/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler carries out the stores of a cluster.
type Reconciler struct {
	Client client.Client
	// Uncached reads what is not watched: Secrets, which the operator may get but not list.
	Uncached client.Reader
	Scheme   *runtime.Scheme
	Events   events.EventRecorder
	// Region whose data centres are run here, and the image for stores that name none.
	Region, Image string
	// SameZone is what Services are told so that clients get to a front in their own zone; empty is the word that all know.
	SameZone string
	// Random is where keys come from, Now is the clock.
	Random io.Reader
	Now    func() time.Time
	// Prober asks coordinators how far the rings are, and all how far a change of numbers is. Nil asks nobody.
	Prober Prober
	// Webhook says whether sidecars are injected. Nil: they are not.
	Webhook func() bool

	applied   applied
	undrained undrained
}

const (
	// lookAgain is how often the lags are asked for, and what nobody reports is noticed.
	lookAgain = 15 * time.Second
	// lookSoon is the same while pods are to be restarted, slots move, or coordinators come or leave: that a log has drained, or a copy
	// is there, nobody reports.
	lookSoon = time.Second
)

// Reconcile brings one store nearer to its spec, and says how it is.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	store := &v1alpha1.CausalStore{}
	if err := r.Client.Get(ctx, request.NamespacedName, store); err != nil {
		r.applied.forget(request.NamespacedName)
		r.undrained.forget(request.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if store.DeletionTimestamp != nil {
		return ctrl.Result{}, r.remove(ctx, store)
	}
	if controllerutil.AddFinalizer(store, v1alpha1.Finalizer) {
		if err := r.patchFinalizers(ctx, store); err != nil {
			return ctrl.Result{}, err
		}
	}
	seen, err := r.gather(ctx, store)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gather: %w", err)
	}
	r.measure(ctx, seen)
	seen.Refused, seen.Forbidden = judge(seen)
	seen.Moves = r.moves(ctx, seen)
	failed := r.carryOut(ctx, seen)
	seen.Failed = failed
	again := lookAgain
	if seen.Rollout.Outdated > 0 || seen.Reshape.String()+seen.Regroup.String() != "" {
		again = lookSoon
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(failed, r.report(ctx, seen))
}

// judge says what keeps the spec from being carried out. The API server has said so already, unless the rules of its CRD are
// missing.
func judge(seen *status.Observed) (refused, forbidden []string) {
	refused = seen.Store.Validate()
	last, err := seen.Record.Last()
	switch {
	case err != nil:
		forbidden = []string{err.Error()}
	case last != nil:
		forbidden = seen.Store.Spec.ValidateChange(last)
	}
	return refused, forbidden
}

// carryOut does what there is to do, unless it must not. Each step is tried, whatever became of the others.
func (r *Reconciler) carryOut(ctx context.Context, seen *status.Observed) error {
	if len(seen.Refused) > 0 || len(seen.Forbidden) > 0 || seen.Store.Spec.Paused || !runsHere(seen.Store, r.Region) {
		if seen.Record != nil {
			seen.Epoch = seen.Record.Epoch
		}
		return nil
	}
	p, err := plan.Make(seen.Observed)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	seen.Epoch, seen.Rollout, seen.Reshape, seen.Regroup = p.Record.Epoch, p.Rollout, p.Reshape, p.Regroup
	for _, g := range p.Grow {
		seen.Growing = append(seen.Growing, g.Claim)
	}
	return errors.Join(r.grow(ctx, seen, p.Grow), r.recreate(ctx, seen, p.Recreate), r.apply(ctx, seen, p),
		r.drop(ctx, seen, p.Drop), r.prune(ctx, seen, p), r.restart(ctx, seen, p.Restart), r.tell(ctx, seen, p),
		r.tellSidecars(ctx, seen, p))
}

func runsHere(store *v1alpha1.CausalStore, region string) bool {
	for _, dc := range store.Spec.DataCenters {
		if dc.Region == region {
			return true
		}
	}
	return false
}

// patchFinalizers writes them, unless the store has changed since it was read: somebody else's are not lost.
func (r *Reconciler) patchFinalizers(ctx context.Context, store *v1alpha1.CausalStore) error {
	if err := r.Client.Patch(ctx, store, client.RawPatch(types.MergePatchType, finalizers(store))); err != nil {
		return fmt.Errorf("patch finalizers: %w", err)
	}
	return nil
}

// event tells people what was done.
func (r *Reconciler) event(store *v1alpha1.CausalStore, action, reason, format string, args ...any) {
	r.Events.Eventf(store, nil, corev1.EventTypeNormal, reason, action, format, args...)
}

// gone ignores that an object is not there, or is another one by now.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
