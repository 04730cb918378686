// Package front is what lies between clients and a sidecar: the Session that a sidecar gives to each client connection,
// and what every front needs, whatever protocol its clients speak: a Server that accepts, bounds and ends connections,
// users with passwords, certificates, limits.
//
// A front is a package below this one that speaks one protocol; resp is the one for Redis clients. It knows Session and
// nothing of the sidecar that implements it, and the sidecar knows no front: a process wires the two.
//
// # Failure model
//
// Clients are not trusted. Limits bound what all of them together can make the sidecar use; a front bounds what one of
// them can.
package front

import (
	"context"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// Backend creates the sessions of connections.
type Backend interface {
	// NewSession is called before the first command of a connection that needs the store. If it fails, the command
	// fails, and the next such command tries again.
	NewSession() (Session, error)
}

// Session is what one client connection can do to the store. It is used by one goroutine at a time.
//
// Methods may block for a bounded time. They return early when ctx is cancelled, which happens only when
// Server.Shutdown runs out of time. What fails in the store is an *Error.
type Session interface {
	// Get returns the value of key, with Tombstone set if there is none. It does not apply the expire time. The
	// returned data is immutable.
	Get(ctx context.Context, key string) (causal.Value, error)
	// GetRecord is Get with the version of the value.
	GetRecord(ctx context.Context, key string) (causal.Record, error)
	// GetEach sets results[i] to what Get returns for keys[i], as if each Get were called after the one before had
	// returned. It returns for how many of the first keys it did: at least one, and fewer than all if their values take
	// too much memory. The slices have one length, and are reused after the call, as are the keys.
	GetEach(ctx context.Context, keys [][]byte, results []GetResult) int
	// MGet is Get for several keys, in their order; keys may repeat. What it returns was there together
	// (PROTOCOL MGET).
	MGet(ctx context.Context, keys []string) ([]causal.Value, error)
	// Newest returns the newest records of keys that this session may see, in their order, also if its reads return
	// older ones.
	Newest(ctx context.Context, keys []string) ([]causal.Record, error)

	// Put stores v, or deletes key if v is a tombstone, and returns once the write is durable. A value that merges
	// becomes one with what there is. It takes ownership of v.Data.
	Put(ctx context.Context, key string, v causal.Value) error
	// Commit puts values, all or none, in one step: no client of the data center sees a part of them. It fails with
	// Conflict, and puts nothing, if one of the keys in read, which were read inside Lock or Isolate, has been written
	// since. Only sessions that are exact have it. The last put of a key counts. It takes ownership of the data.
	Commit(ctx context.Context, puts []Write, read []string) error
	// CommitInOrder is Commit, and nobody sees a put before those in front of it, in other data centers either. Each
	// key has one put. CommitsInOrder returns how many of the first keys it takes together; of others it fails with
	// Conflict.
	CommitInOrder(ctx context.Context, puts []Write, read []string) error
	CommitsInOrder(keys []string) int
	// PutAsync is Put in two steps: when PutAsync returns, the put is ordered after every earlier put of the
	// connection; when wait returns nil, it is durable. wait is called once, in the order of the puts, before any other
	// method except PutAsync. It is not called if a panic ends the connection first.
	PutAsync(key string, v causal.Value) (wait func() error)

	// FindEach looks for keys on which operations are about to be executed with ExecuteAsync, where they may be looked
	// for together. It returns once ExecuteAsync need not be refused because a key was not written for a while.
	FindEach(keys []string)
	// ExecuteAsync asks for an operation to be executed in one step with the newest value of key, in an exact session
	// and outside of Lock and Isolate. When it returns, the operation is ordered after every earlier put of the
	// connection; with follows it is not executed unless the one before it was. wait is as of PutAsync. It returns
	// false if the operation was not executed, and nothing written: then Get and Put are the way. With follows it
	// returns nil, and asks for nothing, if it would have to wait for others.
	ExecuteAsync(key string, o operation.Operation, follows bool) (wait func() (operation.Outcome, bool, error))

	// Lock waits until no other session of this sidecar writes or holds any of the keys, and holds them until unlock is
	// called: others may read them, but not write. Keys may be in any order and may repeat. Lock must not deadlock.
	// Until unlock, this session reads the newest values.
	Lock(keys ...string) (unlock func())
	// IsExact reports whether a write inside Lock or Isolate, of a key that was read there with Get, fails with
	// Conflict if any client of the data center has written the key since. Then Lock does not keep others of the data
	// center from writing: whoever gets a Conflict reads again.
	IsExact() bool
	// Line numbers the sessions that are exact with one another, from 1: those of the data center. It is 0 if this one
	// is not exact, or as long as values that merge are not accepted.
	Line() uint64
	// Isolate is Lock for transactions: others cannot read the keys either.
	Isolate(keys ...string) (release func())

	// Await makes the client wait until there may be something in one of some keys. The caller looks itself, when the
	// result says so, with the other methods.
	Await(keys []string) Waiting

	// Scan names about limit keys that may exist. cursor is 0 at first and then next of the call before, until next is
	// 0. Together the calls name every key that the session knew when the first began, perhaps more than once, and
	// perhaps others: reads tell which exist.
	Scan(ctx context.Context, cursor uint64, limit int) (keys []string, next uint64, err error)
	// CountNames returns about how many names there are that Scan may return.
	CountNames(ctx context.Context) (int64, error)

	// Token exports what the session has seen as a string, which Resume of any sidecar of the store accepts.
	Token(ctx context.Context) (string, error)
	// Resume adds what the session of a token had seen to what this one has seen.
	Resume(ctx context.Context, token string) error
	// AwaitWrites waits until the writes of the session are in the ring of a name, or in AllRings. It returns false if
	// they are not when the time-out has passed.
	AwaitWrites(ctx context.Context, ring string, timeout time.Duration) (bool, error)

	// Level returns at which level the reads of the connection are, but those that a write follows from. SetLevel
	// changes it: to one of the levels of sessions, or to Local if IsExact.
	Level() causal.Level
	SetLevel(causal.Level) error

	// Place returns where the session is.
	Place() Place
	// Status returns the present state of the session.
	Status() Status
	// Last returns how the last read or write ended.
	Last() Outcome

	// Close ends the session. It is called once, after the connection is closed.
	Close()
}

// Waiting is the wait of a client for elements. In an exact session, those of the data center who wait for a key have
// turns, in the order in which they began.
type Waiting interface {
	// Turns has an element when the client is to look at the keys. Then Looked is called.
	Turns() <-chan Turn
	// Looked says that the client has found nothing, or could not look.
	Looked(failed bool)
	// End ends the wait. It is called once.
	End()
}

// Turn says that a client that waits is to look.
type Turn struct {
	// Told says that something was written, and not only that a while has passed.
	Told bool
	// Err is why the client cannot wait any more.
	Err error
}

// AllRings is the name that means every ring, and not one of them.
const AllRings = "all"

// Write is a put of a key, in Commit.
type Write struct {
	Key   string
	Value causal.Value
}

// GetResult is what Get returns.
type GetResult struct {
	Value   causal.Value
	Version causal.Version
	Err     error
}

// Place is where a session reads and writes.
type Place struct {
	DataCenter, Ring string // Ring is that of the data center
	// Scope tells which connections share the session: "Pod", "Connection" or "DataCenter".
	Scope         string
	TopologyEpoch uint64
}

// Status is the state of a session.
type Status struct {
	// Restrictions is the number of in-flight versions that bind the session; 0: it is unbound.
	Restrictions int
	// Rings are the names of the rings that the session may read from.
	Rings []string
	// IncompleteWrites is the number of own writes that are not known to be complete.
	IncompleteWrites int
	// StabilityLag is how far behind the clock the least SV is that the sidecar knows; 0 before it knows one.
	StabilityLag time.Duration
}

// Outcome says how a read or a write ended.
type Outcome struct {
	// Version is what was read or written; zero if there was nothing.
	Version causal.Version
	// Source is where the value came from, such as "cache"; of several values, the farthest.
	Source string
	// Status is causal.Stable if everything that was read is complete.
	Status causal.Status
}
