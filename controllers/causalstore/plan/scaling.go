package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// CoordinatorScaling is the progress of a change of the numbers of coordinators.
type CoordinatorScaling struct {
	// ScaleDowns are the data centers of this region that coordinators leave, with their numbers.
	ScaleDowns []string
	// Requested are the data centers whose numbers are to change after that.
	Requested []string
	// Blockers are why coordinators may not be removed yet, one for each.
	Blockers []Decision
	// Joining are why new coordinators do not serve yet, one for each.
	Joining []Decision
	// Start decides whether the requested change starts; it is zero if none is requested, or another change is in
	// progress.
	Start Decision
	// Members is the progress of a change of the numbers of members, those of shards included.
	Members MemberScaling
}

// Pending reports whether a change is in progress or requested.
func (s CoordinatorScaling) Pending() bool {
	return len(s.ScaleDowns)+len(s.Requested)+len(s.Joining) > 0 || s.Members.pending()
}

// OnlyMembers reports whether members change, and numbers of coordinators do not.
func (s CoordinatorScaling) OnlyMembers() bool {
	return s.Members.pending() && len(s.ScaleDowns)+len(s.Requested)+len(s.Joining) == 0
}

// String describes the change for people. It is empty if none is pending.
func (s CoordinatorScaling) String() string {
	var texts []string
	if len(s.ScaleDowns) > 0 {
		texts = append(texts, "coordinators are leaving: "+strings.Join(s.ScaleDowns, ", "))
	}
	if len(s.Blockers) > 0 {
		texts = append(texts, "waiting for: "+strings.Join(messages(s.Blockers), ", "))
	}
	if len(s.Joining) > 0 {
		texts = append(texts, "coordinators are joining: "+strings.Join(messages(s.Joining), ", "))
	}
	texts = append(texts, describeRequested("coordinators", s.ScaleDowns, s.Requested, s.Start)...)
	return strings.Join(append(texts, s.Members.texts()...), "; ")
}

// coordinatorsDiffer reports whether the spec asks for other numbers of coordinators.
func coordinatorsDiffer(f, requested *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return *findDataCenter(requested, dc.Name).Coordinators != *dc.Coordinators
	})
}

// startScaling sets the requested numbers of coordinators. New coordinators join by themselves, so adding some needs no
// end. In a scale down the layout keeps the number from before until finishScaleDown.
func startScaling(f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		counts := dc.Counts()
		n, before := *findDataCenter(requested, dc.Name).Coordinators, counts.RunningCoordinators()
		if n == *dc.Coordinators {
			continue
		}
		if dc.Coordinators, dc.CoordinatorsBefore = &n, nil; before > n {
			dc.CoordinatorsBefore = &before
		}
	}
}

// scalingDown reports whether coordinators leave data centers of this region. In other regions nobody here can ask
// them, so the layout keeps the number from before until the spec has another number for that data center. All that
// this does is that coordinators which have not left there yet still get answers here.
func scalingDown(in Observed, f *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return dc.CoordinatorsBefore != nil && in.IsLocal(dc.Name)
	})
}

// finishScaleDown ends the scale down of each data center of this region whose leaving coordinators may all be removed,
// and returns what blocks the others.
func finishScaleDown(in Observed, f *topology.File) (blockers []Decision) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.CoordinatorsBefore == nil || !in.IsLocal(dc.Name) {
			continue
		}
		var denied []Decision
		for j := *dc.Coordinators; j < *dc.CoordinatorsBefore; j++ {
			if d := in.decideDeparture(dc.Name, j); !d.Allowed {
				denied = append(denied, d)
			}
		}
		if blockers = append(blockers, denied...); len(denied) == 0 {
			dc.CoordinatorsBefore = nil
		}
	}
	return blockers
}

// decideDeparture decides whether a coordinator may be removed with its volume. Only the report of the first
// coordinator of the data center counts, since that one remembers durably which coordinators are in use: one that is
// not in use, and is not in the topology that the first one runs, has no incomplete writes and cannot be admitted
// again. So a coordinator that is unreachable for good can be removed too. Its own report is for people only.
func (in *Observed) decideDeparture(dc string, j int) Decision {
	first, pod := in.servingPod(dc, topology.Coordinator, 0), in.servingPod(dc, topology.Coordinator, j)
	report, decision := in.currentReport(first)
	switch {
	case !decision.Allowed:
	case len(report.CoordinatorsInUse) == 0:
		// it counts itself, so it does not run yet, or its version does not report this
		decision = deny(ReasonInUseUnknown, "%s does not report the coordinators in use%s", first,
			because(report.Reason))
	case slices.Contains(report.CoordinatorsInUse, j):
		decision = deny(ReasonCoordinatorInUse, "%s reports it as in use", first)
	}
	if !decision.Allowed {
		decision.Message = fmt.Sprintf("%s (%s)", in.describeDeparture(pod), decision.Message)
	}
	return decision
}

