package transport

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

func upTo(n uint64) (seqs []uint64) {
	for i := range n {
		seqs = append(seqs, i)
	}
	return seqs
}

func TestProcessesExchangeMessagesInOrder(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	const n = 20000
	for i := range uint64(n) {
		a.Send(put(coordinatorA, middlemanB, i))
		b.Send(put(middlemanB, coordinatorA, i))
	}
	b.wait(t, n)
	a.wait(t, n)
	same(t, "to b", b.seqs(), upTo(n))
	same(t, "to a", a.seqs(), upTo(n))
	s := a.Stats()
	same(t, "messages", s.Messages, []MessageStats{{causal.KindPut, n, n}})
	if s.FramesSent > n/2 || s.BytesSent == 0 || len(s.Drops) != 0 {
		t.Errorf("%d frames, %d bytes for %d messages; drops: %v", s.FramesSent, s.BytesSent, n, s.Drops)
	}
}

// setValue gives a put a value.
func setValue(m *causal.Message, data []byte) {
	p := m.Put()
	p.Value.Data = data
	*m = p.Message(m.From, m.To)
}

func TestAMessageArrivesAsItWasSent(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	deps := causal.NewDepList(1)
	deps.AddLane(causal.Dep{Slot: 4095})
	m := causal.PutAfter{Key: "k", Previous: 9, Deps: deps,
		Record: causal.Record{Version: causal.Version{HLC: 8, Origin: 1},
			Value: causal.Value{Data: []byte("v"), ExpireAtMs: 5}}}.Message(coordinatorA, middlemanB)
	a.Send(m)
	same(t, "received", b.wait(t, 1), []causal.Message{m})
}

func TestProcessWithoutAddressIsReachedOverItsOwnLink(t *testing.T) {
	d := newDirectory()
	c := start(t, d, []topology.Node{coordinatorA})
	s := start(t, d, []topology.Node{sidecarA})
	c.Send(put(coordinatorA, sidecarA, 0)) // there is no link yet
	s.Send(put(sidecarA, coordinatorA, 1))
	c.wait(t, 1)
	for i := range uint64(100) {
		c.Send(put(coordinatorA, sidecarA, i))
	}
	s.wait(t, 100)
	same(t, "answers", s.seqs(), upTo(100))
	stats := c.Stats()
	same(t, "drops", stats.Drops, []DropStats{{causal.KindPut, DropNoRoute, 1}})
	same(t, "links", stats.Links, []LinkStats{{Process: "sidecar-77@dc0", Up: true, TopologyEpoch: 5,
		Nodes: []topology.Node{sidecarA}}},
		cmpopts.IgnoreFields(LinkStats{}, "Address"))

	s.Close()
	waitFor(t, "the link to be removed", func() bool { return len(c.Stats().Links) == 0 })
	c.Send(put(coordinatorA, sidecarA, 0))
	if got := c.Stats(); dropped(got, DropNoRoute) != 2 {
		t.Errorf("drops: %v", got.Drops)
	}
}

func TestMessagesWithinAProcessAreDeliveredDirectly(t *testing.T) {
	a := start(t, newDirectory(), []topology.Node{coordinatorA, middlemanA})
	a.Send(put(coordinatorA, middlemanA, 1))
	same(t, "handled before Send returned", a.seqs(), []uint64{1})
}

func TestLargestValueArrives(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	m := put(coordinatorA, middlemanB, 1)
	setValue(&m, bytes.Repeat([]byte("0123456789abcdef"), 1<<20))
	a.Send(m)
	if got := b.wait(t, 1)[0]; !bytes.Equal(got.Put().Value.Data, m.Put().Value.Data) {
		t.Error("the value has changed")
	}
	setValue(&m, make([]byte, wire.MaxMessage))
	a.Send(m)
	if s := a.Stats(); dropped(s, DropInvalid) != 1 {
		t.Errorf("drops: %v", s.Drops)
	}
}

