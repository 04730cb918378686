package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// group is what is known of the members that hold the log of one coordinator, or the data of one shard.
type group struct {
	part, dataCenter string
	index            int
	// report is the one that counts: of the member that serves, or else of one that knows of a problem; nil if there is
	// none.
	report *contract.Group
	serves bool
	// unreported are the pods of the part that could not be asked, with the reason.
	unreported []string
}

func (g *group) String() string { return fmt.Sprintf("%s %d of %s", g.part, g.index, g.dataCenter) }

// HasGroup reports whether the part in a pod has several members, so that its report is needed.
func (in *Observed) HasGroup(p *corev1.Pod) bool {
	return slices.ContainsFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool {
		return dc.Name == p.Labels[plan.LabelDataCenter] &&
			slices.ContainsFunc(groupsOf(&in.Store.Spec, &dc), func(of groups) bool {
				return p.Labels[plan.LabelComponent] == of.component
			})
	})
}

// groups are those of one part in a data center.
type groups struct {
	component string
	count     int32
	members   int
}

// groupsOf returns the groups of a data center with several members each.
func groupsOf(s *v1alpha1.CausalStoreSpec, dc *v1alpha1.DataCenter) (all []groups) {
	for _, of := range []groups{{plan.ComponentCoordinator, dc.Coordinators.Replicas,
		plan.WantedMembers(s, dc, topology.Coordinator)},
		{plan.ComponentShard, dc.Shards, plan.WantedMembers(s, dc, topology.Middleman)}} {
		if of.members > 1 {
			all = append(all, of)
		}
	}
	return all
}

// addGroups returns the state of the groups of a data center; none if its parts have one member each.
func (v *view) addGroups(dc *v1alpha1.DataCenter) (all []v1alpha1.GroupStatus) {
	for _, of := range groupsOf(&v.Store.Spec, dc) {
		for i := range int(of.count) {
			g := v.findGroup(of.component, dc.Name, i)
			v.groups = append(v.groups, g)
			all = append(all, g.publish(int32(of.members)))
		}
	}
	return all
}

// findGroup returns what the members of a part have reported.
func (v *view) findGroup(component, dc string, index int) group {
	g := group{part: component, dataCenter: dc, index: index}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Labels[plan.LabelComponent] != component || p.Labels[plan.LabelDataCenter] != dc ||
			component == plan.ComponentShard && shardOf(p) != int32(index) {
			continue
		}
		r, ok := v.Reports[p.Name]
		switch {
		case !ok && !v.asked():
		case !ok:
			g.unreported = append(g.unreported, p.Name+" (it was not asked)")
		case r.Err != nil:
			g.unreported = append(g.unreported, p.Name+" (it does not answer)")
		case r.Group != nil && r.Index == index && g.isBetter(r.Group):
			g.report, g.serves = r.Group, r.Group.Role == contract.GroupServing
		}
	}
	slices.Sort(g.unreported)
	return g
}

// isBetter reports whether a report counts more than the one there is: that of the member that serves in the highest
// epoch, then one that knows of a problem, then that of the highest epoch.
func (g *group) isBetter(r *contract.Group) bool {
	rank := func(r *contract.Group) int {
		switch {
		case r.Role == contract.GroupServing:
			return 2
		case r.Problem == contract.GroupFrozen || r.Problem == contract.GroupLost:
			return 1
		}
		return 0
	}
	if g.report == nil || rank(r) != rank(g.report) {
		return g.report == nil || rank(r) > rank(g.report)
	}
	return r.Epoch > g.report.Epoch
}

// publish returns the state as the status has it.
func (g *group) publish(wanted int32) v1alpha1.GroupStatus {
	s := v1alpha1.GroupStatus{Part: g.part, Index: int32(g.index), Wanted: wanted}
	if g.report == nil {
		return s
	}
	s.Epoch, s.Problem = int64(g.report.Epoch), g.problem()
	if g.serves {
		s.Primary = int32(g.report.Primary)
	}
	for _, n := range g.report.Members {
		s.Members = append(s.Members, int32(n))
	}
	for _, m := range g.behind() {
		s.Behind = append(s.Behind, v1alpha1.GroupMemberStatus{Member: int32(m.Member), State: string(m.State),
			BehindRecords: roundCount(int64(m.BehindRecords)), BehindBytes: roundCount(m.BehindBytes)})
	}
	return s
}

// roundCount rounds to about two digits, so that the status does not change all the time.
func roundCount(n int64) int64 {
	step := int64(1)
	for n >= 100*step {
		step *= 10
	}
	return (n + step/2) / step * step
}

// problem says what keeps the group from changing.
func (g *group) problem() string {
	switch r := g.report; {
	case r.Problem == contract.GroupFrozen, r.Problem == contract.GroupLost:
		return fmt.Sprintf("%s: %s", r.Problem, r.Reason)
	case r.Register != nil && r.Register.UnreachableForMs != nil &&
		*r.Register.UnreachableForMs >= registerPatience.Milliseconds():
		return "its register does not answer, or takes no changes"
	}
	return ""
}

// registerPatience is for how long a register may be silent: a server of it that restarts is no news.
const registerPatience = 10 * time.Second

