package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// The log of each coordinator is held by the members of a group (PROTOCOL, Groups). Each member of all coordinators of a data center has a
// StatefulSet, whose pods are numbered as the coordinators are.

// MemberScaling is the progress of a change of the numbers of members.
type MemberScaling struct {
	// Changes are the data centers of this region whose groups members leave, with their numbers.
	Changes []string
	// Requested are the data centers whose numbers are to change after that.
	Requested []string
	// Blockers are why members may not be removed yet, one for each group that waits.
	Blockers []Decision
	// Start decides whether the requested change starts; it is zero if none is requested, or another change is in progress.
	Start Decision
}

func (s MemberScaling) pending() bool { return len(s.Changes)+len(s.Requested) > 0 }

// texts describes the change for people.
func (s MemberScaling) texts() (texts []string) {
	if len(s.Changes) > 0 {
		texts = append(texts, "members of coordinators are leaving: "+strings.Join(s.Changes, ", "))
	}
	if len(s.Blockers) > 0 {
		texts = append(texts, "waiting for: "+strings.Join(messages(s.Blockers), ", "))
	}
	return append(texts, describeRequested("members of coordinators", s.Changes, s.Requested, s.Start)...)
}

// membersOf returns how many members the groups of coordinators should have by a layout.
func membersOf(dc *topology.FileDataCenter) int {
	counts := dc.Counts()
	return counts.DesiredMembers(topology.Coordinator)
}

// membersDiffer reports whether the spec asks for other numbers of members.
func membersDiffer(f, requested *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return membersOf(findDataCenter(requested, dc.Name)) != membersOf(&dc)
	})
}

// membersLeave reports whether members leave groups of this region. In other regions nobody here can ask them, and their own operators
// wait for them; messages reach a member whose address is no longer known here by the links that it opens.
func membersLeave(in Observed, f *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return dc.CoordinatorMembersBefore != nil && in.IsLocal(dc.Name)
	})
}

// decideMembersStart decides whether a change of members may start. A group gets further members when it is whole, and when every
// coordinator runs with the register. It may always get fewer: the one that is missing may be one of those that are to go, and before any
// disk goes finishMembersLeave asks for those that stay.
func decideMembersStart(in Observed, f, requested *topology.File) Decision {
	grows := false
	for _, dc := range f.DataCenters {
		n := membersOf(findDataCenter(requested, dc.Name))
		if !in.IsLocal(dc.Name) || n <= membersOf(&dc) {
			continue
		}
		if grows = true; !in.usesRegister(dc.Name) {
			return deny(ReasonRegisterMissing, "the etcd of %s has not served yet", dc.Name)
		}
		if d := in.checkRegisters(&dc); !d.Allowed {
			return d
		}
	}
	if d := decideStart(in, f); !d.Allowed || !grows {
		return d
	}
	return checkGroups(in, f)
}

// checkRegisters denies if a coordinator runs without its register, because its pod started with an older file than its template.
func (in *Observed) checkRegisters(dc *topology.FileDataCenter) Decision {
	for j := range *dc.Coordinators {
		for _, pod := range in.membersPods(dc, j) {
			if slices.Contains(in.Reports[pod].RestartNeeded, contract.FieldRegister) {
				return deny(ReasonRegisterMissing, "%s has started before its register was in its configuration; delete the pod", pod)
			}
		}
	}
	return allow()
}

// membersChange reports whether the spec asks a data center for another number of members than a layout has.
func (in *Observed) membersChange(f *topology.File, name string) bool {
	dc := findDataCenter(f, name)
	return dc != nil && slices.ContainsFunc(in.Store.Spec.DataCenters, func(of v1alpha1.DataCenter) bool {
		return of.Name == name && max(1, int(of.Coordinators.Members)) != membersOf(dc)
	})
}

// startMembers sets the requested numbers of members. New members join by themselves. If members leave, the layout keeps the number from
// before until finishMembersLeave, so that all parts reach them, and they know that they leave: a primary hands over first.
func startMembers(in Observed, f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		n, before := findDataCenter(requested, dc.Name).CoordinatorMembers, membersOf(dc)
		if membersOf(findDataCenter(requested, dc.Name)) == before {
			continue
		}
		dc.CoordinatorMembers, dc.CoordinatorMembersBefore = n, nil
		if before > membersOf(dc) && in.IsLocal(dc.Name) {
			dc.CoordinatorMembersBefore = &before
		}
	}
}

