// Package causalstore reconciles CausalStores: it gathers what exists, plans (package plan, which is pure), applies,
// prunes, and writes the status.
//
// It changes the data centers of its own region only, and asks no other region, so that a region that is down blocks no
// other. It is not on the data path: while the operator is down, all parts continue to serve.
package causalstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

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
	"github.com/causalstore/causalstore/controllers/trust"
)

//go:generate go tool controller-gen rbac:roleName=causalstore-operator paths=../... output:rbac:dir=../../config/rbac
//go:generate cp ../../config/rbac/role.yaml ../../charts/causalstore/files/role.yaml

// +kubebuilder:rbac:groups=causalstore.io,resources=causalstores,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=causalstore.io,resources=causalstores/status,verbs=patch
// +kubebuilder:rbac:groups=causalstore.io,resources=causalstores/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets;deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps;serviceaccounts,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=scheduling.k8s.io,resources=priorityclasses,verbs=get
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles the stores of a cluster.
type Reconciler struct {
	Client client.Client
	// Uncached reads objects that are not watched, such as Secrets, which the operator may get but not list.
	Uncached client.Reader
	Scheme   *runtime.Scheme
	Events   events.EventRecorder
	// Region is the region of the data centers that this operator runs, Image the image for stores that name none, and
	// EdgeImage that of edges, and EtcdImage that of etcds, without which there are none.
	Region, Image, EdgeImage, EtcdImage string
	// Operator identifies this operator among those of the same region: the namespace of Lease, which its leader holds.
	// If it is empty, no other operator is expected.
	Operator, Lease string
	// Limits are what authors of stores may choose. Namespaces are those that the operator may use; if empty, all.
	Limits     v1alpha1.Limits
	Namespaces []string
	// SameZone is plan.Observed.SameZone.
	SameZone string
	// Trust keeps the authority of this region and the bundles of the others.
	Trust *trust.Keeper
	// Expiries has the expiry of every certificate, if it is not nil.
	Expiries *trust.Expiries
	// Random is the source of keys, Now the clock.
	Random io.Reader
	Now    func() time.Time
	// Prober asks parts about their state. If it is nil, none is asked.
	Prober Prober
	// Webhook reports whether sidecars are injected. If it is nil, they are not.
	Webhook func() bool

	applied applyCache
	deleted deletedPods
	drains  drainTracker
	volumes volumeCache
	// notified are the trust files that the pods of apps were notified of.
	notified noticeLog
}

const (
	// idleInterval is how often a store is reconciled without an event, to update the lags.
	idleInterval = 15 * time.Second
	// changeInterval is the same while pods have to restart, shards or coordinators change, or certificates or the
	// acceptance of an authority are waited for: no event reports that a log has drained or a copy is complete.
	changeInterval = time.Second
)

// Reconcile brings one store closer to its spec, and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	store := &v1alpha1.CausalStore{}
	if err := r.Client.Get(ctx, request.NamespacedName, store); err != nil {
		r.applied.forget(request.NamespacedName)
		r.deleted.forget(request.NamespacedName)
		r.drains.forget(request.NamespacedName)
		r.volumes.forget(request.NamespacedName)
		r.notified.forget(request.NamespacedName)
		r.Expiries.Forget(request.Namespace, request.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.isForeign(store) {
		return ctrl.Result{}, nil
	}
	if store.DeletionTimestamp != nil {
		return r.remove(ctx, store)
	}
	if controllerutil.AddFinalizer(store, v1alpha1.Finalizer) {
		if err := r.patchFinalizers(ctx, store); err != nil {
			return ctrl.Result{}, err
		}
	}
	published := store.Status
	store.Status = status.OfRegion(&published, r.Region)
	seen, err := r.gather(ctx, store)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gather: %w", err)
	}
	other, err := r.checkOperator(ctx, seen)
	if err != nil {
		return ctrl.Result{}, err
	}
	if other != "" {
		r.reportOtherOperator(ctx, store, other)
		// its parts have another authority
		r.Trust.Report(request.NamespacedName, trust.Report{Issuing: seen.Authority.Issuing, Next: seen.Authority.Next})
		return ctrl.Result{RequeueAfter: idleInterval}, nil
	}
	r.measure(ctx, seen)
	missing, err := r.missingPriorityClasses(ctx, seen)
	if err != nil {
		return ctrl.Result{}, err
	}
	seen.Refused, seen.Forbidden = validate(seen, r.Limits)
	seen.Refused = slices.Concat(seen.Refused, missing, plan.EtcdsWithoutImage(&seen.Observed))
	seen.Reports = r.askReports(ctx, seen)
	r.checkAcceptance(ctx, seen)
	seen.Failed = r.execute(ctx, seen)
	interval := idleInterval
	if seen.Certificates.Pending != nil || seen.Authority.Next != nil || seen.Rollout.Outdated > 0 ||
		seen.Resharding.Pending() || seen.Scaling.Pending() {
		interval = changeInterval
	}
	err = r.publishStatus(ctx, seen, published)
	if apierrors.IsConflict(err) { // the operator of another region has written the status meanwhile
		interval, err = changeInterval, nil
	}
	return ctrl.Result{RequeueAfter: interval}, errors.Join(seen.Failed, err)
}