// The frame has as much in it as one that is not full may have, and the greatest message behind that.
func TestTheGreatestMessageArrivesInAFrameWithOthers(t *testing.T) {
	if maxFrame != 20<<20+512<<10 {
		t.Errorf("a frame has up to %d bytes: readers of earlier versions take 20.5 MiB", maxFrame)
	}
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	var all []causal.Message
	for size := frameBytes - 1<<10; size > 0; size -= 32 << 10 {
		m := put(coordinatorA, middlemanB, uint64(len(all)))
		setValue(&m, make([]byte, min(size, 32<<10)-100))
		all = append(all, m)
	}
	m := put(coordinatorA, middlemanB, uint64(len(all)))
	setValue(&m, make([]byte, wire.MaxMessage-m.MaxEncodedSize()))
	all = append(all, m)
	a.SendAll(all)
	got := b.wait(t, len(all))
	if n := len(got[len(got)-1].Put().Value.Data); n != len(m.Put().Value.Data) {
		t.Errorf("%d bytes have arrived", n)
	}
	if s := a.Stats(); len(s.Drops) > 0 {
		t.Errorf("drops: %v", s.Drops)
	}
}

func TestStuckReceiverDoesNotBlockTheSender(t *testing.T) {
	d := newDirectory()
	a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) { c.QueueBytes = 1 << 20 })
	free := make(chan struct{})
	start(t, d, []topology.Node{middlemanB}, func(c *Config, _ *timings) {
		c.Handler = func([]causal.Message) { <-free }
	})
	b2 := start(t, d, []topology.Node{middlemanA})
	m := put(coordinatorA, middlemanB, 1)
	setValue(&m, make([]byte, 64<<10))
	waitFor(t, "the queue to be full", func() bool {
		a.Send(m)
		s := a.Stats()
		return dropped(s, DropOverflow) > 0
	})
	for _, l := range a.Stats().Links {
		if l.QueuedBytes > 1<<20+frameBytes {
			t.Errorf("%d bytes are queued", l.QueuedBytes)
		}
	}
	a.Send(put(coordinatorA, middlemanA, 2))
	b2.wait(t, 1) // other peers are not affected
	close(free)
}

func TestPeerIsReachedAgainAtANewAddress(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanB, 1))
	b.wait(t, 1)
	b.Close()
	waitFor(t, "messages to be dropped", func() bool {
		a.Send(put(coordinatorA, middlemanB, 2))
		s := a.Stats()
		return dropped(s, DropBroken) > 0 && s.Failed > 0
	})

	again := start(t, newDirectory(), []topology.Node{middlemanB})
	d.set(again.addr, middlemanB) // as after reloading the configuration
	waitFor(t, "the new process to be reached", func() bool {
		a.Send(put(coordinatorA, middlemanB, 3))
		return len(again.all()) > 0
	})
	if seqs := b.seqs(); len(seqs) != 1 {
		t.Errorf("the closed network handled %v", seqs)
	}
}

func TestPeerIsReachedAgainAtItsOldAddress(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanB, 1))
	b.wait(t, 1)
	b.Close()
	again := &testProcess{recorder: newRecorder(), log: &capture.Buffer{}}
	var err error
	if again.GRPC, err = newGRPC(Config{Process: "b", Nodes: []topology.Node{middlemanB}, Handler: again.handle,
		Resolve: d.resolve, Log: slog.New(slog.DiscardHandler)}, quick()); err != nil {
		t.Fatal(err)
	}
	again.listen(t, b.addr)
	waitFor(t, "the new process to be reached", func() bool {
		a.Send(put(coordinatorA, middlemanB, 3))
		return len(again.all()) > 0
	})
}

func TestMisroutedMessagesAreDroppedByTheReceiver(t *testing.T) {
	d := newDirectory()
	a, b := start(t, d, []topology.Node{coordinatorA}), start(t, d, []topology.Node{middlemanB})
	d.set(b.addr, middlemanA) // an outdated address, which b has now
	a.Send(put(coordinatorA, middlemanA, 1))
	a.Send(put(coordinatorA, middlemanB, 2))
	b.wait(t, 1)
	same(t, "handled", b.seqs(), []uint64{2})
	if s := b.Stats(); dropped(s, DropMisrouted) != 1 {
		t.Errorf("drops: %v", s.Drops)
	}
}

func TestCloseSendsQueuedMessages(t *testing.T) {
	d := newDirectory()
	b := start(t, d, []topology.Node{middlemanB})
	for range 5 {
		a := start(t, d, []topology.Node{coordinatorA})
		before := len(b.all())
		for i := range uint64(2000) {
			a.Send(put(coordinatorA, middlemanB, i))
		}
		a.Close()
		b.wait(t, before+2000)
		a.Send(put(coordinatorA, middlemanB, 1))
		if s := a.Stats(); dropped(s, DropClosed) != 1 || dropped(s, DropBroken) != 0 {
			t.Errorf("drops: %v", s.Drops)
		}
	}
}

