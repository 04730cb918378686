package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/topology"
)

// echo is a network whose nodes reply to a GET with its key. answer decides when: at once, later or never.
type echo struct {
	answer func(func())
	to     *Sidecar
}

func (e *echo) Close() error { return nil }

func (e *echo) Send(m causal.Message) {
	if m.Kind != causal.KindGet {
		return
	}
	e.answer(func() {
		g := m.Get()
		reply := causal.GetReply{ID: g.ID, Status: causal.Stable, Hit: true, Ring: topology.NoRing,
			Record: causal.Record{Version: causal.Version{HLC: 1, Origin: 1}, Value: causal.Value{Data: []byte(g.Key)}}}
		e.to.Handle([]causal.Message{reply.Message(m.To, m.From)})
	})
}

func sidecarOn(t *testing.T, answer func(func()), configure ...func(*session.Config)) *Sidecar {
	t.Helper()
	topo, err := topology.Parse([]byte("epoch: 1\ndataCenters: [{name: a}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{answer: answer}
	config := session.DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1})
	for _, f := range configure {
		f(&config)
	}
	e.to = NewSidecar(SidecarOptions{Config: config, Clock: NewClock(), Net: e, Scope: ScopePod})
	return e.to
}

func connect(t *testing.T, s *Sidecar) front.Session {
	t.Helper()
	c, err := s.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEachConnectionReceivesTheResultsOfItsOwnOperations(t *testing.T) {
	for name, answer := range map[string]func(func()){
		"within the call":        func(f func()) { f() },
		"from another goroutine": func(f func()) { go f() },
	} {
		t.Run(name, func(t *testing.T) {
			s := sidecarOn(t, answer)
			defer s.Close()
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					key := strings.Repeat("k", i+1)
					for range 20 { // the next connection reuses the pendingOp
						c := connect(t, s)
						for range 20 {
							if v, err := c.Get(context.Background(), key); err != nil || string(v.Data) != key {
								t.Errorf("GET %s answers %q, error %v", key, v.Data, err)
							}
						}
						c.Close()
					}
				})
			}
			all.Wait()
			if len(s.ops) > 8 || len(s.idleOps) != len(s.ops) {
				t.Errorf("%d pending operations, %d of them idle, after 8 concurrent connections were closed",
					len(s.ops), len(s.idleOps))
			}
		})
	}
}

// completeWrites tells a sidecar that the versions of echo are complete.
func completeWrites(s *Sidecar) {
	topo := s.topo.Load()
	v := causal.Vectors{Entries: []causal.VectorEntry{{Origin: 1, Last: topology.Origin(topo.Origins()), SV: 1}}}
	s.Handle([]causal.Message{v.Message(topo.Leader(0), s.ID())})
}

// getEach reads keys as a pipeline, and returns the values.
func getEach(t *testing.T, c front.Session, keys ...string) (values []string) {
	t.Helper()
	results, names := make([]front.GetResult, len(keys)), make([][]byte, len(keys))
	for i, key := range keys {
		names[i] = []byte(key)
	}
	c.GetEach(context.Background(), names, results)
	for _, r := range results {
		if r.Err != nil {
			t.Error(r.Err)
		}
		values = append(values, string(r.Value.Data))
	}
	return values
}

func TestPipelinedReadsAreInFlightTogether(t *testing.T) {
	asked := make(chan func(), 3)
	s := sidecarOn(t, func(f func()) { asked <- f })
	defer s.Close()
	completeWrites(s)
	c := connect(t, s)
	go func() { // no answer before all have been asked
		for _, answer := range []func(){<-asked, <-asked, <-asked} {
			answer()
		}
	}()
	if got := getEach(t, c, "a", "b", "a"); strings.Join(got, " ") != "a b a" {
		t.Errorf("got %q", got)
	}
	if len(s.idleOps) != 3 {
		t.Errorf("%d idle operations, want those of the pipeline", len(s.idleOps))
	}
}

