package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// The log of each coordinator is held by the members of a group (PROTOCOL GRP), and so is the storage of each shard
// (Shards on groups). Each member of all coordinators of a data center has a StatefulSet, whose pods are numbered as
// the coordinators are, and each member of each shard has one.

// groupParts are the parts that have groups.
var groupParts = []topology.Part{topology.Coordinator, topology.Middleman}

// namesOfGroups are their names for people.
var namesOfGroups = map[topology.Part]string{topology.Coordinator: "coordinators", topology.Middleman: "shards"}

// WantedMembers returns how many members the spec asks for, for each group of a part in a data center.
func WantedMembers(s *v1alpha1.CausalStoreSpec, dc *v1alpha1.DataCenter, part topology.Part) int {
	if part == topology.Middleman {
		return max(1, int(s.Storage.Replicas))
	}
	return max(1, int(dc.Coordinators.Members))
}

// MemberScaling is the progress of a change of the numbers of members.
type MemberScaling struct {
	// Changes are the parts of data centers of this region whose groups members leave, with their numbers.
	Changes []string
	// Requested are those whose numbers are to change after that.
	Requested []string
	// Blockers are why members may not be removed yet, one for each group that waits.
	Blockers []Decision
	// Start decides whether the requested change starts; it is zero if none is requested, or another change is in
	// progress.
	Start Decision
}

func (s MemberScaling) pending() bool { return len(s.Changes)+len(s.Requested) > 0 }

// texts describes the change for people.
func (s MemberScaling) texts() (texts []string) {
	if len(s.Changes) > 0 {
		texts = append(texts, "members are leaving: "+strings.Join(s.Changes, ", "))
	}
	if len(s.Blockers) > 0 {
		texts = append(texts, "waiting for: "+strings.Join(messages(s.Blockers), ", "))
	}
	return append(texts, describeRequested("members", s.Changes, s.Requested, s.Start)...)
}

// memberFields returns where a layout has the number of members of a part, and that from before a reduction.
func memberFields(dc *topology.FileDataCenter, part topology.Part) (now, before **int) {
	if part == topology.Middleman {
		return &dc.ShardMembers, &dc.ShardMembersBefore
	}
	return &dc.CoordinatorMembers, &dc.CoordinatorMembersBefore
}

// membersOf returns how many members the groups of a part should have by a layout.
func membersOf(dc *topology.FileDataCenter, part topology.Part) int {
	counts := dc.Counts()
	return counts.DesiredMembers(part)
}

// groupsOf returns how many groups of a part a layout has, without those that leave.
func groupsOf(dc *topology.FileDataCenter, part topology.Part) int {
	counts := dc.Counts()
	if part == topology.Middleman {
		return counts.Shards
	}
	return counts.Coordinators
}

// anyGroups reports whether f holds for a part of a data center.
func anyGroups(f *topology.File, holds func(dc *topology.FileDataCenter, part topology.Part) bool) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return slices.ContainsFunc(groupParts, func(part topology.Part) bool { return holds(&dc, part) })
	})
}

// membersDiffer reports whether the spec asks for other numbers of members.
func membersDiffer(f, requested *topology.File) bool {
	return anyGroups(f, func(dc *topology.FileDataCenter, part topology.Part) bool {
		return membersOf(findDataCenter(requested, dc.Name), part) != membersOf(dc, part)
	})
}

// membersLeave reports whether members leave groups of this region. In other regions nobody here can ask them, and
// their own operators wait for them; messages reach a member whose address is no longer known here by the links that it
// opens.
func membersLeave(in Observed, f *topology.File) bool {
	return anyGroups(f, func(dc *topology.FileDataCenter, part topology.Part) bool {
		_, before := memberFields(dc, part)
		return *before != nil && in.IsLocal(dc.Name)
	})
}

