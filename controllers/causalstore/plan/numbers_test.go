package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// TestNumbersChangeOneAfterTheOther plays whole changes. The commands:
//
//	spec DC=N...                            the spec asks for so many shards
//	coordinators DC=N...                    the spec asks for so many coordinators
//	policy Delete                           the spec asks for another deletion policy
//	say pod=P [epoch=E] [state=S] [member=S] [use=(INDEX,...)] [reason=WHY] [before=RING] [failed=WHY] [problem=WHY]
//	                                        what a part answers; all=... of all middlemen
//	pod P revision [unready]                a pod is of a revision, and serves or not
//	gone                                    claims that are being deleted are gone
//	log P incomplete                        a coordinator has so many writes that are not in every ring
//	plan                                    plans, carries it out, and shows what has come of it
func TestNumbersChangeOneAfterTheOther(t *testing.T) {
	for _, folder := range []string{"shards", "coordinators"} {
		datadriven.Walk(t, "testdata/"+folder, func(t *testing.T, file string) {
			in := observed(t, "regions.yaml", "us-east")
			in = carriedOut(in, planned(t, in))
			run(&in)
			in = carriedOut(in, planned(t, in)) // which has seen that all serve
			run(&in)
			in.Moves = map[string]plan.Move{}
			for i := range 3 {
				in.Claims = append(in.Claims, claim(fmt.Sprintf("data-orders-us-east-1-shard-%d-0", i), "10Gi"),
					claim(fmt.Sprintf("data-orders-us-east-1-cc-%d", i), "5Gi"))
			}
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd != "plan" {
					happen(t, &in, d)
					return ""
				}
				p := planned(t, in)
				shown := show(t, in, p, folder == "coordinators")
				in = carriedOut(in, p)
				run(&in)
				for i := range in.Claims {
					if slices.Contains(p.Drop, in.Claims[i].Name) {
						in.Claims[i].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
					}
				}
				return shown
			})
		})
	}
}

// happen does what a command other than plan says.
func happen(t *testing.T, in *plan.Observed, d *datadriven.TestData) {
	switch d.Cmd {
	case "spec", "coordinators":
		for _, a := range d.CmdArgs {
			i := slices.IndexFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Name == a.Key })
			dc := &in.Store.Spec.DataCenters[i]
			n := map[string]*int32{"spec": &dc.Shards, "coordinators": &dc.Coordinators.Replicas}[d.Cmd]
			if _, err := fmt.Sscan(a.Vals[0], n); err != nil {
				d.Fatalf(t, "%s: %v", a.Key, err)
			}
		}
	case "policy":
		in.Store.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(d.CmdArgs[0].Key)
	case "say":
		say(t, in, d)
	case "pod":
		become(in, d.CmdArgs[0].Key, d.CmdArgs[1].Key, !d.HasArg("unready"))
	case "gone":
		in.Claims = slices.DeleteFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })
	case "log":
		var n int64
		if _, err := fmt.Sscan(d.CmdArgs[1].Key, &n); err != nil {
			d.Fatalf(t, "%v", err)
		}
		measured(in, d.CmdArgs[0].Key, plan.Measure{Incomplete: n}, time.Second)
	default:
		d.Fatalf(t, "there is no command %s", d.Cmd)
	}
}

func say(t *testing.T, in *plan.Observed, d *datadriven.TestData) {
	var pod string
	m := plan.Move{Epoch: in.Record.Epoch}
	d.MaybeScanArgs(t, "pod", &pod)
	d.MaybeScanArgs(t, "epoch", &m.Epoch)
	d.MaybeScanArgs(t, "state", &m.State)
	d.MaybeScanArgs(t, "member", &m.Member)
	d.MaybeScanArgs(t, "use", &m.InUse)
	d.MaybeScanArgs(t, "reason", &m.Reason)
	d.MaybeScanArgs(t, "failed", &m.Failed)
	d.MaybeScanArgs(t, "problem", &m.Problem)
	if d.HasArg("before") {
		m.Before = []string{""}
		d.ScanArgs(t, "before", &m.Before[0])
	}
	if pod != "" {
		in.Moves[pod] = m
		return
	}
	d.ScanArgs(t, "all", &m.State)
	for _, p := range in.Pods {
		if p.Labels[plan.LabelComponent] == plan.ComponentShard {
			in.Moves[p.Name] = m
		}
	}
}

