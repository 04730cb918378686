package status_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// withGroup is a store whose only coordinator here has two members, in the pods cc-1 and cc-2.
func withGroup() status.Observed {
	in := one()
	in.Store.Spec.DataCenters[0].Coordinators.Members = 2
	in.Now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	second := in.Pods[0].DeepCopy()
	in.Pods[0].Name, second.Name = "cc-1", "cc-2"
	in.Pods = append(in.Pods, *second)
	in.Measured = map[string]plan.Measure{}
	says(&in, "cc-1", primary())
	says(&in, "cc-2", &contract.Group{Member: 2, Role: contract.GroupFollowing, Epoch: 5, Primary: 1,
		Members: []int{1, 2}, Wanted: []int{1, 2}})
	return in
}

func primary() *contract.Group {
	answered := int64(100)
	return &contract.Group{Member: 1, Role: contract.GroupServing, Epoch: 5, Primary: 1, Members: []int{1, 2},
		Wanted:   []int{1, 2},
		Others:   []contract.GroupMember{{Member: 2, State: contract.MemberInStep}},
		Register: &contract.GroupRegister{AnsweredMsAgo: &answered}}
}

// says makes a pod report on its group.
func says(in *status.Observed, pod string, g *contract.Group) {
	if in.Reports == nil {
		in.Reports = map[string]plan.Report{}
	}
	in.Reports[pod] = plan.Report{Readiness: contract.Readiness{Ready: true, Part: "coordinator",
		DataCenter: "here", Group: g}}
}

func TestUnderReplicatedSaysWhichGroupLacksWhatSinceWhenAndWhy(t *testing.T) {
	age := func(d time.Duration) *int64 { ms := d.Milliseconds(); return &ms }
	change := func(how func(g *contract.Group)) func(*status.Observed) {
		return func(in *status.Observed) {
			g := primary()
			how(g)
			says(in, "cc-1", g)
		}
	}
	without := func(state contract.GroupMemberState, records uint64) func(g *contract.Group) {
		return func(g *contract.Group) {
			g.Epoch, g.Members, g.ShortForMs = 6, []int{1}, age(5*time.Minute)
			g.Others = []contract.GroupMember{{Member: 2, State: state, BehindRecords: records}}
		}
	}
	for _, c := range []struct {
		when   string
		given  func(*status.Observed)
		is     metav1.ConditionStatus
		reason string
		says   []string
	}{
		{"no part has several members", func(in *status.Observed) {
			in.Store.Spec.DataCenters[0].Coordinators.Members = 1
		}, "False", v1alpha1.ReasonNoGroups, nil},
		{"all follow", func(*status.Observed) {}, "False", v1alpha1.ReasonFullyReplicated, []string{"1 groups"}},
		{"a member is silent", change(without(contract.MemberSilent, 0)), "True", v1alpha1.ReasonMembersMissing,
			[]string{"coordinator 0 of here has 1 of 2 members, since 2026-01-01 11:55 UTC: member 2 does not answer"}},
		{"a member joins", change(without(contract.MemberJoining, 1234)), "True", v1alpha1.ReasonMembersMissing,
			[]string{"is joining", "about 1200 records behind"}},
		{"a member is damaged", change(without(contract.MemberDamaged, 0)), "True", v1alpha1.ReasonMembersMissing,
			[]string{"has a damaged disk"}},
		{"the register is silent", change(func(g *contract.Group) {
			g.Register = &contract.GroupRegister{UnreachableForMs: age(time.Hour)}
		}), "True",
			v1alpha1.ReasonRegisterUnreachable, []string{"nothing can change", "since 2026-01-01 11:00 UTC"}},
		{"the register was silent for a moment", change(func(g *contract.Group) {
			g.Register = &contract.GroupRegister{UnreachableForMs: age(time.Second)}
		}), "False",
			v1alpha1.ReasonFullyReplicated, nil},
		{"it is frozen and lacks a member", change(func(g *contract.Group) {
			without(contract.MemberSilent, 0)(g)
			g.Problem, g.Reason, g.ProblemForMs = contract.GroupFrozen, "the register is another one", age(time.Hour)
		}), "True", v1alpha1.ReasonGroupFrozen, []string{"since 2026-01-01 11:00 UTC: the register is another one",
			"groups without all of their members: coordinator 0 of here"}},
		{"all volumes are lost", func(in *status.Observed) {
			lost := &contract.Group{Member: 1, Role: contract.GroupOutside, Epoch: 9, Primary: 1, Members: []int{1, 2},
				Wanted: []int{1, 2}, Problem: contract.GroupLost, ProblemForMs: age(time.Hour)}
			says(in, "cc-1", lost)
			in.Reports["cc-2"] = plan.Report{Err: errors.New("no route")}
		}, "True", v1alpha1.ReasonGroupLost, []string{"coordinator 0 of here, since 2026-01-01 11:00 UTC"}},
		{"the one that serves does not report", func(in *status.Observed) {
			in.Reports["cc-1"] = plan.Report{Err: errors.New("no route")}
		}, "Unknown",
			v1alpha1.ReasonGroupsUnknown, []string{"coordinator 0 of here (not asked: cc-1 (it does not answer))"}},
		{"another one that does not serve does not report", func(in *status.Observed) {
			delete(in.Reports, "cc-2")
		}, "False", v1alpha1.ReasonFullyReplicated, nil},
		{"a deposed primary reports as well", func(in *status.Observed) {
			g := primary()
			without(contract.MemberSilent, 0)(g)
			g.Epoch, g.Member, g.Primary = 4, 2, 2
			says(in, "cc-2", g)
		}, "False", v1alpha1.ReasonFullyReplicated, nil},
	} {
		t.Run(c.when, func(t *testing.T) {
			in := withGroup()
			c.given(&in)
			got := meta.FindStatusCondition(status.Of(in).Conditions, v1alpha1.ConditionUnderReplicated)
			if got == nil || got.Status != c.is || got.Reason != c.reason {
				t.Fatalf("%+v, want %s because of %s", got, c.is, c.reason)
			}
			for _, text := range c.says {
				if !strings.Contains(got.Message, text) {
					t.Errorf("%q does not say %q", got.Message, text)
				}
			}
		})
	}
}