// decideMembersStart decides whether a change of members may start. A group gets further members when it is whole, and
// when every coordinator, or shard, runs with the register. It may always get fewer: the one that is missing may be one
// of those that are to go, and before any disk goes finishMembersLeave asks for those that stay.
func decideMembersStart(in Observed, f, requested *topology.File) Decision {
	grows := false
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		for _, part := range groupParts {
			if !in.IsLocal(dc.Name) || membersOf(findDataCenter(requested, dc.Name), part) <= membersOf(dc, part) {
				continue
			}
			if grows = true; !in.usesRegister(dc.Name, part) {
				return deny(ReasonRegisterMissing, "the etcd of %s has not served yet", dc.Name)
			}
			if d := in.checkRegisters(dc, part); !d.Allowed {
				return d
			}
		}
	}
	if d := decideStart(in, f); !d.Allowed || !grows {
		return d
	}
	return checkGroups(in, f, groupParts...)
}

// checkRegisters denies if a coordinator runs without its register, because its pod started with an older file than its
// template, or a shard without its log, because its pod is older.
func (in *Observed) checkRegisters(dc *topology.FileDataCenter, part topology.Part) Decision {
	for j := range groupsOf(dc, part) {
		for _, pod := range in.membersPods(dc, part, j) {
			if slices.Contains(in.Reports[pod].RestartNeeded, contract.FieldRegister) {
				return deny(ReasonRegisterMissing,
					"%s has started before its register was in its configuration; delete the pod", pod)
			}
			if m, ok := in.Measured[pod]; part == topology.Middleman && in.Measured != nil &&
				(!ok || m.MembersWanted == 0) {
				return deny(ReasonRegisterMissing, "%s does not report that it keeps a log yet", pod)
			}
		}
	}
	return allow()
}

// membersChange reports whether the spec asks for another number of members of a part than a layout has.
func (in *Observed) membersChange(f *topology.File, name string, part topology.Part) bool {
	dc := findDataCenter(f, name)
	return dc != nil && slices.ContainsFunc(in.Store.Spec.DataCenters, func(of v1alpha1.DataCenter) bool {
		return of.Name == name && WantedMembers(&in.Store.Spec, &of, part) != membersOf(dc, part)
	})
}

// startMembers sets the requested numbers of members. New members join by themselves. If members leave, the layout
// keeps the number from before until finishMembersLeave, so that all parts reach them, and they know that they leave: a
// primary hands over first.
func startMembers(in Observed, f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		for _, part := range groupParts {
			was, wanted := membersOf(dc, part), findDataCenter(requested, dc.Name)
			if membersOf(wanted, part) == was {
				continue
			}
			n, _ := memberFields(wanted, part)
			now, before := memberFields(dc, part)
			if *now, *before = *n, nil; was > membersOf(dc, part) && in.IsLocal(dc.Name) {
				*before = &was
			}
		}
	}
}

// finishMembersLeave ends the change of each part of a data center of this region that all surplus members have left,
// and returns what blocks the others. Only the member that serves knows: a group has what it has acknowledged on the
// members of its configuration, and those that are to stay must be all of them before the disks of the others may go.
func finishMembersLeave(in Observed, f *topology.File) (blockers []Decision) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		for _, part := range groupParts {
			_, before := memberFields(dc, part)
			if *before == nil || !in.IsLocal(dc.Name) {
				continue
			}
			var denied []Decision
			for j := range groupsOf(dc, part) {
				if d := in.checkGroup(dc, part, j); !d.Allowed {
					denied = append(denied, d)
				}
			}
			if blockers = append(blockers, denied...); len(denied) == 0 {
				*before = nil
			}
		}
	}
	return blockers
}

// checkGroups denies while a group of some parts in this region is not as its layout says.
func checkGroups(in Observed, f *topology.File, parts ...topology.Part) Decision {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		counts := dc.Counts()
		for _, part := range parts {
			if !in.IsLocal(dc.Name) || counts.Members(part) == 1 {
				continue
			}
			for j := range groupsOf(dc, part) {
				if d := in.checkGroup(dc, part, j); !d.Allowed {
					return d
				}
			}
		}
	}
	return allow()
}

