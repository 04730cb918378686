package storepage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// conditionProblem is what a condition means that is not as it should be, with the section of the runbooks, as the
// alerts have it.
type conditionProblem struct {
	condition string
	status    metav1.ConditionStatus
	severity  console.Severity
	runbook   string
}

var conditionProblems = []conditionProblem{
	{v1alpha1.ConditionVolumesKept, metav1.ConditionFalse, console.Critical, "CausalStoreVolumeClaimDeleted"},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, console.Critical, "CausalStoreDegraded"},
	{v1alpha1.ConditionReady, metav1.ConditionFalse, console.Critical, "CausalStoreNotReady"},
	{v1alpha1.ConditionTopologyValid, metav1.ConditionFalse, console.Warning, "CausalStoreSpecNotApplied"},
	{v1alpha1.ConditionPeersConnected, metav1.ConditionFalse, console.Critical, "CausalStorePeersDisconnected"},
	{v1alpha1.ConditionPeersConnected, metav1.ConditionUnknown, console.Warning, "CausalStorePeersUnknown"},
	{v1alpha1.ConditionPeersTrusted, metav1.ConditionFalse, console.Critical, "CausalStorePeersNotTrusted"},
	{v1alpha1.ConditionEdgesReady, metav1.ConditionFalse, console.Warning, "CausalStoreEdgesNotReady"},
	{v1alpha1.ConditionEtcdReady, metav1.ConditionFalse, console.Warning, "CausalStoreEtcdNotReady"},
	{v1alpha1.ConditionUnderReplicated, metav1.ConditionTrue, console.Warning, "CausalStoreGroupUnderReplicated"},
	{v1alpha1.ConditionCertificatesCurrent, metav1.ConditionFalse, console.Warning,
		"CausalStoreCertificatesNotRenewed"},
}

// staleAfter is the age of a heartbeat from which no operator keeps the status up to date.
const staleAfter = 5 * time.Minute

// problems returns what is wrong, the worst first.
func (o *observed) problems(s *console.Snapshot) []console.Problem {
	found := o.unreadProblems()
	unreachable := o.linkProblems(s.Links)
	found = append(found, unreachable...)
	for _, p := range o.status().Problems {
		if i := slices.IndexFunc(o.sets, func(set appsv1.StatefulSet) bool {
			return strings.HasPrefix(p.Pod, set.Name+"-")
		}); i >= 0 {
			found = append(found, console.Problem{Severity: console.Warning,
				DataCenter: o.sets[i].Labels[plan.LabelDataCenter], Runbook: "CausalStorePartNotReady",
				Text: fmt.Sprintf("Pod %s does not serve: %s. %s", p.Pod, p.Reason, p.Message)})
		}
	}
	for i := range s.DataCenters {
		dc := &s.DataCenters[i]
		found = append(found, console.PartProblems(dc)...)
		found = append(found, console.LagProblems(dc)...)
	}
	for _, c := range conditionProblems {
		is := meta.FindStatusCondition(o.status().Conditions, c.condition)
		if is == nil || is.Status != c.status || is.Reason == v1alpha1.ReasonNothingHere ||
			c.condition == v1alpha1.ConditionPeersConnected && len(unreachable) > 0 {
			continue
		}
		found = append(found, console.Problem{Severity: c.severity, Runbook: c.runbook,
			Text: fmt.Sprintf("Condition %s of region %s is %s (%s): %s.", c.condition, o.region, is.Status, is.Reason,
				is.Message)})
	}
	console.SortProblems(found)
	return found
}

// status returns what the operator of this region reports, if those of several regions run in this cluster.
func (o *observed) status() v1alpha1.RegionStatus {
	all := &o.store.Status
	for _, r := range all.Regions {
		if r.Region == o.region {
			return r
		}
	}
	return v1alpha1.RegionStatus{Region: o.region, Conditions: all.Conditions, Problems: all.Problems,
		HeartbeatTime: all.HeartbeatTime}
}

// unreadProblems returns what the snapshot lacks.
func (o *observed) unreadProblems() []console.Problem {
	found := []console.Problem{}
	for _, text := range o.unread {
		found = append(found, console.Problem{Severity: console.Warning, Runbook: "CausalStoreStatusStale",
			Text: "The operator of region " + o.region + " cannot read something: " + text})
	}
	if beat := o.status().HeartbeatTime; beat != nil && o.at.Sub(beat.Time) > staleAfter {
		found = append(found, console.Problem{Severity: console.Critical, Runbook: "CausalStoreStatusStale",
			Text: fmt.Sprintf(
				"The operator of region %s has not looked at the store for %s: its conditions are as old.", o.region,
				o.at.Sub(beat.Time).Round(time.Minute))})
	}
	if o.tooManySidecars {
		found = append(found, console.Problem{Severity: console.Warning, Runbook: "CausalStorePartDown",
			Text: fmt.Sprintf(
				"More than %d apps have a sidecar in region %s, too many to ask for this page: operations, sessions "+
					"and the age of the stable state are unknown. Prometheus has them.", MaxSidecars, o.region)})
	}
	asked, silent := map[string]int{}, map[string][]string{}
	for _, r := range o.readings {
		if r.serves {
			asked[r.dataCenter]++
			if r.err != nil {
				silent[r.dataCenter] = append(silent[r.dataCenter], r.pod.Namespace+"/"+r.pod.Name)
			}
		}
	}
	for _, dc := range o.store.Spec.DataCenters {
		if names := silent[dc.Name]; len(names) > 0 {
			found = append(found, console.Problem{Severity: console.Warning, DataCenter: dc.Name,
				Runbook: "CausalStorePartDown",
				Text: fmt.Sprintf(
					"%d of the %d fronts and sidecars of %s do not answer the operator, such as that of pod %s: "+
						"operations and sessions are those of the others.",
					len(names), asked[dc.Name], dc.Name, names[0])})
		}
	}
	return found
}

// linkProblems says which data centers do not answer.
func (o *observed) linkProblems(links []console.Link) (found []console.Problem) {
	from := map[string][]string{}
	for _, l := range links {
		if l.CutAB {
			from[l.B] = append(from[l.B], l.A)
		}
		if l.CutBA {
			from[l.A] = append(from[l.A], l.B)
		}
	}
	for _, dc := range o.store.Spec.DataCenters {
		if askers := from[dc.Name]; len(askers) > 0 {
			found = append(found, console.Problem{Severity: console.Critical, DataCenter: dc.Name,
				Runbook: "CausalStorePeersDisconnected",
				Text: fmt.Sprintf(
					"%s gives no answer to %s, where reads of its keys go to other rings. A write of one of them "+
						"gets OK at once, and is not complete until it does.", dc.Name, strings.Join(askers, ", "))})
		}
	}
	return found
}
