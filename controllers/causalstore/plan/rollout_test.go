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

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// rollout is a store whose pods all serve, and are all of an old revision.
func rollout(t *testing.T) *plan.Observed {
	t.Helper()
	in := observed(t, "regions.yaml", "us-east")
	in = carriedOut(in, planned(t, in))
	in.ZoneOf = map[string]string{"node-a": "a", "node-b": "b", "node-c": "c"}
	run(&in)
	for i := range in.Pods {
		become(&in, in.Pods[i].Name, "old", true)
	}
	return &in
}

// run gives each StatefulSet its pods; new ones are up to date, and serve. Others go.
func run(in *plan.Observed) {
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
			p.Spec.NodeName = map[string]string{"orders-us-east-1-shard-0": "node-c", "orders-us-east-1-shard-1": "node-b"}[s.Name]
			if p.Spec.NodeName == "" {
				p.Spec.NodeName = "node-a"
			}
			in.Pods = append(in.Pods, p)
			become(in, p.Name, "new", true)
		}
	}
}

// become gives a pod a revision, and says whether it serves.
func become(in *plan.Observed, name, revision string, ready bool) {
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

// next says which pod is restarted, or what is waited for.
func next(t *testing.T, in *plan.Observed) string {
	t.Helper()
	p := planned(t, *in)
	switch len(p.Restart) {
	case 0:
		return p.Rollout.Waiting
	case 1:
		return p.Restart[0].Pod
	}
	t.Fatalf("%d pods would restart at once", len(p.Restart))
	return ""
}

func TestAChangeGoesThroughTheBackZonesOneByOneAndThenTheFront(t *testing.T) {
	in := rollout(t)
	var order []string
	for {
		name := next(t, in)
		if name == "" {
			break
		}
		order = append(order, name)
		become(in, name, "new", false)
		if got, want := next(t, in), fmt.Sprintf("pod %s is not ready", name); got != want && len(order) < len(in.Pods) {
			t.Fatalf("while %s comes back: %q, want %q", name, got, want)
		}
		become(in, name, "new", true)
	}
	want := "orders-us-east-1-shard-1-0 orders-us-east-1-shard-0-0 orders-us-east-1-cc-0 orders-us-east-1-cc-1"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("restarted %s\nwant      %s (zone b, zone c, front)", got, want)
	}
}

func TestAPodThatDoesNotServeAnywayIsReplacedFirst(t *testing.T) {
	in := rollout(t)
	become(in, "orders-us-east-1-cc-1", "old", false)
	if got := next(t, in); got != "orders-us-east-1-cc-1" {
		t.Errorf("next is %q, want the one that does not serve", got)
	}
}

func TestNothingRestartsWhileAPodIsMissingOrEnding(t *testing.T) {
	in := rollout(t)
	now := metav1.Now()
	in.Pods[0].DeletionTimestamp = &now
	if got := next(t, in); got != "a pod is ending" {
		t.Errorf("while a pod ends: %q", got)
	}
	in = rollout(t)
	in.Pods = in.Pods[1:]
	if got := next(t, in); !strings.Contains(got, "has 1 of 2 pods") {
		t.Errorf("while a pod is missing: %q", got)
	}
}

func TestNothingRestartsBeforeKubernetesHasSeenTheChange(t *testing.T) {
	in := rollout(t)
	in.StatefulSets[1].Generation++
	if got := next(t, in); !strings.Contains(got, "has not been looked at yet") {
		t.Errorf("next is %q", got)
	}
}

// measured lets a coordinator say how far its log is, and the operator have seen it undrained for some time.
func measured(in *plan.Observed, coordinator string, m plan.Measure, undrained time.Duration) {
	if in.Measured == nil {
		in.Measured, in.Undrained = map[string]plan.Measure{}, map[string]time.Time{}
	}
	in.Now = time.Unix(1_000_000, 0)
	in.Measured[coordinator] = m
	delete(in.Undrained, coordinator)
	if !m.Drained() {
		in.Undrained[coordinator] = in.Now.Add(-undrained)
	}
}

func TestARestartWaitsForTheLogsOfAllCoordinators(t *testing.T) {
	const one, two = "orders-us-east-1-cc-0", "orders-us-east-1-cc-1"
	in := rollout(t)
	measured(in, one, plan.Measure{}, 0)
	measured(in, two, plan.Measure{Published: true, Incomplete: 7, StabilityLag: time.Minute,
		RingLag: map[string]time.Duration{"near": 0, "far": time.Minute}}, time.Second)
	if got, want := next(t, in), two+" has 7 writes that are not in every ring (far)"; got != want {
		t.Errorf("next is %q, want %q", got, want)
	}
	measured(in, two, plan.Measure{Published: true, Incomplete: 7, StabilityLag: time.Second}, 0)
	if got := next(t, in); got != "orders-us-east-1-shard-1-0" {
		t.Errorf("next is %q, although what is incomplete is only on its way", got)
	}
	measured(in, two, plan.Measure{Incomplete: 1}, 0) // it has just started, and has a log to bring to the rings
	if got := next(t, in); !strings.Contains(got, two) || !strings.Contains(got, "1 writes") {
		t.Errorf("next is %q, although a log is being brought to the rings", got)
	}
	delete(in.Measured, two)
	if got, want := next(t, in), two+" has not said how far its log is"; got != want {
		t.Errorf("next is %q, want %q", got, want)
	}
}

func TestALogThatDoesNotDrainIsWaitedForOnlySoLong(t *testing.T) {
	const two = "orders-us-east-1-cc-1"
	in := rollout(t)
	stuck := plan.Measure{Published: true, Incomplete: 7, StabilityLag: time.Hour, RingLag: map[string]time.Duration{"far": time.Hour}}
	measured(in, two, stuck, time.Hour)
	p := planned(t, *in)
	if len(p.Restart) != 1 || p.Restart[0].Pod != "orders-us-east-1-shard-1-0" {
		t.Errorf("restarted %v, waiting for %q", p.Restart, p.Rollout.Waiting)
	}
	if d := cmp.Diff([]string{two + " has 7 writes that are not in every ring (far)"}, p.Rollout.Late); d != "" {
		t.Errorf("logs that are late (-want +got):\n%s", d)
	}
	// Another one is still waited for.
	measured(in, "orders-us-east-1-cc-0", stuck, time.Second)
	if got := next(t, in); !strings.Contains(got, "orders-us-east-1-cc-0 has 7 writes") {
		t.Errorf("next is %q", got)
	}
}

func TestAPodThatDoesNotServeIsReplacedWhateverTheLogs(t *testing.T) {
	in := rollout(t)
	measured(in, "orders-us-east-1-cc-0", plan.Measure{Incomplete: 1}, time.Second)
	become(in, "orders-us-east-1-cc-1", "old", false)
	if got := next(t, in); got != "orders-us-east-1-cc-1" {
		t.Errorf("next is %q, want the one that does not serve", got)
	}
}
