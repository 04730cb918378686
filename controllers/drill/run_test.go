package drill

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/drill/record"
	"github.com/causalstore/causalstore/lab/local"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/session"
)

func TestADrillCutsOffABackZoneHealsAndKeepsItsReport(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	b.inject = func(ctx context.Context, o *unstructured.Unstructured) error {
		named, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", b.store.Namespace)
		if got := strings.Join(named, " "); got != "orders-virginia-shard-0-0 orders-virginia-shard-1-0" {
			t.Errorf("the experiment hits %s", got)
		}
		return b.deployment.Inject(ctx, local.Fault{Kind: "pause", DC: "virginia", Part: "middleman"})
	}
	b.recover = func(ctx context.Context, _ *unstructured.Unstructured) error {
		return b.deployment.Inject(ctx, local.Fault{Kind: "resume", DC: "virginia", Part: "middleman"})
	}
	b.playChaosMesh(KindNetwork)
	r, out, err := b.runDrill("az-b-cut", Choice{}, shortly())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Clients see", "No acknowledged write", "After the end of the faults",
		"Everything heals"} {
		if p := promise(r, text); p.Result != record.Held {
			t.Errorf("%s: %s: %s", text, p.Result, p.Observed)
		}
	}
	for _, dc := range []string{"virginia", "oregon", "paris"} {
		if m := r.Find(record.Injection, dc, record.Front); m == nil || m.Operations == 0 ||
			m.Hit != (dc == "virginia") {
			t.Errorf("%s during the injection: %+v", dc, m)
		}
	}
	if m := r.Find(record.Injection, "paris", record.Front); m.LongestIncomplete < 1000 {
		t.Errorf(
			"writes were complete while a shard did not answer: longest time without %g ms; was the fault injected?",
			m.LongestIncomplete)
	}
	if !strings.Contains(out, "Hits: AZ-B of virginia (2 pods: 2 shard)") {
		t.Errorf("the blast radius is not shown:\n%s", out)
	}
	s := &v1alpha1.CausalStore{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(b.store), s); err != nil {
		t.Fatal(err)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionDrillPassed); c == nil ||
		!strings.Contains(c.Message, r.ID) || (c.Status == "True") != (r.Outcome == record.Passed) {
		t.Errorf("the run has %s, and the condition is %+v", r.Outcome, c)
	}
	var events eventsv1.EventList
	if err := b.client.List(t.Context(), &events, client.InNamespace(b.store.Namespace)); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, e := range events.Items {
		if e.Regarding.Kind == "CausalStore" && e.Regarding.UID == s.UID && strings.Contains(e.Note, r.ID) {
			told[e.Reason] = e.Type
		}
	}
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionDrillPassed)
	want := map[string]string{reasonDrillStarted: corev1.EventTypeNormal,
		c.Reason: map[bool]string{true: corev1.EventTypeNormal,
			false: corev1.EventTypeWarning}[r.Outcome == record.Passed]}
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("events of the store by reason (-want +got):\n%s", d)
	}
	kept := &corev1.ConfigMap{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Namespace: b.store.Namespace,
		Name: record.Name("orders", r.ID)}, kept); err != nil {
		t.Fatal(err)
	}
	if again, err := record.Read(kept); err != nil || again.Outcome != r.Outcome || len(again.Series) != 3 {
		t.Errorf("kept: %+v (%v)", again, err)
	}
	err = b.client.Get(t.Context(), client.ObjectKey{Namespace: b.store.Namespace, Name: record.LockName("orders")},
		kept)
	if !apierrors.IsNotFound(err) {
		t.Errorf("the lock is still there (%v)", err)
	}
}

func TestTheLockOfARunIsRenewedAndTheRunEndsIfAnotherHasIt(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x := &Runner{Client: b.client, run: &record.Run{ID: "one", Drill: "az-b", Store: b.store.Name,
		Namespace: b.store.Namespace}}
	if err := x.lock(ctx); err != nil {
		t.Fatal(err)
	}
	second := &Runner{Client: b.client, run: &record.Run{ID: "two", Drill: "az-b", Store: b.store.Name,
		Namespace: b.store.Namespace}}
	if err := second.lock(ctx); err == nil || !strings.Contains(err.Error(), "run one is under way") {
		t.Errorf("a second run: %v", err)
	}
	lock := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: b.store.Namespace, Name: record.LockName(b.store.Name)}
	read := func() *corev1.ConfigMap {
		t.Helper()
		if err := b.client.Get(ctx, key, lock); err != nil {
			t.Fatal(err)
		}
		return lock
	}
	read().Annotations[record.AnnotationExpires] = now().Add(-time.Minute).Format(time.RFC3339)
	if err := b.client.Update(ctx, lock); err != nil {
		t.Fatal(err)
	}
	go x.renewLock(ctx, 10*time.Millisecond)
	if !x.until(ctx, time.Minute, func(context.Context) bool { return !record.Expired(read(), now()) }) {
		t.Fatal("the lock is not renewed")
	}
	if !x.until(ctx, time.Minute, func(ctx context.Context) bool { // its holder may renew it in between
		read().Labels[record.LabelRun] = "two"
		return b.client.Update(ctx, lock) == nil
	}) || !x.until(ctx, time.Minute, func(context.Context) bool { return x.lockedBy.Load() != nil }) {
		t.Fatal("the run does not notice that another one has the lock")
	}
	if err := x.underAnother(); err == nil || !strings.Contains(err.Error(), "run two has the lock") {
		t.Errorf("%v", err)
	}
}

