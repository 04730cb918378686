package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// caughtBy names, for every rule of the protocol that can be broken, the profile that notices soonest.
var caughtBy = map[causal.Fault]string{
	causal.VouchInUse:               "writers",
	causal.ForgetTerms:              "writers",
	causal.LeaveAnyTerm:             "writers",
	causal.JoinBelow:                "writers",
	causal.LeaveUndrained:           "writers",
	causal.SyncInUse:                "restarts",
	causal.SkipDeps:                 "overlap",
	causal.PropagateBeforeDurable:   "crash",
	causal.SVEarly:                  "mixed",
	causal.ReuseHLC:                 "clocks",
	causal.FloorWithoutOwn:          "mixed",
	causal.StatusPerKey:             "caches",
	causal.LoserSkipsDeps:           "sessions",
	causal.DepByGreater:             "sessions",
	causal.StatusNotAtomic:          "caches",
	causal.RestartStable:            "caches",
	causal.AckBeforeInvalidation:    "caches",
	causal.IgnoreOtherInvalidations: "caches",
	causal.AckBeforeDepsClean:       "caches",
	causal.RegisterLate:             "caches",
	causal.NegativeUntracked:        "caches",
	causal.TombstoneEarly:           "deletes",
	causal.DeleteRemoves:            "deletes",
	causal.RestartForgetsCaches:     "caches",
	causal.ForgetDropped:            "deletes",
	causal.OlderThanSeen:            "mixed",
	causal.SupersededKeepsOlder:     "caches",
	causal.OlderUnchecked:           "caches",
	causal.InvalidateLate:           "caches",
	causal.FillUnordered:            "caches",
	causal.LeaseFromReceipt:         "leases",
	causal.ShareInFlight:            "caches",
	causal.CacheInFlight:            "mixed",
	causal.ForgetBind:               "sessions",
	causal.TwoRings:                 "overlap",
	causal.LateReply:                "deletes",
	causal.LiftByEarlierPut:         "sessions",
	causal.OwnUnchecked:             "mixed",
	causal.CutBeyondSV:              "transactions",
	causal.CutBelowSeen:             "transactions",
	causal.CutWithoutOwn:            "mixed",
	causal.SnapshotBound:            "transactions",
	causal.MGetOneRound:             "transactions",
	causal.ResumeWithoutLast:        "sessions",
	causal.IgnoreLanes:              "overlap",
	causal.IgnoreLanesClean:         "caches",
	causal.ReadPastStaged:           "distances",
	causal.RestartUnsynced:          "restarts",
	causal.TrustFailedWrite:         "crash",
	causal.ServeMoved:               "reshapes",
	causal.AnyMap:                   "reshapes",
	causal.MoveWithoutRest:          "reshapes",
	causal.MoveOntoOld:              "reshapes",
	causal.JoinFresh:                "reshapes",
	causal.FillAnyCache:             "recaches",
}

// CaughtBy returns the profile under which breaking a rule is noticed soonest.
func CaughtBy(f causal.Fault) (Profile, error) {
	name, ok := caughtBy[f]
	if !ok {
		return Profile{}, fmt.Errorf("no profile is named for the fault %s", f)
	}
	return ProfileNamed(name)
}

// FaultNamed returns the seeded fault of that name.
func FaultNamed(name string) (causal.Fault, error) {
	for _, f := range causal.AllFaults() {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("there is no fault %q", name)
}
