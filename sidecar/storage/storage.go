// Package storage is what a middle man needs of the store below it (PROTOCOL §5), and nothing more: records by key, written
// durably, and a little metadata of its own.
//
// The failure model: the process or the machine may stop at any moment. What Apply or SetMeta acknowledged is there
// afterwards; what they did not acknowledge is there wholly or not at all. A store that lost more than that, or that another
// writer changed, is a broken one: the engines refuse settings that allow it, and report what they can notice (ErrRestarted,
// ErrFenced, ErrForeign).
package storage

import (
	"context"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Store is the storage below one middle man (one shard). Only that middle man writes to it.
//
// Keys and values are binary: any byte, any length that the engine can hold, the empty key too. All methods may be called
// from several goroutines. They return the context's error when it ends first.
//
// A Get that overlaps an Apply of the same key returns the record from before or from after it, and the latter possibly
// before it is durable: the critical section per key (PROTOCOL §5) is the caller's.
type Store interface {
	// Get returns the record of key, or found=false. Data belongs to the caller. A value without a valid envelope is a
	// *ForeignError, which is ErrForeign.
	Get(ctx context.Context, key string) (rec causal.Record, found bool, err error)

	// GetMany is Get for several keys in one go; result i is that of key i. The error is for the call as a whole; what
	// concerns one key only is in its result.
	GetMany(ctx context.Context, keys []string) ([]Result, error)

	// Apply makes all writes durable before it returns nil, in order, and as one unit: after a crash all are there or
	// none. After an error they may be there or not, and reads do not tell which until a later Apply has succeeded; the
	// same writes may be applied again. A context that ends once the engine has the writes does not cut Apply short.
	Apply(ctx context.Context, writes []Write) error

	// Meta returns a piece of metadata. Metadata is never visible as a key, and is not counted by Len.
	Meta(ctx context.Context, name string) (value []byte, found bool, err error)

	// SetMeta makes a piece of metadata durable. It is meant for small values that change rarely.
	SetMeta(ctx context.Context, name string, value []byte) error

	// Len returns the number of keys held, tombstones and foreign values included.
	Len(ctx context.Context) (int64, error)

	// Scan calls fn for every key, in any order, and stops at the first error of fn, which it returns. rec.Value.Data is
	// valid only during the call. A key written or deleted meanwhile may be visited or not, and a key may be visited
	// twice. Foreign values are passed over; if there were any, Scan returns a *SkippedError, which is ErrForeign,
	// after it has visited everything else. fn may use the store.
	Scan(ctx context.Context, fn func(key string, rec causal.Record) error) error

	// Ping returns nil if the store can be reached and serves.
	Ping(ctx context.Context) error

	// Close waits for the calls under way and frees what the store holds; later calls return ErrClosed.
	Close() error
}

// Write is one change: Key is set to Record, or removed.
type Write struct {
	Key    string
	Record causal.Record
	Delete bool
}

// Result is the answer of GetMany for one key. Err is only ever ErrForeign.
type Result struct {
	Record causal.Record
	Found  bool
	Err    error
}
