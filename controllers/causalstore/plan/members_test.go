package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// membersRun is a store whose numbers of members change.
type membersRun struct {
	in plan.Observed
	// part is the one whose members change: coordinators or shards.
	part topology.Part
	// serving is which member of each group serves, and says what it says.
	serving []int
	says    []plan.Measure
	// inUse are the coordinators that the first one reports.
	inUse []int
	// shards is the number of shards that the parts are to go to.
	shards int
	// behind is a pod that runs without the register in its configuration, or, of a shard, without a log.
	behind string
}

// TestMembersChangeWhileAStoreRuns plays whole changes of the numbers of members of coordinators, and of shards. The
// commands:
//
//	members N                      sets the number of members in the spec
//	coordinators N, shards N       sets the number of coordinators, or of shards
//	policy Delete                  sets the deletion policy in the spec
//	image IMAGE                    sets the image
//	pod P unready|ready            sets whether a pod serves
//	group J serving=M members=N wanted=N leaving=N
//	                               sets which member serves a coordinator or shard, and what it says about its group
//	inuse J...                     sets which coordinators the first one reports as in use
//	behind P                       makes a pod run without the register that its configuration has
//	whole                          makes all groups as the configuration of the parts says
//	forget                         loses the record
//	plan                           plans, carries the plan out, restarts included, and shows it
//	restarts [whole]               plans and carries out until nothing restarts any more, and shows what has, and what waits why; if so,
//	                               all groups are whole all the time
func TestMembersChangeWhileAStoreRuns(t *testing.T) {
	for dir, part := range map[string]topology.Part{"members": topology.Coordinator,
		"shardmembers": topology.Middleman} {
		datadriven.Walk(t, "testdata/"+dir, func(t *testing.T, file string) { playMembers(t, file, part) })
	}
}

func playMembers(t *testing.T, file string, part topology.Part) {
	r := &membersRun{in: withEtcd(t), part: part}
	dc := &r.in.Store.Spec.DataCenters[0]
	dc.Coordinators.Members, r.in.Reports = 1, map[string]plan.Report{}
	if dc.Coordinators.Replicas = 2; part == topology.Middleman {
		dc.Coordinators.Replicas, dc.Shards = 1, 2
	}
	for range 2 {
		r.execute(planned(t, r.in))
		r.settle(t)
	}
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		dc := &r.in.Store.Spec.DataCenters[0]
		number := func(i int) (n int32) {
			if _, err := fmt.Sscan(d.CmdArgs[i].Key, &n); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return n
		}
		switch d.Cmd {
		case "members":
			if part == topology.Middleman {
				r.in.Store.Spec.Storage.Replicas = number(0)
			} else {
				dc.Coordinators.Members = number(0)
			}
		case "shards":
			dc.Shards = number(0)
		case "coordinators":
			dc.Coordinators.Replicas = number(0)
		case "policy":
			r.in.Store.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(d.CmdArgs[0].Key)
		case "image":
			r.in.Store.Spec.Image = d.CmdArgs[0].Key
		case "pod":
			r.setReady(d.CmdArgs[0].Key, !d.HasArg("unready"))
		case "group":
			m := &r.says[number(0)]
			d.MaybeScanArgs(t, "serving", &r.serving[number(0)])
			d.MaybeScanArgs(t, "members", &m.Members)
			d.MaybeScanArgs(t, "wanted", &m.MembersWanted)
			d.MaybeScanArgs(t, "leaving", &m.MembersLeaving)
		case "whole":
			r.settle(t)
		case "behind":
			r.behind = d.CmdArgs[0].Key
		case "inuse":
			r.inUse = nil
			for i := range d.CmdArgs {
				r.inUse = append(r.inUse, int(number(i)))
			}
		case "forget":
			r.in.Record = plan.RecoverRecord(r.in, r.in.ConfigMaps)
		case "plan":
			r.measure()
			p := planned(t, r.in)
			shown := r.show(t, p)
			r.execute(p)
			return shown
		case "restarts":
			return r.restarts(t, d.HasArg("whole"))
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		return ""
	})
}

