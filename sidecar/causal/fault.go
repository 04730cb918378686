package causal

import "fmt"

// Fault breaks one rule of the protocol, so that a test can see the checker catch it. Only tests and the simulator set
// any; the zero Faults is the protocol.
type Fault uint8

// The seeded faults.
const (
	SkipDeps               Fault = iota // coordinator: puts propagate without dependencies
	PropagateBeforeDurable              // coordinator: a put is sent before the log holds it
	SVEarly                             // coordinator: SV covers the oldest incomplete write
	// coordinator: SV of a quiet one is where its clock will be when it publishes next
	QuietAhead
	ReuseHLC    // coordinator: a restart forgets which timestamps were published
	ResendAsNew // coordinator: a put that is sent again is accepted again
	// coordinator: a checkpoint drops which puts were accepted, as if they had not been
	DedupeTruncated
	AnyLeadership // coordinator: a put for an earlier leadership is accepted
	// coordinator: a put is not ordered after what its session has seen or written
	FloorWithoutOwn
	StatusPerKey // middleman: completeness is tracked for the key, not for the write
	// middleman: a put that loses is acknowledged before its dependencies are processed
	LoserSkipsDeps
	DepByGreater    // middleman: a dependency is met by "this version or a greater one"
	StatusNotAtomic // middleman: version and status are read in two steps
	RestartStable   // middleman: after a restart, versions that it does not know count as stable
	// middleman: a put is acknowledged before the caches have confirmed its invalidations
	AckBeforeInvalidation
	// middleman: a put does not wait for the invalidations of its key that earlier puts have sent
	IgnoreOtherInvalidations
	// middleman: a put is acknowledged while a cache may hold an older value of a dependency
	AckBeforeDepsClean
	RegisterLate         // middleman: a copy is registered after the value was read, in another step
	NegativeUntracked    // middleman: the copy of a missing key is not registered
	TombstoneEarly       // middleman: a tombstone is dropped at once
	DeleteRemoves        // middleman: a delete leaves no tombstone, so a late older put comes back
	RestartForgetsCaches // middleman: after a restart, caches are assumed to hold nothing
	// middleman: a missing key is read without the tombstone horizon as its version
	ForgetDropped
	// middleman: a put is written before the other shards have received the writes that it follows
	IgnoreLanes
	// middleman: a put is acknowledged before the writes that it follows are clean at the other shards
	IgnoreLanesClean
	// middleman: a bound read does not wait for a staged put that the reader may have to see
	ReadPastStaged
	MissingLongAgo // middleman: a bound read passes a staged put that once lacked a dependency
	// middleman: after a restart, it reports writes as missing that it may have had
	MissingUnsynced
	// middleman: after a restart, a bound read is served before all lanes are received again
	RestartUnsynced
	// middleman: a write that storage reported as failed counts as durable if it can be read
	TrustFailedWrite
	// middleman: what is known to be in storage is not updated by a write that did not read it
	StoredNotUpdated
	OlderThanSeen // middleman: a snapshot read ignores what the reader has seen above the cut
	// middleman: caches with copies of older versions are not told of a put that loses
	SupersededKeepsOlder
	OlderUnchecked   // cache: an older version is served whatever version came next
	InvalidateLate   // cache: acknowledges an invalidation before the copy is gone
	FillUnordered    // cache: ignores the order of the stream
	LeaseFromReceipt // cache: counts the lease from when the grant arrived
	ShareInFlight    // cache: who joins a flight late gets its in-flight answer
	CacheInFlight    // cache: in-flight values are inserted
	ForgetBind       // session: reading an in-flight version adds no restriction
	TwoRings         // session: overlapping reads may bind the session to two rings
	LateReply        // session: a late reply answers a later read of the key
	// session: pipelined gets are answered with what they found before the answer to an earlier one
	PipelineUnchecked
	LiftByEarlierPut // session: any complete own put lifts every restriction
	OwnUnchecked     // session: the own write is served whatever was seen
	// session: puts in flight to a coordinator that has stopped go to another one
	ResendElsewhere
	CutBeyondSV   // session: the snapshot cut is the greatest SV, not the least
	CutBelowSeen  // session: a snapshot cut below what the session has seen is used
	CutWithoutOwn // session: a complete own write does not overlay reads at a cut below it
	// session: at a cut without a late data center, what that has written counts as complete
	LateAsComplete
	// session: answers of a late data center at a cut count as complete when the read began
	LateUnchecked
	// session: at a cut, an older complete version is returned though the session has seen what follows a newer one
	BaseBelowSeen
	// session: what a version depends on does not count for reads of other keys at a cut
	PastIgnored
	// session: a version that was read above the base of the cut does not count for later reads of its key
	ReadKeyForgotten
	// session: a complete own write overlays reads at a cut until the cut, and not their base, has passed it
	OverlayAtCut
	// session: pipelined gets return complete versions above the base, as if those behind them covered these
	PipelineAboveBase
	// session: an MGET at a cut returns what a late data center has written and was complete when it was found
	LateMGetOnce
	SnapshotBound // session: a bound session uses a snapshot cut
	MGetOneRound  // session: MGET returns what its first round finds
	// session: MGET returns what its last round finds, if every round has found something new
	MGetUnsettled
	// session: MGET does not read again what its last but one round may depend on
	MGetSettlesOnce
	ResumeWithoutLast // session: a token is resumed without waiting for `last`
	// session: rings are not asked for what a token names: all are taken to have it
	ResumeUnasked
	ServeMoved // middleman: a read of a slot that another shard owns is served
	// middleman: lanes and frontiers of another slot map count as those of its own
	AnyMap
	MoveWithoutRest // mover: what was written while slots were copied is not handed over
	// mover: old records of slots are not removed, neither where they are taken in nor where they were given away
	MoveOntoOld
	JoinFresh    // middleman: copies in caches that it cannot invalidate are not waited for
	FillAnyCache // middleman: a copy is registered although invalidations go to another cache
	VouchInUse   // leader: it publishes vectors for coordinators that are in use
	ForgetTerms  // leader: a restart forgets which coordinators are in use
	LeaveAnyTerm // leader: a late message of a coordinator that was away is believed
	// coordinator: it joins at its own clock, not above what the leader has published for it
	JoinBelow
	LeaveUndrained    // coordinator: it leaves with incomplete writes
	SyncInUse         // middleman: after a restart, only the leaders are asked for their lanes
	TrustEmptyStorage // middleman: an empty storage counts as new, without asking the coordinators
	ServeLostData     // middleman: reads are served although the storage has lost its data
	ReuseOrigin       // coordinator: it starts with an empty log, without asking the middlemen
	// middleman, cache, sidecar: timestamps are believed however far ahead of the own clock they are
	AnyClock
	ScanPastStaged // middleman: a scan of a bound session does not name the keys of staged puts
	ScanAnyRing    // session: a scan reads from a ring that may lack what the session has seen
	ScanWithoutOwn // session: a scan does not name the keys of own writes
	// leader: what another leader says of the writes of other data centers is believed
	VectorsOfOthers
	UnverifiedVectors // leader: signed vectors are believed whoever has signed them
	AckBeforeAll      // group: a record counts as committed when one other member has it
	AckBeforeDurable  // group: a member acknowledges what its disk does not hold yet
	SelfBeforeDurable // group: a primary counts what its own disk does not hold yet
	// group: a joining member is proposed before it has everything that is committed
	JoinBehind
	// group: records are committed without a joining member while it may be a member already
	JoinNotRequired
	// group: records are committed without a dropped member before the change is settled
	DropBeforeSettled
	SwapUnknownAsFailed  // group: a change of unknown outcome counts as failed
	ProposalNotPersisted // group: a restart forgets which members may have joined
	SameLifeRestart      // group: a restarted primary writes under its earlier life
	ReplayBeforeAligned  // group: a primary serves before all members have its log
	SessionNotPersisted  // group: a restart forgets in which session the member took part
	AcceptDeposed        // group: frames of an earlier session are accepted
	AppendUnchecked      // group: records are appended behind a record other than the primary's
	KeepConflicting      // group: a record of another session at the same position counts as the same
	// group: in a new session, a member removes what it does not know to be committed
	TruncateToCommit
	ResetAgain          // group: a late request to start anew empties a log that has gone on since
	OldRegister         // group: a register that was restored from a backup is believed
	WipedMemberVotes    // group: a member counts by its name, whatever volume it has
	DamagedMemberVotes  // group: a damaged log counts as what it still holds
	OutsiderLeads       // group: a member that was dropped proposes itself as the primary
	CreateUnasked       // group: the group is created without asking all for an earlier one
	HandoverUndrained   // group: the primary moves while records are not committed
	ReadAfterLease      // group: a primary serves reads without grants
	GrantFromReceipt    // group: a grant counts from when it arrived
	ServeBeforeLeaseEnd // group: a new primary serves while the grant of the earlier one may hold
	// group: a lease that was given back counts again when the hand-over is given up
	GrantGivenBack
	KeepMachine         // member: a primary that serves again goes on with what it had in memory
	CompleteUncommitted // member: a coordinator acknowledges what is not committed
	ApplyUncommitted    // member: a change is applied to the storage before it is committed
	CollectUnapplied    // member: the log is collected beyond what the storage has applied
	CopyWithoutLog      // member: a copy counts as of its end, not of its start
	MarkerAhead         // member: a storage is marked with changes before it has them
	// member: a primary serves, and reports changes as done, before its storage has applied the whole log
	ServeUnapplied
	CopyOntoOld // member: a storage is not emptied before another one is copied to it
	// middleman: with too many copies to remember, those of a data center are forgotten, and it goes on serving them
	ForgetCopies
	UnfencedLog // middleman: puts of a log that was given up are still taken
	// middleman: puts that are not in storage are left out of what a coordinator salvages
	SalvageStored
	// coordinator: what it has salvaged is sent before all that may precede it is complete
	AdoptUnordered
	// coordinator: SV passes what is lost although what precedes it may be incomplete
	PassLost
	// coordinator: a lane says that what is lost is acknowledged, although what precedes it may be incomplete
	LanePassesLost
	// middleman: a put is adopted with the dependencies that its ring lacked, not with all
	AdoptFilteredDeps
	AdoptOpenChain    // leader: a write is adopted although a lane that it names has gaps
	AdoptMovesLane    // middleman: an adopted put counts as everything before it in the lane
	AdoptTrustsHolder // leader: a ring that has received a write counts as having it clean
	// leader: an adopted put may be written before the ring has received what it follows
	AdoptUnreceived
	// middleman: a bound read passes an adopted put whose lanes have not come so far
	AdoptPassesStaged
	// middleman: it serves when all is copied, before it has what was under way meanwhile
	BackfillEarly
	// middleman: a put that RV covers counts as clean though the storage has lost its data
	BackfillTrustsRV
	BackfillBeforeAnswers // middleman: it copies before all coordinators have answered
	// middleman: a key that is missing in a storage that has lost its data counts as deleted, for values that merge
	BackfillLostDeleted
	BackfillUnfenced // middleman: it takes puts before it knows which logs were given up
	DonorMoves       // middleman: a listing goes on when the shards of its donors change
	// shard: after a loss its incarnation is the next one after the greatest that it was told of
	IncarnationReused
	// coordinator: what a shard had acknowledged before it lost its data still counts
	BackfillCleanWithoutValue
	LateAckCounts  // coordinator: an acknowledgement from before a loss counts after it
	LostGivesSlots // shard: one that lacks data gives slots away
	ReplacedServes // group: a volume of a group that was given up serves when it comes back
	// group: a member that has followed a group which it had proposed to replace keeps what it has when it is replaced
	SuccessorFollows
	// member: the group of a coordinator whose volumes are all new is replaced, whether the coordinator has left or not
	ReplaceUnasked
	GiveUpUncleared  // group: a shard is given up, and its storage keeps what it has
	NearConfirmEarly // cache: it confirms an invalidation before sidecars with near copies have
	// cache: a lease renewal confirms what was received and near copies have not confirmed
	NearRenewReceived
	// cache: a new stream is opened while near copies of the one before are served
	NearReopenEarly
	NearStartEarly // cache: a start does not wait for the near copies of an earlier one
	// cache: the lease on near copies may outlast that of the stream that brought them
	NearLeaseLonger
	NearForgetEvicted // cache: it forgets the near copies of what it evicts itself
	NearUnregistered  // cache: near copies are given of what the middleman has not registered
	// cache: near copies are given of what it has fetched for a cut and is not complete
	NearInFlight
	// cache: invalidations that leave copies to older readers are not passed on to near copies
	NearNextLost
	// cache: a near copy that older readers may go on using is not registered any more
	NearLoserEnds
	NearRegisterLate     // cache: a near copy is registered after the reply, in another step
	NearUnordered        // session: ignores the order of near streams
	NearLeaseFromReceipt // session: counts the lease on near copies from when the grant arrived
	NearDropLate         // session: confirms an invalidation before the near copy is gone
	NearNextUnchecked    // session: a near copy is served whatever version came next
	NearBound            // session: a bound session reads near copies
	// session: an MGET takes near copies of some keys, and reads the others in a ring
	NearMGetMixed
	NearExcludedStay   // session: keeps near copies when it hears of an exclusion of a data center
	ServeAhead         // cache: what was fetched ahead of a cut is served before it is complete
	AheadUnregistered  // shard: what a cache fetches ahead of a cut is not registered as a copy
	ExclusionUnmarked  // all parts: handle messages whatever exclusions their senders go by
	ExcludedKeepsData  // middleman: goes on with its data when its data center was excluded
	ExclusionForgotten // middleman: goes by an exclusion that is not durable
	// coordinator: completes writes without an excluded shard also when that is back
	ExcludeForEver
	// coordinator: a write of an excluded shard counts as acknowledged before what it depends on
	ExcludeUnclean
	ExcludeLastCopy // coordinator: excludes a data center that may have the last copy
	// coordinator: takes shards for having their data if it has heard of no loss, and begins also when it is not in use
	ExcludeUnasked
	ExcludedCopiesStay // cache: keeps copies that it has from excluded shards
	// shard: forgets its data when its data center was excluded, whether or not another ring has them
	EmptiesUnasked
	// middleman: it serves a storage of which a coordinator remembers more than it has
	ServeOldCopy
	// middleman: after a restart it serves before a coordinator has said what it remembers
	ServeUnheard
	// middleman: it tells a coordinator how far it has come before that has said what it remembers
	ReachUnheard
	// coordinator: completes writes without an excluded shard though no other one that goes by this has them
	CompleteNowhere
	ExcludedOnce // shard: goes on with its data when its data center is excluded another time
	// shard: forgets what it has when its storage is damaged, whether or not another ring has it
	EmptiesDamaged
	// shard: gives another ring keys that it has lost itself, as if they were missing
	VouchesForLost
	UnstablePartUnbound // session: is bound by the newest in-flight write of a merging value only
	// middleman: writes the newest of the puts that wait for a key, also if they merge
	DeltaLost
	// value: a write that is in both of two values counts twice in what they become
	DeltaDoubled
	// middleman: writes a put that merges though an earlier one of its key is staged
	DeltaOvertakes
	faultEnd
)