func TestTheStatusHasTheGroupsOfADataCenter(t *testing.T) {
	in := withGroup()
	g := primary()
	g.Members, g.Others = []int{1}, []contract.GroupMember{{Member: 2, State: contract.MemberJoining,
		BehindRecords: 98765, BehindBytes: 12345678}}
	says(&in, "cc-1", g)
	groups := status.Of(in).DataCenters[0].Groups
	if len(groups) != 1 || groups[0].Primary != 1 || groups[0].Epoch != 5 || groups[0].Wanted != 2 ||
		len(groups[0].Members) != 1 {
		t.Fatalf("%+v", groups)
	}
	if b := groups[0].Behind; len(b) != 1 || b[0].Member != 2 || b[0].State != "joining" ||
		b[0].BehindRecords != 99000 || b[0].BehindBytes != 12000000 {
		t.Errorf("%+v", b)
	}
	if !in.HasGroup(&in.Pods[0]) || in.HasGroup(&corev1.Pod{}) {
		t.Error("the wrong pods are asked for their groups")
	}
}

// The pods of all coordinators of a data center have the same labels.
func TestAReportCountsForTheGroupThatItIsAbout(t *testing.T) {
	in := withGroup()
	in.Store.Spec.DataCenters[0].Coordinators.Replicas = 2
	groups := status.Of(in).DataCenters[0].Groups
	if len(groups) != 2 || groups[0].Primary != 1 || groups[1].Primary != 0 || groups[1].Epoch != 0 {
		t.Errorf("only coordinator 0 has reported: %+v", groups)
	}
}

// A shard with two members counts as one that serves while one of them is ready, and its group is reported beside those
// of coordinators.
func TestAShardWithSeveralMembersServesWhileOneOfThemIsReady(t *testing.T) {
	in := withGroup()
	in.Store.Spec.Storage.Replicas = 2
	i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool {
		return p.Labels[plan.LabelComponent] == plan.ComponentShard
	})
	second := in.Pods[i].DeepCopy()
	second.Name, second.Labels[plan.LabelMember] = "shard-2", "2"
	in.Pods[i].Status.Conditions[0].Status = corev1.ConditionFalse
	in.Pods = append(in.Pods, *second)
	ago, g := int64(60_000), primary()
	g.Member, g.Primary, g.Members, g.ShortForMs = 2, 2, []int{2}, &ago
	g.Others = []contract.GroupMember{{Member: 1, State: contract.MemberLost}}
	says(&in, second.Name, g)
	s := status.Of(in)
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStorageReady); c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
	if n := s.DataCenters[0].Shards; n.Desired != 2 || n.Ready != 1 {
		t.Errorf("shards: %+v", n)
	}
	if groups := s.DataCenters[0].Groups; len(groups) != 2 || groups[1].Part != plan.ComponentShard ||
		groups[1].Primary != 2 {
		t.Errorf("%+v", groups)
	}
	c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionUnderReplicated)
	if c.Reason != v1alpha1.ReasonMembersMissing ||
		!strings.Contains(c.Message,
			"shard 0 of here has 1 of 2 members, since 2026-01-01 11:59 UTC: member 1 has lost its volume") {
		t.Errorf("%+v", c)
	}
	if !in.HasGroup(second) {
		t.Error("a member of a shard is not asked for its group")
	}
}
