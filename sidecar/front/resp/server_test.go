package resp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/front"
)

func TestPanicClosesOnlyItsConnection(t *testing.T) {
	var log capture.Buffer
	store := newMemory()
	var repaired atomic.Bool
	store.before = func(operation, key string) {
		if key == "boom" && operation == "get" && !repaired.Load() {
			panic("a broken invariant")
		}
	}
	s, address := serve(t, Options{Backend: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	good, bad := dial(t, address), dial(t, address)
	good.expect("+OK\r\n", "SET", "k", "v")
	bad.send(batch([]string{"SET", "a", "1"}, []string{"PING"}, []string{"INCR", "boom"}, []string{"PING"}))
	if got := bad.reply() + bad.reply(); got != "+OK\r\n+PONG\r\n" {
		t.Errorf("the commands before the panic got the replies %q", got)
	}
	bad.expectClosed()
	waitFor(t, "the session to be closed", func() bool { return store.closed.Load() == 1 })
	good.expect("$1\r\nv\r\n", "GET", "k")
	good.expect("+OK\r\n", "SET", "boom", "1")
	if s.stats.panics.Load() != 1 || !strings.Contains(log.String(), "a broken invariant") ||
		!strings.Contains(log.String(), "incr") {
		t.Errorf("%d panics counted; log: %s", s.stats.panics.Load(), log.String())
	}
	// The panic has released the lock that INCR held.
	repaired.Store(true)
	good.expect(":2\r\n", "INCR", "boom")
}

func TestShutdownExecutesReceivedCommands(t *testing.T) {
	store := newMemory()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	store.before = func(operation, key string) {
		if operation != "put" && key == "slow" {
			entered <- struct{}{}
			<-release
		}
	}
	s, address := serve(t, Options{Backend: store})
	busy, idle := dial(t, address), dial(t, address)
	idle.expect("+PONG\r\n", "PING")
	busy.send(batch([]string{"SET", "k", "v"}, []string{"GET", "slow"}, []string{"GET", "k"},
		[]string{"SET", "l", "w"}))
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(context.Background()) }()
	idle.expectClosed()
	select {
	case err := <-stopped:
		t.Fatalf("shutdown did not wait for the command: %v", err)
	default:
	}
	close(release)
	if got := busy.reply() + busy.reply() + busy.reply() + busy.reply(); got != "+OK\r\n$-1\r\n$1\r\nv\r\n+OK\r\n" {
		t.Errorf("got %q", got)
	}
	busy.expectClosed()
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if opened, closed := store.opened.Load(), store.closed.Load(); opened != 1 || closed != 1 {
		t.Errorf("%d sessions opened, %d closed", opened, closed)
	}
}

func TestShutdownWaitsForTheRestOfACommandThatHasBegun(t *testing.T) {
	s, address := serve(t, Options{Backend: newMemory()})
	slow := dial(t, address)
	slow.expect("+PONG\r\n", "PING")
	whole := frameOf("SET", "k", "v")
	slow.send(whole[:len(whole)-4])
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	waitFor(t, "the server to stop", s.IsStopping)
	select {
	case err := <-stopped:
		t.Fatalf("shutdown did not wait for the rest of the command: %v", err)
	default:
	}
	slow.send(whole[len(whole)-4:])
	if got := slow.reply(); got != "+OK\r\n" {
		t.Errorf("got %q", got)
	}
	slow.expectClosed()
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func TestShutdownClosesConnectionsAfterItsDeadline(t *testing.T) {
	store := newMemory()
	entered, release := make(chan struct{}, 1), make(chan struct{})
	store.before = func(string, string) {
		entered <- struct{}{}
		<-release
	}
	s, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(frameOf("GET", "k"))
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "closed 1 connections") {
		t.Errorf("shutdown: %v", err)
	}
	if s.context.Err() == nil {
		t.Error("the context of the sessions is not cancelled")
	}
	close(release)
	waitFor(t, "the connection to close", func() bool { return s.Connections() == 0 })
}

func TestConnectionsOverTheLimitAreRefused(t *testing.T) {
	var m counters
	_, address := serve(t, Options{Backend: newMemory(), Limits: Limits{Limits: front.Limits{MaxClients: 1}},
		Metrics: &m})
	first := dial(t, address)
	first.expect("+PONG\r\n", "PING")
	second := dial(t, address)
	if got := second.reply(); got != "-ERR max number of clients reached\r\n" {
		t.Errorf("got %q", got)
	}
	second.expectClosed()
	first.expect("+OK\r\n", "QUIT")
	first.expectClosed()
	waitFor(t, "the first connection to be removed", func() bool { return m.closed.Load() == 1 })
	dial(t, address).expect("+PONG\r\n", "PING")
	if m.refused.Load() != 1 || m.opened.Load() != 2 || m.done.Load() != 3 {
		t.Errorf("refused %d, opened %d, commands %d", m.refused.Load(), m.opened.Load(), m.done.Load())
	}
}

type counters struct{ opened, closed, refused, evicted, done, failed, protocol, panics atomic.Int64 }

func (c *counters) ConnectionOpened()  { c.opened.Add(1) }
func (c *counters) ConnectionClosed()  { c.closed.Add(1) }
func (c *counters) ConnectionRefused() { c.refused.Add(1) }
func (c *counters) ConnectionEvicted() { c.evicted.Add(1) }
func (c *counters) ProtocolError()     { c.protocol.Add(1) }
func (c *counters) Panicked()          { c.panics.Add(1) }
func (c *counters) CommandsDone(_ string, n, failed int, _ float64) {
	c.done.Add(int64(n))
	c.failed.Add(int64(failed))
}

func TestFirstCommandThatNeedsTheStoreCreatesTheSession(t *testing.T) {
	store := newMemory()
	store.sessionError = errNotReady
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.expect("+PONG\r\n", "PING")
	p.expect("-ERR the session is starting\r\n", "GET", "k")
	if got := p.do("INFO"); !strings.Contains(got, "redis_version") || strings.Contains(got, "# CausalStore") {
		t.Errorf("INFO without a store: %q", got)
	}
	store.sessionError = nil
	p.expect("$-1\r\n", "GET", "k")
	p.expect("$-1\r\n", "GET", "k")
	if n := store.opened.Load(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func TestExpireTimesUseTheConfiguredClock(t *testing.T) {
	var offset atomic.Int64
	start := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return start.Add(time.Duration(offset.Load())) }
	store := newMemory()
	_, address := serve(t, Options{Backend: store, Clock: clock})
	p := dial(t, address)
	p.expect("*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n", "TIME")
	p.expect("+OK\r\n", "SET", "k", "v", "PX", "1500")
	p.expect(":1500\r\n", "PTTL", "k")
	p.expect(":2\r\n", "TTL", "k")
	offset.Store(int64(1500 * time.Millisecond))
	p.expect("$1\r\nv\r\n", "GET", "k")
	p.expect(":0\r\n", "PTTL", "k")
	offset.Store(int64(1501 * time.Millisecond))
	for reply, args := range map[string][]string{
		"$-1\r\n": {"GET", "k"}, "*1\r\n$-1\r\n": {"MGET", "k"}, ":0\r\n": {"EXISTS", "k"}, "+none\r\n": {"TYPE", "k"},
		":-2\r\n": {"TTL", "k"},
	} {
		p.expect(reply, args...)
	}
	p.expect(":0\r\n", "DEL", "k")
	p.expect(":0\r\n", "PERSIST", "k")
	p.expect(":1\r\n", "INCR", "k")
	p.expect(":-1\r\n", "TTL", "k")
	p.expect(":1\r\n", "EXPIREAT", "k", "1")
	if v := store.get("k"); !v.Tombstone {
		t.Errorf("an expire time in the past stored %v", v)
	}
}

func TestConcurrentCountersLoseNoUpdates(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	const clients, each = 8, 100
	var wg sync.WaitGroup
	for range clients {
		p := dial(t, address)
		wg.Go(func() {
			for range each {
				p.do("INCR", "n")
				p.do("DEL", "x", "y")
				p.do("MSET", "y", "1", "x", "1")
				p.do("DEL", "y", "x")
			}
		})
	}
	wg.Wait()
	dial(t, address).expect("$3\r\n800\r\n", "GET", "n")
}

func TestStoredValuesDoNotAliasTheReadBuffer(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(batch([]string{"SET", "a", "first"}, []string{"GETSET", "b", "second"}, []string{"MSET", "c", "third"},
		[]string{"SETNX", "d", "fourth"}, []string{"APPEND", "e", "fifth"}))
	for range 5 {
		p.reply()
	}
	p.do("ECHO", strings.Repeat("#", 10000))
	for key, want := range map[string]string{"a": "first", "b": "second", "c": "third", "d": "fourth", "e": "fifth"} {
		if got := store.get(key); string(got.Data) != want || got.ExpireAtMs != 0 {
			t.Errorf("%s holds %v", key, got)
		}
	}
}

func TestEveryCommandRepliesWithTheErrorOfTheStore(t *testing.T) {
	store := newMemory()
	store.operationError = fmt.Errorf("read k: %w",
		front.Errorf(front.Unavailable, "no ring that may answer is reachable"))
	s, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	for _, line := range lines(`
		GET k
		MGET k l
		STRLEN k
		GETRANGE k 0 1
		SET k v
		SET k v NX
		SETNX k v
		SETEX k 1 v
		GETSET k v
		GETDEL k
		GETEX k
		GETEX k PERSIST
		APPEND k v
		DEL k
		DEL k l
		EXISTS k
		TYPE k
		INCR k
		INCRBYFLOAT k 1
		EXPIRE k 1
		PERSIST k
		TTL k
		DBSIZE`) {
		p.expect("-UNAVAILABLE no ring that may answer is reachable\r\n", line...)
	}
	if got := p.do("INFO"); !strings.Contains(got, "total_commands_processed:23") ||
		!strings.Contains(got, "total_error_replies:23") {
		t.Errorf("got %q", got)
	}
	store.operationError = context.Canceled
	p.expect("-ERR the sidecar is shutting down; reconnect\r\n", "GET", "k")
	store.operationError = nil
	p.expect("$-1\r\n", "GET", "k")
	if n := s.stats.panics.Load(); n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestPanicInSessionCloseAffectsNoOtherConnection(t *testing.T) {
	store := newMemory()
	store.before = func(operation, _ string) {
		if operation == "close" {
			panic("a broken invariant")
		}
	}
	s, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.do("GET", "k")
	p.expect("+OK\r\n", "QUIT")
	p.expectClosed()
	waitFor(t, "the panic to be counted", func() bool { return s.stats.panics.Load() == 1 && s.Connections() == 0 })
	dial(t, address).expect("$-1\r\n", "GET", "k")
}

func TestServeReturnsWhenItsListenerCloses(t *testing.T) {
	s, err := NewServer(Options{Backend: newMemory()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(l); err == nil || errors.Is(err, front.ErrServerClosed) {
		t.Errorf("a closed listener: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if err := s.Serve(l); !errors.Is(err, front.ErrServerClosed) {
		t.Errorf("after shutdown: %v", err)
	}
}
