package transport

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/topology"
)

var (
	coordinatorA = topology.Node{Part: topology.Coordinator, DC: 0}
	middlemanA   = topology.Node{Part: topology.Middleman, DC: 0}
	middlemanB   = topology.Node{Part: topology.Middleman, DC: 1}
	cacheB       = topology.Node{Part: topology.Cache, DC: 1}
	sidecarA     = topology.Node{Part: topology.Sidecar, DC: 0, Index: 77}
)

// emulator returns the WAN of two data centers with a round trip of 40 ms.
func emulator(t testing.TB) *wan.Emulator {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}, {Name: "b", Coordinators: 1, Shards: 1}}
	top, err := topology.New(1, dcs, []topology.Ring{{Name: "r", DCs: []topology.DC{0, 1}}},
		[][]float64{{0, 40}, {40, 0}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := wan.New(top, wan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func put(from, to topology.Node, seq uint64) causal.Message {
	return causal.Put{Seq: seq, Key: "k"}.Message(from, to)
}

// recorder has a Handler that records messages.
type recorder struct {
	mu      sync.Mutex
	got     []causal.Message
	batches int
	changed chan struct{} // holds a token after new messages
}

func newRecorder() *recorder { return &recorder{changed: make(chan struct{}, 1)} }

func (b *recorder) handle(batch []causal.Message) {
	b.mu.Lock()
	b.got = append(b.got, batch...)
	b.batches++
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *recorder) all() []causal.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]causal.Message(nil), b.got...)
}

func (b *recorder) seqs() (seqs []uint64) {
	for _, m := range b.all() {
		seqs = append(seqs, seqOf(&m))
	}
	return seqs
}

// seqOf returns the number that put, numbered or answer has given a message.
func seqOf(m *causal.Message) uint64 {
	switch m.Kind {
	case causal.KindLaneSync:
		return m.LaneSync().Away
	case causal.KindPastReply:
		return m.PastReply().Away
	}
	return m.Put().Seq
}

func same[T any](t testing.TB, what string, got, want T, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, append(options, cmp.AllowUnexported(causal.Message{}))...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func register(t testing.TB, l *Local, n topology.Node, h Handler) {
	t.Helper()
	if err := l.Register(n, h); err != nil {
		t.Fatal(err)
	}
}

func TestMessageWithinADataCenterIsHandledBeforeSendReturns(t *testing.T) {
	l := NewLocal(emulator(t))
	defer l.Close()
	b := newRecorder()
	register(t, l, middlemanA, b.handle)
	m := put(coordinatorA, middlemanA, 1)
	m = causal.Put{Key: "k", Deps: []causal.Dep{{Slot: 3}}}.Message(m.From, m.To)
	l.Send(m)
	same(t, "handled", b.all(), []causal.Message{m})
}

func TestWithoutEmulationMessagesAreHandledBeforeSendReturns(t *testing.T) {
	l := NewLocal(nil)
	defer l.Close()
	b := newRecorder()
	register(t, l, middlemanB, b.handle)
	l.Send(put(coordinatorA, middlemanB, 1))
	same(t, "handled", b.seqs(), []uint64{1})
}

func TestWhatWouldCostALinkIsDroppedInOneProcessToo(t *testing.T) {
	l := NewLocal(nil)
	defer l.Close()
	l.Validate(testTopology(t))
	b := newRecorder()
	register(t, l, middlemanB, b.handle)
	for _, slot := range []topology.Slot{1, topology.Slots} {
		l.Send(causal.DepCheck{Version: causal.Version{HLC: 1, Origin: 1}, Slot: slot}.Message(middlemanA, middlemanB))
	}
	if got := b.all(); len(got) != 1 || got[0].DepCheck().Slot != 1 || dropped(l.Stats(), DropInvalid) != 1 {
		t.Errorf("handled %v; %d dropped", got, dropped(l.Stats(), DropInvalid))
	}
}

func TestHandlerMaySendBackBeforeSendReturns(t *testing.T) {
	l := NewLocal(nil)
	defer l.Close()
	b := newRecorder()
	register(t, l, coordinatorA, b.handle)
	register(t, l, middlemanA, func(batch []causal.Message) {
		for _, m := range batch {
			l.Send(put(m.To, m.From, m.Put().Seq+1))
			l.Send(put(m.To, m.From, m.Put().Seq+2))
		}
	})
	l.Send(put(coordinatorA, middlemanA, 1))
	same(t, "answers", b.seqs(), []uint64{2, 3})
}

func TestEmulatedWANDelaysMessagesAndKeepsTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocal(emulator(t))
		defer l.Close()
		b, other := newRecorder(), newRecorder()
		register(t, l, middlemanB, b.handle)
		register(t, l, topology.Node{Part: topology.Cache, DC: 1}, other.handle)
		var want []uint64
		for seq := range uint64(100) {
			l.Send(put(coordinatorA, middlemanB, seq))
			if seq%10 == 9 {
				l.Send(put(coordinatorA, topology.Node{Part: topology.Cache, DC: 1}, seq))
			}
			want = append(want, seq)
		}
		time.Sleep(20*time.Millisecond - 1)
		synctest.Wait()
		same(t, "early", b.seqs(), nil)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		same(t, "handled", b.seqs(), want)
		if n := len(other.seqs()); n != 10 || b.batches != 10 {
			t.Errorf("%d messages for the neighbour, %d batches", n, b.batches)
		}
	})
}

