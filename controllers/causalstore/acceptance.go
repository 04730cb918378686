package causalstore

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
	"github.com/causalstore/causalstore/controllers/trust"
	"github.com/causalstore/causalstore/controllers/trust/acceptance"
)

// checkAcceptance looks which data centers of other regions do not accept the authority that issues, and asks all parts
// which accept the next one, if there is one. It tells the keeper.
func (r *Reconciler) checkAcceptance(ctx context.Context, seen *status.Observed) {
	a := seen.Authority
	if a.Issuing == nil {
		return
	}
	report := trust.Report{Issuing: a.Issuing, RefusedBy: r.refusedBy(seen, a.Issuing), Next: a.Next}
	if a.Next != nil {
		report.Waits = r.acceptanceWaits(ctx, seen, a.Next)
	}
	seen.AuthorityRefusedBy, seen.AuthorityWaits = report.RefusedBy, report.Waits
	r.Trust.Report(client.ObjectKeyFromObject(seen.Store), report)
}

// refusedBy judges by the parts that are asked anyway: the first coordinators have links with every data center, whose
// parts all read one trust file.
func (r *Reconciler) refusedBy(seen *status.Observed, issuing *trust.Root) []string {
	reports := map[string]contract.Readiness{}
	for pod, report := range seen.Reports {
		if report.Err == nil && report.Phase == contract.PhaseRunning {
			reports[pod] = report.Readiness
		}
	}
	return acceptance.RefusedBy(issuing.Certificate(), r.Region, regionsOf(&seen.Store.Spec), reports)
}

func regionsOf(spec *v1alpha1.CausalStoreSpec) map[string]string {
	regions := map[string]string{}
	for _, dc := range spec.DataCenters {
		regions[dc.Name] = dc.Region
	}
	return regions
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
	return acceptance.Waits(next.Certificate(), regionsOf(spec), reports, unasked)
}
