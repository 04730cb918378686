package plan_test

import (
	"errors"
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
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// TestCountsChangeOneAfterTheOther plays whole changes of the numbers of shards and coordinators. The commands:
//
//	shards DC=N...                          sets the numbers of shards in the spec
//	coordinators DC=N...                    sets the numbers of coordinators in the spec
//	policy Delete                           sets the deletion policy in the spec
//	report pod=P [epoch=E] [shards=STATE] [membership=M] [in-use=(INDEX,...)] [reason=TEXT] [before=RING] [error=TEXT] [problem=TEXT]
//	                                        sets the report of a part; all=STATE sets that of all middlemen
//	pod P REVISION [unready]                sets the revision of a pod, and whether it is ready
//	delete-claims                           completes the deletion of claims
//	log P N                                 sets how many writes of a coordinator are not in every ring
//	plan                                    plans, carries the plan out, and shows the result
func TestCountsChangeOneAfterTheOther(t *testing.T) {
	for _, folder := range []string{"shards", "coordinators"} {
		datadriven.Walk(t, "testdata/"+folder, func(t *testing.T, file string) {
			in := observed(t, "regions.yaml", "us-east")
			in = executed(in, planned(t, in))
			runPods(&in)
			in = executed(in, planned(t, in)) // now all are seen to serve
			runPods(&in)
			in.Reports = map[string]plan.Report{}
			for i := range 3 {
				in.Claims = append(in.Claims, claim(fmt.Sprintf("data-orders-us-east-1-shard-%d-0", i), "10Gi"),
					claim(fmt.Sprintf("data-orders-us-east-1-cc-%d", i), "5Gi"))
			}
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd != "plan" {
					runCommand(t, &in, d)
					return ""
				}
				p := planned(t, in)
				shown := show(t, in, p, folder == "coordinators")
				in = executed(in, p)
				runPods(&in)
				for i := range in.Claims {
					if slices.Contains(p.DeleteClaims, in.Claims[i].Name) {
						in.Claims[i].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
					}
				}
				return shown
			})
		})
	}
}

// runCommand runs a command other than plan.
func runCommand(t *testing.T, in *plan.Observed, d *datadriven.TestData) {
	switch d.Cmd {
	case "shards", "coordinators":
		for _, a := range d.CmdArgs {
			i := slices.IndexFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool {
				return dc.Name == a.Key
			})
			dc := &in.Store.Spec.DataCenters[i]
			n := map[string]*int32{"shards": &dc.Shards, "coordinators": &dc.Coordinators.Replicas}[d.Cmd]
			if _, err := fmt.Sscan(a.Vals[0], n); err != nil {
				d.Fatalf(t, "%s: %v", a.Key, err)
			}
		}
	case "policy":
		in.Store.Spec.DeletionPolicy = v1alpha1.DeletionPolicy(d.CmdArgs[0].Key)
	case "report":
		setReport(t, in, d)
	case "pod":
		setPod(in, d.CmdArgs[0].Key, d.CmdArgs[1].Key, !d.HasArg("unready"))
	case "delete-claims":
		in.Claims = slices.DeleteFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool {
			return c.DeletionTimestamp != nil
		})
	case "log":
		var n int64
		if _, err := fmt.Sscan(d.CmdArgs[1].Key, &n); err != nil {
			d.Fatalf(t, "%v", err)
		}
		setMeasure(in, d.CmdArgs[0].Key, plan.Measure{Incomplete: n}, time.Second)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

func setReport(t *testing.T, in *plan.Observed, d *datadriven.TestData) {
	var pod, shards, membership, failure string
	r := plan.Report{Readiness: contract.Readiness{Epoch: uint64(in.Record.Epoch)}}
	d.MaybeScanArgs(t, "pod", &pod)
	var epoch int64
	if d.MaybeScanArgs(t, "epoch", &epoch) {
		r.Epoch = uint64(epoch)
	}
	d.MaybeScanArgs(t, "shards", &shards)
	d.MaybeScanArgs(t, "membership", &membership)
	d.MaybeScanArgs(t, "in-use", &r.CoordinatorsInUse)
	d.MaybeScanArgs(t, "reason", &r.Reason)
	d.MaybeScanArgs(t, "problem", &r.ConfigProblem)
	if d.MaybeScanArgs(t, "error", &failure) {
		r.Err = errors.New(failure)
	}
	if d.HasArg("before") {
		r.RingsBefore = []string{""}
		d.ScanArgs(t, "before", &r.RingsBefore[0])
	}
	r.Shards, r.Membership = contract.ReshardingState(shards), contract.Membership(membership)
	if pod != "" {
		in.Reports[pod] = r
		return
	}
	d.ScanArgs(t, "all", &shards)
	r.Shards = contract.ReshardingState(shards)
	for _, p := range in.Pods {
		if p.Labels[plan.LabelComponent] == plan.ComponentShard {
			in.Reports[p.Name] = r
		}
	}
}