func TestMessagesSentBeforeACrashAreLostEvenIfTheNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLocal(emulator(t))
		defer l.Close()
		b, again := newRecorder(), newRecorder()
		register(t, l, middlemanB, b.handle)
		l.Send(put(coordinatorA, middlemanB, 1))
		time.Sleep(5 * time.Millisecond)
		l.Deregister(middlemanB)
		l.Send(put(coordinatorA, middlemanB, 2))
		register(t, l, middlemanB, again.handle)
		l.Send(put(coordinatorA, middlemanB, 3))
		time.Sleep(time.Second)
		synctest.Wait()
		same(t, "before the crash", b.seqs(), nil)
		same(t, "after the crash", again.seqs(), []uint64{3})
		s := l.Stats()
		same(t, "drops", s.Drops, []DropStats{{causal.KindPut, DropClosed, 1}, {causal.KindPut, DropNotServing, 1}})
		same(t, "messages", s.Messages, []MessageStats{{causal.KindPut, 2, 1}})
	})
}

func TestMessagesLostInACutAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := emulator(t)
		l := NewLocal(e)
		defer l.Close()
		b := newRecorder()
		register(t, l, middlemanB, b.handle)
		l.Send(put(coordinatorA, middlemanB, 1))
		_ = e.Cut(0, 1)
		l.Send(put(coordinatorA, middlemanB, 2))
		time.Sleep(time.Second)
		synctest.Wait()
		s := l.Stats()
		if len(b.seqs()) != 0 || dropped(s, DropCut) != 2 {
			t.Errorf("%d handled, %+v", len(b.seqs()), s.Drops)
		}
	})
}

func TestNodeCanBeRegisteredOnlyOnce(t *testing.T) {
	l := NewLocal(nil)
	defer l.Close()
	register(t, l, middlemanA, newRecorder().handle)
	if l.Register(middlemanA, newRecorder().handle) == nil {
		t.Error("a second registration was accepted")
	}
	l.Deregister(middlemanA)
	l.Deregister(middlemanA)
	register(t, l, middlemanA, newRecorder().handle)
}

func TestCloseWaitsForHandlersAndStartsNone(t *testing.T) {
	l := NewLocal(nil)
	begun, finish := make(chan struct{}), make(chan struct{})
	b := newRecorder()
	register(t, l, coordinatorA, b.handle)
	register(t, l, middlemanA, func([]causal.Message) {
		close(begun)
		<-finish
		l.Send(put(middlemanA, coordinatorA, 2))
	})
	var sent, ended sync.WaitGroup
	sent.Go(func() { l.Send(put(coordinatorA, middlemanA, 1)) })
	<-begun
	over := make(chan struct{})
	ended.Go(func() { l.Close(); close(over) })
	for !l.calls.IsClosed() {
		runtime.Gosched()
	}
	select {
	case <-over:
		t.Error("Close did not wait")
	default:
	}
	close(finish)
	ended.Wait()
	sent.Wait()
	l.Send(put(middlemanA, coordinatorA, 3))
	same(t, "after Close", b.seqs(), nil)
}

