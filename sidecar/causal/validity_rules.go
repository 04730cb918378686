package causal

import "time"

// rule says which values a field of a message may have.
type rule uint8

const (
	// unread: the kind has no such field, and no part reads it.
	unread rule = iota
	// anything: a part compares it, sends it back, or bounds it by its clock. Nothing is indexed or sized by it, and no
	// part goes on from it.
	anything

	// Numbers.
	counter        // up to MaxCounter, so that a part can go on from it
	aSlot          // a slot
	anOrigin       // an origin
	aDC            // a data center
	aRing          // a ring
	aRingOrNone    // a ring, or topology.NoRing
	aMap           // a topology.MapID in a wider field
	coordinatorSet // a bit for each coordinator of a data center
	dcSet          // a bit for each data center
	awayTerm       // the term of a coordinator that is away
	leaseLength    // up to MaxLease
	depCount       // how many of the dependencies
	laneCount      // how many of the dependencies before the last Hash
	metLaneCount   // how many of the last Hash dependencies
	knownStatus    // a Status
	knownErr       // an ErrCode
	knownAdoption  // an AdoptionState

	// The version of a record. Key and value may be anything.
	written       // a write
	writtenOrNone // a write, or none
	readable      // what a read may return

	// Lists.
	dependencies // writes, and lanes
	oneDep       // exactly one of them
	versions     // writes
	oneVersion   // exactly one write
	shardMarks   // marks of shards, as versions
	reach        // a Reach, as versions
	vectors      // vectors of origins
	lanes        // lanes of a Frontier
	roundTrips   // two numbers for each data center
	records      // what a scan of a storage returns

	numRules
)

// MaxCounter is the greatest number that a message may give a counter: an epoch, an incarnation, a term, a generation.
// It is far above those that begin with a wall clock, and a part that goes on from it does not come to the end either.
const MaxCounter = 1 << 62

// MaxLease bounds the leases of caches, and of near copies.
const MaxLease = time.Hour

// kindRules are the rules for the fields of one kind, which have the names that they have in Fields.
type kindRules struct {
	Status, Err, Ring, Clean, Hit, VersionOnly, Older, Map rule
	ID, Session, Seq, Epoch, Hash, HLC, Cut, Duration      rule
	Local, Foreign, From                                   rule
	Key, Record, Deps, Versions, Vectors, Latencies, Moved rule
}

// rules are those of all kinds. Exclusions are checked in messages of every kind.
var rules = [NumKinds]kindRules{
	KindGet: {ID: anything, Key: anything, Cut: anything, Older: anything, HLC: anything, Hash: anything,
		VersionOnly: anything, Record: readable,
		Session: anything, Seq: anything},
	KindGetReply: {ID: anything, Key: anything, Record: readable, VersionOnly: anything, Status: knownStatus,
		Cut: anything, Ring: aRingOrNone, Hit: anything,
		Err: knownErr, Map: anything, HLC: anything, Epoch: counter, Seq: counter, Versions: versions},
	KindFill: {ID: anything, Key: anything, Cut: anything, Older: anything, HLC: anything, Clean: anything,
		Epoch: counter, Seq: anything},
	KindFillReply: {ID: anything, Key: anything, Record: readable, Status: knownStatus, Clean: anything, Cut: anything,
		Ring: aRingOrNone, Err: knownErr,
		Map: anything, HLC: anything, Epoch: counter, Seq: counter, Versions: versions},

	KindPut: {ID: anything, Session: anything, Epoch: anything, Hash: anything, Seq: counter, Duration: anything,
		Clean: anything, Cut: anything, Key: anything,
		Record: readable, HLC: anything, Deps: dependencies,
		VersionOnly: anything, Local: anything, Foreign: anything, From: anything},
	KindPutReply: {ID: anything, Session: anything, Record: writtenOrNone, Err: knownErr, Clean: anything},
	KindComplete: {Session: anything, Versions: versions},
	KindPutAfter: {Key: anything, Record: written, Deps: dependencies, Hash: depCount, Seq: laneCount, ID: metLaneCount,
		HLC: anything, Cut: anything,
		Clean: anything, Map: anything, Epoch: counter, Session: anything},
	KindPutAck: {Versions: versions, Epoch: counter, Seq: counter, Hash: counter},
	KindStable: {HLC: anything, Versions: versions},
	KindLaneSync: {Epoch: counter, ID: anything, HLC: anything, Cut: anything, Map: anything, Seq: coordinatorSet,
		Session: counter, Hash: counter,
		Hit: anything, Versions: reach, Clean: anything},
	KindLogGet:   {ID: anything, Record: written},
	KindLogReply: {ID: anything, Record: writtenOrNone, Err: knownErr},

	KindDepCheck:   {Versions: oneVersion, Seq: aSlot},
	KindDepStatus:  {Versions: oneVersion, Ring: aRing, Clean: anything, Hit: anything},
	KindFrontier:   {Vectors: lanes, Map: anything},
	KindDepProbe:   {ID: counter, Epoch: counter, Deps: oneDep, Clean: anything, Map: anything},
	KindDepMissing: {ID: counter, Epoch: counter, Deps: oneDep, Clean: anything},

	KindLease:         {ID: anything, Epoch: counter, Seq: counter},
	KindLeaseGrant:    {ID: anything, Duration: leaseLength, Epoch: counter, Seq: counter},
	KindInvalidate:    {Hash: anything, HLC: anything, Epoch: counter, Seq: counter},
	KindInvalidateAck: {Epoch: counter, Seq: counter},

	KindVectors:       {Vectors: vectors, Seq: coordinatorSet, HLC: anything, ID: dcSet, Epoch: coordinatorSet},
	KindSignedVectors: {Seq: aDC, Vectors: vectors, Record: anything},
	KindSubscribe:     {},
	KindPing:          {ID: anything},
	KindPong:          {ID: anything, Map: anything},
	KindLatencies:     {Latencies: roundTrips},
	KindTerm: {ID: anything, Seq: awayTerm, HLC: anything, Clean: anything, Hit: anything,
		Versions: shardMarks},
	KindPastReply: {ID: anything, Clean: anything, Epoch: counter, HLC: anything, Seq: coordinatorSet, Hit: anything,
		Map: anything, Older: anything, VersionOnly: anything,
		Record: anything},

	KindCut:  {Cut: anything},
	KindScan: {ID: anything, Key: anything, Seq: anything, HLC: anything, Map: anything, Record: anything},
	KindScanReply: {ID: anything, Key: anything, Err: knownErr, Map: anything, HLC: anything, Hit: anything,
		Moved: anything, Record: anything},
}