// finishMembersLeave ends the change of each data center of this region that all surplus members have left, and returns what blocks the
// others. Only the member that serves knows: a group has what it has acknowledged on the members of its configuration, and those that are
// to stay must be all of them before the disks of the others may go.
func finishMembersLeave(in Observed, f *topology.File) (blockers []Decision) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.CoordinatorMembersBefore == nil || !in.IsLocal(dc.Name) {
			continue
		}
		var denied []Decision
		for j := range *dc.Coordinators {
			if d := in.checkGroup(dc, j); !d.Allowed {
				denied = append(denied, d)
			}
		}
		if blockers = append(blockers, denied...); len(denied) == 0 {
			dc.CoordinatorMembersBefore = nil
		}
	}
	return blockers
}

// checkGroups denies while a group of this region is not as its layout says.
func checkGroups(in Observed, f *topology.File) Decision {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if counts := dc.Counts(); !in.IsLocal(dc.Name) || counts.Members(topology.Coordinator) == 1 {
			continue
		}
		for j := range *dc.Coordinators {
			if d := in.checkGroup(dc, j); !d.Allowed {
				return d
			}
		}
	}
	return allow()
}

// checkGroup denies unless exactly one of the members that are to stay serves a coordinator, and says that they all have every acknowledged
// write, and nobody else is waited for. An operator that asks no parts knows no better than their readiness.
func (in *Observed) checkGroup(dc *topology.FileDataCenter, j int) Decision {
	if in.Measured == nil {
		return allow()
	}
	counts, wanted := dc.Counts(), membersOf(dc)
	first := coordinatorName(in.Store.Name, dc.Name, j, 1)
	var serving []string
	var says Measure
	for m := range counts.Members(topology.Coordinator) {
		pod := coordinatorName(in.Store.Name, dc.Name, j, m+1)
		if of, ok := in.Measured[pod]; ok && !of.Follows {
			serving, says = append(serving, pod), of
		}
	}
	switch {
	case len(serving) != 1:
		return deny(ReasonGroupNotServed, "%d members of the group of %s say that they serve it", len(serving), first)
	case !slices.Contains(in.membersPods(dc, j)[:wanted], serving[0]):
		return deny(ReasonMemberLeaves, "%s still serves, and is to leave", serving[0])
	case says.MembersWanted != wanted:
		return deny(ReasonOldEpoch, "%s has not learned yet that its group is to have %s", serving[0], memberCount(wanted))
	case says.Members < wanted:
		return deny(ReasonGroupNotWhole, "the group of %s has %d of %s", first, says.Members, memberCount(wanted))
	case says.MembersLeaving > 0:
		return deny(ReasonMemberLeaves, "the group of %s still waits for %s to leave", first, memberCount(says.MembersLeaving))
	}
	return allow()
}

// membersPods returns the names of the pods of all members of a coordinator, the first one first.
func (in *Observed) membersPods(dc *topology.FileDataCenter, j int) (pods []string) {
	counts := dc.Counts()
	for m := range counts.Members(topology.Coordinator) {
		pods = append(pods, coordinatorName(in.Store.Name, dc.Name, j, m+1))
	}
	return pods
}

// servingPod returns the pod of the member that serves a coordinator, as far as that is known, or else of the first one.
func (in *Observed) servingPod(name string, j int) string {
	for m := range topology.MaxMembers {
		pod := coordinatorName(in.Store.Name, name, j, m+1)
		if of, ok := in.Measured[pod]; ok && !of.Follows {
			return pod
		}
	}
	return coordinatorName(in.Store.Name, name, j, 1)
}

// describe fills in the changes, for people.
func (s *MemberScaling) describe(in Observed, f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.CoordinatorMembersBefore != nil && in.IsLocal(dc.Name) {
			s.Changes = append(s.Changes, fmt.Sprintf("%s from %d to %d", dc.Name, *dc.CoordinatorMembersBefore, membersOf(dc)))
		}
		if n := membersOf(findDataCenter(requested, dc.Name)); n != membersOf(dc) {
			s.Requested = append(s.Requested, fmt.Sprintf("%s to %d", dc.Name, n))
		}
	}
}

// isLeavingMember reports whether a pod is a member that leaves its group, or that the spec no longer asks for.
func isLeavingMember(f *topology.File, p *corev1.Pod) bool {
	dc := findDataCenter(f, p.Labels[LabelDataCenter])
	return isCoordinator(p) && dc != nil && Member(p) > membersOf(dc)
}

// memberCount counts members for people.
func memberCount(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}