// show tells what a plan is about: what the parts are told, which shards or coordinators there are, and what is done to pods.
func show(t *testing.T, in plan.Observed, p plan.Plan, coordinators bool) string {
	var b strings.Builder
	c, err := process.Parse([]byte(named[*corev1.ConfigMap](t, p, "orders-us-east-1").Data["causalstore.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Topology.Topology(); err != nil {
		t.Errorf("the parts would refuse it: %v", err)
	}
	fmt.Fprintf(&b, "epoch %d\n", p.Record.Epoch)
	for _, dc := range c.Topology.DataCenters {
		if coordinators {
			fmt.Fprintf(&b, "%s: %s, %d addresses\n", dc.Name, coordinatorsOf(dc), len(c.Addresses[dc.Name].Coordinators))
			continue
		}
		fmt.Fprintf(&b, "%s: %s, %d addresses\n", dc.Name, shardsOf(dc), len(c.Addresses[dc.Name].Middlemen))
	}
	var sets []string
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok && s.Labels[plan.LabelComponent] == plan.ComponentShard {
			sets = append(sets, s.Labels[plan.LabelShard])
		}
	}
	if coordinators {
		fmt.Fprintf(&b, "replicas here: %d; have served: %d; budget: %s\n", *named[*appsv1.StatefulSet](t, p, "orders-us-east-1-cc").Spec.Replicas,
			p.Record.Served["us-east-1"], budget(named[*policyv1.PodDisruptionBudget](t, p, "orders-us-east-1-coordinator")))
	} else {
		fmt.Fprintf(&b, "StatefulSets of shards here: %s\n", strings.Join(sets, " "))
	}
	for _, n := range []struct {
		what string
		is   any
		some bool
	}{{"says", p.Regroup, p.Regroup.String() != ""}, {"says", p.Reshape, p.Reshape.String() != ""}, {"tells", p.Tell, len(p.Tell) > 0}, {"drops", p.Drop, len(p.Drop) > 0},
		{"restarts", p.Restart, len(p.Restart) > 0}, {"restarts wait, since", p.Rollout.Waiting, p.Rollout.Waiting != ""}} {
		if n.some {
			fmt.Fprintf(&b, "%s: %v\n", n.what, n.is)
		}
	}
	was := map[string]string{}
	for _, s := range in.StatefulSets {
		was[s.Name] = fmt.Sprint(s.Spec.Template.Annotations)
	}
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok && was[s.Name] != "" && was[s.Name] != fmt.Sprint(s.Spec.Template.Annotations) {
			t.Errorf("the pods of %s would restart", s.Name)
		}
	}
	return b.String()
}

func shardsOf(dc topology.FileDataCenter) string {
	if dc.ShardsBefore == nil {
		return fmt.Sprintf("%d shards", *dc.Shards)
	}
	return fmt.Sprintf("%d shards, before %d", *dc.Shards, *dc.ShardsBefore)
}

func coordinatorsOf(dc topology.FileDataCenter) string {
	said := fmt.Sprintf("%d coordinators", *dc.Coordinators)
	if dc.CoordinatorsBefore != nil {
		said += fmt.Sprintf(", before %d", *dc.CoordinatorsBefore)
	}
	if dc.ShardsBefore != nil {
		said += ", " + shardsOf(dc)
	}
	return said
}

func budget(b *policyv1.PodDisruptionBudget) string {
	if b.Spec.MinAvailable != nil {
		return fmt.Sprintf("%s at least", b.Spec.MinAvailable)
	}
	return fmt.Sprintf("%s away at most", b.Spec.MaxUnavailable)
}