// validate returns why the spec must not be applied. The API server has checked the same, unless the rules of its CRD
// are missing; where the volumes are, only the operator knows.
func validate(seen *status.Observed, limits v1alpha1.Limits) (refused, forbidden []string) {
	refused = append(seen.Store.Validate(), limits.Check(&seen.Store.Spec, seen.Region)...)
	last, err := seen.Record.LastSpec()
	switch {
	case err != nil:
		forbidden = []string{err.Error()}
	case last != nil:
		forbidden = append(seen.Store.Spec.ValidateChange(last), plan.ForbiddenEtcds(seen.Observed, last)...)
	}
	if why := seen.Record.ForbiddenID(&seen.Store.Spec); why != "" && len(forbidden) == 0 {
		forbidden = []string{why}
	}
	if len(forbidden) > 0 && err == nil {
		if !seen.HasVolumes {
			seen.Record, forbidden = seen.Record.WithoutData(&seen.Store.Spec), nil
		} else {
			forbidden = append(forbidden, remedyDelete(seen.Store))
		}
	}
	if last != nil {
		forbidden = append(forbidden, seen.Store.ValidateExclusions(last)...)
	}
	return refused, append(forbidden, plan.MisplacedVolumes(seen.Observed)...)
}

// remedyDelete says how to give the data of a store up, which lifts what its volumes forbid. Kept volumes are those of
// the store from before.
func remedyDelete(s *v1alpha1.CausalStore) string {
	return fmt.Sprintf(
		"the volumes of this store are there, with its data; to give ALL OF IT up in this cluster: delete the store, "+
			"then its claims (kubectl -n %s delete persistentvolumeclaims -l %s=%s), and create it again",
		s.Namespace, plan.LabelInstance, s.Name)
}

// execute makes a plan and carries it out, if it may. Every step is tried, even if others have failed. Nothing is done
// while an object that is not the store's has the name of a planned one.
func (r *Reconciler) execute(ctx context.Context, seen *status.Observed) error {
	if seen.Record != nil {
		seen.Epoch = seen.Record.Epoch
	}
	switch {
	case !isLocal(seen.Store, r.Region):
		return nil
	case len(seen.Refused) > 0 || len(seen.Forbidden) > 0:
		return r.maintainTrust(ctx, seen)
	}
	var ofEtcds error
	if !seen.Store.Spec.Paused { // or else maintainTrust does it
		ofEtcds = r.issueEtcds(ctx, seen, &seen.Observed)
	}
	p, err := plan.Make(seen.Observed)
	if err != nil {
		return errors.Join(fmt.Errorf("plan: %w", err), r.maintainTrust(ctx, seen))
	}
	live, err := r.findLive(ctx, seen, p.Apply)
	if err != nil {
		return err
	}
	certificates, err := plan.Certificates(seen.Observed, p.Record)
	if err != nil {
		return fmt.Errorf("plan the certificates: %w", err)
	}
	secrets, err := r.findSecrets(ctx, seen, certificates)
	if err != nil {
		return err
	}
	if seen.Store.Spec.Paused {
		seen.Pending = plan.DescribePending(seen.Observed, p)
	}
	if seen.Store.Spec.Paused || len(seen.Conflicts) > 0 {
		return r.maintainTrust(ctx, seen)
	}
	seen.Epoch, seen.Rollout, seen.Resharding, seen.Scaling = p.Record.Epoch, p.Rollout, p.Resharding, p.Scaling
	for _, g := range p.GrowClaims {
		seen.Growing = append(seen.Growing, g.Claim)
	}
	// Pods do not start without their certificates.
	issued := r.issueCertificates(ctx, seen, certificates, secrets)
	return errors.Join(ofEtcds, issued, r.growClaims(ctx, seen, p.GrowClaims), r.recreate(ctx, seen, p.Recreate),
		r.apply(ctx, seen, p, live),
		r.deleteClaims(ctx, seen, p.DeleteClaims), r.prune(ctx, seen, p), r.restart(ctx, seen, p.Restart),
		r.notifyPods(ctx, seen, p),
		r.notifySidecars(ctx, seen, p), r.notifyOfUsers(ctx, seen, p), r.removeUsers(ctx, seen),
		r.notifyOfTrust(ctx, seen), r.notifyEdges(ctx, seen))
}

// isLocal reports whether a store has a data center in a region.
func isLocal(store *v1alpha1.CausalStore, region string) bool {
	for _, dc := range store.Spec.DataCenters {
		if dc.Region == region {
			return true
		}
	}
	return false
}

// patchFinalizers writes the finalizers, unless the store has changed since it was read, so that those of others are
// not lost.
func (r *Reconciler) patchFinalizers(ctx context.Context, store *v1alpha1.CausalStore) error {
	if err := r.Client.Patch(ctx, store, client.RawPatch(types.MergePatchType, finalizersPatch(store))); err != nil {
		return fmt.Errorf("patch finalizers: %w", err)
	}
	return nil
}

// recordEvent records what the operator has done to an object of a store. Kubernetes merges events with the same store,
// reason and action, and keeps the text of the first, so the action names the object.
func (r *Reconciler) recordEvent(store *v1alpha1.CausalStore, kind, action, object, reason, format string,
	args ...any) {
	r.Events.Eventf(store, nil, kind, reason, action+" "+object, format, args...)
}

// ignoreGone ignores that an object does not exist, or was replaced by another one.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
