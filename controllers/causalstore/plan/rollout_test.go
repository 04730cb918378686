package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// outdatedStore returns a store whose pods are all ready, and all have an old revision.
func outdatedStore(t *testing.T) *plan.Observed {
	t.Helper()
	in := observed(t, "regions.yaml", "us-east")
	in = executed(in, planned(t, in))
	in.ZoneOf = map[string]string{"node-a": "a", "node-b": "b", "node-c": "c"}
	runPods(&in)
	for i := range in.Pods {
		setPod(&in, in.Pods[i].Name, "old", true)
	}
	return &in
}

// runPods gives each StatefulSet its pods and removes all others. New pods are up to date and ready.
func runPods(in *plan.Observed) {
	before := in.Pods
	in.Pods = nil
	for i := range in.StatefulSets {
		s := &in.StatefulSets[i]
		s.Generation, s.Status.ObservedGeneration, s.Status.UpdateRevision = 2, 2, "new"
		for n := range *s.Spec.Replicas {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", s.Name, n), UID: types.UID(s.Name),
				Labels: map[string]string{}}}
			if i := slices.IndexFunc(before, func(b corev1.Pod) bool { return b.Name == p.Name }); i >= 0 {
				in.Pods = append(in.Pods, before[i])
				continue
			}
			for k, v := range s.Spec.Template.Labels {
				p.Labels[k] = v
			}
			p.Labels[appsv1.PodIndexLabel] = fmt.Sprint(n)
			p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s,
				appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
			p.Spec.NodeName = map[string]string{"orders-us-east-1-shard-0": "node-c",
				"orders-us-east-1-shard-1": "node-b"}[s.Name]
			if p.Spec.NodeName == "" {
				p.Spec.NodeName = "node-a"
			}
			in.Pods = append(in.Pods, p)
			setPod(in, p.Name, "new", true)
		}
	}
}

// setPod sets the revision of a pod, and whether it is ready.
func setPod(in *plan.Observed, name, revision string, ready bool) {
	for i := range in.Pods {
		p := &in.Pods[i]
		if p.Name != name {
			continue
		}
		p.Labels[appsv1.StatefulSetRevisionLabel] = revision
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		if ready {
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}
	}
}

// nextRestart returns the pod that restarts, or what it waits for.
func nextRestart(t *testing.T, in *plan.Observed) string {
	t.Helper()
	p := planned(t, *in)
	switch len(p.Restart) {
	case 0:
		return p.Rollout.Next.Message
	case 1:
		return p.Restart[0].Pod
	}
	t.Fatalf("%d pods would restart at once", len(p.Restart))
	return ""
}

func TestARolloutRestartsZoneByZoneShardsBeforeFront(t *testing.T) {
	zoned, single := outdatedStore(t), outdatedStore(t)
	single.Store.Spec.Placement = v1alpha1.PlacementSingleZone
	for want, in := range map[string]*plan.Observed{
		// zone b, zone c, front
		"orders-us-east-1-shard-1-0 orders-us-east-1-shard-0-0 orders-us-east-1-cc-0 orders-us-east-1-cc-1": zoned,
		"orders-us-east-1-shard-0-0 orders-us-east-1-shard-1-0 orders-us-east-1-cc-0 orders-us-east-1-cc-1": single,
	} {
		if got := restartAll(t, in); got != want {
			t.Errorf("restarted %s\nwant      %s", got, want)
		}
	}
}

// restartAll restarts the pods of a store as planned, and returns their names in order.
func restartAll(t *testing.T, in *plan.Observed) string {
	t.Helper()
	var order []string
	for {
		name := nextRestart(t, in)
		if name == "" {
			return strings.Join(order, " ")
		}
		order = append(order, name)
		setPod(in, name, "new", false)
		if got, want := nextRestart(t, in), fmt.Sprintf("pod %s is not ready", name); got != want &&
			len(order) < len(in.Pods) {
			t.Fatalf("while %s restarts: %q, want %q", name, got, want)
		}
		setPod(in, name, "new", true)
	}
}

func TestAnUnreadyPodRestartsFirst(t *testing.T) {
	in := outdatedStore(t)
	setPod(in, "orders-us-east-1-cc-1", "old", false)
	if got := nextRestart(t, in); got != "orders-us-east-1-cc-1" {
		t.Errorf("next is %q, want the pod that is not ready", got)
	}
}

