package causalstore

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/trust"
)

// checkAcceptance asks all parts which data centers accept the next authority of the region, if there is one, and tells the keeper what
// the store waits for.
func (r *Reconciler) checkAcceptance(ctx context.Context, seen *status.Observed) {
	next := seen.Authority.Next
	if next == nil {
		return
	}
	seen.AuthorityWaits = r.acceptanceWaits(ctx, seen, next)
	r.Trust.Report(client.ObjectKeyFromObject(seen.Store), next, seen.AuthorityWaits)
}

func (r *Reconciler) acceptanceWaits(ctx context.Context, seen *status.Observed, next *trust.Root) []string {
	spec := &seen.Store.Spec
	if seen.Record == nil {
		return nil // nothing runs
	}
	if last, err := seen.Record.LastSpec(); err == nil && last != nil {
		spec = last
	}
	if r.Prober == nil {
		return []string{"parts are not asked"}
	}
	reports, unasked := map[string]contract.Readiness{}, map[string]string{}
	asked := r.askPods(ctx, seen.Pods, func(p *corev1.Pod) bool { return p.Status.PodIP != "" })
	for i := range seen.Pods {
		p := &seen.Pods[i]
		switch report, ok := asked[p.Name]; {
		case !ok:
		case report.Err == nil && report.Phase == contract.PhaseRunning:
			reports[p.Name] = report.Readiness
		case report.Err != nil && plan.Ready(p): // a part that does not run reads the present bundle when it starts
			unasked[p.Name] = "it does not answer"
		}
	}
	regions := map[string]string{}
	for _, dc := range spec.DataCenters {
		regions[dc.Name] = dc.Region
	}
	return trust.Waits(next.Certificate(), regions, reports, unasked)
}