func TestCloseGivesUpOnAStuckPeer(t *testing.T) {
	d := newDirectory()
	free := make(chan struct{})
	start(t, d, []topology.Node{middlemanB}, func(c *Config, _ *timings) {
		c.Handler = func([]causal.Message) { <-free }
	})
	t.Cleanup(func() { close(free) })
	a := start(t, d, []topology.Node{coordinatorA}, func(_ *Config, tm *timings) { tm.flush = 10 * time.Millisecond })
	m := put(coordinatorA, middlemanB, 1)
	setValue(&m, make([]byte, 4<<20))
	for range 7 { // more than fits into the flow control windows
		a.Send(m)
	}
	waitFor(t, "a frame to be sent", func() bool { return a.Stats().FramesSent > 0 })
	over := make(chan struct{})
	go func() { a.Close(); close(over) }()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("Close does not return")
	}
}

func TestIdleLinkIsClosedAndReopenedOnDemand(t *testing.T) {
	d := newDirectory()
	b := start(t, d, []topology.Node{middlemanB})
	a := start(t, d, []topology.Node{coordinatorA}, func(_ *Config, tm *timings) { tm.idle = 20 * time.Millisecond })
	for i := range 3 {
		a.Send(put(coordinatorA, middlemanB, uint64(i)))
		b.wait(t, i+1)
		waitFor(t, "the idle link to be closed", func() bool { return len(a.Stats().Links) == 0 })
	}
	if s := a.Stats(); len(s.Drops) != 0 || s.Opened != 3 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestEmulatedWANDelaysAndCutsMessagesToOtherDataCenters(t *testing.T) {
	d := newDirectory()
	e := emulator(t)
	a := start(t, d, []topology.Node{coordinatorA}, func(c *Config, _ *timings) { c.WAN = e })
	b, near := start(t, d, []topology.Node{middlemanB}), start(t, d, []topology.Node{middlemanA})
	_ = e.Cut(0, 1)
	a.Send(put(coordinatorA, middlemanB, 1))
	a.Send(put(coordinatorA, middlemanA, 2))
	near.wait(t, 1)
	e.HealAll()
	sent := time.Now()
	a.Send(put(coordinatorA, middlemanB, 3))
	b.wait(t, 1)
	if took := time.Since(sent); took < 20*time.Millisecond {
		t.Errorf("a message took %v; the one-way delay is 20 ms", took)
	}
	same(t, "far", b.seqs(), []uint64{3})
	if s := a.Stats(); dropped(s, DropCut) != 1 {
		t.Errorf("drops: %v", s.Drops)
	}
}

func TestInvalidConfigurationIsRefused(t *testing.T) {
	good := Config{Process: "a", Nodes: []topology.Node{coordinatorA}, Handler: newRecorder().handle,
		Resolve: newDirectory().resolve}
	for name, spoil := range map[string]func(*Config){
		"process": func(c *Config) { c.Process = "" },
		"nodes":   func(c *Config) { c.Nodes = nil },
		"handler": func(c *Config) { c.Handler = nil },
		"resolve": func(c *Config) { c.Resolve = nil },
		"tls":     func(c *Config) { c.TLS = &contract.LinkTLS{Cert: "nowhere"}; authorized(t)(c, nil) },
	} {
		c := good
		spoil(&c)
		if g, err := NewGRPC(c); err == nil {
			t.Errorf("%s: the configuration was accepted", name)
			g.Close()
		}
	}
}

func BenchmarkGRPC(b *testing.B) {
	d := newDirectory()
	a := start(b, d, []topology.Node{coordinatorA})
	got := make(chan int, 1<<16)
	start(b, d, []topology.Node{middlemanB}, func(c *Config, _ *timings) {
		c.Handler = func(batch []causal.Message) { got <- len(batch) }
	})
	m := put(coordinatorA, middlemanB, 1)
	setValue(&m, make([]byte, 128))
	b.Run("one at a time", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Send(m)
			<-got
		}
	})
	b.Run("stream", func(b *testing.B) {
		b.ReportAllocs()
		underway := 0
		for b.Loop() {
			a.Send(m)
			for underway++; underway > 10000; {
				underway -= <-got
			}
		}
		for underway > 0 {
			underway -= <-got
		}
	})
}
