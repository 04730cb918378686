package drill

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/drill/record"
)

func TestEveryDrillHitsWhatItSays(t *testing.T) {
	l := fixtureLandscape(t)
	for i, dc := range []string{"virginia", "oregon"} {
		l.Parts = append(l.Parts, Pod{Namespace: "shop", Name: fmt.Sprintf("orders-%s-etcd-%d", dc, i), DataCenter: dc,
			Component: plan.ComponentEtcd, Ready: true})
	}
	l.Apps = []Pod{{Namespace: "web", Name: "near", DataCenter: "virginia", Component: ComponentApp, Zone: "b",
		Ready: true}, {Namespace: "web", Name: "far", DataCenter: "paris", Component: ComponentApp, Zone: "e",
		Ready: true}}
	var b strings.Builder
	for _, d := range Catalogue() {
		target, err := d.Choose(l, Choice{})
		if err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		fmt.Fprintf(&b, "# %s: %s\n# expected: %+v\n", d.Name, target.Text, d.Expect(l, target))
		run := &record.Run{ID: "id", Drill: d.Name, Store: l.Store.Name, Namespace: l.Store.Namespace}
		for n, f := range target.Faults {
			if !slices.Contains(d.Kinds, f.Kind) {
				t.Errorf("%s makes a %s, which it does not say that it needs", d.Name, f.Kind)
			}
			manifest, err := yaml.Marshal(f.Object(run, n, time.Minute).Object)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "---\n%s", manifest)
		}
	}
	golden(t, "catalogue.yaml", b.String())
}

// TestFaultsOfZonesHitTheCanariesInThem: a canary with a sidecar is in AZ-F of its data center, as an app.
func TestFaultsOfZonesHitTheCanariesInThem(t *testing.T) {
	l := fixtureLandscape(t)
	for _, dc := range l.here() {
		l.Canaries = append(l.Canaries, Pod{Namespace: "shop", Name: "canary-" + dc, DataCenter: dc,
			Component: ComponentCanary, Side: Front, Ready: true})
	}
	names := func(pods []Pod) string {
		var all []string
		for _, p := range pods {
			if p.Component == ComponentCanary {
				all = append(all, p.DataCenter)
			}
		}
		return strings.Join(sorted(all), " ")
	}
	for name, want := range map[string][2]string{ // the victims, and those that they are cut off from
		"backend-server": {}, "cache-server": {}, "rack": {}, "coordinator": {}, "az-b": {}, "operator": {}, "edge": {},
		"clock": {},
		"az-f":  {"virginia"}, "az-b-cut": {"", "oregon paris virginia"}, "az-f-cut": {"virginia", "oregon paris"},
		"partition-ring": {"virginia", "oregon"}, "partition-pair": {"virginia", ""}, "ring-az-b": {},
		"ring-az-f": {"oregon virginia"}, "data-center": {"virginia"},
	} {
		d, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		target, err := d.Choose(l, Choice{})
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{names(target.Faults[0].Victims), names(target.Faults[0].Targets)}; got != want {
			t.Errorf("%s hits the canaries %q, want %q", name, got, want)
		}
		if stops := target.stops(l.Canaries[0]); stops != (target.Faults[0].Kind == KindPod &&
			strings.Contains(want[0], "virginia")) {
			t.Errorf("%s stops the canary of virginia: %t", name, stops)
		}
	}
}

func sorted(s []string) []string { slices.Sort(s); return s }

