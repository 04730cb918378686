package resp

import (
	"github.com/causalstore/causalstore/sidecar/causal"
)

const (
	// maxReadAhead and firstReadAhead bound the GETs that are read together: of any batch of a connection, and of its first.
	maxReadAhead   = 64
	firstReadAhead = 16
	// readAheadBytes is about how much memory the values of a batch may take, by the size of those of the batch before.
	readAheadBytes = 1 << 20
)

// readAhead holds the values of GETs that were read together with the first of them, and are not executed yet. Nothing but these GETs executes
// meanwhile: any other command drops what is left.
type readAhead struct {
	keys    []string // as the client names them
	results []GetResult
	next    int // results[:next] are used
	bytes   int // of the values that are left
	limit   int // of keys in the next batch
}

// read returns the value of the key of a GET. If it was not read ahead, it is read together with the keys of the GETs that follow in the
// read buffer.
func (c *connection) read(key []byte) (causal.Value, error) {
	a := &c.ahead
	if a.next < len(a.keys) && a.keys[a.next] == string(key) {
		return a.take()
	}
	a.drop()
	if c.reader == nil || c.executing || c.in.buffered() == 0 {
		return c.session.Get(c.server.context, string(key))
	}
	a.keys = append(a.keys, string(key))
	c.in.peekGetKeys(a.maxKeys()-1, func(key []byte) { a.keys = append(a.keys, string(key)) })
	if len(a.keys) == 1 {
		key := a.keys[0]
		a.drop()
		return c.session.Get(c.server.context, key)
	}
	for len(a.results) < len(a.keys) {
		a.results = append(a.results, GetResult{})
	}
	c.reader.GetEach(c.server.context, storageKeys(c.database, a.keys), a.results[:len(a.keys)])
	a.measure()
	c.account()
	return a.take()
}

func (a *readAhead) maxKeys() int {
	if a.limit == 0 {
		return firstReadAhead
	}
	return a.limit
}

// measure sets the limit of the next batch by the size of this one: it grows by the double at most.
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
	a.results[a.next] = GetResult{}
	a.next++
	a.bytes -= len(r.Value.Data)
	return r.Value, r.Err
}

// drop forgets what is left.
func (a *readAhead) drop() {
	if len(a.keys) == 0 {
		return
	}
	clear(a.results)
	clear(a.keys)
	a.keys, a.next, a.bytes = a.keys[:0], 0, 0
}