// describeDeparture describes the progress of a coordinator that leaves, by its own report.
func (in *Observed) describeDeparture(pod string) string {
	report, current := in.currentReport(pod)
	switch {
	case !current.Allowed:
		return current.Message
	case report.Membership == "":
		return pod + " does not report whether it is leaving" + because(report.Reason)
	case report.Membership == contract.MembershipLeft:
		return pod + " has left"
	}
	return fmt.Sprintf("%s is %s", pod, report.Membership)
}

// describe fills in the changes, for people.
func (s *CoordinatorScaling) describe(in Observed, f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		local := in.IsLocal(dc.Name)
		if dc.CoordinatorsBefore != nil && local {
			s.ScaleDowns = append(s.ScaleDowns, fmt.Sprintf("%s from %d to %d", dc.Name, *dc.CoordinatorsBefore,
				*dc.Coordinators))
		}
		if n := *findDataCenter(requested, dc.Name).Coordinators; n != *dc.Coordinators {
			s.Requested = append(s.Requested, fmt.Sprintf("%s to %d", dc.Name, n))
		}
		served := int(in.Record.ServedCoordinators(dc.Name))
		for j := served; served > 0 && j < *dc.Coordinators && local; j++ {
			for _, pod := range in.membersPods(dc, topology.Coordinator, j) {
				if d := in.checkServing(pod); d.Denied() {
					s.Joining = append(s.Joining, d)
				}
			}
		}
	}
}

// checkServing denies while a coordinator that joins does not serve, and says why it does not.
func (in *Observed) checkServing(pod string) Decision {
	if isReady(in.Pods, pod) {
		return allow()
	}
	report, current := in.currentReport(pod)
	if !current.Allowed {
		return current
	}
	return deny(ReasonNotServing, "%s is %s%s", pod, cmp.Or(string(report.Membership), "not ready"),
		because(report.Reason))
}

// countServed returns how many coordinators of each data center of this region have been admitted and have served,
// counted from the first one. It distinguishes a coordinator that joins from one that was lost.
func countServed(in Observed, last, next *topology.File) map[string]int {
	all := map[string]int{}
	for i := range next.DataCenters {
		dc := &next.DataCenters[i]
		if !in.IsLocal(dc.Name) {
			continue
		}
		n := 0
		if last != nil {
			n = int(in.Record.ServedCoordinators(dc.Name))
		}
		// Of several members, one that follows is ready before the coordinator is admitted, and the one that serves is
		// not.
		unready := func(pod string) bool { return !isReady(in.Pods, pod) }
		for n = min(n, *dc.Coordinators); n < *dc.Coordinators &&
			!slices.ContainsFunc(in.membersPods(dc, topology.Coordinator, n), unready); {
			n++
		}
		all[dc.Name] = n
	}
	return all
}

// LeavingPods returns the pods of the coordinators that leave, which serve no longer, and of the members that do.
func (in *Observed) LeavingPods() map[string]bool {
	all := map[string]bool{}
	if f, err := in.Record.LayoutFile(); err == nil && f != nil {
		for i := range in.Pods {
			all[in.Pods[i].Name] = isLeaving(f, &in.Pods[i])
		}
	}
	return all
}

// isLeaving reports whether a pod is a coordinator that leaves its data center, or a member that leaves its group.
func isLeaving(f *topology.File, p *corev1.Pod) bool {
	dc := findDataCenter(f, p.Labels[LabelDataCenter])
	return isCoordinator(p) && dc != nil && Index(p) >= *dc.Coordinators || isLeavingMember(f, p)
}

// decidesDepartures reports whether a pod is the first coordinator of a data center that others leave.
func decidesDepartures(f *topology.File, p *corev1.Pod) bool {
	dc := findDataCenter(f, p.Labels[LabelDataCenter])
	return isCoordinator(p) && dc != nil && dc.CoordinatorsBefore != nil && Index(p) == 0
}

// isJoining reports whether a pod is a coordinator that has not served yet, in a data center where others have.
func isJoining(r *Record, f *topology.File, p *corev1.Pod) bool {
	served := int(r.ServedCoordinators(p.Labels[LabelDataCenter]))
	return isCoordinator(p) && served > 0 && Index(p) >= served && !isLeaving(f, p)
}

// isSurplus reports whether a pod is a coordinator or a member that leaves, or that the spec no longer asks for.
func isSurplus(in Observed, f *topology.File, p *corev1.Pod) bool {
	if isLeaving(f, p) {
		return true
	}
	for i := range in.Store.Spec.DataCenters {
		if dc := &in.Store.Spec.DataCenters[i]; dc.Name == p.Labels[LabelDataCenter] {
			part, ok := groupPart(p)
			return isCoordinator(p) && Index(p) >= int(dc.Coordinators.Replicas) ||
				ok && Member(p) > WantedMembers(&in.Store.Spec, dc, part)
		}
	}
	return false
}
