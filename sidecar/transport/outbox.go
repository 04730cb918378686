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
	// frameBytes is the size from which a frame is full. A single message may be larger.
	frameBytes = 256 << 10
	// frameMessages bounds the messages of a frame, and so what the receiver allocates for it.
	frameMessages = 4096
	// urgentBytes is how much may wait in the only frame before urgent messages get one of their own.
	urgentBytes = 16 << 10
)

// frame is an encoded batch of messages to send.
type frame struct {
	batch  wire.Batch
	kinds  []causal.Kind // of its messages, to count them as sent or dropped
	urgent bool          // of urgent messages only
	users  atomic.Int32  // the pump, which counts them, and gRPC, which writes the batch

	// set by take
	from   *outbox
	period uint64 // of the outbox
	size   int
}

func (f *frame) isFull() bool { return len(f.batch.Buf) >= frameBytes || len(f.kinds) >= frameMessages }

// outbox is the queue of one link. It encodes messages as they are pushed, so it knows exact sizes, holds no pointers,
// and encodes on the goroutines of the senders. The link takes whole frames: while it is idle and nobody else can run,
// a message is sent alone and at once; otherwise messages accumulate in the next frame.
type outbox struct {
	count *counters
	limit int           // bytes
	wake  chan struct{} // holds a token if there may be something to take
	// when the link, or another one of its group, last sent or received, in nanoseconds since the epoch
	lastUsed *atomic.Int64

	mu      sync.Mutex
	state   outboxState
	frames  []*frame // oldest first, urgent ones before all others; the last one of either is being filled
	urgent  int      // how many of frames are urgent
	bytes   int      // of frames
	sending int      // bytes that were taken in this period and are not written to the connection yet
	period  uint64   // changes when what was taken does not count any more, because its stream has ended
	// lacksAnswers says that an answer to a put was dropped because the queue was full, on this stream or one that it
	// renews.
	lacksAnswers bool
	account      *account // pays for what is queued and being sent; nil if nobody does
	// protocol is the link protocol that the peer is known to speak.
	protocol uint32
}

type outboxState uint8

const (
	outboxOpen   outboxState = iota
	outboxBroken             // the link is down; messages are dropped, because they would arrive too late
	outboxClosed             // nothing goes in any more; what is in it may still be taken
)

func newOutbox(count *counters, limit int, lastUsed *atomic.Int64) *outbox {
	o := &outbox{count: count, limit: limit, lastUsed: lastUsed, wake: make(chan struct{}, 1),
		protocol: wire.MinProtocol}
	o.touch()
	return o
}

// speak sets the link protocol of the peer. Until it is known, what is pushed is encoded for the oldest one.
func (o *outbox) speak(protocol uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.protocol = protocol
}

// charge makes an account pay for what is queued.
func (o *outbox) charge(a *account) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.account = a
}

// settle makes the account pay for the bytes that are there, and more, or reports that it cannot. It needs o.mu.
func (o *outbox) settle(more int) bool {
	return o.account == nil || o.account.try(int64(o.bytes+o.sending+more))
}

func (o *outbox) touch() { touch(o.lastUsed) }

func touch(lastUsed *atomic.Int64) { lastUsed.Store(time.Now().UnixNano()) }

// idleFor reports whether the link has neither sent nor received for d.
func (o *outbox) idleFor(d time.Duration) bool {
	return time.Now().UnixNano()-o.lastUsed.Load() > int64(d)
}

// push queues messages, which mostly leave in one frame. It returns how many it has queued and, if these are not all,
// why the next one is dropped.
func (o *outbox) push(ms []causal.Message) (queued int, reason DropReason) {
	o.touch()
	o.mu.Lock()
	defer o.mu.Unlock()
	for queued < len(ms) && reason == notDropped {
		if reason = o.add(&ms[queued]); reason == notDropped {
			queued++
		}
	}
	if queued > 0 {
		o.signal()
	}
	return queued, reason
}

// add appends a message to the last frame. It needs o.mu.
func (o *outbox) add(m *causal.Message) DropReason {
	size, limit := wire.EstimateSize(m), o.limit
	if isUrgent(m.Kind) {
		limit += frameBytes // they are not dropped because of others
	}
	switch {
	case o.state == outboxBroken:
		return DropBroken
	case o.state == outboxClosed:
		return DropClosed
	case o.bytes > 0 && o.bytes+size > limit, !o.settle(size):
		o.lacksAnswers = o.lacksAnswers || m.Kind == causal.KindPutReply
		return DropOverflow
	}
	f := o.frameFor(m.Kind)
	before := len(f.batch.Buf)
	f.batch.Protocol = o.protocol
	f.batch.Add(m)
	f.kinds = append(f.kinds, m.Kind)
	o.grow(len(f.batch.Buf) - before)
	return notDropped
}

// isUrgent reports whether messages of a kind are sent before all others that wait. They are few and small, and tell
// whether somebody is there: behind megabytes of puts to a slow process they would come so late that the process, or
// its whole data center, is taken for dead. They may overtake others: the machines do not rely on the order of messages
// of different kinds.
func isUrgent(k causal.Kind) bool {
	switch k {
	case causal.KindPing, causal.KindPong, causal.KindVectors, causal.KindSignedVectors:
		return true
	}
	return false
}

