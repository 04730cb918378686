package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/sidecar/process"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// TestShardsChangeOneAfterTheOther plays whole changes. The commands:
//
//	spec DC=N...                            the spec asks for so many shards
//	policy Delete                           the spec asks for another deletion policy
//	say pod=P [epoch=E] [state=S] [before=RING] [failed=WHY] [problem=WHY]   what a part answers; all=... of all middlemen
//	pod P revision [unready]                a pod is of a revision, and serves or not
//	plan                                    plans, carries it out, and shows what has come of it
func TestShardsChangeOneAfterTheOther(t *testing.T) {
	datadriven.Walk(t, "testdata/shards", func(t *testing.T, file string) {
		in := observed(t, "regions.yaml", "us-east")
		in = carriedOut(in, planned(t, in))
		run(&in)
		in.Moves = map[string]plan.Move{}
		for i := range 3 {
			in.Claims = append(in.Claims, claim(fmt.Sprintf("data-orders-us-east-1-shard-%d-0", i), "10Gi"))
		}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "spec":
				for _, a := range d.CmdArgs {
					i := slices.IndexFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Name == a.Key })
					fmt.Sscan(a.Vals[0], &in.Store.Spec.DataCenters[i].Shards)
				}
			case "policy":
				in.Store.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(d.CmdArgs[0].Key)
			case "say":
				say(t, &in, d)
			case "pod":
				become(&in, d.CmdArgs[0].Key, d.CmdArgs[1].Key, len(d.CmdArgs) < 3)
			case "plan":
				p := planned(t, in)
				shown := show(t, in, p)
				in = carriedOut(in, p)
				run(&in)
				return shown
			default:
				d.Fatalf(t, "there is no command %s", d.Cmd)
			}
			return ""
		})
	})
}

func say(t *testing.T, in *plan.Observed, d *datadriven.TestData) {
	var pod string
	m := plan.Move{Epoch: in.Record.Epoch}
	d.MaybeScanArgs(t, "pod", &pod)
	d.MaybeScanArgs(t, "epoch", &m.Epoch)
	d.MaybeScanArgs(t, "state", &m.State)
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

// show tells what a plan is about: what the parts are told, which StatefulSets of shards there are, and what is done to pods.
func show(t *testing.T, in plan.Observed, p plan.Plan) string {
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
		fmt.Fprintf(&b, "%s: %s, %d addresses\n", dc.Name, shardsOf(dc), len(c.Addresses[dc.Name].Middlemen))
	}
	var sets []string
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok && s.Labels[plan.LabelComponent] == plan.ComponentShard {
			sets = append(sets, s.Labels[plan.LabelShard])
		}
	}
	fmt.Fprintf(&b, "StatefulSets of shards here: %s\n", strings.Join(sets, " "))
	for _, n := range []struct {
		what string
		is   any
		some bool
	}{{"says", p.Reshape, p.Reshape.String() != ""}, {"tells", p.Tell, len(p.Tell) > 0}, {"drops", p.Drop, len(p.Drop) > 0},
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
