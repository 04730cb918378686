// Package storage defines what a middleman needs of the store below it (PROTOCOL MM), and nothing more: records by key,
// written durably, and a little metadata of its own.
//
// Failure model: the process or the machine may stop at any moment. What Apply or SetMeta acknowledged is there
// afterwards; a call that was not acknowledged took effect either completely or not at all. A store that loses more
// than that, or that another writer changes, is broken: the engines refuse settings that allow it, and report what they
// can detect (ErrRestarted, ErrFenced, ErrForeign).
package storage

import (
	"context"
	"errors"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// MaxNamesBytes is the size of the names that one call of Store.Keys returns, if limit does not end it before; the name
// that exceeds it, or for an engine that returns names in groups its group, is the last.
const MaxNamesBytes = 1 << 20

// Store is the storage of one middleman (one shard). Only that middleman writes to it.
//
// Keys and values are binary: any byte, any length that the engine supports, and the empty key too. All methods may be
// called concurrently. They return the context's error if it ends first.
//
// A Get that overlaps an Apply of the same key returns the record from before or from after it, and the latter possibly
// before it is durable: the critical section per key (PROTOCOL MM-11) is up to the caller. So is grouping: Apply is one
// durable write for any number of changes, and a caller that has several passes them together.
type Store interface {
	// Get returns the record of key, or found=false. The caller owns the data. A value without a valid envelope is a
	// *ForeignError, which is ErrForeign.
	Get(ctx context.Context, key string) (rec causal.Record, found bool, err error)

	// GetMany is Get for several keys at once; result i is that of key i. It may leave out the last keys: the caller
	// asks for these again. It returns the result of one key at least, and no more once they have maxBytes together, so
	// values never take more memory than that and one of them; nor does the engine hold more for the call. The returned
	// error concerns the call as a whole; an error that concerns a single key is in its result.
	GetMany(ctx context.Context, keys []string, maxBytes int) ([]Result, error)

	// Apply makes all writes and metadata durable before it returns nil, in order and atomically: after a crash all of
	// them are there or none. After an error they may be there or not, and reads do not tell which until a later Apply
	// has succeeded; the same writes may be applied again. A context that ends after the engine has taken the writes
	// does not abort Apply.
	Apply(ctx context.Context, writes []Write, meta ...Meta) error

	// Clear removes all keys, foreign ones included, and changes metadata. The metadata are durable before the first
	// key is removed; other metadata stay. After an error, or a crash, some keys may be gone; Clear may be called
	// again. Nothing may be applied meanwhile.
	Clear(ctx context.Context, meta ...Meta) error

	// Meta returns a piece of metadata. Metadata is never visible as a key, and Len does not count it.
	Meta(ctx context.Context, name string) (value []byte, found bool, err error)

	// SetMeta makes a piece of metadata durable. It is meant for small values that change rarely.
	SetMeta(ctx context.Context, name string, value []byte) error

	// Position returns how far the store has come. Every change that was acknowledged before the call is included, also
	// one of an earlier process; it never goes back, and does not read.
	Position() causal.Position

	// Len returns the number of keys, tombstones and expired values included. It is cheap. An engine that has no number
	// of its own keeps one from Write.KeyExists, and is then as exact as its caller; it does not know of foreign
	// values.
	Len(ctx context.Context) (int64, error)

	// Scan calls fn for every key, in any order, and stops at the first error of fn, which it returns. rec.Value.Data
	// is valid only during the call. A key that is written or deleted meanwhile may be visited or not, and a key may be
	// visited twice. Scan skips foreign values; if there were any, it returns a *SkippedError, which is ErrForeign,
	// after it has visited everything else. fn may use the store.
	Scan(ctx context.Context, fn func(key string, rec causal.Record) error) error

	// Keys returns the names of about limit keys, foreign ones included, in any order, and where to continue: after is
	// empty at first and then next of the call before, until next is empty. A key that is there all the time is named
	// at least once. It returns fewer names if they are long. If the engine cannot continue, because the server has
	// restarted, it returns ErrCursor.
	Keys(ctx context.Context, after string, limit int) (keys []string, next string, err error)

	// Ping returns nil if the store is reachable and serves requests. It may return ErrFull.
	Ping(ctx context.Context) error

	// Close waits for the running calls and releases the store's resources. Later calls return ErrClosed.
	Close() error
}

// Write is one change. Only Len depends on its KeyExists.
type Write = causal.Write

// Meta is a change of a piece of metadata: it is set to Value, or removed.
type Meta struct {
	Name   string
	Value  []byte
	Delete bool
}

// Result is the answer of GetMany for one key. Err is nil or ErrForeign.
type Result struct {
	Record causal.Record
	Found  bool
	Err    error
}

// Size returns the size of the value, in bytes.
func (r *Result) Size() int {
	if foreign, ok := errors.AsType[*ForeignError](r.Err); ok {
		return len(foreign.Data)
	}
	return r.Record.Value.Size()
}