// frameFor returns the frame to which a message is added. If nothing waits, or the next frame is still small, there is
// nothing to overtake. It needs o.mu.
func (o *outbox) frameFor(k causal.Kind) *frame {
	if !isUrgent(k) || len(o.frames)-o.urgent <= 1 && o.bytes < urgentBytes {
		if len(o.frames) == o.urgent || o.frames[len(o.frames)-1].isFull() {
			o.frames = append(o.frames, newFrame())
		}
		return o.frames[len(o.frames)-1]
	}
	if o.urgent == 0 || o.frames[o.urgent-1].isFull() {
		f := newFrame()
		f.urgent = true
		o.frames = slices.Insert(o.frames, o.urgent, f)
		o.urgent++
	}
	return o.frames[o.urgent-1]
}

// grow counts bytes that were queued. It needs o.mu.
func (o *outbox) grow(n int) {
	o.bytes += n
	o.count.queued.Add(int64(n))
}

// pushProbe queues a probe. It is not a message: it counts for no limit, and does not make an idle link a busy one.
func (o *outbox) pushProbe(p wire.Probe) {
	o.pushControl(false, func(frame []byte) []byte { return wire.AppendProbe(frame, p) })
}

// pushRoots queues which authorities of the peer this process trusts, as pushProbe does, and reports whether it could.
func (o *outbox) pushRoots(r wire.Roots) bool {
	return o.pushControl(false, func(frame []byte) []byte { return wire.AppendRoots(frame, r) })
}

// pushAnnouncement queues an announcement. It comes first in a new frame, and so after the messages that were queued
// before.
func (o *outbox) pushAnnouncement(a wire.Announcement) {
	o.pushControl(true, func(frame []byte) []byte { return wire.AppendAnnouncement(frame, a) })
}

// pushControl appends what is no message to the last frame, or to a new one.
func (o *outbox) pushControl(inNewFrame bool, add func(frame []byte) []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != outboxOpen {
		return false
	}
	if len(o.frames) == o.urgent || inNewFrame {
		o.frames = append(o.frames, newFrame())
	}
	f := o.frames[len(o.frames)-1]
	before := len(f.batch.Buf)
	f.batch.Buf = add(f.batch.Buf)
	o.grow(len(f.batch.Buf) - before)
	o.signal()
	return true
}

// answerProbe answers a probe of the peer.
func (o *outbox) answerProbe(p wire.Probe) {
	if p == wire.ProbeRequest {
		o.pushProbe(wire.ProbeAnswer)
	}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns the oldest frame, or nil if there is none. more is false if none will follow.
func (o *outbox) take() (f *frame, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.frames) == 0 {
		return nil, o.state == outboxOpen
	}
	f = o.frames[0]
	o.frames = slices.Delete(o.frames, 0, 1)
	if f.urgent {
		o.urgent--
	}
	f.from, f.period, f.size = o, o.period, len(f.batch.Buf)
	o.bytes -= f.size
	o.sending += f.size
	return f, true
}

// written is called when gRPC has written a frame.
func (o *outbox) written(f *frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.period == o.period {
		o.stopSending(f.size)
	}
}

// stopSending ends the count of bytes that were taken. It needs o.mu.
func (o *outbox) stopSending(n int) {
	o.sending -= n
	o.count.queued.Add(-int64(n))
	o.settle(0)
}

// room returns how many bytes may be queued now. If nothing is, a message of any size may.
func (o *outbox) room() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := o.bytes + o.sending
	room := int64(o.limit - held)
	if held == 0 {
		room = max(room, maxFrame)
	}
	if o.account != nil {
		room = min(room, o.account.room())
	}
	return room
}

// markBroken drops the queue and, until reopen, everything that is pushed. It returns the puts of the queue.
func (o *outbox) markBroken() (puts []causal.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outboxOpen {
		o.state = outboxBroken
	}
	o.protocol = wire.MinProtocol // the next process at this address may be of another version
	for _, f := range o.frames {
		o.countLost(f)
		puts = append(puts, f.puts()...)
	}
	clear(o.frames)
	o.frames, o.urgent = o.frames[:0], 0
	o.grow(-o.bytes)
	o.period++ // gRPC may never say that it has written what was taken
	o.stopSending(o.sending)
	return puts
}

// puts returns the puts of a frame.
func (f *frame) puts() []causal.Message {
	if !slices.ContainsFunc(f.kinds, causal.Kind.IsPut) {
		return nil
	}
	all, _, err := wire.DecodeFrame(f.batch.Buf, nil)
	if err != nil {
		panic(err) // unreachable: this process has encoded it
	}
	return slices.DeleteFunc(all, func(m causal.Message) bool { return !m.Kind.IsPut() })
}

// countLost counts the messages of a frame as dropped.
func (o *outbox) countLost(f *frame) {
	for _, k := range f.kinds {
		o.count.countDropped(k, DropBroken)
	}
}

// reopen ends the effect of markBroken.
func (o *outbox) reopen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state == outboxBroken {
		o.state = outboxOpen
	}
}

// close makes the outbox refuse messages. What is queued can still be taken.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state = outboxClosed
	o.signal()
}

// renew takes over from the outbox of the stream that this one's stream renews, which is closed.
func (o *outbox) renew(old *outbox) {
	lacks := old.hasDroppedAnswers()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lacksAnswers = lacks
}

func (o *outbox) hasDroppedAnswers() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lacksAnswers
}

func (o *outbox) queuedBytes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
