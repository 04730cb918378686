package causal

// Mutation breaks one rule of the protocol, so that a test can see the checker catch it. Only tests and the simulator
// set any; the zero Mutations is the protocol. What each breaks is in the tables of the files mutation_*.go.
type Mutation uint16

// The mutations.
const (
	SkipDeps Mutation = iota
	PropagateBeforeDurable
	SVEarly
	QuietAhead
	ReuseHLC
	ResendAsNew
	DedupeTruncated
	AnyLeadership
	FloorWithoutOwn
	StatusPerKey
	LoserSkipsDeps
	DepByGreater
	StatusNotAtomic
	RestartStable
	AckBeforeInvalidation
	IgnoreOtherInvalidations
	AckBeforeDepsClean
	RegisterLate
	NegativeUntracked
	TombstoneEarly
	DeleteRemoves
	RestartForgetsCaches
	ForgetDropped
	IgnoreLanes
	IgnoreLanesClean
	ReadPastStaged
	MissingLongAgo
	MissingUnsynced
	RestartUnsynced
	TrustFailedWrite
	StoredNotUpdated
	OlderThanSeen
	SupersededKeepsOlder
	OlderUnchecked
	InvalidateLate
	FillUnordered
	LeaseFromReceipt
	ShareInFlight
	CacheInFlight
	ForgetBind
	TwoRings
	LateReply
	PipelineUnchecked
	RequestKept
	LiftByEarlierPut
	OwnUnchecked
	ResendElsewhere
	CutBeyondSV
	CutBelowSeen
	CutWithoutOwn
	LateAsComplete
	LateUnchecked
	BaseBelowSeen
	PastIgnored
	ReadKeyForgotten
	OverlayAtCut
	PipelineAboveBase
	LateMGetOnce
	SnapshotBound
	MGetOneRound
	MGetUnsettled
	MGetSettlesOnce
	ResumeWithoutLast
	ResumeUnasked
	ServeMoved
	AnyMap
	MoveWithoutRest
	MoveOntoOld
	JoinFresh
	FillAnyCache
	VouchInUse
	ForgetTerms
	LeaveAnyTerm
	JoinBelow
	LeaveUndrained
	SyncInUse
	TrustEmptyStorage
	ServeLostData
	ReuseOrigin
	AnyClock
	ScanPastStaged
	ScanAnyRing
	ScanWithoutOwn
	VectorsOfOthers
	UnverifiedVectors
	AckBeforeAll
	AckBeforeDurable
	SelfBeforeDurable
	JoinBehind
	JoinNotRequired
	DropBeforeSettled
	SwapUnknownAsFailed
	ProposalNotPersisted
	SameLifeRestart
	ReplayBeforeAligned
	SessionNotPersisted
	AcceptDeposed
	AppendUnchecked
	KeepConflicting
	TruncateToCommit
	ResetAgain
	OldRegister
	WipedMemberVotes
	DamagedMemberVotes
	OutsiderLeads
	CreateUnasked
	HandoverUndrained
	ReadAfterLease
	GrantFromReceipt
	ServeBeforeLeaseEnd
	GrantGivenBack
	KeepMachine
	CompleteUncommitted
	ApplyUncommitted
	CollectUnapplied
	CopyWithoutLog
	MarkerAhead
	ServeUnapplied
	CopyOntoOld
	ForgetCopies
	UnfencedLog
	SalvageStored
	AdoptUnordered
	PassLost
	LanePassesLost
	AdoptFilteredDeps
	AdoptOpenChain
	AdoptMovesLane
	AdoptTrustsHolder
	AdoptUnreceived
	AdoptPassesStaged
	BackfillEarly
	BackfillTrustsRV
	BackfillBeforeAnswers
	BackfillLostDeleted
	BackfillUnfenced
	DonorMoves
	IncarnationReused
	BackfillCleanWithoutValue
	LateAckCounts
	LostGivesSlots
	ReplacedServes
	SuccessorFollows
	ReplaceUnasked
	GiveUpUncleared
	FullLogAcknowledges
	WriteDamaged
	NearConfirmEarly
	NearRenewReceived
	NearReopenEarly
	NearStartEarly
	NearLeaseLonger
	NearForgetEvicted
	NearUnregistered
	NearInFlight
	NearNextLost
	NearLoserEnds
	NearRegisterLate
	NearUnordered
	NearLeaseFromReceipt
	NearDropLate
	NearNextUnchecked
	NearBound
	NearMGetMixed
	NearExcludedStay
	ServeAhead
	FetchIncomplete
	AheadUnregistered
	ExclusionUnmarked
	ExcludedKeepsData
	ExclusionForgotten
	ExcludeForEver
	ExcludeUnclean
	ExcludeLastCopy
	ExcludeUnasked
	ExcludedCopiesStay
	EmptiesUnasked
	ServeOldCopy
	ServeUnheard
	ReachUnheard
	ServeEmptied
	CompleteNowhere
	ExcludedOnce
	EmptiesDamaged
	VouchesForLost
	UnstablePartUnbound
	DeltaLost
	DeltaDoubled
	DeltaOvertakes
	AnyPage
	StartOverUncleared
	HomePublishesEarly
	HomeForgetsShown
	HomeForgetsEarly
	HomeUnconditional
	HomeForgetsMark
	HomeForgetsCeiling
	HomeKeepsSlots
	HomeChangeUnasked
	HomeTakesUnread
	HomeGivesIncomplete
	HomeGivesLeased
	HomeRefusesExecuted
	HomeWithoutDeps
	HomeWithoutPast
	HomeSkipsPast
	HomeExecutesOnPublished
	HomeExecutesTwice
	HomeExecutesOnForgotten
	HomeExecutesWithoutPast
	HomePrefersFound
	HomeTrustsFound
	HomeAnswersEarly
	HomeForgetsExecuted
	LocalFromMemory
	LocalUnregistered
	LocalGetsApart
	LocalBaseUnchecked
	LocalPastDropped
	LocalPastAtCut
	LocalLeftOnce
	LocalUnbound
	ScanWithoutHome
	HomeOfAnyKey
	LocalCoveredElsewhere
	LocalOneRound
	HomeShowsUnderWay
	LocalMixesTimes
	CommitReadsUnchecked
	CommitPublishedApart
	CommitInRecords
	CommitForgotten
	CommitUnordered
	CommitFollowedInPart
	SalvageNewestPart
	CommitReadsUnheld
	HomeComparesTimes
	HomeSettlesEarly
	WaitUntold
	WaitTurnLost
	WaitTurnKept
	WaitNewestFirst
	WaitNotRenewed
	HomeLeaseIgnored
	HomeLeaseBusy
	HomeLeasesForgotten
	LocalNearKept
	LocalNearFromReceipt
	LocalNearUnheard
	LocalNearOlder
	LocalNearBound
	LockUnconditional
	LockReadThrough
	LockReleasedEarly
	LockUnchecked
	LockForgotten
	LockKept
	LocksUnordered
	DecisionForgotten
	LockLeased
	HomeGivesKept
	HomeKeepsLastPart
	HomePartsUnmarked
	HomePartsUnderWay
	LocalRowsBefore
	LocalRowsUnheard
	HomePartUnnamed
	HomePartWhole
	HomeFoundApart
	HomePartsUnordered
	CollectedEarly
	ExpiredByClock
	LocalRowsByVersion

	FormatUnasked
	FormatSaidOnce
	FormatForgotten
	FormatMembersUnasked
	mutationEnd
)

// Mutations is a set of mutations.
type Mutations [(maxMutations + 63) / 64]uint64

// maxMutations is how many mutations a set can hold. The second line does not compile if there are more.
const (
	maxMutations = 320
	_            = uint(maxMutations - mutationEnd)
)

// MutationsOf returns the set of the given mutations.
func MutationsOf(fs ...Mutation) (s Mutations) {
	for _, f := range fs {
		s[f/64] |= 1 << (f % 64)
	}
	return s
}

// Has reports whether f is in the set.
func (s *Mutations) Has(f Mutation) bool { return s[f/64]&(1<<(f%64)) != 0 }

// Any reports whether the set is not empty.
func (s *Mutations) Any() bool { return *s != Mutations{} }

// Union returns the mutations that are in either set.
func (s Mutations) Union(t Mutations) Mutations {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}
