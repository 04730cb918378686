package redis

import (
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// batch builds the commands of one Apply. Runs of writes are one MSET and runs of deletions one DEL, which costs the
// server and the client less than a command for each. The arguments point into the writes: a value is encoded only when
// it is written to the connection.
type batch struct {
	args     []any
	commands []command
	values   []envelope
	buf      []byte // of the value that is being written
}

var batches = sync.Pool{New: func() any { return new(batch) }}

const (
	maxRetainedWrites = 1024
	maxRetainedBuffer = 1 << 20
)

// envelope is a record as the server stores it.
type envelope struct {
	key    *string
	record *causal.Record
	buf    *[]byte
}

// MarshalBinary implements encoding.BinaryMarshaler. The client copies the result before it encodes the next argument.
func (e *envelope) MarshalBinary() ([]byte, error) {
	*e.buf = storage.AppendRecord((*e.buf)[:0], *e.key, *e.record)
	return *e.buf, nil
}

// build returns the commands of writes. They are valid until release.
func (b *batch) build(writes []storage.Write) []command {
	if cap(b.values) < len(writes) { // the arguments point into them, so they must not move
		b.values, b.args = make([]envelope, 0, len(writes)), make([]any, 0, 3*len(writes))
	}
	for i := 0; i < len(writes); {
		first, verb := len(b.args), "MSET"
		if writes[i].Delete {
			verb = "DEL"
		}
		b.args = append(b.args, verb)
		for isDelete := writes[i].Delete; i < len(writes) && writes[i].Delete == isDelete; i++ {
			b.args = append(b.args, nameArg(&writes[i].Key))
			if !isDelete {
				b.values = append(b.values, envelope{&writes[i].Key, &writes[i].Record, &b.buf})
				b.args = append(b.args, &b.values[len(b.values)-1])
			}
		}
		b.commands = append(b.commands, b.args[first:len(b.args):len(b.args)])
	}
	return b.commands
}

// nameArg returns the name of a key as an argument. A pointer, unlike a string, becomes one without an allocation.
func nameArg(key *string) any {
	if name := nameOf(*key); name != *key {
		return name
	}
	return key
}

// release makes b available for another Apply.
func (b *batch) release() {
	if cap(b.values) > maxRetainedWrites || cap(b.buf) > maxRetainedBuffer {
		return
	}
	clear(b.args)
	clear(b.commands)
	clear(b.values)
	b.args, b.commands, b.values = b.args[:0], b.commands[:0], b.values[:0]
	batches.Put(b)
}