// What does not fit is left to the client's next call, with what is behind it.
func TestPipelinedReadsStopWhereTheirValuesTakeTooMuchMemory(t *testing.T) {
	size := causal.Value{Data: []byte("a")}.Size()
	s := sidecarOn(t, func(f func()) { f() }, func(c *session.Config) { c.MaxAheadBytes = 2 * size })
	defer s.Close()
	completeWrites(s)
	c := connect(t, s)
	results, names := make([]front.GetResult, 4), [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")}
	for left := names; len(left) > 0; {
		n := c.GetEach(context.Background(), left, results[:len(left)])
		if n != 2 {
			t.Fatalf("%d of %d keys are read together, want 2", n, len(left))
		}
		for i := range n {
			if r := results[i]; r.Err != nil || string(r.Value.Data) != string(left[i]) {
				t.Errorf("%s: %q, %v", left[i], r.Value.Data, r.Err)
			}
		}
		for _, r := range results[n:len(left)] {
			if r.Value.Data != nil || r.Err != nil {
				t.Errorf("behind them: %q, %v", r.Value.Data, r.Err)
			}
		}
		left = left[n:]
	}
}

func TestAValueThatDoesNotFitIsReadByItself(t *testing.T) {
	s := sidecarOn(t, func(f func()) { f() }, func(c *session.Config) { c.MaxAheadBytes = 1 })
	defer s.Close()
	completeWrites(s)
	results := make([]front.GetResult, 2)
	n := connect(t, s).GetEach(context.Background(), [][]byte{[]byte("a"), []byte("b")}, results)
	if n != 1 || results[0].Err != nil || string(results[0].Value.Data) != "a" {
		t.Errorf("%d keys are read, the first as %q, %v", n, results[0].Value.Data, results[0].Err)
	}
}

// A transaction that begins while keys are read together may write some between the reads of two.
func TestPipelinedReadsDuringATransactionAreReadAgain(t *testing.T) {
	asked := make(chan func())
	s := sidecarOn(t, func(f func()) { asked <- f })
	defer s.Close()
	completeWrites(s)
	reader, writer := connect(t, s), connect(t, s)
	done := make(chan []string, 1)
	go func() { done <- getEach(t, reader, "a", "b") }()
	first := <-asked
	release := writer.Isolate("b")
	second := make(chan func(), 1)
	go func() { second <- <-asked }()
	go first()
	go (<-second)()
	select { // a is read alone, and b not before the transaction has ended
	case again := <-asked:
		again()
	case <-done:
		t.Fatal("answered during the transaction")
	}
	released := make(chan struct{})
	go func() {
		close(released)
		release()
	}()
	answer := <-asked
	select {
	case <-released:
	default:
		t.Error("b was read during the transaction")
	}
	answer()
	if got := <-done; strings.Join(got, " ") != "a b" {
		t.Errorf("got %q", got)
	}
}

// batches counts the puts that are sent together.
type batches struct {
	echo
	puts chan int
}

func (b *batches) SendAll(ms []causal.Message) {
	n := 0
	for i := range ms {
		if ms[i].Kind == causal.KindPut {
			n++
		}
	}
	if n > 0 {
		b.puts <- n
	}
}

func batchingSidecar(t *testing.T) (*Sidecar, *batches) {
	t.Helper()
	topo, err := topology.Parse([]byte("epoch: 1\ndataCenters: [{name: a}]\nrings: [{name: r, dataCenters: [a]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := &batches{puts: make(chan int, 10)}
	s := NewSidecar(SidecarOptions{Config: session.DefaultConfig(topo, topology.Node{Part: topology.Sidecar, Index: 1}),
		Clock: NewClock(), Net: b, Scope: ScopePod})
	return s, b
}

func TestPipelinedPutsAreSentTogetherWhenOneIsAwaited(t *testing.T) {
	s, sent := batchingSidecar(t)
	c := connect(t, s).(*clientSession)
	var waits []func() error
	for range maxPutBatch + 3 {
		waits = append(waits, c.PutAsync("k", causal.Value{}))
	}
	if n := <-sent.puts; n != maxPutBatch {
		t.Errorf("%d puts were sent first, want %d", n, maxPutBatch)
	}
	done := make(chan error, 1)
	go func() { done <- waits[0]() }()
	if n := <-sent.puts; n != 3 {
		t.Errorf("%d puts were sent when the first was awaited, want 3", n)
	}
	s.Close()
	if err := <-done; err == nil {
		t.Error("a put without an answer succeeded")
	}
}

// A put that was not sent would hold its lock while its connection waits for another one.
func TestPipelinedPutsAreSentBeforeTheConnectionWaitsForALock(t *testing.T) {
	s, sent := batchingSidecar(t)
	c, other := connect(t, s).(*clientSession), connect(t, s)
	unlock := other.Lock("b")
	c.PutAsync("a", causal.Value{})
	issued := make(chan func() error, 1)
	go func() { issued <- c.PutAsync("b", causal.Value{}) }()
	if n := <-sent.puts; n != 1 {
		t.Errorf("%d puts were sent", n)
	}
	unlock()
	<-issued
	s.Close()
}

func TestClosingAConnectionStartsItsPipelinedPuts(t *testing.T) {
	s, sent := batchingSidecar(t)
	c := connect(t, s)
	c.(*clientSession).PutAsync("a", causal.Value{})
	c.Close()
	if n := <-sent.puts; n != 1 {
		t.Errorf("%d puts were sent", n)
	}
	s.Close()
}

func TestCloseFailsOperationsInFlightAndLaterOnes(t *testing.T) {
	asked := make(chan struct{}, 2)
	s := sidecarOn(t, func(func()) { asked <- struct{}{} })
	c, d := connect(t, s), connect(t, s)
	failed := make(chan error, 2)
	go func() { _, err := c.Get(context.Background(), "a"); failed <- err }()
	wait := d.PutAsync("a", causal.Value{Data: []byte("v")})
	d.(*clientSession).startPuts()
	<-asked
	s.Close()
	for _, c := range []struct {
		what string
		code front.Code
		err  error
	}{
		{"a read in flight", front.Unavailable, <-failed},
		{"a write in flight, which may have been accepted", front.UnknownOutcome, wait()},
		{"a later write", front.Unavailable, c.Put(context.Background(), "a", causal.Value{})},
	} {
		if failed := (*front.Error)(nil); !errors.As(c.err, &failed) || failed.Code != c.code {
			t.Errorf("%s ends with %v, want %s", c.what, c.err, c.code)
		}
	}
}

func TestReadsDoNotWaitForTheGoroutineThatSendsTheQueue(t *testing.T) {
	s := sidecarOn(t, func(f func()) { f() })
	defer s.Close()
	c := connect(t, s)
	s.mu.Lock()
	s.sending = true // as if another goroutine were blocked in Send
	s.mu.Unlock()
	if v, err := c.Get(context.Background(), "key"); err != nil || string(v.Data) != "key" {
		t.Errorf("GET answers %q, error %v", v.Data, err)
	}
	if len(s.queue) != 0 {
		t.Errorf("%d messages are left in the queue", len(s.queue))
	}
}