// behind returns the members that are wanted and missing, or do not follow.
func (g *group) behind() (all []contract.GroupMember) {
	for _, n := range g.report.Wanted {
		i := slices.IndexFunc(g.report.Others, func(m contract.GroupMember) bool { return m.Member == n })
		switch {
		case i >= 0 && g.report.Others[i].State != contract.MemberInStep:
			all = append(all, g.report.Others[i])
		case i < 0 && !slices.Contains(g.report.Members, n) && (!g.serves || n != g.report.Member):
			all = append(all, contract.GroupMember{Member: n})
		}
	}
	return all
}

// memberStateTexts say for people why a member is missing.
var memberStateTexts = map[contract.GroupMemberState]string{
	contract.MemberJoining: "is joining: it gets the log", contract.MemberSilent: "does not answer",
	contract.MemberStalled: "answers, and does not make durable what it gets",
	contract.MemberDamaged: "has a damaged disk", contract.MemberLost: "has lost its volume", "": "is missing",
}

// describeMissing says which members a group lacks, since when and why. Times are given to the minute, so that the text
// does not change all the time.
func (g *group) describeMissing(now time.Time) string {
	var members []string
	for _, m := range g.behind() {
		text := fmt.Sprintf("member %d %s", m.Member, memberStateTexts[m.State])
		if m.BehindRecords > 0 {
			text += fmt.Sprintf(" (about %d records behind)", roundCount(int64(m.BehindRecords)))
		}
		members = append(members, text)
	}
	if len(members) == 0 {
		members = []string{"a member is about to join"} // it did when the report was made
	}
	return fmt.Sprintf("%s has %d of %d members, since %s: %s", g, len(g.report.Members), len(g.report.Wanted),
		sinceMinute(now, g.report.ShortForMs), strings.Join(members, ", "))
}

// sinceMinute returns when an age began, to the minute.
func sinceMinute(now time.Time, ageMs *int64) string {
	if ageMs == nil {
		return "an unknown time"
	}
	return now.Add(-time.Duration(*ageMs) * time.Millisecond).UTC().Truncate(time.Minute).Format("2006-01-02 15:04 UTC")
}

// underReplicated holds if a group has fewer members than it should have, or cannot change. What is known to be wrong
// comes before what is unknown, and what only a person can mend first.
func underReplicated(v *view) verdict {
	var lost, frozen, away, short, unknownGroups []string
	for i := range v.groups {
		g := &v.groups[i]
		switch {
		case g.report != nil && g.report.Problem == contract.GroupLost && !g.serves:
			lost = append(lost, fmt.Sprintf("%s, since %s", g, sinceMinute(v.Now, g.report.ProblemForMs)))
		case g.report != nil && g.report.Problem == contract.GroupFrozen:
			frozen = append(frozen, fmt.Sprintf("%s, since %s: %s", g, sinceMinute(v.Now, g.report.ProblemForMs),
				g.report.Reason))
		case g.report != nil && g.problem() != "":
			away = append(away, fmt.Sprintf("%s, since %s", g, sinceMinute(v.Now, g.report.Register.UnreachableForMs)))
		}
		switch {
		case !g.serves && (g.report == nil || g.report.Problem == ""):
			unknownGroups = append(unknownGroups, g.describeUnknown())
		case g.report.IsShort() && g.report.Problem != contract.GroupLost:
			short = append(short, g.describeMissing(v.Now))
		}
	}
	rest := also("groups without all of their members", short) + also("groups of which nothing is known", unknownGroups)
	switch {
	case len(v.groups) == 0:
		return no(v1alpha1.ReasonNoGroups,
			"every part here has one member: the only copy of its log, or of its data in its ring, is on its disk")
	case len(lost) > 0:
		return yes(v1alpha1.ReasonGroupLost,
			"the volumes of all members are gone or damaged: %s; see docs/disasters.md, The disk of a coordinator, "+
				"and A shard has lost its data%s%s",
			strings.Join(lost, "; "), also("frozen groups", frozen), rest)
	case len(frozen) > 0:
		return yes(v1alpha1.ReasonGroupFrozen,
			"groups that serve, and do not change until somebody accepts the register: %s; see docs/disasters.md, "+
				"The register was replaced or restored%s",
			strings.Join(frozen, "; "), rest)
	case len(away) > 0:
		return yes(v1alpha1.ReasonRegisterUnreachable,
			"the register does not answer, so nothing can change, and a coordinator or shard that fails now is not "+
				"replaced by another of its members: %s%s",
			strings.Join(away, "; "), rest)
	case len(short) > 0:
		return yes(v1alpha1.ReasonMembersMissing, "%s%s", strings.Join(short, "; "),
			also("groups of which nothing is known", unknownGroups))
	case len(unknownGroups) > 0:
		return unknown(v1alpha1.ReasonGroupsUnknown, "groups of which no member has reported that it serves: %s",
			strings.Join(unknownGroups, "; "))
	}
	return no(v1alpha1.ReasonFullyReplicated, "all members of %d groups have every acknowledged write", len(v.groups))
}

// describeUnknown says of which group no member that serves has reported, and who could not be asked.
func (g *group) describeUnknown() string {
	if len(g.unreported) == 0 {
		return g.String()
	}
	return fmt.Sprintf("%s (not asked: %s)", g, strings.Join(g.unreported, ", "))
}