func (r *membersRun) setReady(pod string, ready bool) {
	for i := range r.in.Pods {
		if p := &r.in.Pods[i]; p.Name == pod {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
			if ready {
				p.Status.Conditions[0].Status = corev1.ConditionTrue
			}
		}
	}
}

// restarts carries out plans until several in a row restart nothing.
func (r *membersRun) restarts(t *testing.T, whole bool) string {
	t.Helper()
	const enough = 5
	var b strings.Builder
	for idle := 1; idle <= enough; idle++ {
		if whole {
			r.settle(t)
		}
		r.measure()
		p := planned(t, r.in)
		for _, pod := range p.Restart {
			fmt.Fprintln(&b, pod.Pod)
			idle = 0
		}
		if idle == enough && p.Rollout.Next.Denied() {
			fmt.Fprintln(&b, "waits:", p.Rollout.Next.Message)
		}
		r.execute(p)
	}
	return b.String()
}

// settle makes the groups as the published configuration says.
func (r *membersRun) settle(t *testing.T) {
	t.Helper()
	for _, m := range r.in.ConfigMaps {
		if m.Name != "try-here" {
			continue
		}
		c, err := contract.ParseConfig([]byte(m.Data["causalstore.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		counts := c.Topology.DataCenters[0].Counts()
		n := counts.RunningCoordinators()
		if r.part == topology.Middleman {
			n = counts.RunningMiddlemen()
		}
		r.serving, r.says, r.shards = nil, nil, counts.Shards
		for range n {
			r.serving = append(r.serving, 1)
			r.says = append(r.says, plan.Measure{Members: counts.DesiredMembers(r.part),
				MembersWanted: counts.DesiredMembers(r.part)})
		}
	}
}

// measure makes the parts report.
func (r *membersRun) measure() {
	r.in.Measured = map[string]plan.Measure{}
	for i := range r.in.Pods {
		p := &r.in.Pods[i]
		report := contract.Readiness{Epoch: uint64(r.in.Record.Epoch)}
		j, of := plan.Index(p), topology.Coordinator
		switch p.Labels[plan.LabelComponent] {
		case plan.ComponentShard:
			_, _ = fmt.Sscan(p.Labels[plan.LabelShard], &j)
			if of, report.Shards = topology.Middleman, contract.ReshardingDone; j >= r.shards {
				report.Shards = contract.ReshardingGone
			}
		case plan.ComponentCoordinator:
			report.Membership = contract.MembershipJoining
		default:
			continue
		}
		var m plan.Measure
		if of == r.part && j < len(r.says) {
			m = r.says[j]
			m.Follows = plan.Member(p) != r.serving[j]
		}
		if of == topology.Coordinator && !m.Follows {
			report.Membership = contract.MembershipServing
			if j == 0 {
				report.CoordinatorsInUse = r.inUse
			}
		}
		if p.Name == r.behind && of == topology.Coordinator {
			report.RestartNeeded = []string{"register"}
		} else if p.Name == r.behind {
			m = plan.Measure{}
		}
		if r.in.IsGroupMember(p) {
			r.in.Measured[p.Name] = m
		}
		r.in.Reports[p.Name] = plan.Report{Readiness: report}
	}
}

// execute carries out a plan. A pod that restarts is made from the present template at once, and new pods are ready.
func (r *membersRun) execute(p plan.Plan) {
	r.in = executed(r.in, p)
	before := r.in.Pods
	r.in.Pods = nil
	for i := range r.in.StatefulSets {
		s := &r.in.StatefulSets[i]
		s.Generation, s.Status.ObservedGeneration, s.Status.UpdateRevision = 2, 2,
			s.Annotations["causalstore.io/inputs"]
		for n := range *s.Spec.Replicas {
			name := fmt.Sprintf("%s-%d", s.Name, n)
			i := slices.IndexFunc(before, func(b corev1.Pod) bool { return b.Name == name })
			restarts := slices.ContainsFunc(p.Restart, func(r plan.Restart) bool { return r.Pod == name })
			if i >= 0 && !restarts {
				r.in.Pods = append(r.in.Pods, before[i])
				continue
			}
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
				Labels: map[string]string{}}}
			for k, v := range s.Spec.Template.Labels {
				pod.Labels[k] = v
			}
			pod.Labels[appsv1.PodIndexLabel], pod.Labels[appsv1.StatefulSetRevisionLabel] = fmt.Sprint(n),
				s.Status.UpdateRevision
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s,
				appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			r.in.Pods = append(r.in.Pods, pod)
			r.setReady(name, true)
			for _, template := range s.Spec.VolumeClaimTemplates {
				c := *template.DeepCopy()
				if c.Name += "-" + name; !slices.ContainsFunc(r.in.Claims, func(is corev1.PersistentVolumeClaim) bool {
					return is.Name == c.Name
				}) {
					r.in.Claims = append(r.in.Claims, c)
				}
			}
		}
	}
	r.in.Claims = slices.DeleteFunc(r.in.Claims, func(c corev1.PersistentVolumeClaim) bool {
		return slices.Contains(p.DeleteClaims, c.Name)
	})
}

// show describes a plan: the configuration of the parts, the StatefulSets of the part and of etcd, and what happens to
// pods.
func (r *membersRun) show(t *testing.T, p plan.Plan) string {
	t.Helper()
	var b strings.Builder
	files := named[*corev1.ConfigMap](t, p, "try-here").Data
	c, err := contract.ParseConfig([]byte(files[plan.PartsFile]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Topology.Topology(); err != nil {
		t.Errorf("the parts would refuse it: %v", err)
	}
	counts, addresses := c.Topology.DataCenters[0].Counts(), c.Addresses["here"].Coordinators
	n, before, component, hasRegister := counts.Coordinators, counts.CoordinatorMembersBefore,
		plan.ComponentCoordinator, c.Register != nil
	if r.part == topology.Middleman {
		n, before, component, addresses = counts.Shards, counts.ShardMembersBefore, plan.ComponentShard,
			c.Addresses["here"].Middlemen
		if hasRegister {
			t.Error("coordinators have a register, and have one member")
		}
		hasRegister = files[plan.ShardsFile] != ""
	}
	fmt.Fprintf(&b, "epoch %d: %d %ss with %d members, before %d; register: %v\n", p.Record.Epoch, n, component,
		counts.DesiredMembers(r.part), before, hasRegister)
	for _, a := range addresses {
		fmt.Fprintf(&b, "  %s\n", strings.SplitN(a, ".", 2)[0])
	}
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok && (s.Labels[plan.LabelComponent] == component || plan.IsOfEtcd(s)) {
			fmt.Fprintf(&b, "%s: %d\n", s.Name, *s.Spec.Replicas)
		}
	}
	if p.Scaling.Pending() != (p.Scaling.String() != "") {
		t.Errorf("scaling %+v is pending without a description, or the other way round", p.Scaling)
	}
	for _, line := range []struct {
		name  string
		value any
		shown bool
	}{
		{"change", p.Scaling, p.Scaling.Pending()},
		{"resharding", p.Resharding, p.Resharding.Pending()},
		{"recreates", p.Recreate, len(p.Recreate) > 0},
		{"restarts", p.Restart, len(p.Restart) > 0},
		{"restarts wait", p.Rollout.Next.Message, p.Rollout.Next.Denied()},
		{"deletes", p.DeleteClaims, len(p.DeleteClaims) > 0},
	} {
		if line.shown {
			fmt.Fprintf(&b, "%s: %v\n", line.name, line.value)
		}
	}
	return b.String()
}
