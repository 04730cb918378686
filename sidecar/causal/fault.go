package causal

// Fault breaks one rule of the protocol, so that the checker can be seen to catch its absence (PROTOCOL §11.4).
// Only the simulator's self-tests set any; the zero Faults is the protocol.
type Fault uint8

// The seeded faults.
const (
	SkipDeps                 Fault = iota // coordinator: puts propagate without dependencies
	PropagateBeforeDurable                // coordinator: a put is sent before the log holds it
	SVEarly                               // coordinator: SV covers the oldest incomplete write
	ReuseHLC                              // coordinator: a restart forgets which timestamps were published
	FloorWithoutOwn                       // sidecar: a put is not ordered after the session's own complete puts
	StatusPerKey                          // middleman: in-flight is tracked for the key, not for the write
	LoserSkipsDeps                        // middleman: a put that loses is acknowledged before its dependencies are in
	DepByGreater                          // middleman: a dependency is met by "this version or a greater one"
	StatusNotAtomic                       // middleman: version and status are read in two steps
	RestartStable                         // middleman: versions it does not know after a restart count as stable
	AckBeforeInvalidation                 // middleman: acknowledges without waiting for the caches
	IgnoreOtherInvalidations              // middleman: a later write of a key does not wait for an invalidation that an earlier one sent
	AckBeforeDepsClean                    // middleman: acknowledges while a dependency still stands in some cache
	RegisterLate                          // middleman: cached-at is registered after the read
	NegativeUntracked                     // middleman: a cached "missing" is not registered
	TombstoneEarly                        // middleman: tombstones are dropped at once when stable
	DeleteRemoves                         // middleman: a delete leaves no tombstone, so a late older put comes back
	RestartForgetsCaches                  // middleman: a restart assumes that nothing is cached anywhere
	ForgetDropped                         // middleman: a dropped tombstone leaves no trace in the answers
	IgnoreLanes                           // middleman: a put does not wait until what it follows has arrived at the other shards
	IgnoreLanesClean                      // middleman: nor is its acknowledgement kept back until that is out of the caches
	ReadPastStaged                        // middleman: a bound reader does not wait for puts that it may have to see
	RestartUnsynced                       // middleman: a bound reader is served before what was received earlier is here again
	TrustFailedWrite                      // middleman: a write that failed and can be read counts as durable
	OlderThanSeen                         // middleman: the version at a cut is given whatever the reader has seen
	SupersededKeepsOlder                  // middleman: a write that loses is not told to the caches, which may hold older versions
	OlderUnchecked                        // cache: an older version is served whatever came next
	InvalidateLate                        // cache: acknowledges an invalidation before the copy is gone
	FillUnordered                         // cache: ignores the order of the stream
	LeaseFromReceipt                      // cache: counts the lease from when the grant arrived
	ShareInFlight                         // cache: a later joiner of a single flight gets its in-flight answer
	CacheInFlight                         // cache: in-flight values are inserted
	ForgetBind                            // session: an in-flight read binds nothing
	TwoRings                              // session: overlapping reads may end in two rings
	LateReply                             // session: a late answer is taken for a later read of the key
	LiftByEarlierPut                      // session: any completed own put lifts every restriction
	OwnUnchecked                          // session: the own write is served whatever was seen
	CutBeyondSV                           // session: the snapshot cut is the greatest SV, not the least
	CutBelowSeen                          // session: a snapshot cut below what the session has seen is used
	CutWithoutOwn                         // session: a complete own write is not laid over a cut below it
	SnapshotBound                         // session: a bound session uses a snapshot cut
	MGetOneRound                          // session: MGET takes what it finds first
	ResumeWithoutLast                     // session: a token is resumed without waiting for `last`
	ServeMoved                            // middleman: reads of slots that it has given away are answered
	AnyMap                                // middleman: lanes of another map count as those of its own
	MoveWithoutRest                       // mover: what was written while slots were copied is not fetched
	MoveOntoOld                           // mover: what is held of slots from an earlier time stays, here and there
	JoinFresh                             // middleman: copies in caches of what others held, or in caches that are no more, are forgotten
	FillAnyCache                          // middleman: a copy is registered though another cache will be told
	VouchInUse                            // leader: it speaks for coordinators that are in use
	ForgetTerms                           // leader: a restart forgets which coordinators are in use
	LeaveAnyTerm                          // leader: an old message of one that was away is believed
	JoinBelow                             // coordinator: it begins where its own clock stands
	LeaveUndrained                        // coordinator: it leaves with incomplete writes
	SyncInUse                             // middleman: after a restart only the leaders are asked for what was received earlier
	faultEnd
)

var faultNames = [...]string{"skip-deps", "propagate-before-durable", "sv-early", "reuse-hlc", "floor-without-own",
	"status-per-key", "loser-skips-deps", "dep-by-greater", "status-not-atomic", "restart-stable",
	"ack-before-invalidation", "ignore-other-invalidations", "ack-before-deps-clean", "register-late", "negative-untracked", "tombstone-early",
	"delete-removes", "restart-forgets-caches", "forget-dropped", "ignore-lanes", "ignore-lanes-clean", "read-past-staged", "restart-unsynced", "trust-failed-write",
	"older-than-seen", "superseded-keeps-older", "older-unchecked", "invalidate-late", "fill-unordered", "lease-from-receipt",
	"share-in-flight", "cache-in-flight", "forget-bind", "two-rings", "late-reply", "lift-by-earlier-put",
	"own-unchecked", "cut-beyond-sv", "cut-below-seen", "cut-without-own", "snapshot-bound", "mget-one-round", "resume-without-last", "serve-moved", "any-map", "move-without-rest",
	"move-onto-old", "join-fresh", "fill-any-cache", "vouch-in-use", "forget-terms", "leave-any-term", "join-below", "leave-undrained",
	"sync-in-use"}

func (f Fault) String() string { return faultNames[f] }

// AllFaults returns every seeded fault.
func AllFaults() []Fault {
	all := make([]Fault, faultEnd)
	for i := range all {
		all[i] = Fault(i)
	}
	return all
}

// Faults is a set of seeded faults.
type Faults uint64

// FaultsOf returns the set of the given faults.
func FaultsOf(fs ...Fault) Faults {
	var s Faults
	for _, f := range fs {
		s |= 1 << f
	}
	return s
}

func (s Faults) has(f Fault) bool { return s&(1<<f) != 0 }
