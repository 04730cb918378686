// Package resp is the Redis front end of a sidecar: the RESP2 and RESP3 codec, the command table, and the loop that
// serves one client connection. It does not depend on the protocol machines; it works on the Session that a Backend
// returns.
//
// # Contract
//
// The commands of a connection execute one at a time, in order, and are answered in that order. Two things overlap
// without being visible: consecutive plain SETs of a pipeline are all issued before the first is awaited (Pipeliner),
// and consecutive GETs in the read buffer are read together (PipelinedReader).
//
// This package applies expire times: a Value carries an absolute one, and a value past it is answered as missing.
//
// Commands that read before they write (INCR, APPEND, SET with NX, XX, GET or KEEPTTL, DEL, EXPIRE, ...) hold
// Session.Lock on their keys, and EXEC holds Session.Isolate on those of its transaction, so connections of one sidecar
// that share a session never lose each other's updates. If each connection is its own session, the next one may not see
// the update yet and overwrite it. Between sidecars, any two commands are concurrent, and the order of versions decides
// (PROTOCOL §1). MSET, RENAME and the writes of a transaction are sequences of puts: elsewhere, they become visible one
// after the other.
//
// # Failure model
//
// Clients are not trusted. A malformed frame is answered with Redis' own error and closes that connection only. A
// command over a limit is read to its end but not stored, answered with an error, and the connection continues. Limits
// bounds the memory per connection, whatever lengths a client declares. A client that does not read its replies is
// disconnected after Limits.WriteTimeout. A panic closes the connection it occurred on, and is logged and counted.
package resp

import (
	"context"
	"net"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Backend creates the sessions of connections.
type Backend interface {
	// NewSession is called before the first command of a connection that needs the store. An error becomes the reply to
	// that command, and the next such command tries again.
	NewSession(remote net.Addr) (Session, error)
}

// Session is what one client connection can do to the store. It is used by one goroutine at a time.
//
// Methods may block for a bounded time. They return early when ctx is cancelled, which happens only when Shutdown runs
// out of time. An *Error is sent to the client unchanged; any other error is sent with the code ERR.
type Session interface {
	// Get returns the value of key, with Tombstone set if there is none. It does not apply the expire time. The
	// returned data is immutable.
	Get(ctx context.Context, key string) (causal.Value, error)
	// MGet is Get for several keys, in their order; keys may repeat.
	MGet(ctx context.Context, keys []string) ([]causal.Value, error)
	// Put stores v, or deletes key if v is a tombstone, and returns once the write is durable. It takes ownership of
	// v.Data.
	Put(ctx context.Context, key string, v causal.Value) error
	// Newest returns the newest records of keys that this session may see, in their order, also if its reads return
	// older ones.
	Newest(ctx context.Context, keys []string) ([]causal.Record, error)
	// Lock waits until no other session of this sidecar writes or holds any of the keys, and holds them until unlock is
	// called: others may read them, but not write. Keys may be in any order and may repeat. Lock must not deadlock.
	// Until unlock, this session reads the newest values.
	Lock(keys ...string) (unlock func())
	// Isolate is Lock for transactions: others cannot read the keys either.
	Isolate(keys ...string) (release func())
	// Causal executes a subcommand of CAUSAL. args[0] is its name as the client wrote it; the number of arguments has
	// been checked. args are valid during the call only.
	Causal(ctx context.Context, args [][]byte) (Reply, error)
	// Scan names about limit keys that may exist. cursor is 0 at first and then next of the call before, until next is
	// 0. Together the calls name every key that the session knew when the first began, perhaps more than once, and
	// perhaps others: reads tell which exist.
	Scan(ctx context.Context, cursor uint64, limit int) (keys []string, next uint64, err error)
	// DBSize returns about how many names there are that Scan may return.
	DBSize(ctx context.Context) (int64, error)
	// Info returns additional sections of INFO: lines "# Name" and "field:value", each terminated by "\r\n".
	Info() string
	// Close ends the session. It is called once, after the connection is closed.
	Close()
}

// Pipeliner is a Session that accepts the puts of a pipeline without waiting for each one.
type Pipeliner interface {
	// PutAsync is Put in two steps: when PutAsync returns, the put is ordered after every earlier put of the
	// connection; when wait returns nil, it is durable. wait is called once, in the order of the puts, before any other
	// method except PutAsync. It is not called if a panic ends the connection first.
	PutAsync(key string, v causal.Value) (wait func() error)
}

// PipelinedReader is a Session that reads the keys of a pipeline together.
type PipelinedReader interface {
	// GetEach sets results[i] to what Get returns for keys[i], as if each Get were called after the one before had
	// returned. It returns for how many of the first keys it did: at least one, and fewer than all if their values take
	// too much memory. The slices have one length, and are reused after the call, as are the keys.
	GetEach(ctx context.Context, keys [][]byte, results []GetResult) int
}

// GetResult is what Get returns.
type GetResult struct {
	Value causal.Value
	Err   error
}

// Metrics receives events. Its methods are called concurrently.
type Metrics interface {
	ConnectionOpened()
	ConnectionClosed()
	// ConnectionRefused reports a connection over Limits.MaxClients.
	ConnectionRefused()
	// ConnectionEvicted reports a connection that was closed because of Limits.MaxClientBytes.
	ConnectionEvicted()
	// CommandsDone reports n commands of the table by their full lower-case name, of which some have failed, with the
	// seconds until the reply of each was ready: for GETs that were read together, until all replies were, and for a
	// pipelined put, until it was issued.
	CommandsDone(name string, n, failed int, seconds float64)
	ProtocolError()
	Panicked()
}