func TestNothingRestartsWhileAPodIsMissingOrTerminating(t *testing.T) {
	in := outdatedStore(t)
	now := metav1.Now()
	in.Pods[0].DeletionTimestamp = &now
	if got := nextRestart(t, in); got != "a pod is terminating" {
		t.Errorf("while a pod terminates: %q", got)
	}
	// what terminates may be another member of the same group, or the only one of a shard
	setPod(in, "orders-us-east-1-cc-1", "old", false)
	if got := nextRestart(t, in); got != "a pod is terminating" {
		t.Errorf("a pod that is not ready, while another one terminates: %q", got)
	}
	in = outdatedStore(t)
	in.Pods = in.Pods[1:]
	if got := nextRestart(t, in); !strings.Contains(got, "has 1 of 2 pods") {
		t.Errorf("while a pod is missing: %q", got)
	}
}

func TestNothingRestartsBeforeKubernetesHasObservedTheChange(t *testing.T) {
	in := outdatedStore(t)
	in.StatefulSets[1].Generation++
	if got := nextRestart(t, in); !strings.Contains(got, "has not observed its last change yet") {
		t.Errorf("next is %q", got)
	}
}

// setMeasure sets the measure of a coordinator, and how long its log has not been seen drained.
func setMeasure(in *plan.Observed, coordinator string, m plan.Measure, undrained time.Duration) {
	if in.Measured == nil {
		in.Measured, in.UndrainedSince = map[string]plan.Measure{}, map[string]time.Time{}
	}
	in.Now = time.Unix(1_000_000, 0)
	in.Measured[coordinator] = m
	delete(in.UndrainedSince, coordinator)
	if !m.Drained() {
		in.UndrainedSince[coordinator] = in.Now.Add(-undrained)
	}
}

func TestARestartWaitsForTheLogsOfAllCoordinators(t *testing.T) {
	const one, two = "orders-us-east-1-cc-0", "orders-us-east-1-cc-1"
	in := outdatedStore(t)
	setMeasure(in, one, plan.Measure{}, 0)
	setMeasure(in, two, plan.Measure{Published: true, Incomplete: 7, StabilityLag: time.Minute,
		RingLag: map[string]time.Duration{"near": 0, "far": time.Minute}}, time.Second)
	if got, want := nextRestart(t, in), two+" has 7 writes that are not in every ring (far)"; got != want {
		t.Errorf("next is %q, want %q", got, want)
	}
	setMeasure(in, two, plan.Measure{Published: true, Incomplete: 7, StabilityLag: time.Second}, 0)
	if got := nextRestart(t, in); got != "orders-us-east-1-shard-1-0" {
		t.Errorf("next is %q, although the incomplete writes are only in flight", got)
	}
	setMeasure(in, two, plan.Measure{Incomplete: 1}, 0) // it has just started, and replays its log
	if got := nextRestart(t, in); !strings.Contains(got, two) || !strings.Contains(got, "1 writes") {
		t.Errorf("next is %q, although a log is being replayed", got)
	}
	delete(in.Measured, two)
	if got, want := nextRestart(t, in), two+" has not reported how many writes are not in every ring"; got != want {
		t.Errorf("next is %q, want %q", got, want)
	}
}

func TestARestartWaitsForALogForALimitedTime(t *testing.T) {
	const two = "orders-us-east-1-cc-1"
	in := outdatedStore(t)
	stuck := plan.Measure{Published: true, Incomplete: 7, StabilityLag: time.Hour,
		RingLag: map[string]time.Duration{"far": time.Hour}}
	setMeasure(in, two, stuck, time.Hour)
	p := planned(t, *in)
	if len(p.Restart) != 1 || p.Restart[0].Pod != "orders-us-east-1-shard-1-0" {
		t.Errorf("restarted %v, waiting for %q", p.Restart, p.Rollout.Next.Message)
	}
	if d := cmp.Diff([]string{two + " has 7 writes that are not in every ring (far)"}, p.Rollout.LateLogs); d != "" {
		t.Errorf("logs that are late (-want +got):\n%s", d)
	}
	// The log of another coordinator is still waited for.
	setMeasure(in, "orders-us-east-1-cc-0", stuck, time.Second)
	if got := nextRestart(t, in); !strings.Contains(got, "orders-us-east-1-cc-0 has 7 writes") {
		t.Errorf("next is %q", got)
	}
}

func TestAnUnreadyPodRestartsWhateverTheLogs(t *testing.T) {
	in := outdatedStore(t)
	setMeasure(in, "orders-us-east-1-cc-0", plan.Measure{Incomplete: 1}, time.Second)
	setPod(in, "orders-us-east-1-cc-1", "old", false)
	if got := nextRestart(t, in); got != "orders-us-east-1-cc-1" {
		t.Errorf("next is %q, want the pod that is not ready", got)
	}
}
