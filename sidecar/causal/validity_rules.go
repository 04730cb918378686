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
	shardIndex     // the index of a shard
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
	finite         // a number that is neither infinite nor none

	// The version of a record. Key and value may be anything.
	written       // a write
	writtenOrNone // a write, or none
	readable      // what a read may return

	// Lists.
	dependencies // writes, and lanes
	dependency   // one of them, not in a list
	versions     // writes
	oneVersion   // exactly one write
	vectors      // vectors of origins
	lanes        // lanes of a Frontier
	records      // what a scan of a storage returns
	roundTrips   // at most one for each data center
	keyRanges    // sorted, and apart from each other

	numRules
)

// MaxCounter is the greatest number that a message may give a counter: an epoch, an incarnation, a term, a generation.
// It is far above those that begin with a wall clock, and a part that goes on from it does not come to the end either.
const MaxCounter = 1 << 62

// MaxLease bounds the leases of caches, and of near copies.
const MaxLease = time.Hour

// kindRules are the rules for the fields of a kind without a body, which have the names that they have in Fields.
type kindRules struct {
	Status, Err, Ring, Clean, Hit, VersionOnly, Older, Map rule
	ID, Session, Seq, Epoch, Hash, HLC, Cut, Duration      rule
	Local, Foreign, ReadFrom                               rule
	Key, Record, Deps, Versions, Vectors                   rule
}

// rules are those of all kinds without a body. Exclusions are checked in messages of every kind.
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
		VersionOnly: anything, Local: anything, Foreign: anything, ReadFrom: anything},
	KindPutReply: {ID: anything, Session: anything, Record: writtenOrNone, Err: knownErr, Clean: anything,
		Foreign: anything, Deps: dependencies, Hash: anything},
	KindComplete: {Session: anything, Versions: versions},
	KindPutAfter: {Key: anything, Record: written, Deps: dependencies, Hash: depCount, Seq: laneCount, ID: metLaneCount,
		HLC: anything, Cut: anything,
		Clean: anything, Map: anything, Epoch: counter, Session: anything},
	KindPutAck: {Versions: versions, Epoch: counter, Seq: counter, Hash: counter},
	KindStable: {HLC: anything, Versions: versions},

	KindDepCheck:  {Versions: oneVersion, Seq: aSlot},
	KindDepStatus: {Versions: oneVersion, Ring: aRing, Clean: anything, Hit: anything},
	KindFrontier:  {Vectors: lanes, Map: anything},

	KindLease:         {ID: anything, Epoch: counter, Seq: counter},
	KindLeaseGrant:    {ID: anything, Duration: leaseLength, Epoch: counter, Seq: counter},
	KindInvalidate:    {Hash: anything, HLC: anything, Epoch: counter, Seq: counter},
	KindInvalidateAck: {Epoch: counter, Seq: counter},

	KindVectors: {Vectors: vectors, Seq: coordinatorSet, HLC: anything, ID: dcSet, Epoch: coordinatorSet},
}
