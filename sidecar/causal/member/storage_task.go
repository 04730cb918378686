package member

import "github.com/causalstore/causalstore/sidecar/causal"

// TaskKind is the kind of a StorageTask.
type TaskKind uint8

// The kinds of tasks.
const (
	// TaskApply makes Changes, in order, and writes Marker, all atomically. There may be no changes.
	TaskApply TaskKind = iota + 1
	// TaskClear writes Marker, and then removes all keys and all metadata of the middleman. It is done when both are
	// done.
	TaskClear
	// TaskRead reads keys with their records, about MaxBytes of them, from After on, and with First all metadata of the
	// middleman. A key that is there all the time is read at least once.
	TaskRead
	// TaskWrite writes Records and Meta, and Marker, all atomically. Keys may be there already.
	TaskWrite
)

// StorageTask is a request to the local storage. Tasks come one at a time: the next one is there when the last one is
// done.
type StorageTask struct {
	ID   uint64
	Kind TaskKind
	// Changes are not to be changed; they are valid until the task is done.
	Changes []Change
	// CheckExistence: Write.KeyExists may be wrong, so what the storage holds is to be looked up.
	CheckExistence bool
	Marker         Applied

	After    string // "": from the beginning
	First    bool
	MaxBytes int

	Records []causal.Moved
	Meta    []Meta
}

// StorageTaskResult is what has become of a task. After an error it is repeated, later and perhaps under another id.
type StorageTaskResult struct {
	Err error
	// Of TaskRead. Records and Meta are retained. Next is where to go on; "": that was all.
	Records []causal.Moved
	Meta    []Meta
	Next    string
	// BadCursor: the storage cannot go on at After, e.g. because it has restarted. It is read from the beginning.
	BadCursor bool
}
