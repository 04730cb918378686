package resp

import (
	"bytes"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/value"
)

const (
	// maxReadAhead and firstReadAhead bound the GETs that are read together: of any batch of a connection, and of its
	// first.
	maxReadAhead   = 64
	firstReadAhead = 16
	// readAheadBytes is about how much memory the values of a batch may take, by the size of those of the batch before.
	readAheadBytes = 1 << 20
)

// readAhead holds the values of GETs that were read together with the first of them, and are not executed yet. Nothing
// but these GETs executes meanwhile: any other command drops what is left.
type readAhead struct {
	keys    [][]byte // as the client names them; they are in the read buffer, which holds them until all are executed
	names   [][]byte // as they are stored, in databases with a prefix
	text    []byte   // of names
	results []front.GetResult
	next    int // results[:next] are used
	bytes   int // of the values that are left
	limit   int // of keys in the next batch
}

// read returns the value of the key of a GET. If it was not read ahead, it is read together with the keys of the GETs
// that follow in the read buffer.
func (c *connection) read(key []byte) (causal.Value, error) {
	a := &c.ahead
	if a.next < len(a.keys) && bytes.Equal(a.keys[a.next], key) {
		return a.take()
	}
	a.drop()
	if c.executing {
		return c.session.Get(c.server.context, string(key))
	}
	a.keys = append(a.keys, key)
	if c.in.buffered() > 0 {
		c.in.peekGetKeys(a.maxKeys()-1, func(key []byte) { a.keys = append(a.keys, key) })
	}
	n := len(a.keys)
	for len(a.results) < n {
		a.results = append(a.results, front.GetResult{})
	}
	read := c.session.GetEach(c.server.context, a.stored(c.database), a.results[:n])
	clear(a.keys[read:])
	a.keys = a.keys[:read]
	a.measure()
	if read < n {
		a.limit = 1
	}
	if n > 1 {
		c.account()
	}
	return a.take()
}

// maxKeys is the limit of the next batch: it grows by the double at most, and is less if the values of the one before
// were large.
func (a *readAhead) maxKeys() int {
	if a.limit == 0 {
		return firstReadAhead
	}
	return a.limit
}

// stored returns the names under which the keys of a database are stored.
func (a *readAhead) stored(database int) [][]byte {
	prefixed := database != 0
	for _, key := range a.keys {
		prefixed = prefixed || len(key) > 0 && key[0] == databaseMark
	}
	if !prefixed {
		return a.keys
	}
	a.names, a.text = a.names[:0], a.text[:0]
	for _, key := range a.keys {
		from := len(a.text)
		a.text = appendStorageKey(a.text, database, key)
		a.names = append(a.names, a.text[from:]) // it keeps its bytes if a.text is moved
	}
	return a.names
}

// measure sets the limit of the next batch by the size of this one.
func (a *readAhead) measure() {
	n := len(a.keys)
	for i := range n {
		a.bytes += len(a.results[i].Value.Data)
	}
	a.limit = max(1, min(maxReadAhead, 2*a.maxKeys(), readAheadBytes*n/max(a.bytes, 1)))
}

// take returns the next value, and forgets it.
func (a *readAhead) take() (causal.Value, error) {
	r := a.results[a.next]
	a.results[a.next] = front.GetResult{}
	a.next++
	a.bytes -= len(r.Value.Data)
	if a.next == len(a.keys) {
		a.drop()
	}
	return value.TextOf(r.Value), r.Err
}

// isEmpty reports whether nothing is left.
func (a *readAhead) isEmpty() bool { return len(a.keys) == 0 }

// drop forgets what is left.
func (a *readAhead) drop() {
	if a.isEmpty() {
		return
	}
	clear(a.results[a.next:len(a.keys)])
	clear(a.keys)
	a.keys, a.next, a.bytes = a.keys[:0], 0, 0
	if cap(a.text) > retainBytes {
		a.text, a.names = nil, nil
	}
}
