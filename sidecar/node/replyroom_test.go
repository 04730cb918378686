package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// fullNetwork is a network of which the test says what is queued.
type fullNetwork struct {
	*recorder
	queued atomic.Int64
	noRoom atomic.Pointer[topology.Node] // the node for which there is none; nil: there is for all
}

func (n *fullNetwork) QueuedBytes() int64 { return n.queued.Load() }

func (n *fullNetwork) Room(to topology.Node) int64 {
	if full := n.noRoom.Load(); full != nil && *full == to {
		return 0
	}
	return 100 << 20
}

const testReplyBytes = 32 << 20

var readerA, readerB = topology.Node{Part: topology.Sidecar, Index: 1}, topology.Node{Part: topology.Sidecar, Index: 2}

// startBounded starts a middleman that bounds what is queued, with a value of n bytes at "k".
func startBounded(t *testing.T, net *fullNetwork, n int, inline bool) *Middleman {
	t.Helper()
	store := openStore(t)
	value := causal.Record{Version: causal.Version{HLC: 1, Origin: 1}, Value: causal.Value{Data: make([]byte, n)}}
	mm, err := NewMiddleman(t.Context(),
		MiddlemanOptions{Config: middleman.DefaultConfig(oneRing(t, 1, 0), topology.Node{Part: topology.Middleman}),
			Clock: NewClock(), Net: net, Store: store, InlineReads: inline, ReplyBytes: testReplyBytes,
			Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(mm.Close)
	establish(t, mm, net.recorder, mm.Serves)
	if err := store.Apply(t.Context(), []storage.Write{{Key: "k", Record: value}}); err != nil {
		t.Fatal(err)
	}
	return mm
}

func ask(mm *Middleman, from topology.Node, id uint64) {
	mm.Handle([]causal.Message{causal.Get{ID: id, Key: "k"}.Message(from, mm.ID())})
}

// replies returns the replies by the id of their request.
func (r *recorder) replies(t *testing.T, n int) map[uint64]causal.GetReply {
	t.Helper()
	byID := map[uint64]causal.GetReply{}
	for _, m := range r.wait(t, causal.KindGetReply, n) {
		byID[m.GetReply().ID] = m.GetReply()
	}
	return byID
}

func TestAReadWithoutRoomForItsReplyIsRefusedAfterAWhile(t *testing.T) {
	for _, inline := range []bool{true, false} {
		net := &fullNetwork{recorder: newRecorder()}
		mm := startBounded(t, net, 1<<20, inline)
		ask(mm, readerA, 1)
		if r := net.replies(t, 1)[1]; r.Err != causal.OK || len(r.Record.Value.Data) != 1<<20 {
			t.Fatalf("with room: %v, %d bytes", r.Err, len(r.Record.Value.Data))
		}
		net.queued.Store(testReplyBytes)
		ask(mm, readerA, 2)
		if r := net.replies(t, 2)[2]; r.Err != causal.ErrBusy || r.Record.Value.Data != nil {
			t.Errorf("without room: %v, %d bytes", r.Err, len(r.Record.Value.Data))
		}
		mm.Inspect(func(m *middleman.Middleman) {
			if n := m.Stats().RefusedReads; n != 1 {
				t.Errorf("%d reads are counted as refused", n)
			}
		})
	}
}

func TestAReadThatWaitsForRoomHoldsUpNeitherWritesOfItsKeyNorOtherReaders(t *testing.T) {
	net := &fullNetwork{recorder: newRecorder()}
	mm := startBounded(t, net, 1<<20, false)
	ask(mm, readerA, 1)
	net.replies(t, 1)
	net.noRoom.Store(&readerA)
	net.queued.Store(1 << 20)
	// It would wait for long: the write and the other read must not take that as their time.
	mm.mu.Lock()
	holder, _ := mm.replies.quota.TakeSize(readerA, int(readSize("k")))
	mm.replies.waiting = append(mm.replies.waiting,
		waitingRead{causal.Get{ID: 2, Key: "k"}.Message(readerA, mm.ID()), mm.clock().Mono + int64(time.Hour), holder})
	mm.mu.Unlock()
	coordinator := topology.Node{Part: topology.Coordinator}
	put := causal.PutAfter{Key: "k", Record: causal.Record{Version: causal.Version{HLC: 10, Origin: 1},
		Value: causal.Value{Data: []byte("new")}},
		Map: oneRing(t, 1, 0).Map(0)}
	mm.Handle([]causal.Message{put.Message(coordinator, mm.ID())})
	waitUntil(t, "the write to be done", func() bool {
		rec, _, err := mm.store.Get(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		mm.Tick()
		return string(rec.Value.Data) == "new"
	})
	ask(mm, readerB, 3)
	if r, ok := net.replies(t, 2)[3]; !ok || r.Err != causal.OK {
		t.Errorf("the other reader: %v", r.Err)
	}
	net.noRoom.Store(nil)
	if r, ok := net.replies(t, 3)[2]; !ok || string(r.Record.Value.Data) != "new" {
		t.Errorf("once there is room: %v, %q", r.Err, r.Record.Value.Data)
	}
}

func TestAValueAboveTheBoundIsReadWhenNothingIsQueued(t *testing.T) {
	net := &fullNetwork{recorder: newRecorder()}
	mm := startBounded(t, net, testReplyBytes+1, false)
	for id := range uint64(3) {
		ask(mm, readerA, id+1)
		if r := net.replies(t, int(id)+1)[id+1]; r.Err != causal.OK || len(r.Record.Value.Data) != testReplyBytes+1 {
			t.Errorf("read %d: %v, %d bytes", id+1, r.Err, len(r.Record.Value.Data))
		}
	}
}

func TestReadsThatWereAskedForBeforeTheRoomWasGoneAreNotCarriedOut(t *testing.T) {
	net := &fullNetwork{recorder: newRecorder()}
	mm := startBounded(t, net, 100, false)
	net.queued.Store(testReplyBytes)
	mm.mu.Lock()
	get := causal.Get{ID: 1, Key: "k"}.Message(readerA, mm.ID())
	mm.m.Step(mm.clock(), &get)
	mm.collect()
	mm.mu.Unlock()
	if r := net.replies(t, 1)[1]; r.Err != causal.ErrBusy {
		t.Errorf("%v, %d bytes", r.Err, len(r.Record.Value.Data))
	}
	if mm.mu.Lock(); mm.readsAsked != (unanswered{}) || mm.replies.quota.Held() != 0 {
		t.Errorf("%+v count as not answered", mm.readsAsked)
	}
	mm.mu.Unlock()
}

// Whatever the size of values is: small ones count for nearly nothing, and the requests take what they take.
func TestReadsThatAreWithStorageHaveABoundHoweverSmallTheirValuesAre(t *testing.T) {
	for name, tt := range map[string]struct{ key, most int }{"short keys": {8, testReplyBytes / readBytes},
		"long keys": {32 << 10, testReplyBytes / (32 << 10)}} {
		net := &fullNetwork{recorder: newRecorder()}
		mm := startBounded(t, net, 100, false)
		mm.mu.Lock() // storage does not get on meanwhile
		key := strings.Repeat("k", tt.key)
		for i := range 2*tt.most + 2*maxWaiting/readBytes {
			get := causal.Get{ID: uint64(i), Key: key}.Message(readerA, mm.ID())
			mm.admitRead(mm.clock(), &get)
		}
		mm.replies.admitted = unanswered{}
		mm.collect()
		asked, waiting := int(mm.readsAsked.reads), len(mm.replies.waiting)
		if asked > tt.most || asked < tt.most/2 {
			t.Errorf("%s: %d reads are with storage, want at most %d", name, asked, tt.most)
		}
		if most := maxWaitingOfOne / (readBytes + tt.key); waiting > most || waiting < most/2 {
			t.Errorf("%s: %d reads of one sidecar wait, want at most %d", name, waiting, most)
		}
		get := causal.Get{ID: 1 << 40, Key: "k"}.Message(readerB, mm.ID())
		mm.admitRead(mm.clock(), &get)
		if last := mm.replies.waiting[len(mm.replies.waiting)-1]; last.request.From != readerB {
			t.Errorf("%s: a read of another sidecar has no room", name)
		}
		mm.mu.Unlock()
		waitUntil(t, "all to be answered", func() bool {
			mm.mu.Lock()
			defer mm.mu.Unlock()
			return len(mm.replies.waiting)+int(mm.readsAsked.bytes)+mm.replies.quota.Held() == 0
		})
	}
}
