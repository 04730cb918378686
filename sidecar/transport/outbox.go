package transport

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

const (
	// frameBytes is when a frame is full. A single message may be greater.
	frameBytes = 256 << 10
	// frameMessages bounds what one frame makes the receiver allocate.
	frameMessages = 4096
)

// frame is a batch of messages on its way out, already encoded.
type frame struct {
	batch wire.Batch
	kinds []causal.Kind // of its messages, to count them when it is known what becomes of them
}

func (f *frame) full() bool { return len(f.batch.Buf) >= frameBytes || len(f.kinds) >= frameMessages }

// outbox is the queue of one link. Messages are encoded when they are put in, so it holds exact sizes and no pointers,
// and the work is done by the senders side by side. The link takes whole frames: while it is idle a message goes out
// alone and at once, and while it is busy messages gather in the next frame.
type outbox struct {
	count *counters
	limit int           // bytes
	wake  chan struct{} // has room for one token
	used  atomic.Int64  // when something last went in or came back, in nanoseconds of time.Now

	mu     sync.Mutex
	state  outboxState
	frames []*frame // the oldest first; the last one is being filled
	bytes  int
}

type outboxState uint8

const (
	outboxOpen   outboxState = iota
	outboxBroken             // the link is down: messages are dropped, as they would come too late to be of use
	outboxShut               // nothing goes in any more; what is in it may still be taken
)

func newOutbox(count *counters, limit int) *outbox {
	o := &outbox{count: count, limit: limit, wake: make(chan struct{}, 1)}
	o.touch()
	return o
}

func (o *outbox) touch() { o.used.Store(time.Now().UnixNano()) }

// idle reports whether nothing went in or came back for d.
func (o *outbox) idle(d time.Duration) bool { return time.Now().UnixNano()-o.used.Load() > int64(d) }

// push queues m, or says why not.
func (o *outbox) push(m *causal.Message) Reason {
	o.touch()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.state == outboxBroken:
		return DropBroken
	case o.state == outboxShut:
		return DropClosed
	case o.bytes > 0 && o.bytes+wire.EstimateSize(m) > o.limit:
		return DropOverflow
	}
	if len(o.frames) == 0 || o.frames[len(o.frames)-1].full() {
		o.frames = append(o.frames, newFrame())
	}
	f := o.frames[len(o.frames)-1]
	before := len(f.batch.Buf)
	f.batch.Add(m)
	f.kinds = append(f.kinds, m.Kind)
	o.bytes += len(f.batch.Buf) - before
	o.signal()
	return dropNone
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns the oldest frame, nil if there is none; more is false when there will be none any more.
func (o *outbox) take() (f *frame, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.frames) == 0 {
		return nil, o.state == outboxOpen
	}
	f = o.frames[0]
	o.frames = slices.Delete(o.frames, 0, 1)
	o.bytes -= len(f.batch.Buf)
	return f, true
}

// fail drops what is queued and, until reopen, what is pushed.
func (o *outbox) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outboxOpen {
		o.state = outboxBroken
	}
	for _, f := range o.frames {
		o.lose(f)
	}
	clear(o.frames)
	o.frames, o.bytes = o.frames[:0], 0
}

// lose counts a frame that does not go out.
func (o *outbox) lose(f *frame) {
	for _, k := range f.kinds {
		o.count.drop(k, DropBroken)
	}
}

func (o *outbox) reopen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outboxBroken {
		o.state = outboxOpen
	}
}

// shut lets nothing in any more.
func (o *outbox) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = outboxShut
	o.signal()
}

func (o *outbox) queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
