package sim

import (
	"os"
	"reflect"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/history"
	"github.com/causalstore/causalstore/sidecar/causal"
)

// seedsVariable sets the number of seeds that TestNoScheduleBreaksThePromise runs, over all profiles.
const seedsVariable = "CAUSALSTORE_SIM_SEEDS"

func seedsToRun(t *testing.T) uint64 {
	text := os.Getenv(seedsVariable)
	if text == "" {
		if raceDetector {
			return 150 // it is about ten times slower
		}
		return 2000
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a number of seeds", seedsVariable, text)
	}
	return n
}

func TestNoScheduleBreaksThePromise(t *testing.T) {
	report, err := Campaign(t.Context(), CampaignConfig{Seeds: seedsToRun(t)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures {
		t.Errorf("profile %s, seed %d: %v", f.Profile, f.Seed, f.Violations)
		for i := range f.History {
			t.Log(f.History[i].String())
		}
	}
	if report.Failed > len(report.Failures) {
		t.Errorf("and %d more seeds", report.Failed-len(report.Failures))
	}
	t.Logf("%d seeds, %.0f a second: %d operations, %d messages, faults: %s", report.Seeds, report.SeedsPerSecond(),
		report.Ops,
		report.Messages, report.Faults.String())
}

// played holds outcomes of seeds of profiles.
var played sync.Map

// playOnce returns the outcome of a seed. Tests that look at the same seed run it once.
func playOnce(p Profile, seed uint64) Outcome {
	type schedule struct {
		profile string
		seed    uint64
	}
	once, _ := played.LoadOrStore(schedule{p.Name, seed}, sync.OnceValue(func() Outcome {
		return Run(p, seed, causal.Mutations{}, &history.Checker{})
	}))
	return once.(func() Outcome)()
}

func TestOneSeedIsOneSchedule(t *testing.T) {
	for _, p := range Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			var checker history.Checker
			for seed := range uint64(3) {
				first, again := playOnce(p, seed), Run(p, seed, causal.Mutations{}, &checker)
				if !reflect.DeepEqual(first, again) { // cmp.Diff takes longer than the runs
					t.Errorf("seed %d: the second run differs (-first +second):\n%s", seed, cmp.Diff(first, again))
				}
			}
		})
	}
}

func TestEveryProfileDoesWhatItIsFor(t *testing.T) {
	var harms FaultCounts
	var members MemberCounts
	for _, p := range Profiles() {
		ops, puts := 0, 0
		seeds := 5
		if p.run != nil {
			seeds = 60 // they are short, and each has a few kinds of faults
		}
		switch p.Name {
		case "shards":
			seeds = 60 // it has many kinds of faults, and each seed a few
		case "lost-shards", "exclusions":
			seeds = 15 // not all volumes come back, and few sides exclude each other
		}
		for seed := range uint64(seeds) {
			o := playOnce(p, seed)
			harms.Add(&o.Faults)
			members.Add(&o.Members)
			ops, puts = ops+o.Ops, puts+o.Report.Stats.Puts
		}
		if ops < 500 || puts < 50 {
			t.Errorf("profile %s: only %d operations in five seeds, %d puts among them", p.Name, ops, puts)
		}
	}
	for h, n := range harms {
		if n == 0 {
			t.Errorf("no profile injected the fault %s", InjectedFault(h))
		}
	}
	if members.Failovers == 0 || members.Copies == 0 || members.Resets == 0 {
		t.Errorf("shards with members: only %s", members)
	}
}

func TestACampaignReportsTheFirstFailuresWithShortHistories(t *testing.T) {
	var calls uint64
	r, err := Campaign(t.Context(), CampaignConfig{Seeds: 24, Profile: "mixed", Workers: 3,
		Broken:   causal.MutationsOf(causal.OwnUnchecked),
		Progress: func(r CampaignReport) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Seeds != 24 || calls != 24 {
		t.Errorf("%d seeds run and %d reported, want 24", r.Seeds, calls)
	}
	if r.Failed == 0 || len(r.Failures) != min(r.Failed, maxFailures) {
		t.Fatalf("%d seeds failed and %d are shown", r.Failed, len(r.Failures))
	}
	for i, f := range r.Failures {
		if i > 0 && f.Seed <= r.Failures[i-1].Seed {
			t.Errorf("seed %d is shown after seed %d", f.Seed, r.Failures[i-1].Seed)
		}
		if len(f.Violations) == 0 || len(f.History) > 60 {
			t.Errorf("seed %d: %d violations, a history of %d operations", f.Seed, len(f.Violations), len(f.History))
		}
	}
}

func TestACampaignRefusesAnUnknownProfile(t *testing.T) {
	if _, err := Campaign(t.Context(), CampaignConfig{Seeds: 1, Profile: "nonsense"}); err == nil {
		t.Error("Campaign accepted an unknown profile")
	}
}
