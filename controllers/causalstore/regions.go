package causalstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// A cluster can have the operators of several regions. Each runs the data centers of its own region, of the same stores
// too. What a store has only once (Service, ServiceAccount, NetworkPolicies and keys) belongs to the operator that has
// made it, which its label names; the others use it as it is.

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get

// isOfAnotherRegion reports whether an object that a store has only once belongs to the operator of another region.
func (r *Reconciler) isOfAnotherRegion(store *v1alpha1.CausalStore, live client.Object) bool {
	region := live.GetLabels()[plan.LabelRegion]
	return live.GetLabels()[plan.LabelDataCenter] == "" && region != r.Region && isLocal(store, region)
}

// isForeign reports whether a store has no data center in this region, and the operator of another region in this
// cluster runs it.
func (r *Reconciler) isForeign(store *v1alpha1.CausalStore) bool {
	return !isLocal(store, r.Region) && slices.ContainsFunc(store.Status.DataCenters,
		func(dc v1alpha1.DataCenterStatus) bool { return dc.Here })
}

// checkOperator returns why this operator must leave a store to another one of the same region, or "". The record names
// the operator that runs it; another one may take over once nobody holds that one's lease.
func (r *Reconciler) checkOperator(ctx context.Context, seen *status.Observed) (why string, err error) {
	if seen.Record == nil || r.Operator == "" || seen.Record.Operator == "" || seen.Record.Operator == r.Operator {
		return "", nil
	}
	other := seen.Record.Operator
	lease := &coordinationv1.Lease{}
	err = r.Uncached.Get(ctx, client.ObjectKey{Namespace: other, Name: r.Lease}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err): // it may run
	case err != nil:
		return "", fmt.Errorf("read lease %s of namespace %s: %w", r.Lease, other, err)
	case !isHeld(lease, r.Now()):
		return "", nil
	}
	return fmt.Sprintf(
		"the operator in namespace %s also runs region %s, so this one (namespace %s) leaves the store alone; "+
			"uninstall one of them, or give it another region or other namespaces to watch. If that one is gone, "+
			"remove %q from ConfigMap %s",
		other, r.Region, r.Operator, "operator", plan.RecordName(seen.Store.Name, r.Region)), nil
}

// isHeld reports whether somebody holds a lease. Twice its duration allows for clocks that differ.
func isHeld(lease *coordinationv1.Lease, now time.Time) bool {
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(s.RenewTime.Add(2 * time.Duration(*s.LeaseDurationSeconds) * time.Second))
}

// reportOtherOperator says why a store is left alone. It is not in the status, which the other operator writes.
func (r *Reconciler) reportOtherOperator(ctx context.Context, store *v1alpha1.CausalStore, why string) {
	log.FromContext(ctx).Info("store left alone", "reason", "RegionTaken", "message", why)
	r.Events.Eventf(store, nil, corev1.EventTypeWarning, "RegionTaken", "Reconcile", "%s", why)
}