func TestConcurrentSendsWhileNodesComeAndGo(t *testing.T) {
	l := NewLocal(emulator(t))
	b := newRecorder()
	register(t, l, middlemanA, b.handle)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		wg.Go(func() {
			for seq := range uint64(500) {
				l.Send(put(topology.Node{Part: topology.Sidecar, Index: i}, middlemanA, seq))
				l.Send(put(topology.Node{Part: topology.Sidecar, Index: i}, middlemanB, seq))
			}
		})
		wg.Go(func() {
			for range 50 {
				n := topology.Node{Part: topology.Middleman, DC: 1, Index: i % 2}
				_ = l.Register(n, newRecorder().handle)
				l.Deregister(n)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	last := map[topology.Node]uint64{}
	for _, m := range b.all() {
		if m.Put().Seq != last[m.From] {
			t.Fatalf("%v: message %d was handled instead of %d", m.From, m.Put().Seq, last[m.From])
		}
		last[m.From]++
	}
	if n := len(b.all()); n != 2000 {
		t.Errorf("%d of 2000 handled", n)
	}
}

func BenchmarkLocalSend(b *testing.B) {
	l := NewLocal(nil)
	defer l.Close()
	_ = l.Register(middlemanA, func([]causal.Message) {})
	m := put(coordinatorA, middlemanA, 1)
	b.ReportAllocs()
	for b.Loop() {
		l.Send(m)
	}
}

func TestLocalMessagesFollowTheMemberThatServes(t *testing.T) {
	for _, withWAN := range []bool{false, true} {
		var e *wan.Emulator
		if withWAN {
			e = emulator(t)
		}
		l, one, two := NewLocal(e), newRecorder(), newRecorder()
		defer l.Close()
		var told []string
		l.Watch(Watcher{
			Up: func(n topology.Node, l causal.Leadership) {
				told = append(told, fmt.Sprintf("up %v %d", n, l.Epoch))
			},
			Down: func(n topology.Node) { told = append(told, fmt.Sprintf("down %v", n)) },
		})
		var unsent []uint64
		l.Watch(Watcher{Node: sidecarA, Unsent: func(p causal.Message) { unsent = append(unsent, p.Put().Seq) }})
		l.Watch(Watcher{Node: middlemanA, Unsent: func(causal.Message) {
			t.Error("another node hears of the puts of the sidecar")
		}})
		register(t, l, memberOne, one.handle)
		register(t, l, memberTwo, two.handle)
		register(t, l, middlemanA, newRecorder().handle)
		l.Send(put(sidecarA, coordinatorA, 1)) // nobody serves
		l.SetLeadership(memberOne, leadership(5))
		l.Send(put(sidecarA, coordinatorA, 2))
		l.SetLeadership(memberTwo, leadership(6))
		l.SetLeadership(memberOne, leadership(5)) // late
		l.Send(put(sidecarA, coordinatorA, 3))
		l.Send(causal.GroupMessage{}.Message(memberTwo, memberOne))
		l.SetLeadership(memberTwo, causal.Leadership{})
		l.Send(put(sidecarA, coordinatorA, 4))
		l.SetLeadership(memberOne, leadership(7))
		l.Deregister(memberOne)
		same(t, "to one", len(one.all()), 2)
		same(t, "to two", two.seqs(), []uint64{3})
		same(t, "unsent", unsent, []uint64{1, 4})
		same(t, "told", told, []string{"up middleman-0@dc0 0", "up coordinator-0@dc0 5", "up coordinator-0@dc0 6",
			"down coordinator-0@dc0",
			"up coordinator-0@dc0 7", "down coordinator-0@dc0"})
		if n := dropped(l.Stats(), DropNotServing); n != 2 {
			t.Errorf("%d messages were dropped because nobody serves", n)
		}
	}
}

// Watchers hear of all changes in order, also if they make some themselves.
func TestAWatcherMayChangeWhoServes(t *testing.T) {
	l := NewLocal(nil)
	defer l.Close()
	register(t, l, memberOne, newRecorder().handle)
	register(t, l, memberTwo, newRecorder().handle)
	var told [2][]uint64
	for i := range told {
		l.Watch(Watcher{Up: func(_ topology.Node, p causal.Leadership) {
			told[i] = append(told[i], p.Epoch)
			if p.Epoch == 1 {
				l.SetLeadership(memberTwo, leadership(2))
			}
		}})
	}
	unwatch := l.Watch(Watcher{Down: func(topology.Node) { t.Error("it watches no more") }})
	l.SetLeadership(memberOne, leadership(1))
	unwatch()
	l.SetLeadership(memberTwo, causal.Leadership{})
	l.Deregister(memberOne)
	same(t, "told", told, [2][]uint64{{1, 2}, {1, 2}})
}