func TestARunThatHasEndedMeanwhileIsNotKeptAsAborted(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	for _, c := range []struct {
		id         string
		kept, want record.Outcome
	}{{"ended", record.Passed, record.Passed}, {"died", record.Running, record.Aborted}} {
		r := &record.Run{Format: record.FormatVersion, ID: c.id, Drill: "az-b", Store: b.store.Name,
			Namespace: b.store.Namespace, Started: now(), Outcome: c.kept}
		m, err := r.ConfigMap()
		if err != nil {
			t.Fatal(err)
		}
		b.create(m)
		stale := *r
		stale.Outcome = record.Running
		if _, err := Abort(t.Context(), b.client, &stale, "the test says so"); err != nil {
			t.Fatal(err)
		}
		kept := &corev1.ConfigMap{}
		if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(m), kept); err != nil {
			t.Fatal(err)
		}
		if runs := record.All([]corev1.ConfigMap{*kept}); len(runs) != 1 || runs[0].Outcome != c.want {
			t.Errorf("%s: %+v, want outcome %s", c.id, runs, c.want)
		}
	}
}

func TestADrillIsAbortedOnRequestAndRemovesAStuckFinalizer(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	b.stuck = true
	b.inject = func(ctx context.Context, _ *unstructured.Unstructured) error {
		var maps corev1.ConfigMapList
		if err := b.client.List(ctx, &maps, record.OfStore(b.store.Namespace, "orders")...); err != nil {
			return err
		}
		for _, run := range record.All(maps.Items) {
			if _, err := Abort(ctx, b.client, run, "the test says so"); err != nil {
				return err
			}
		}
		return nil
	}
	b.recover = func(context.Context, *unstructured.Unstructured) error { return nil }
	b.playChaosMesh(KindPod)
	settings := shortly()
	settings.Injection, settings.HealTimeout, settings.RemoveLeftovers = time.Minute, 3*time.Second, true
	r, _, err := b.runDrill("cache-server", Choice{DataCenter: "paris"}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome == record.Passed || !strings.Contains(r.Reason, "asked for: the test says so") {
		t.Errorf("%s: %s", r.Outcome, r.Reason)
	}
	if len(r.Leftovers) != 1 || !r.Leftovers[0].Removed || !strings.Contains(r.Leftovers[0].Remedy, "=forced") {
		t.Errorf("leftovers: %+v", r.Leftovers)
	}
}

// Chaos Mesh calls an experiment injected when it has asked for it; pods may go on for their grace period.
func TestTheFaultsBeginWhenThePodsHaveStopped(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	nothing := func(context.Context, *unstructured.Unstructured) error { return nil }
	b.inject, b.recover = nothing, nothing
	b.slowToStop = time.Second
	b.playChaosMesh(KindPod)
	settings := shortly()
	settings.Injection = 300 * time.Millisecond
	r, _, err := b.runDrill("edge", Choice{DataCenter: "paris"}, settings)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Phases, func(p record.Phase) bool { return p.Name == record.Injection })
	if took := r.Phases[i].To.Sub(r.Phases[i].From); took < b.slowToStop+settings.Injection {
		t.Errorf("the faults ended after %s, and the pods of the edge stopped only after %s", took, b.slowToStop)
	}
	b.slowToStop, settings.InjectTimeout = -1, 500*time.Millisecond
	r, _, err = b.runDrill("edge", Choice{DataCenter: "paris"}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Reason, "orders-paris-edge-x1 is still ready") {
		t.Errorf("of pods that do not stop the run says %s: %s", r.Outcome, r.Reason)
	}
}

