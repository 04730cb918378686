package node

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/topology"
)

// recorder is a network that records messages and delivers none.
type recorder struct {
	mu   sync.Mutex
	sent []causal.Message
	news chan struct{}
}

func newRecorder() *recorder { return &recorder{news: make(chan struct{}, 1)} }

func (r *recorder) Send(m causal.Message) {
	r.mu.Lock()
	r.sent = append(r.sent, m)
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
}

func (r *recorder) Close() error { return nil }

// wait waits until n messages of a kind were sent, and returns all of that kind.
func (r *recorder) wait(t *testing.T, kind causal.Kind, n int) []causal.Message {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		var found []causal.Message
		r.mu.Lock()
		for _, m := range r.sent {
			if m.Kind == kind {
				found = append(found, m)
			}
		}
		r.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-r.news:
		case <-deadline:
			t.Fatalf("%d messages of kind %s after 20 s, want %d", len(found), kind, n)
		}
	}
}

// establish answers, for a part with an empty disk, that nobody knows of a past, and waits until the part serves.
func establish(t *testing.T, h Host, net *recorder, serves func() bool) {
	t.Helper()
	answered := 0
	waitUntil(t, "the part with an empty disk to serve", func() bool {
		if serves() {
			return true
		}
		h.Tick()
		net.mu.Lock()
		sent := net.sent[answered:]
		answered = len(net.sent)
		net.mu.Unlock()
		for _, m := range sent {
			if m.Kind == causal.KindPastQuery {
				h.Handle([]causal.Message{causal.PastReply{ID: m.PastQuery().ID}.Message(m.To, m.From)})
			}
		}
		return serves()
	})
}

func startCoordinator(t *testing.T, dir string, net *recorder) *Coordinator {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	self := topology.Node{Part: topology.Coordinator}
	c, err := NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(topo, self), Clock: NewClock(),
		Net: net, Dir: dir,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), OnFailure: func(err error) {
			t.Errorf("the log failed: %v", err)
		}})
	if err != nil {
		t.Fatal(err)
	}
	establish(t, c, net, func() bool { return c.Membership() == coordinator.Serving })
	return c
}

func put(c *Coordinator, seq uint64, key string, value []byte) {
	app := topology.Node{Part: topology.Sidecar, Index: 7}
	c.Handle([]causal.Message{causal.Put{ID: seq, Session: 1, Seq: seq, Leadership: c.Leadership(), Key: key,
		Value: causal.Value{Data: value}}.Message(app, c.ID())})
}

func TestCoordinatorPropagatesAcknowledgedPutsAfterACrash(t *testing.T) {
	dir, net := t.TempDir(), newRecorder()
	c := startCoordinator(t, dir, net)
	for i := range uint64(100) {
		put(c, i+1, fmt.Sprintf("k%d", i), []byte("v"))
	}
	acked := net.wait(t, causal.KindPutReply, 100)
	if err := c.Crash(); err != nil {
		t.Fatal(err)
	}
	again := newRecorder()
	c = startCoordinator(t, dir, again)
	defer c.Close()
	c.Tick()
	sent := map[causal.Version]bool{}
	for _, m := range again.wait(t, causal.KindPutAfter, 100) {
		sent[m.PutAfter().Record.Version] = true
	}
	for _, m := range acked {
		if !sent[m.PutReply().Version] {
			t.Errorf("%s was acknowledged, but is not propagated after the crash", m.PutReply().Version)
		}
	}
	put(c, 1, "k0", []byte("v")) // sent again: the log remembers it
	first := acked[slices.IndexFunc(acked, func(m causal.Message) bool { return m.PutReply().ID == 1 })].PutReply()
	if r := again.wait(t, causal.KindPutReply, 1)[0].PutReply(); r.Err != causal.OK || r.Version != first.Version {
		t.Errorf("a put that was accepted before the crash as %s got %s, %s", first.Version, r.Err, r.Version)
	}
}

func TestSeveralValuesOfTheLargestSizeFitIntoTheLog(t *testing.T) {
	dir, net := t.TempDir(), newRecorder()
	c := startCoordinator(t, dir, net)
	for i := range uint64(6) {
		put(c, i+1, "big", make([]byte, 16<<20))
	}
	for _, m := range net.wait(t, causal.KindPutReply, 6) {
		if m.PutReply().Err != causal.OK {
			t.Errorf("a put of 16 MiB got %s", m.PutReply().Err)
		}
	}
	if answered, err := c.Close(); err != nil || !answered {
		t.Fatal(err)
	}
	again := newRecorder()
	c = startCoordinator(t, dir, again)
	defer c.Close()
	c.Tick()
	again.wait(t, causal.KindPutAfter, 1) // one after the other: each is larger than the window
	c.Inspect(func(m *coordinator.Coordinator) {
		if writes, _ := m.Pending(); writes != 6 {
			t.Errorf("%d writes are to be propagated, want 6", writes)
		}
	})
}

func TestNewCoordinatorRefusesALogTooSmallForTheLargestValue(t *testing.T) {
	_, err := NewCoordinator(CoordinatorOptions{Dir: t.TempDir(), MaxLogBytes: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "at least") {
		t.Errorf("got %v", err)
	}
}
