package session

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// OpKind is the kind of an operation.
type OpKind uint8

// The operations, with the fields of Op that each uses beyond ID, Session and Timeout.
const (
	OpGet    OpKind = iota // read Key
	OpMGet                 // read Keys from one causally consistent state
	OpPut                  // write Value to Key; a delete is a Value with Tombstone
	OpToken                // export the session as a token
	OpResume               // add the past that Token carries to the session
	OpWait                 // wait until the session's newest put is in Ring, or complete
	OpCount                // estimate how many keys there are
	OpScan                 // name some keys: where Scan is, about Limit
)

// Op is an operation of a client.
type Op struct {
	Kind OpKind
	// ID is chosen by the caller, unique among unfinished operations, and comes back in the Result.
	ID uint64
	// Session is the id of an open session.
	Session uint64
	// Timeout is how long the operation may take; 0 means Config.PutTimeout for puts and Config.ReadTimeout for all
	// others.
	Timeout time.Duration
	Key     string
	Keys    []string
	// Value of a put. One of the type causal.Operation asks the home of the key to execute an operation: the put fails
	// with ErrConflict if the home is not certain of the newest value.
	Value causal.Value
	// Token is what OpToken has returned at another sidecar. The caller has authenticated it (package token).
	Token string
	// Ring is the ring that OpWait waits for. With topology.NoRing it waits until the put is complete: in all rings,
	// and no cache holds an older value.
	Ring topology.RingID
	// Scan is where OpScan continues: Result.Scan of the one before, the zero ScanPosition to begin. Limit is about how
	// many keys it returns.
	Scan  ScanPosition
	Limit int
	// Cursor, if it is not 0, says instead of Scan where OpScan continues: ScanPosition.Cursor, at any sidecar.
	Cursor uint64
	// ForUpdate, of a get or an MGET at a level that asks the home, says that a conditional put is to follow: the read
	// waits until no write of a key is under way, and returns no version that only some sessions see.
	ForUpdate bool
	// Elsewhere, of a get at a level that asks the home, says that the home is not asked: an operation is to go on from
	// what is found, which includes everything up to Result.From. The get fails with ErrConflict if that is in flight,
	// or not to be sent with an operation.
	Elsewhere bool
	// Conditional makes a put fail with ErrConflict unless If and From are what a get of the key has returned, and
	// nothing has been written or shown in the data center since. From is also that of what an operation is sent with.
	Conditional bool
	If          causal.Version
	From        causal.HLC
	// Commit, of a put at a level that asks the home, makes it one of several keys, of which all or none are put. Key,
	// Value and the condition above are not used then.
	Commit []causal.CommitKey
	// InOrder, of a commit, says that its puts come one after the other in other data centers, too. It fails with
	// ErrConflict if the keys have several homes: these put their parts one after the other.
	InOrder bool
	// Level is the level of the operation; causal.DefaultLevel: that of Config.
	Level causal.Level
}

// Result is the result of an Op. Fields that the kind of the operation does not fill are zero.
type Result struct {
	// ID is that of the Op.
	ID uint64
	// Err is causal.OK, or says why the operation failed:
	//   - ErrUnavailable: no node that may answer did so in time, or the session is not open. A put was not accepted.
	//   - ErrConflict (conditional puts, operations): the key was written meanwhile, or may have been. Nothing was
	//     written.
	//   - ErrLocked: a commit of several homes keeps the key Locked. Nothing was written.
	//   - ErrUnknown (puts): it may or may not have been accepted.
	//   - ErrType: the value is of a type that the sidecar, or the coordinator, does not know. Nothing was written.
	//   - ErrBusy, ErrClock (puts): the coordinator refused it. Nothing was written.
	//   - ErrBusy (OpGet, of DoGets): values that were read together take too much memory. It can be read by itself.
	//   - ErrClock (OpResume): the token has timestamps too far ahead of the clock.
	//   - ErrNotFound (commits): the home is not known to take commits. A read at the home tells.
	//   - ErrNotFound (OpResume): the token is not valid here; Sidecar.CheckToken says why.
	//   - ErrNotFound (OpScan): the scan cannot continue, because shards were added or removed, a storage, shard or
	//     home has restarted, or has forgotten the place of the cursor.
	//   - ErrFormat: not all parts are known to read such values; Lacking is one. Nothing was written.
	Err     causal.ErrCode
	Locked  string
	Lacking topology.Node
	// Wait is what an operation waited for that failed with ErrUnavailable at its deadline; else its Taken is 0.
	Wait Wait
	// Record is the value that OpGet read. For OpPut it holds the new version without the value, but for what an
	// operation has written. A missing key has a Tombstone for a value.
	Record causal.Record
	// Unwritten says that an operation has written nothing. It was executed on Record.
	Unwritten bool
	// From, of a get at a level that asks the home, is for a conditional put: the answer includes everything at or
	// below it.
	From causal.HLC
	// Ahead is what the value of a get of DoGets takes of Config.MaxAheadBytes, until ReleaseAhead.
	Ahead int
	// Records are the values that OpMGet read, in the order of Op.Keys; for a commit of several homes, the versions of
	// what it has put, in the order of Op.Commit. Froms, if it was for update, is From for each.
	Records []causal.Record
	Froms   []causal.HLC
	// Token is the exported session (OpToken). It is binary, and the caller seals it (package token).
	Token string
	// Keys are keys that may exist (OpScan), and Scan is where to continue; a Scan that is Done has no more.
	Keys []string
	Scan ScanPosition
	// Count is the estimated number of keys, as one ring has them (OpCount).
	Count int64
	// Outcome describes how the operation was answered.
	Outcome Outcome
}

// Outcome describes how an operation was answered.
type Outcome struct {
	// Version is the version that OpGet read or OpPut wrote.
	Version causal.Version
	// Source is where the value came from. For OpMGet it is the farthest source of any of its values.
	Source Source
	// Status is causal.InFlight if any value was read in-flight. It is also InFlight, the zero value, for own writes
	// and puts.
	Status causal.Status
	// Ring is the ring that answered; topology.NoRing for caches, own writes, puts and reads of several keys at a cut.
	Ring topology.RingID
	// Bound reports whether the session was bound when the operation started (gets, puts and multi-key reads).
	Bound bool
}

// Source is where a value came from. Sources are ordered by distance.
type Source uint8

// The sources of values.
const (
	SourceNone   Source = iota // the operation read nothing
	SourceOwn                  // an own write that is kept in the session, or that the coordinator's log returned
	SourceNear                 // a near copy in the sidecar
	SourceHome                 // the home of the key
	SourceCache                // the data center's cache, from memory
	SourceLocal                // a shard in the own data center
	SourceRemote               // a shard in another data center
)

func (s Source) String() string {
	return [...]string{"none", "own", "near", "home", "cache", "local", "remote"}[s]
}