// checkGroup denies unless exactly one of the members that are to stay serves a coordinator or shard, and says that
// they all have every acknowledged write, and nobody else is waited for. An operator that asks no parts knows no better
// than their readiness.
func (in *Observed) checkGroup(dc *topology.FileDataCenter, part topology.Part, j int) Decision {
	if in.Measured == nil {
		return allow()
	}
	pods, wanted := in.membersPods(dc, part, j), membersOf(dc, part)
	var serving []string
	var says Measure
	for _, pod := range pods {
		if of, ok := in.Measured[pod]; ok && !of.Follows {
			serving, says = append(serving, pod), of
		}
	}
	switch {
	case len(serving) != 1:
		return deny(ReasonGroupNotServed, "%d members of the group of %s say that they serve it", len(serving), pods[0])
	case !slices.Contains(pods[:wanted], serving[0]):
		return deny(ReasonMemberLeaves, "%s still serves, and is to leave", serving[0])
	case says.MembersWanted != wanted:
		return deny(ReasonOldEpoch, "%s has not learned yet that its group is to have %s", serving[0],
			memberCount(wanted))
	case says.Members < wanted:
		return deny(ReasonGroupNotWhole, "the group of %s has %d of %s", pods[0], says.Members, memberCount(wanted))
	case says.MembersLeaving > 0:
		return deny(ReasonMemberLeaves, "the group of %s still waits for %s to leave", pods[0],
			memberCount(says.MembersLeaving))
	}
	return allow()
}

// membersPods returns the names of the pods of all members of a coordinator or middleman, the first one first.
func (in *Observed) membersPods(dc *topology.FileDataCenter, part topology.Part, j int) (pods []string) {
	counts := dc.Counts()
	for m := range counts.Members(part) {
		pods = append(pods, memberPod(in.Store.Name, dc.Name, part, j, m+1))
	}
	return pods
}

// servingPod returns the pod of the member that serves a coordinator or shard, as far as that is known, or else of the
// first one.
func (in *Observed) servingPod(name string, part topology.Part, j int) string {
	for m := range topology.MaxMembers {
		pod := memberPod(in.Store.Name, name, part, j, m+1)
		if of, ok := in.Measured[pod]; ok && !of.Follows {
			return pod
		}
	}
	return memberPod(in.Store.Name, name, part, j, 1)
}

// describe fills in the changes, for people.
func (s *MemberScaling) describe(in Observed, f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		for _, part := range groupParts {
			of := namesOfGroups[part] + " of " + dc.Name
			if _, before := memberFields(dc, part); *before != nil && in.IsLocal(dc.Name) {
				s.Changes = append(s.Changes, fmt.Sprintf("%s from %d to %d", of, **before, membersOf(dc, part)))
			}
			if n := membersOf(findDataCenter(requested, dc.Name), part); n != membersOf(dc, part) {
				s.Requested = append(s.Requested, fmt.Sprintf("%s to %d", of, n))
			}
		}
	}
}

// IsGroupMember reports whether a pod runs a member of a group that says what the group is: a coordinator, or a shard
// with a register.
func (in *Observed) IsGroupMember(p *corev1.Pod) bool {
	part, ok := groupPart(p)
	return ok && (part == topology.Coordinator || in.usesRegister(p.Labels[LabelDataCenter], part))
}

// isLeavingMember reports whether a pod is a member that leaves its group, or that the spec no longer asks for.
func isLeavingMember(f *topology.File, p *corev1.Pod) bool {
	dc := findDataCenter(f, p.Labels[LabelDataCenter])
	part, ok := groupPart(p)
	return ok && dc != nil && Member(p) > membersOf(dc, part)
}

// memberCount counts members for people.
func memberCount(n int) string {
	if n == 1 {
		return "1 member"
	}
	return fmt.Sprintf("%d members", n)
}
