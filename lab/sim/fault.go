package sim

import (
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// detectedBy maps each seeded fault to the profile that detects it within the fewest seeds.
var detectedBy = map[causal.Fault]string{
	causal.VouchInUse:               "coordinator-scaling",
	causal.ForgetTerms:              "coordinator-scaling",
	causal.LeaveAnyTerm:             "coordinator-scaling",
	causal.JoinBelow:                "coordinator-scaling",
	causal.LeaveUndrained:           "coordinator-scaling",
	causal.SyncInUse:                "restarts",
	causal.AnyClock:                 "clocks",
	causal.SkipDeps:                 "overlap",
	causal.PropagateBeforeDurable:   "crash",
	causal.SVEarly:                  "mixed",
	causal.QuietAhead:               "silences",
	causal.ReuseHLC:                 "clocks",
	causal.ResendAsNew:              "failovers",
	causal.DedupeTruncated:          "failovers",
	causal.AnyLeadership:            "failovers",
	causal.ResendElsewhere:          "failovers",
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
	causal.PipelineUnchecked:        "overlap",
	causal.LiftByEarlierPut:         "sessions",
	causal.OwnUnchecked:             "mixed",
	causal.CutBeyondSV:              "transactions",
	causal.CutBelowSeen:             "transactions",
	causal.CutWithoutOwn:            "mixed",
	causal.SnapshotBound:            "transactions",
	causal.MGetOneRound:             "transactions",
	causal.MGetUnsettled:            "transactions",
	causal.MGetSettlesOnce:          "gaps",
	causal.MissingLongAgo:           "gaps",
	causal.MissingUnsynced:          "gaps",
	causal.ResumeWithoutLast:        "sessions",
	causal.ResumeUnasked:            "sessions",
	causal.IgnoreLanes:              "overlap",
	causal.IgnoreLanesClean:         "caches",
	causal.ReadPastStaged:           "distances",
	causal.RestartUnsynced:          "restarts",
	causal.TrustFailedWrite:         "crash",
	causal.ServeMoved:               "resharding",
	causal.AnyMap:                   "resharding",
	causal.MoveWithoutRest:          "resharding",
	causal.MoveOntoOld:              "returns",
	causal.JoinFresh:                "resharding",
	causal.FillAnyCache:             "cache-scaling",
	causal.TrustEmptyStorage:        "empty-disks",
	causal.ServeLostData:            "empty-disks",
	causal.ReuseOrigin:              "empty-disks",
	causal.ScanPastStaged:           "scans",
	causal.ScanAnyRing:              "scans",
	causal.ScanWithoutOwn:           "scans",
	causal.VectorsOfOthers:          "relays",
	causal.UnverifiedVectors:        "relays",
	causal.AckBeforeAll:             "groups",
	causal.AckBeforeDurable:         "groups",
	causal.SelfBeforeDurable:        "groups",
	causal.JoinBehind:               "groups",
	causal.JoinNotRequired:          "groups",
	causal.DropBeforeSettled:        "groups",
	causal.SwapUnknownAsFailed:      "groups",
	causal.ProposalNotPersisted:     "groups",
	causal.SameLifeRestart:          "groups",
	causal.ReplayBeforeAligned:      "groups",
	causal.SessionNotPersisted:      "groups",
	causal.AcceptDeposed:            "groups",
	causal.AppendUnchecked:          "groups",
	causal.KeepConflicting:          "groups",
	causal.TruncateToCommit:         "groups",
	causal.ResetAgain:               "groups",
	causal.OldRegister:              "groups",
	causal.WipedMemberVotes:         "groups",
	causal.DamagedMemberVotes:       "groups",
	causal.OutsiderLeads:            "groups",
	causal.CreateUnasked:            "groups",
	causal.HandoverUndrained:        "groups",
	causal.ReadAfterLease:           "groups",
	causal.GrantFromReceipt:         "groups",
	causal.ServeBeforeLeaseEnd:      "groups",
	causal.KeepMachine:              "members",
	causal.CompleteUncommitted:      "members",
	causal.ApplyUncommitted:         "shards",
	causal.CollectUnapplied:         "shards",
	causal.CopyWithoutLog:           "shards",
	causal.MarkerAhead:              "shards",
	causal.ServeUnapplied:           "shards",
	causal.CopyOntoOld:              "shards",
	causal.UnfencedLog:              "lost-logs",
	causal.SalvageStored:            "lost-logs",
	causal.AdoptUnordered:           "lost-logs",
	causal.AdoptFilteredDeps:        "silent-origins",
	causal.AdoptOpenChain:           "silent-origins",
	causal.AdoptMovesLane:           "silent-origins",
	causal.AdoptTrustsHolder:        "silent-origins",
	causal.AdoptUnreceived:          "silent-origins",
	causal.AdoptPassesStaged:        "silent-origins",
}

// ProfileThatDetects returns the profile that detects a seeded fault within the fewest seeds.
func ProfileThatDetects(f causal.Fault) (Profile, error) {
	name, ok := detectedBy[f]
	if !ok {
		return Profile{}, fmt.Errorf("no profile is listed for the fault %s", f)
	}
	return ProfileNamed(name)
}

// FaultNamed returns the seeded fault with a name.
func FaultNamed(name string) (causal.Fault, error) {
	for _, f := range causal.AllFaults() {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown fault %q", name)
}