func TestCanariesCatchAStoreThatBreaksTheRules(t *testing.T) {
	t.Parallel()
	broken := causal.MutationsOf(causal.SkipDeps, causal.ForgetBind, causal.CacheInFlight, causal.RegisterLate,
		causal.AckBeforeInvalidation)
	b := newTestBed(t, local.Tune{
		Coordinator: func(c *coordinator.Config) { c.Broken = broken },
		Sidecar:     func(c *session.Config) { c.Broken = broken },
		Middleman:   func(c *middleman.Config) { c.Broken = broken },
		Cache:       func(c *cache.Config) { c.Broken = broken },
	})
	congest := func(ms int) func(context.Context, *unstructured.Unstructured) error {
		return func(ctx context.Context, _ *unstructured.Unstructured) error {
			return b.deployment.Inject(ctx, local.Fault{Kind: "congest", DC: "paris", AddMs: ms})
		}
	}
	b.inject, b.recover = congest(150), congest(0)
	b.playChaosMesh(KindNetwork)
	settings := shortly()
	settings.Injection = 30 * time.Second // it ends as soon as a rule is seen to be broken
	settings.FinalTimeout, settings.HealTimeout = time.Second, 5*time.Second
	r, _, err := b.runDrill("az-b-cut", Choice{DataCenter: "paris"}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if p := promise(r, "Clients see"); r.Outcome != record.Failed || p.Result != record.Broken ||
		len(r.Violations) == 0 {
		t.Errorf("dependencies, restrictions and invalidations were ignored, and the run has %s: %s", r.Outcome,
			p.Observed)
	}
}

// TestACanaryWithASidecarStopsWithItsZone kills it, with what it has not reported, and starts it again.
func TestACanaryWithASidecarStopsWithItsZone(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	b.sidecars = []string{"virginia", "oregon", "paris"}
	b.canaries.broken = map[CanaryID]error{{"paris", record.Sidecar}: errors.New("the image cannot be pulled")}
	virginia := CanaryID{"virginia", record.Sidecar}
	b.inject = func(_ context.Context, o *unstructured.Unstructured) error {
		named, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "selector", "pods", b.store.Namespace)
		if got := strings.Join(named, " "); !strings.Contains(got, "orders-drill-virginia-sidecar-abcd") ||
			strings.Contains(got, "paris") || strings.Contains(got, "oregon") {
			t.Errorf("the experiment hits %s", got)
		}
		b.canaries.kill(virginia)
		return nil
	}
	b.recover = func(context.Context, *unstructured.Unstructured) error {
		b.canaries.start(virginia)
		return nil
	}
	b.playChaosMesh(KindPod)
	settings := shortly()
	settings.After = 3 * time.Second
	settings.Poll = 400 * time.Millisecond // so that something is not reported
	r, out, err := b.runDrill("az-f", Choice{DataCenter: "virginia"}, settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Clients see", "No acknowledged write", "After the end of the faults",
		"Everything heals"} {
		if p := promise(r, text); p.Result != record.Held {
			t.Errorf("%s: %s: %s; violations %q", text, p.Result, p.Observed, r.Violations)
		}
	}
	if m := r.Find(record.Injection, "virginia", record.Sidecar); m == nil || !m.Stopped || !m.Hit {
		t.Errorf("the canary that was stopped: %+v", m)
	}
	if m := r.Find(record.Injection, "oregon", record.Sidecar); m == nil || m.Stopped || m.Hit || m.Operations == 0 ||
		m.Through != record.Sidecar {
		t.Errorf("another one: %+v", m)
	}
	if r.Find(record.Injection, "paris", record.Sidecar) != nil ||
		r.NoSidecars != "paris (sidecar): the image cannot be pulled" {
		t.Errorf("of the one that did not start: %q", r.NoSidecars)
	}
	notes := strings.Join(r.Notes, "; ")
	if !strings.Contains(notes, "virginia (sidecar), which stopped with its zone, had ") {
		t.Errorf("notes: %s", notes)
	}
	for _, want := range []string{"that of virginia stops with its zone", "does not answer: it stops with its zone",
		"the canary of virginia (sidecar) has started again", "1 canary"} {
		if !strings.Contains(out, want) {
			t.Errorf("the command does not say %q:\n%s", want, out)
		}
	}
	if b.canaries.owner == nil || b.canaries.owner.Name != record.LockName("orders") || b.canaries.owner.UID == "" {
		t.Errorf("canaries have the owner %+v", b.canaries.owner)
	}
}

func TestADrillEndsIfSidecarsAreRequiredAndOneDoesNotStart(t *testing.T) {
	t.Parallel()
	b := newTestBed(t, local.Tune{})
	b.sidecars, b.canaries.broken = []string{"paris"},
		map[CanaryID]error{{"paris", record.Sidecar}: errors.New("no room")}
	settings := shortly()
	settings.Sidecars = SidecarsRequired
	r, _, err := b.runDrill("az-f", Choice{}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != record.Aborted || !strings.Contains(r.Reason, "paris (sidecar): no room") ||
		len(r.Experiments) > 0 {
		t.Errorf("%s: %s, with experiments %q", r.Outcome, r.Reason, r.Experiments)
	}
}
