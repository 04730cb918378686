// Package resp is the Redis front of a sidecar: the RESP2 and RESP3 codec, the table of commands and the loop that serves
// one client connection. It knows nothing of the protocol machines; it works on the Session that a Backend gives it.
//
// # Contract
//
// Commands of one connection execute one at a time, in their order, and are answered in that order. Two things overlap,
// and neither is visible: consecutive plain SETs of a pipeline are issued in order and only then awaited (Pipeliner), and
// the keys of GETs that wait in the read buffer are announced early (Prefetcher).
//
// Expiry is applied here: a Value carries an absolute deadline, and a value past it is answered as missing.
//
// Commands that read before they write (INCR, APPEND, SET with NX, XX, GET or KEEPTTL, DEL, EXPIRE, ...) hold Session.Lock
// on their keys, so among the connections of one sidecar that are one session they never lose each other's update. Where each connection is
// a session of its own, the next one may not see the update yet, and lose it. Plain writes (SET, SETEX,
// PSETEX, MSET) take no lock: beside a command that is just reading and writing the same key they count as concurrent, and
// the arbitration order of versions decides (PROTOCOL §1). Between sidecars that holds for every pair of commands. MSET is
// a sequence of puts, not one atomic step.
//
// # Failure model
//
// A client may send anything. A malformed frame is answered with Redis' own error and ends that connection only; a command
// over a limit is received to its end without being kept, answered with an error, and the connection lives on. Memory per
// connection is bounded by Limits, whatever the client announces. A client that does not read its replies is cut after
// Limits.WriteTimeout. A panic ends the connection it happened on: it is logged and counted.
package resp

import (
	"context"
	"net"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Backend makes the sessions of connections.
type Backend interface {
	// NewSession is called before the first command of a connection that needs the store. After an error the command is
	// answered with it, and the next one tries again.
	NewSession(remote net.Addr) (Session, error)
}

// Session is what one client connection can do to the store. It is used by one goroutine at a time.
//
// Methods may block, for a bounded time, and return early when ctx ends, which happens only when the server is stopped by
// force. An *Error is sent to the client as it is; any other error is sent with the code ERR.
type Session interface {
	// Get returns the value of key, with Tombstone set if there is none. The deadline is not applied. The data is not
	// changed by anyone afterwards.
	Get(ctx context.Context, key string) (causal.Value, error)
	// MGet is Get for several keys, in their order; keys may repeat.
	MGet(ctx context.Context, keys []string) ([]causal.Value, error)
	// Put stores v, or deletes key if v is a tombstone, and returns once that is durable. v.Data belongs to the session.
	Put(ctx context.Context, key string, v causal.Value) error
	// Lock waits until no other session of this sidecar holds any of the keys, and holds them until unlock is called.
	// Keys may be in any order and may repeat; locking must not deadlock.
	Lock(keys ...string) (unlock func())
	// Causal executes a subcommand of CAUSAL. args[0] is its name as the client wrote it; the number of arguments has been
	// checked. The args are valid during the call only. The answer is a Reply value.
	Causal(ctx context.Context, args [][]byte) (Reply, error)
	// DBSize returns the number of keys, or an estimate.
	DBSize(ctx context.Context) (int64, error)
	// Info returns additional sections of INFO: lines "# Name" and "field:value", each ended by "\r\n".
	Info() string
	// Close ends the session. It is called once, when the connection is gone.
	Close()
}

// Pipeliner is a Session that can take the puts of a pipeline without waiting for each one.
type Pipeliner interface {
	// PutAsync is Put, split: the put is ordered after every earlier one of the session when PutAsync returns, and durable
	// when wait returns nil. wait is called once, in the order of the puts and before any other method except PutAsync; not
	// at all if the connection is lost to a panic before.
	PutAsync(key string, v causal.Value) (wait func() error)
}

// Prefetcher is a Session that can use a hint of what will be read next.
type Prefetcher interface {
	// Prefetch announces the keys of GETs that follow the one being executed. It must not block, and it must not be
	// visible in any answer (PROTOCOL §3). The slice is reused after the call.
	Prefetch(keys []string)
}

// Metrics is told what happens, by many goroutines at once.
type Metrics interface {
	ConnectionOpened()
	ConnectionClosed()
	// ConnectionRefused counts connections over Limits.MaxClients.
	ConnectionRefused()
	// CommandDone is called for each command of the table, by its full lower-case name, with the seconds it took until its
	// reply was ready, or until it was issued if it is a pipelined put.
	CommandDone(name string, seconds float64, failed bool)
	ProtocolError()
	Panicked()
}