// show describes a plan: the configuration of the parts, the numbers of shards or coordinators, and what happens to
// pods.
func show(t *testing.T, in plan.Observed, p plan.Plan, coordinators bool) string {
	var b strings.Builder
	c, err := contract.ParseConfig([]byte(named[*corev1.ConfigMap](t, p, "orders-us-east-1").Data["causalstore.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Topology.Topology(); err != nil {
		t.Errorf("the parts would refuse it: %v", err)
	}
	fmt.Fprintf(&b, "epoch %d\n", p.Record.Epoch)
	for _, dc := range c.Topology.DataCenters {
		if coordinators {
			fmt.Fprintf(&b, "%s: %s, %d addresses\n", dc.Name, coordinatorsOf(dc),
				len(c.Addresses[dc.Name].Coordinators))
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
		fmt.Fprintf(&b, "local replicas: %d; served: %d; budget: %s\n",
			*named[*appsv1.StatefulSet](t, p, "orders-us-east-1-cc").Spec.Replicas,
			p.Record.Served["us-east-1"],
			budget(named[*policyv1.PodDisruptionBudget](t, p, "orders-us-east-1-coordinator")))
	} else {
		fmt.Fprintf(&b, "local shards: %s\n", strings.Join(sets, " "))
	}
	if p.Scaling.Pending() != (p.Scaling.String() != "") || p.Resharding.Pending() != (p.Resharding.String() != "") {
		t.Errorf("scaling %+v or resharding %+v is pending without a description, or the other way round", p.Scaling,
			p.Resharding)
	}
	for _, line := range []struct {
		name  string
		value any
		shown bool
	}{
		{"scaling", p.Scaling, p.Scaling.Pending()},
		{"shards", p.Resharding, p.Resharding.Pending()},
		{"denied", reasons(p), len(reasons(p)) > 0},
		{"notifies", p.Notify, len(p.Notify) > 0},
		{"deletes", p.DeleteClaims, len(p.DeleteClaims) > 0},
		{"restarts", p.Restart, len(p.Restart) > 0},
		{"restarts wait", p.Rollout.Next.Message, p.Rollout.Next.Denied()},
	} {
		if line.shown {
			fmt.Fprintf(&b, "%s: %v\n", line.name, line.value)
		}
	}
	was := map[string]string{}
	for _, s := range in.StatefulSets {
		was[s.Name] = fmt.Sprint(s.Spec.Template.Annotations)
	}
	for _, o := range p.Apply {
		if s, ok := o.(*appsv1.StatefulSet); ok && was[s.Name] != "" &&
			was[s.Name] != fmt.Sprint(s.Spec.Template.Annotations) {
			t.Errorf("the pods of %s would restart", s.Name)
		}
	}
	return b.String()
}

// reasons are why a plan does not go on with a change.
func reasons(p plan.Plan) (all []plan.Reason) {
	for _, d := range slices.Concat(p.Scaling.Blockers, p.Scaling.Joining, []plan.Decision{p.Scaling.Start},
		p.Resharding.Blockers,
		[]plan.Decision{p.Resharding.Start}) {
		if d.Denied() {
			all = append(all, d.Reason)
		}
	}
	return all
}

func shardsOf(dc topology.FileDataCenter) string {
	if dc.ShardsBefore == nil {
		return fmt.Sprintf("%d shards", *dc.Shards)
	}
	return fmt.Sprintf("%d shards, before %d", *dc.Shards, *dc.ShardsBefore)
}

func coordinatorsOf(dc topology.FileDataCenter) string {
	text := fmt.Sprintf("%d coordinators", *dc.Coordinators)
	if dc.CoordinatorsBefore != nil {
		text += fmt.Sprintf(", before %d", *dc.CoordinatorsBefore)
	}
	if dc.ShardsBefore != nil {
		text += ", " + shardsOf(dc)
	}
	return text
}

func budget(b *policyv1.PodDisruptionBudget) string {
	if b.Spec.MinAvailable != nil {
		return fmt.Sprintf("at least %s available", b.Spec.MinAvailable)
	}
	return fmt.Sprintf("at most %s unavailable", b.Spec.MaxUnavailable)
}
