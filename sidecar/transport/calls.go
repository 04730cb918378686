package transport

import (
	"sync"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// calls counts the running calls of Handlers, so that Close can wait for them. A sync.WaitGroup cannot do this: it must
// not go up from zero while it is waited for.
type calls struct {
	ended   atomic.Bool
	running atomic.Int64
	idle    chan struct{} // has room for one token
}

func newCalls() calls { return calls{idle: make(chan struct{}, 1)} }

// enter reports whether a Handler may be called; then leave must follow.
func (c *calls) enter() bool {
	c.running.Add(1)
	if c.ended.Load() {
		c.leave()
		return false
	}
	return true
}

func (c *calls) leave() {
	if c.running.Add(-1) == 0 && c.ended.Load() {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
}

// end lets no further call begin, and waits until none is running.
func (c *calls) end() {
	c.ended.Store(true)
	for c.running.Load() != 0 {
		<-c.idle
	}
}

// singles are batches of one message, for direct calls.
var singles = sync.Pool{New: func() any { return new([1]causal.Message) }}

// single calls h with m alone, without an allocation.
func single(h Handler, m *causal.Message) {
	one := singles.Get().(*[1]causal.Message)
	one[0] = *m
	h(one[:])
	one[0] = causal.Message{}
	singles.Put(one)
}

// batches are for what comes in lots. They are given back empty.
var batches = sync.Pool{New: func() any { return new([]causal.Message) }}