var faultNames = [faultEnd]string{
	SkipDeps:                  "skip-deps",
	PropagateBeforeDurable:    "propagate-before-durable",
	SVEarly:                   "sv-early",
	QuietAhead:                "quiet-ahead",
	ReuseHLC:                  "reuse-hlc",
	ResendAsNew:               "resend-as-new",
	DedupeTruncated:           "dedupe-truncated",
	AnyLeadership:             "any-leadership",
	FloorWithoutOwn:           "floor-without-own",
	StatusPerKey:              "status-per-key",
	LoserSkipsDeps:            "loser-skips-deps",
	DepByGreater:              "dep-by-greater",
	StatusNotAtomic:           "status-not-atomic",
	RestartStable:             "restart-stable",
	AckBeforeInvalidation:     "ack-before-invalidation",
	IgnoreOtherInvalidations:  "ignore-other-invalidations",
	AckBeforeDepsClean:        "ack-before-deps-clean",
	RegisterLate:              "register-late",
	NegativeUntracked:         "negative-untracked",
	TombstoneEarly:            "tombstone-early",
	DeleteRemoves:             "delete-removes",
	RestartForgetsCaches:      "restart-forgets-caches",
	ForgetDropped:             "forget-dropped",
	IgnoreLanes:               "ignore-lanes",
	IgnoreLanesClean:          "ignore-lanes-clean",
	ReadPastStaged:            "read-past-staged",
	MissingLongAgo:            "missing-long-ago",
	MissingUnsynced:           "missing-unsynced",
	RestartUnsynced:           "restart-unsynced",
	TrustFailedWrite:          "trust-failed-write",
	StoredNotUpdated:          "stored-not-updated",
	OlderThanSeen:             "older-than-seen",
	SupersededKeepsOlder:      "superseded-keeps-older",
	OlderUnchecked:            "older-unchecked",
	InvalidateLate:            "invalidate-late",
	FillUnordered:             "fill-unordered",
	LeaseFromReceipt:          "lease-from-receipt",
	ShareInFlight:             "share-in-flight",
	CacheInFlight:             "cache-in-flight",
	ForgetBind:                "forget-bind",
	TwoRings:                  "two-rings",
	LateReply:                 "late-reply",
	PipelineUnchecked:         "pipeline-unchecked",
	LiftByEarlierPut:          "lift-by-earlier-put",
	OwnUnchecked:              "own-unchecked",
	ResendElsewhere:           "resend-elsewhere",
	CutBeyondSV:               "cut-beyond-sv",
	CutBelowSeen:              "cut-below-seen",
	CutWithoutOwn:             "cut-without-own",
	LateAsComplete:            "late-as-complete",
	LateUnchecked:             "late-unchecked",
	BaseBelowSeen:             "base-below-seen",
	PastIgnored:               "past-ignored",
	ReadKeyForgotten:          "read-key-forgotten",
	OverlayAtCut:              "overlay-at-cut",
	PipelineAboveBase:         "pipeline-above-base",
	LateMGetOnce:              "late-mget-once",
	SnapshotBound:             "snapshot-bound",
	MGetOneRound:              "mget-one-round",
	MGetUnsettled:             "mget-unsettled",
	MGetSettlesOnce:           "mget-settles-once",
	ResumeWithoutLast:         "resume-without-last",
	ResumeUnasked:             "resume-unasked",
	ServeMoved:                "serve-moved",
	AnyMap:                    "any-map",
	MoveWithoutRest:           "move-without-rest",
	MoveOntoOld:               "move-onto-old",
	JoinFresh:                 "join-fresh",
	FillAnyCache:              "fill-any-cache",
	VouchInUse:                "vouch-in-use",
	ForgetTerms:               "forget-terms",
	LeaveAnyTerm:              "leave-any-term",
	JoinBelow:                 "join-below",
	LeaveUndrained:            "leave-undrained",
	SyncInUse:                 "sync-in-use",
	TrustEmptyStorage:         "trust-empty-storage",
	ServeLostData:             "serve-lost-data",
	ReuseOrigin:               "reuse-origin",
	AnyClock:                  "any-clock",
	ScanPastStaged:            "scan-past-staged",
	ScanAnyRing:               "scan-any-ring",
	ScanWithoutOwn:            "scan-without-own",
	VectorsOfOthers:           "vectors-of-others",
	UnverifiedVectors:         "unverified-vectors",
	AckBeforeAll:              "ack-before-all",
	AckBeforeDurable:          "ack-before-durable",
	SelfBeforeDurable:         "self-before-durable",
	JoinBehind:                "join-behind",
	JoinNotRequired:           "join-not-required",
	DropBeforeSettled:         "drop-before-settled",
	SwapUnknownAsFailed:       "cas-unknown-as-failed",
	ProposalNotPersisted:      "proposal-not-persisted",
	SameLifeRestart:           "same-life-restart",
	ReplayBeforeAligned:       "replay-before-aligned",
	SessionNotPersisted:       "session-not-persisted",
	AcceptDeposed:             "accept-deposed",
	AppendUnchecked:           "append-unchecked",
	KeepConflicting:           "keep-conflicting",
	TruncateToCommit:          "truncate-to-commit",
	ResetAgain:                "reset-again",
	OldRegister:               "old-etcd",
	WipedMemberVotes:          "wiped-member-votes",
	DamagedMemberVotes:        "damaged-member-votes",
	OutsiderLeads:             "outsider-leads",
	CreateUnasked:             "create-unasked",
	HandoverUndrained:         "handover-undrained",
	ReadAfterLease:            "read-after-lease",
	GrantFromReceipt:          "grant-from-receipt",
	ServeBeforeLeaseEnd:       "serve-before-lease-end",
	GrantGivenBack:            "grant-given-back",
	KeepMachine:               "keep-machine",
	CompleteUncommitted:       "complete-uncommitted",
	ApplyUncommitted:          "apply-uncommitted",
	CollectUnapplied:          "collect-unapplied",
	CopyWithoutLog:            "copy-without-log",
	MarkerAhead:               "marker-ahead",
	ServeUnapplied:            "serve-unapplied",
	CopyOntoOld:               "copy-onto-old",
	ForgetCopies:              "forget-copies",
	UnfencedLog:               "unfenced-log",
	SalvageStored:             "salvage-stored",
	AdoptUnordered:            "adopt-unordered",
	PassLost:                  "pass-lost",
	LanePassesLost:            "lane-passes-lost",
	AdoptFilteredDeps:         "adopt-filtered-deps",
	AdoptOpenChain:            "adopt-open-chain",
	AdoptMovesLane:            "adopt-moves-lane",
	AdoptTrustsHolder:         "adopt-trusts-holder",
	AdoptUnreceived:           "adopt-unreceived",
	AdoptPassesStaged:         "adopt-passes-staged",
	BackfillEarly:             "backfill-early",
	BackfillTrustsRV:          "backfill-trusts-rv",
	BackfillBeforeAnswers:     "backfill-before-answers",
	BackfillUnfenced:          "backfill-unfenced",
	BackfillLostDeleted:       "backfill-lost-deleted",
	DonorMoves:                "donor-moves",
	IncarnationReused:         "incarnation-reused",
	BackfillCleanWithoutValue: "backfill-clean-without-value",
	LateAckCounts:             "late-ack-counts",
	LostGivesSlots:            "lost-gives-slots",
	ReplacedServes:            "replaced-serves",
	SuccessorFollows:          "successor-follows",
	ReplaceUnasked:            "replace-unasked",
	GiveUpUncleared:           "give-up-uncleared",
	NearConfirmEarly:          "near-confirm-early",
	NearRenewReceived:         "near-renew-received",
	NearReopenEarly:           "near-reopen-early",
	NearStartEarly:            "near-start-early",
	NearLeaseLonger:           "near-lease-longer",
	NearForgetEvicted:         "near-forget-evicted",
	NearUnregistered:          "near-unregistered",
	NearInFlight:              "near-in-flight",
	NearNextLost:              "near-next-lost",
	NearLoserEnds:             "near-loser-ends",
	NearRegisterLate:          "near-register-late",
	NearUnordered:             "near-unordered",
	NearLeaseFromReceipt:      "near-lease-from-receipt",
	NearDropLate:              "near-drop-late",
	NearNextUnchecked:         "near-next-unchecked",
	NearBound:                 "near-bound",
	NearMGetMixed:             "near-mget-mixed",
	NearExcludedStay:          "near-excluded-stay",
	ServeAhead:                "serve-ahead",
	AheadUnregistered:         "ahead-unregistered",
	ExclusionUnmarked:         "exclusion-unmarked",
	ExcludedKeepsData:         "excluded-keeps-data",
	ExclusionForgotten:        "exclusion-forgotten",
	ExcludeForEver:            "exclude-for-ever",
	ExcludeUnclean:            "exclude-unclean",
	ExcludeLastCopy:           "exclude-last-copy",
	ExcludeUnasked:            "exclude-unasked",
	ExcludedCopiesStay:        "excluded-copies-stay",
	EmptiesUnasked:            "empties-unasked",
	CompleteNowhere:           "complete-nowhere",
	ExcludedOnce:              "excluded-once",
	EmptiesDamaged:            "empties-damaged",
	VouchesForLost:            "vouches-for-lost",
	ServeOldCopy:              "serve-old-copy",
	ServeUnheard:              "serve-unheard",
	ReachUnheard:              "reach-unheard",
	UnstablePartUnbound:       "unstable-part-unbound",
	DeltaLost:                 "delta-lost",
	DeltaDoubled:              "delta-doubled",
	DeltaOvertakes:            "delta-overtakes",
}

func (f Fault) String() string { return faultNames[f] }

// AllFaults returns every seeded fault.
func AllFaults() []Fault {
	all := make([]Fault, faultEnd)
	for i := range all {
		all[i] = Fault(i)
	}
	return all
}

// FaultNamed returns the seeded fault with a name.
func FaultNamed(name string) (Fault, error) {
	for _, f := range AllFaults() {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("unknown fault %q", name)
}

// Faults is a set of seeded faults.
type Faults [(maxFaults + 63) / 64]uint64

// maxFaults is how many faults a set can hold. The second line does not compile if there are more.
const (
	maxFaults = 192
	_         = uint(maxFaults - faultEnd)
)

// FaultsOf returns the set of the given faults.
func FaultsOf(fs ...Fault) (s Faults) {
	for _, f := range fs {
		s[f/64] |= 1 << (f % 64)
	}
	return s
}

// Has reports whether f is in the set.
func (s *Faults) Has(f Fault) bool { return s[f/64]&(1<<(f%64)) != 0 }

// Any reports whether the set is not empty.
func (s *Faults) Any() bool { return *s != Faults{} }

// Union returns the faults that are in either set.
func (s Faults) Union(t Faults) Faults {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}
