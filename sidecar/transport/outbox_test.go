package transport

import (
	"sync/atomic"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// drain takes all frames, and returns their messages and number.
func drain(t *testing.T, o *outbox) (all []causal.Message, frames int) {
	t.Helper()
	for {
		f, _ := o.take()
		if f == nil {
			return all, frames
		}
		frames++
		var err error
		if all, _, err = wire.DecodeFrame(f.batch.Buf, all); err != nil {
			t.Fatal(err)
		}
		if len(f.batch.Buf) > maxFrame || len(f.kinds) > frameMessages {
			t.Errorf("a frame of %d bytes and %d messages", len(f.batch.Buf), len(f.kinds))
		}
	}
}

func TestOutboxKeepsOrderInFramesOfBoundedSize(t *testing.T) {
	o := newOutbox(&counters{}, 64<<20, new(atomic.Int64))
	const n = 10000
	for i := range uint64(n) {
		m := put(coordinatorA, middlemanB, i)
		if i%100 == 0 {
			setValue(&m, make([]byte, 100<<10))
		}
		if why := pushOne(o, m); why != notDropped {
			t.Fatal(why)
		}
	}
	all, frames := drain(t, o)
	if frames < 30 || len(all) != n || o.queuedBytes() != 0 {
		t.Errorf("%d messages in %d frames, %d bytes left", len(all), frames, o.queuedBytes())
	}
	for i, m := range all {
		if m.Put().Seq != uint64(i) || m.From != coordinatorA || m.To != middlemanB {
			t.Fatalf("message %d from %v to %v is number %d", m.Put().Seq, m.From, m.To, i)
		}
	}
}

func TestEmptyOutboxAcceptsAMessageOverItsLimit(t *testing.T) {
	o := newOutbox(&counters{}, 700, new(atomic.Int64))
	small, great := put(coordinatorA, middlemanB, 1), put(coordinatorA, middlemanB, 2)
	setValue(&great, make([]byte, 5000))
	same(t, "into an empty one", pushOne(o, great), notDropped)
	same(t, "behind a great one", pushOne(o, small), DropOverflow)
	drain(t, o)
	same(t, "a small one", pushOne(o, small), notDropped)
	same(t, "behind a small one", pushOne(o, great), DropOverflow)
}

func TestBrokenOutboxCountsDroppedMessages(t *testing.T) {
	c := &counters{}
	o := newOutbox(c, 1<<20, new(atomic.Int64))
	m := put(coordinatorA, middlemanB, 1)
	pushOne(o, m)
	pushOne(o, m)
	o.markBroken()
	same(t, "while broken", pushOne(o, m), DropBroken)
	same(t, "lost", c.snapshot().Drops, []DropStats{{causal.KindPut, DropBroken, 2}})
	o.reopen()
	same(t, "open again", pushOne(o, m), notDropped)
	if all, _ := drain(t, o); len(all) != 1 {
		t.Errorf("%d messages", len(all))
	}
}

func TestClosedOutboxYieldsItsFramesAndStaysClosed(t *testing.T) {
	o := newOutbox(&counters{}, 1<<20, new(atomic.Int64))
	m := put(coordinatorA, middlemanB, 1)
	pushOne(o, m)
	o.close()
	o.reopen()
	same(t, "push", pushOne(o, m), DropClosed)
	if f, more := o.take(); f == nil || !more {
		t.Error("the queued message is missing")
	}
	if f, more := o.take(); f != nil || more {
		t.Error("a closed empty outbox promises more")
	}
}

func TestUnknownReasonsAndKindsAreCounted(t *testing.T) {
	c := &counters{}
	c.countDropped(200, DropCut)
	same(t, "drops", c.snapshot().Drops, []DropStats{{maxKinds - 1, DropCut, 1}})
	for r := notDropped; r < numReasons; r++ {
		if r.String() == "" || r.String() == "unknown" {
			t.Errorf("reason %d has no name", r)
		}
	}
	same(t, "beyond", numReasons.String(), "unknown")
}

// pushOne queues a message, or returns why it is dropped.
func pushOne(o *outbox, m causal.Message) DropReason {
	_, why := o.push([]causal.Message{m})
	return why
}

func TestMessagesThatArePushedTogetherLeaveInOneFrame(t *testing.T) {
	o := newOutbox(&counters{}, 1<<20, new(atomic.Int64))
	ms := make([]causal.Message, 16)
	for i := range ms {
		ms[i] = causal.Get{ID: uint64(i + 1), Key: "k"}.Message(topology.Node{Part: topology.Sidecar, Index: 1},
			topology.Node{Part: topology.Cache})
	}
	if n, why := o.push(ms); n != len(ms) || why != notDropped {
		t.Fatalf("%d were queued, then %s", n, why)
	}
	f, _ := o.take()
	same(t, "messages in the frame", len(f.kinds), len(ms))
	if next, _ := o.take(); next != nil {
		t.Errorf("%d messages are in another frame", len(next.kinds))
	}
}

func TestThoseThatFitOfMessagesAreQueued(t *testing.T) {
	o := newOutbox(&counters{}, 700, new(atomic.Int64))
	ms := make([]causal.Message, 4)
	for i := range ms {
		ms[i] = causal.GetReply{ID: uint64(i + 1),
			Record: causal.Record{Value: causal.Value{Data: make([]byte, 300)}}}.Message(topology.Node{},
			topology.Node{})
	}
	n, why := o.push(ms)
	same(t, "queued", n, 2)
	same(t, "why", why, DropOverflow)
}

func TestAnOutboxCountsWhatIsQueuedUntilItIsWrittenOrItsStreamHasEnded(t *testing.T) {
	c := &counters{}
	o := newOutbox(c, 1<<20, new(atomic.Int64))
	if o.room() < maxFrame {
		t.Errorf("an empty outbox has room for %d bytes, not for the largest message", o.room())
	}
	large := put(coordinatorA, middlemanB, 1)
	setValue(&large, make([]byte, 300<<10))
	pushOne(o, large)
	pushOne(o, large)
	held := c.queued.Load()
	if held < 600<<10 || o.room() != 1<<20-held {
		t.Fatalf("%d bytes are queued, with room for %d", held, o.room())
	}
	first, _ := o.take()
	second, _ := o.take()
	if c.queued.Load() != held {
		t.Errorf("%d bytes while they are being sent, want %d", c.queued.Load(), held)
	}
	(*sentFrame)(first).Put(nil)
	if left := c.queued.Load(); left != int64(second.size) {
		t.Errorf("%d bytes when one is written, want %d", left, second.size)
	}
	o.markBroken()
	(*sentFrame)(second).Put(nil) // late, or never
	if left := c.queued.Load(); left != 0 || o.room() < maxFrame {
		t.Errorf("%d bytes of a stream that has ended, room for %d", left, o.room())
	}
}

// What tells whether a process is there goes before megabytes that wait, and has room when they have none left.
func TestUrgentMessagesOvertakeBulk(t *testing.T) {
	o := newOutbox(&counters{}, 2<<20, new(atomic.Int64))
	for i := range uint64(40) {
		m := put(coordinatorA, middlemanB, i)
		setValue(&m, make([]byte, 100<<10))
		pushOne(o, m)
	}
	pings := []causal.Message{causal.Ping{ID: 1}.Message(coordinatorA, middlemanB),
		causal.Ping{ID: 2}.Message(coordinatorA, middlemanB)}
	if n, why := o.push(pings); n != len(pings) {
		t.Fatalf("%d of %d pings were queued: %v", n, len(pings), why)
	}
	all, _ := drain(t, o)
	if len(all) < 10 || all[0].Kind != causal.KindPing || all[0].Ping().ID != 1 || all[1].Ping().ID != 2 {
		t.Errorf("the first of %d messages is %s, want the pings in order", len(all), all[0].Kind)
	}
	for i, m := range all[2:] {
		if m.Kind != causal.KindPut || m.Put().Seq != uint64(i) {
			t.Fatalf("message %d behind the pings is %s, number %d", i, m.Kind, m.Put().Seq)
		}
	}
	if o.queuedBytes() != 0 || o.urgent != 0 {
		t.Errorf("%d bytes and %d urgent frames are left", o.queuedBytes(), o.urgent)
	}
}
