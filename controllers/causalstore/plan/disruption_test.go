package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// budgets returns the budgets of a plan.
func budgets(p plan.Plan) (all []*policyv1.PodDisruptionBudget) {
	for _, o := range p.Apply {
		if b, ok := o.(*policyv1.PodDisruptionBudget); ok {
			all = append(all, b)
		}
	}
	return all
}

// evict evicts a pod as the API server decides it with the numbers of Kubernetes' disruption controller, and says why
// not.
func evict(t *testing.T, in *plan.Observed, p plan.Plan, name string) error {
	t.Helper()
	i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no pod %s", name)
	}
	pod, matching := &in.Pods[i], 0
	for _, b := range budgets(p) {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		matching++
		healthy := 0
		for j := range in.Pods {
			if q := &in.Pods[j]; selector.Matches(labels.Set(q.Labels)) && plan.Ready(q) && q.DeletionTimestamp == nil {
				healthy++
			}
		}
		least := b.Spec.MinAvailable.IntValue()
		switch {
		case !plan.Ready(pod) && *b.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow:
		case !plan.Ready(pod) && healthy >= least:
		case healthy-1 < least:
			return fmt.Errorf("budget %s wants %d, and there are %d", b.Name, least, healthy)
		}
	}
	if matching != 1 {
		t.Fatalf("%d budgets have pod %s; Kubernetes evicts no pod with several, and without one nothing protects it",
			matching, name)
	}
	setPod(in, name, "new", false) // its StatefulSet makes it again, and it waits
	return nil
}

// whole is a store whose coordinators and shards have two members each, all of which serve. The first members of all
// are on node-a and node-b.
func whole(t *testing.T) *plan.Observed {
	t.Helper()
	in := withEtcd(t)
	in.Store.Spec.Storage.Replicas = 2
	dc := &in.Store.Spec.DataCenters[0]
	dc.Coordinators.Members, dc.Coordinators.Replicas, dc.Shards = 2, 2, 2
	for range 6 {
		in = executed(in, planned(t, in))
		runPods(&in)
	}
	return &in
}

// TestANodeWithAMemberOfEachGroupIsDrainedAtOnceAndNoGroupLosesItsLastOne: with one budget for all shards of a data
// center, the second eviction waited for the pod of the first, which a volume on the drained node kept from starting
// anywhere.
func TestANodeWithAMemberOfEachGroupIsDrainedAtOnceAndNoGroupLosesItsLastOne(t *testing.T) {
	in := whole(t)
	p := planned(t, *in)
	var first, second []string
	for i := range in.Pods {
		switch q := &in.Pods[i]; {
		case q.Labels[plan.LabelComponent] != plan.ComponentCoordinator &&
			q.Labels[plan.LabelComponent] != plan.ComponentShard:
		case plan.Member(q) == 1:
			first = append(first, q.Name)
		default:
			second = append(second, q.Name)
		}
	}
	if len(first) != 4 || len(second) != 4 {
		t.Fatalf("%v and %v, want two coordinators and two shards of two members each", first, second)
	}
	for _, name := range first {
		if err := evict(t, in, p, name); err != nil {
			t.Errorf("the drain of the node with the first members hangs at %s: %v", name, err)
		}
	}
	for _, name := range second {
		if err := evict(t, in, p, name); err == nil {
			t.Errorf("%s is evicted, the last member of its group", name)
		}
	}
}

func TestPartsWithOneMemberGoOneAfterTheOther(t *testing.T) {
	in := outdatedStore(t)
	p := planned(t, *in)
	if err := evict(t, in, p, "orders-us-east-1-shard-0-0"); err != nil {
		t.Error(err)
	}
	if evict(t, in, p, "orders-us-east-1-shard-1-0") == nil {
		t.Error("both shards of a data center may be away at once")
	}
	if err := evict(t, in, p, "orders-us-east-1-shard-0-0"); err != nil {
		t.Errorf("a pod that does not serve keeps its node from being drained: %v", err)
	}
}

// deleteClaim gives the store the claim of a pod, deleted.
func deleteClaim(in *plan.Observed, pod string) {
	i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool { return p.Name == pod })
	at := metav1.NewTime(time.Unix(1000, 0))
	in.Claims = append(in.Claims,
		corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-" + pod, Labels: in.Pods[i].Labels,
			DeletionTimestamp: &at}})
}

// TestNothingTakesAPodWhoseClaimIsBeingDeleted: Kubernetes deletes the volume with the pod.
func TestNothingTakesAPodWhoseClaimIsBeingDeleted(t *testing.T) {
	for name, in := range map[string]*plan.Observed{"one member": outdatedStore(t), "two members": whole(t)} {
		t.Run(name, func(t *testing.T) {
			pod := in.Store.Name + "-" + in.Store.Spec.DataCenters[0].Name + "-shard-0-0"
			for i := range in.Pods {
				setPod(in, in.Pods[i].Name, "new", true)
			}
			setPod(in, pod, "old", true)
			deleteClaim(in, pod)
			p := planned(t, *in)
			if len(p.Restart) > 0 || p.Rollout.Next.Reason != plan.ReasonClaimTerminating ||
				!strings.Contains(p.Rollout.Next.Message, "data-"+pod) {
				t.Errorf("restarts %v: %+v", p.Restart, p.Rollout.Next)
			}
			if evict(t, in, p, pod) == nil {
				t.Error("it is evicted")
			}
			setPod(in, pod, "old", false)
			if p = planned(t, *in); len(p.Restart) > 0 {
				t.Errorf("restarts %v, which does not serve, but has the volume", p.Restart)
			}
			if evict(t, in, p, pod) == nil {
				t.Error("it is evicted while it does not serve")
			}
		})
	}
}

// TestOnlyClaimsOfPartsThatStayCount: those of parts that have left are deleted by the operator.
func TestOnlyClaimsOfPartsThatStayCount(t *testing.T) {
	in := outdatedStore(t)
	ending := func() int { return len(plan.EndingClaims(*in)) }
	if ending() != 0 {
		t.Fatal("there is one already")
	}
	deleteClaim(in, "orders-us-east-1-shard-1-0")
	in.Claims = append(in.Claims,
		corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-other",
			DeletionTimestamp: in.Claims[len(in.Claims)-1].DeletionTimestamp}})
	if ending() != 1 {
		t.Errorf("%+v", plan.EndingClaims(*in))
	}
	in.Store.Spec.DataCenters[0].Shards = 1 // it leaves, and still has slots
	if ending() != 1 {
		t.Error("that of a shard that leaves does not count")
	}
	in.Record.Layout = strings.Replace(in.Record.Layout, `"shards":2`, `"shards":1`, 1)
	if ending() != 0 {
		t.Error("that of a shard that has left counts")
	}
}
