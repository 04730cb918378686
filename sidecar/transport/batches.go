package transport

import (
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// oneMessageBatches pools batches of one message, for direct calls of handlers.
var oneMessageBatches = sync.Pool{New: func() any { return new([1]causal.Message) }}

// callWithOne calls h with a batch of only m, without an allocation.
func callWithOne(h Handler, m *causal.Message) {
	one := oneMessageBatches.Get().(*[1]causal.Message)
	one[0] = *m
	h(one[:])
	one[0] = causal.Message{}
	oneMessageBatches.Put(one)
}

// batches pools batches of any size. They are returned empty.
var batches = sync.Pool{New: func() any { return new([]causal.Message) }}