func TestADrillIsRefusedIfItsPodsAreMissingOrNotReady(t *testing.T) {
	l := fixtureLandscape(t)
	for name, want := range map[string]string{"etcd": "no data center of this cluster has pods of an etcd"} {
		d, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Choose(l, Choice{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, _ := Find("az-b")
	if _, err := d.Choose(l, Choice{DataCenter: "tokyo"}); err == nil ||
		!strings.Contains(err.Error(), "has no pods in this cluster") {
		t.Errorf("an unknown data center: %v", err)
	}
	for i := range l.Parts {
		l.Parts[i].Ready = false
	}
	if _, err := d.Choose(l, Choice{}); err == nil || !strings.Contains(err.Error(), "is not ready") {
		t.Errorf("pods that are not ready: %v", err)
	}
	if _, err := Find("az-x"); err == nil {
		t.Error("an unknown drill was found")
	}
}

func TestAZoneIsToldByTheNodeAndOtherwiseByWhatThePodRuns(t *testing.T) {
	s := fixtureStore(t)
	for _, c := range []struct {
		zone, component string
		want            Side
	}{{"a", plan.ComponentCoordinator, Front}, {"b", plan.ComponentCoordinator, Back},
		{"z", plan.ComponentEtcd, Neither}, {"", plan.ComponentShard, Back}, {"", plan.ComponentCache, Front},
		{"", plan.ComponentEtcd, Neither}} {
		if got := sideOf(s, Pod{DataCenter: "virginia", Zone: c.zone, Component: c.component}); got != c.want {
			t.Errorf("%s in zone %q: %q, want %q", c.component, c.zone, got, c.want)
		}
	}
}

func TestPromisesAreBrokenByWhatBreaksThem(t *testing.T) {
	fine := func() *evidence {
		e := &evidence{run: &record.Run{}, expect: Expectation{Elsewhere: 0.01, There: 0.05, ThereGap: 5 * time.Second,
			WritesComplete: true, Bound: 5 * time.Second, Complete: 30 * time.Second},
			final: true, healed: true, watched: []CanaryID{{"a", record.Front}, {"b", record.Front}},
			complete: map[CanaryID]time.Duration{{"a", record.Front}: time.Second, {"b", record.Front}: time.Second}}
		e.check.Stats.Ops = 100
		e.run.Measures = []record.Measure{{Phase: record.Injection, DataCenter: "a", Hit: true, Operations: 100,
			LongestGap: 100}, {Phase: record.Injection, DataCenter: "b", Operations: 100},
			{Phase: record.Injection, DataCenter: "a", Through: record.Sidecar, Hit: true, Stopped: true,
				Operations: 50, Failed: 50, LongestGap: 60_000},
			{Phase: record.Injection, DataCenter: "b", Through: record.Sidecar, Operations: 100}}
		return e
	}
	for _, p := range fine().promises() {
		if p.Result != record.Held {
			t.Errorf("nothing is wrong, and %+v", p)
		}
	}
	for text, spoil := range map[string]func(*evidence){
		"Clients see":              func(e *evidence) { e.forged = []string{"x"} },
		"Clients in other":         func(e *evidence) { e.run.Measures[3].Failed = 3 },
		"Clients in the data":      func(e *evidence) { e.run.Measures[0].LongestGap = 5001 },
		"Writes of other":          func(e *evidence) { e.run.Measures[1].LongestIncomplete = 10_001 },
		"Readers in other":         func(e *evidence) { e.run.Measures[1].LongestBound = 5001 },
		"After the end of":         func(e *evidence) { delete(e.complete, CanaryID{"b", record.Front}) },
		"Everything heals":         func(e *evidence) { e.run.Leftovers = []record.Leftover{{Object: "x"}} },
		"After the end of the fau": func(e *evidence) { e.complete[CanaryID{"a", record.Front}] = time.Minute },
	} {
		e := fine()
		spoil(e)
		e.run.Promises = e.promises()
		if p := promise(e.run, text); p.Result != record.Broken {
			t.Errorf("%s: %s: %s", text, p.Result, p.Observed)
		}
		if conclude(e.run, ""); e.run.Outcome != record.Failed {
			t.Errorf("%s is broken, and the run has %s", text, e.run.Outcome)
		}
	}
	aborted := fine()
	aborted.aborted = "the faults lasted for 1s of the 20s that were planned"
	for _, p := range aborted.promises() {
		if p.Result != record.NotMeasured || !strings.HasSuffix(p.Observed, aborted.aborted) {
			t.Errorf("the run was aborted, and %+v", p)
		}
	}
	aborted.run.Measures[3].Failed = 3
	if p := promise(&record.Run{Promises: aborted.promises()}, "Clients in other"); p.Result != record.Broken {
		t.Errorf("what is broken in a run that was aborted is %s", p.Result)
	}
	away := fine()
	away.expect.Elsewhere, away.expect.There, away.expect.ThereGap, away.expect.Why = 1, 1, 0, "the store has one ring"
	away.run.Promises = away.promises()
	for _, text := range []string{"Clients in other", "Clients in the data"} {
		if p := promise(away.run, text); p.Result != record.NotPromised || !strings.Contains(p.Expected, "one ring") {
			t.Errorf("nothing is expected, and %+v", p)
		}
	}
	e := fine()
	e.final, e.finalWhy = false, "no answer"
	if p := e.nothingLost(); p.Result != record.NotMeasured {
		t.Errorf("without final reads: %+v", p)
	}
}

func TestWindowsAllowWhatFitsIntoThem(t *testing.T) {
	tuesday := time.Date(2026, 1, 6, 9, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		window string
		at     time.Time
		want   bool
	}{{"", tuesday, true}, {"Mon-Fri 09:00-10:00", tuesday, true}, {"09:00-10:00", tuesday, true},
		{"Tue 09:00-10:00", tuesday, true}, {"Wed-Fri 09:00-10:00", tuesday, false},
		{"Mon-Fri 09:00-09:35", tuesday, false}, {"Mon-Fri 10:00-12:00", tuesday, false}} {
		w, err := ParseWindow(c.window)
		if err != nil || w.Allows(c.at, 10*time.Minute) != c.want {
			t.Errorf("%q: %v", c.window, err)
		}
	}
	for _, bad := range []string{"9-10", "Fri-Mon 09:00-10:00", "Mon 10:00-09:00", "Mon Tue 09:00-10:00",
		"Someday 09:00-10:00"} {
		if _, err := ParseWindow(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestAScheduleIsACronJobWithRightsInOneNamespace(t *testing.T) {
	d, _ := Find("az-b-cut")
	s := Schedule{Drill: d, Choice: Choice{DataCenter: "paris"}, Cron: "0 10 * * 2", Window: "Mon-Fri 09:00-16:00",
		Settings: DefaultSettings(), Image: "causalstore:v1"}
	objects, err := s.Objects(fixtureStore(t))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range objects {
		manifest, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "---\n%s", manifest)
	}
	golden(t, "schedule.yaml", b.String())
	s.Settings.Sidecars = SidecarsRequired
	if objects, err = s.Objects(fixtureStore(t)); err != nil {
		t.Fatal(err)
	}
	job := objects[len(objects)-1].(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	if !slices.Contains(job.Args, "--sidecar-canaries=required") {
		t.Errorf("the job runs %q", job.Args)
	}
	s.Window = "always"
	if _, err := s.Objects(fixtureStore(t)); err == nil {
		t.Error("a bad window was accepted")
	}
}
