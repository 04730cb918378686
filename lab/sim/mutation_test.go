package sim

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// faultSeeds bounds the seeds within which a broken rule must be detected. Those of a single group are cheap.
const (
	faultSeeds      = 300
	groupFaultSeeds = 10 * faultSeeds
)

// scripted are the mutations that random schedules hardly ever detect, with the file of the scenario that shows them.
var scripted = map[causal.Mutation]string{
	causal.LocalLeftOnce:       "homes.txt",
	causal.ServeEmptied:        "empty_disks.txt",
	causal.FullLogAcknowledges: "full_logs.txt",
	causal.WriteDamaged:        "full_logs.txt",
	causal.UnfencedLog:         "lost_logs.txt",
	causal.AdoptUnordered:      "lost_logs.txt",
	causal.PassLost:            "lost_logs.txt",
	causal.LanePassesLost:      "lost_logs.txt",
	causal.AnyPage:             "resharding.txt",
	causal.StartOverUncleared:  "resharding.txt",
	causal.BackfillEarly:       "backfill.txt",
	causal.LateAckCounts:       "backfill.txt",
	causal.DonorMoves:          "backfill.txt",
	causal.BackfillLostDeleted: "tallies.txt",
	causal.FormatSaidOnce:      "formats.txt",
	causal.FormatForgotten:     "formats.txt",
	causal.IncarnationReused:   "backfill.txt",
	causal.RestartUnsynced:     "lost_puts.txt",
	causal.ServeUnheard:        "old_copies.txt",
	causal.ReachUnheard:        "old_copies.txt",
	causal.BackfillUnfenced:    "backfill.txt",
	causal.ReplacedServes:      "lost_shards.txt",
	causal.GiveUpUncleared:     "lost_shards.txt",
	causal.ReplaceUnasked:      "coordinators.txt",
	causal.ServeAhead:          "ahead.txt",
	causal.ExcludeUnasked:      "exclusions.txt",
	causal.LateUnchecked:       "late_cuts.txt",
	causal.LateMGetOnce:        "late_cuts.txt",
	causal.PipelineAboveBase:   "left_out.txt",
	causal.PastIgnored:         "left_out.txt",
	causal.ReadKeyForgotten:    "left_out.txt",
	causal.NearInFlight:        "late_cuts.txt",
	causal.ExclusionForgotten:  "exclusions.txt", causal.ExcludedCopiesStay: "exclusions.txt",
	causal.AdoptFilteredDeps: "adoption.txt", causal.AdoptMovesLane: "adoption.txt",
	causal.AdoptTrustsHolder: "adoption.txt", causal.AdoptUnreceived: "adoption.txt",
	causal.AdoptPassesStaged:    "adoption.txt",
	causal.NearConfirmEarly:     "near_copies.txt",
	causal.NearDropLate:         "near_copies.txt",
	causal.NearRenewReceived:    "near_copies.txt",
	causal.NearReopenEarly:      "near_copies.txt",
	causal.NearStartEarly:       "near_copies.txt",
	causal.NearLeaseLonger:      "near_copies.txt",
	causal.NearLeaseFromReceipt: "near_copies.txt",
	causal.NearBound:            "near_copies.txt",
	causal.NearMGetMixed:        "near_copies.txt",
	causal.NearExcludedStay:     "near_copies.txt",

	causal.HomeForgetsMark:    "homes.txt",
	causal.HomeForgetsCeiling: "homes.txt",
	causal.LocalOneRound:      "homes.txt", // random seeds find it rarely
	causal.LocalMixesTimes:    "homes.txt",
	causal.CommitReadsUnheld:  "homes.txt", // one of a thousand seeds finds it
	causal.HomeSettlesEarly:   "homes.txt",
	causal.HomeComparesTimes:  "homes.txt", // one of hundreds of seeds finds it

	causal.HomeGivesLeased:     "home_changes.txt",
	causal.HomeRefusesExecuted: "home_changes.txt",
	causal.HomeChangeUnasked:   "home_changes.txt",

	causal.LockReadThrough:   "home_locks.txt",
	causal.LockUnchecked:     "home_locks.txt",
	causal.LockKept:          "home_locks.txt",
	causal.LocksUnordered:    "home_locks.txt",
	causal.DecisionForgotten: "home_locks.txt",
	causal.LockForgotten:     "home_locks.txt",
	causal.LockLeased:        "home_locks.txt",
	causal.HomeGivesKept:     "home_locks.txt",

	causal.HomePartsUnordered: "home_values.txt",
	causal.HomePartUnnamed:    "home_values.txt",
	causal.LocalRowsByVersion: "home_values.txt",

	causal.HomeLeaseIgnored:     "near_homes.txt",
	causal.HomeLeasesForgotten:  "near_homes.txt",
	causal.LocalNearFromReceipt: "near_homes.txt",

	causal.WaitUntold:      "home_waits.txt",
	causal.WaitTurnLost:    "home_waits.txt",
	causal.WaitTurnKept:    "home_waits.txt",
	causal.WaitNewestFirst: "home_waits.txt",
	causal.WaitNotRenewed:  "home_waits.txt",

	// they no longer find it: it takes a foreign write that is long in flight
	causal.LocalCoveredElsewhere: "homes.txt",
}

// TestEveryBrokenRuleIsCaught looks for a schedule, or a scenario, that detects each mutation. With -rewrite it
// notes the seeds.
func TestEveryBrokenRuleIsCaught(t *testing.T) {
	var mu sync.Mutex
	detections := map[causal.Mutation]uint64{}
	t.Cleanup(func() { rewriteDetections(t, detections) })
	for _, f := range causal.AllMutations() {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			if file, ok := scripted[f]; ok {
				checkScripted(t, file, f)
				return
			}
			p, err := ProfileThatDetects(f)
			if err != nil {
				t.Fatalf("%v; find one with `causalstore sim --mutation %s`", err, f)
			}
			seeds := uint64(faultSeeds)
			if p.run != nil {
				seeds = groupFaultSeeds
			}
			if d := (schedules{profile: p.Name, broken: causal.MutationsOf(f), seeds: seeds}).detect(p); d.found {
				t.Logf("profile %s, seed %d: %s", p.Name, d.seed, d.violation)
				mu.Lock()
				defer mu.Unlock()
				detections[f] = d.seed
			} else {
				t.Errorf("%d seeds of profile %s did not detect %s", seeds, p.Name, f)
			}
		})
	}
}

// checkScripted checks that a scenario, whose outputs TestScenarios compares, detects a mutation.
func checkScripted(t *testing.T, file string, f causal.Mutation) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	output, found := "", false
	for _, end := range []string{"\n", " unjudged\n", ","} { // or with a second line of defense broken, too
		if !found {
			_, output, found = strings.Cut(string(b), "\nplay broken="+f.String()+end)
		}
	}
	output, _, _ = strings.Cut(output, "\n\n")
	isCaught := func(violation string) bool { return strings.Contains(output, violation) }
	if !found || !slices.ContainsFunc([]string{"VIOLATED", "the rings differ", "nobody has the data",
		"show withdrawn: use1/0", ": locked", ": format of value"}, isCaught) {
		t.Errorf("no scenario of %s detects %s", file, f)
	}
}
