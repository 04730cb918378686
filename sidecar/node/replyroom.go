package node

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// A middleman reads a value for somebody else only if there is room for the reply: what it has read and not sent takes
// memory until the reader, or the network, takes it. A request for which there is none waits here, before the machine
// knows of it, as if it were still on its way. So it keeps nothing waiting but itself: neither writes of its key, nor
// reads of others whose replies do leave. After a while it is refused, and whoever still wants the value asks again.

const (
	// replyPatience is how long a request waits. A sidecar next door asks elsewhere after 250 ms, and then has no use
	// for the reply.
	replyPatience = 200 * time.Millisecond
	// replyPoll is how often it is looked whether there is room again.
	replyPoll = 2 * time.Millisecond
	// maxWaiting bounds the requests that wait, in bytes, and maxWaitingOfOne those of one identity. Further ones are
	// refused.
	maxWaiting, maxWaitingOfOne = 16 << 20, 4 << 20
	// readBytes is about what a request takes beside its key, while it waits or is with storage.
	readBytes = 512
	// littleQueued is what may be queued for a node without a look at its own bound, which is always greater.
	littleQueued = 256 << 10
)

// replyRoom decides which reads have room for their replies. The lock of the host guards it.
type replyRoom struct {
	queues transport.Queues // nil: nothing is queued
	max    int64            // bytes of replies that are queued or expected
	// usual is about how large a value is: the largest of late, less a little with each that is smaller.
	usual    int64
	admitted unanswered // reads of this step that storage was not asked for yet
	waiting  []waitingRead
	quota    causal.Quota // of what waits
	polling  bool
}

// waitingRead is a request without room.
type waitingRead struct {
	request causal.Message
	since   int64
	holder  causal.Holder
}

// unanswered are reads that were admitted, and what they take beside their values, in bytes.
type unanswered struct{ reads, bytes int64 }

func (u *unanswered) add(key string) {
	u.reads++
	u.bytes += readSize(key)
}

func (u *unanswered) remove(key string) {
	u.reads--
	u.bytes -= readSize(key)
}

func readSize(key string) int64 { return readBytes + int64(len(key)) }

func newReplyRoom(net transport.Network, maxBytes int64, ownerOf func(topology.Node) string) replyRoom {
	r := replyRoom{max: maxBytes, quota: causal.Quota{Total: maxWaiting, Each: maxWaitingOfOne, OwnerOf: ownerOf}}
	if maxBytes > 0 {
		r.queues, _ = net.(transport.Queues)
	}
	return r
}

// noteRead takes the size of a value that was read for somebody else.
func (r *replyRoom) noteRead(size int) {
	if r.usual -= r.usual / 16; int64(size) > r.usual {
		r.usual = int64(size)
	}
}

// canExpect reports whether one more reply may be expected in all, and for the reader, beside those to unanswered
// reads. One may always be that finds nothing queued or expected.
func (r *replyRoom) canExpect(reader topology.Node, u unanswered) (inAll, forReader bool) {
	queued, expected := r.queues.QueuedBytes(), (u.reads+1)*r.usual+u.bytes
	switch {
	case queued+expected <= littleQueued:
		return true, true
	case queued+expected > r.max && queued+u.reads > 0:
		return false, false
	}
	room := r.queues.Room(reader)
	return true, room >= expected || u.reads == 0 && room >= r.usual
}

// isFull reports whether a value must not be read now, because there is no room left for any.
func (r *replyRoom) isFull(op *middleman.StorageOp) bool {
	if !op.ForReader || r.queues == nil {
		return false
	}
	queued := r.queues.QueuedBytes()
	return queued > littleQueued && (queued >= r.max || r.queues.Room(op.Reader) <= 0)
}

// ended takes note that a request waits no more.
func (r *replyRoom) ended(w *waitingRead) {
	r.quota.Release(w.holder, int(readSize(readKey(&w.request))))
}

// readKey returns the key of a Get or a Fill.
func readKey(m *causal.Message) string {
	if m.Kind == causal.KindFill {
		return m.Fill().Key
	}
	return m.Get().Key
}

func isReadRequest(m *causal.Message) bool {
	return m.Kind == causal.KindGet || m.Kind == causal.KindFill
}

// Handle implements Host.
func (mm *shardDriver[M]) Handle(batch []causal.Message) {
	if mm.replies.queues == nil {
		mm.host.Handle(batch)
		return
	}
	mm.step(func(now causal.Now, m M) {
		mm.replies.admitted = unanswered{}
		for i := range batch {
			if isReadRequest(&batch[i]) {
				mm.admitRead(now, &batch[i])
			} else {
				m.Step(now, &batch[i])
			}
		}
	})
}

// admitRead passes a request to the machine if there is room for its reply. It is called with the lock held.
func (mm *shardDriver[M]) admitRead(now causal.Now, request *causal.Message) {
	r := &mm.replies
	if len(r.waiting) == 0 {
		if inAll, forReader := r.canExpect(request.From, mm.unansweredReads()); inAll && forReader {
			r.admitted.add(readKey(request))
			mm.m.Step(now, request)
			return
		}
	}
	holder, ok := r.quota.TakeSize(request.From, int(readSize(readKey(request))))
	if !ok {
		mm.m.RefuseRead(now, request)
		return
	}
	r.waiting = append(r.waiting, waitingRead{*request, now.Mono, holder})
	mm.pollReplyRoom()
}

// unansweredReads returns the reads for others that are with storage, or will be.
func (mm *shardDriver[M]) unansweredReads() unanswered {
	u := mm.replies.admitted
	u.reads += mm.readsAsked.reads
	u.bytes += mm.readsAsked.bytes
	return u
}

// pollReplyRoom makes what waits be looked at again. It is called with the lock held.
func (mm *shardDriver[M]) pollReplyRoom() {
	if mm.replies.polling {
		return
	}
	mm.replies.polling = true
	time.AfterFunc(replyPoll, func() {
		mm.step(func(now causal.Now, _ M) {
			mm.replies.polling = false
			mm.admitWaiting(now)
		})
	})
}

// admitWaiting passes on the requests for whose replies there is room again, in the order in which they came, and
// refuses those that have waited too long. One whose reader has no room does not keep those of other readers waiting.
func (mm *shardDriver[M]) admitWaiting(now causal.Now) {
	r := &mm.replies
	r.admitted = unanswered{}
	waiting := r.waiting
	kept := waiting[:0]
	full := false
	var blocked map[topology.Node]bool
	for i := range waiting {
		w := &waiting[i]
		if now.Mono-w.since > int64(replyPatience) {
			r.ended(w)
			mm.m.RefuseRead(now, &w.request)
			continue
		}
		if !full && !blocked[w.request.From] {
			inAll, forReader := r.canExpect(w.request.From, mm.unansweredReads())
			if inAll && forReader {
				r.ended(w)
				r.admitted.add(readKey(&w.request))
				mm.m.Step(now, &w.request)
				continue
			}
			if full = !inAll; !full {
				if blocked == nil {
					blocked = map[topology.Node]bool{}
				}
				blocked[w.request.From] = true
			}
		}
		kept = append(kept, *w)
	}
	clear(waiting[len(kept):])
	if r.waiting = kept; len(kept) > 0 {
		mm.pollReplyRoom()
	} else {
		r.waiting = nil
	}
}
