package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

var discard = slog.New(slog.NewTextHandler(io.Discard, nil))

// waitUntil waits until condition returns true, for a bounded time.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 20 s waiting for %s", what)
		}
	}
}

// slowDisk is a file system whose syncs of log segments can block and fail.
type slowDisk struct {
	vfs.FS
	syncs   atomic.Int64
	syncing chan struct{} // receives a token from each blocked sync
	unblock chan error    // unblocks a sync with its result
	slow    atomic.Bool
}

func newSlowDisk(fs vfs.FS) *slowDisk {
	d := &slowDisk{syncing: make(chan struct{}, 100), unblock: make(chan error)}
	d.FS = errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileSyncData || !strings.HasSuffix(op.Path, ".log") &&
			!strings.HasSuffix(op.Path, ".log.tmp") {
			return nil
		}
		d.syncs.Add(1)
		if !d.slow.Load() {
			return nil
		}
		d.syncing <- struct{}{}
		return <-d.unblock
	}))
	return d
}

func startCoordinatorOn(t *testing.T, fs vfs.FS, net *recorder, failed func(error)) *Coordinator {
	t.Helper()
	self := topology.Node{Part: topology.Coordinator}
	c, err := NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(oneRing(t, 1, 0), self),
		Clock: NewClock(), Net: net,
		Dir: "/log", FS: fs, Logger: discard, OnFailure: failed})
	if err != nil {
		t.Fatal(err)
	}
	establish(t, c, net, func() bool { return c.Membership() == coordinator.Serving })
	return c
}

func (r *recorder) count(kind causal.Kind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, m := range r.sent {
		if m.Kind == kind {
			n++
		}
	}
	return n
}

func TestPutsThatArriveDuringASyncShareTheNextAndAreAcknowledgedAfterIt(t *testing.T) {
	disk, net := newSlowDisk(vfs.NewMem()), newRecorder()
	c := startCoordinatorOn(t, disk, net, func(err error) { t.Errorf("the log failed: %v", err) })
	defer c.Close()
	disk.slow.Store(true)
	disk.syncs.Store(0)
	put(c, 1, "first", []byte("v"))
	<-disk.syncing
	for i := range uint64(100) {
		put(c, i+2, fmt.Sprintf("k%d", i), []byte("v"))
	}
	if n := net.count(causal.KindPutReply) + net.count(causal.KindPutAfter); n != 0 {
		t.Errorf("%d messages went out before the put was durable", n)
	}
	disk.unblock <- nil
	<-disk.syncing
	net.wait(t, causal.KindPutReply, 1)
	if n := net.count(causal.KindPutReply); n != 1 {
		t.Errorf("%d puts acknowledged after the sync of one", n)
	}
	disk.slow.Store(false)
	disk.unblock <- nil
	net.wait(t, causal.KindPutReply, 101)
	if n := disk.syncs.Load(); n != 2 {
		t.Errorf("%d syncs for one put and then a hundred, want 2", n)
	}
}

func TestFailedSyncAcknowledgesNoPutAndStopsTheCoordinator(t *testing.T) {
	fs := vfs.NewMem()
	disk, net := newSlowDisk(fs), newRecorder()
	failed := make(chan error, 10)
	c := startCoordinatorOn(t, disk, net, func(err error) { failed <- err })
	put(c, 1, "durable", []byte("v"))
	net.wait(t, causal.KindPutReply, 1)
	disk.slow.Store(true)
	put(c, 2, "lost", []byte("v"))
	<-disk.syncing
	for i := range uint64(10) {
		put(c, i+3, fmt.Sprintf("k%d", i), []byte("v"))
	}
	disk.slow.Store(false)
	broken := errors.New("broken disk")
	disk.unblock <- broken
	if err := <-failed; !errors.Is(err, broken) {
		t.Errorf("failed with %v", err)
	}
	put(c, 13, "late", []byte("v"))
	if _, err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := net.count(causal.KindPutReply); n != 1 || len(failed) != 0 {
		t.Errorf("%d puts were acknowledged, want 1; %d more failures", n, len(failed))
	}
	again := newRecorder()
	c = startCoordinatorOn(t, fs, again, nil)
	defer c.Close()
	c.Tick()
	again.wait(t, causal.KindPutAfter, 1)
}

func TestClosingACoordinatorMakesAcceptedPutsDurable(t *testing.T) {
	fs := vfs.NewMem()
	disk, net := newSlowDisk(fs), newRecorder()
	c := startCoordinatorOn(t, disk, net, func(err error) { t.Errorf("the log failed: %v", err) })
	disk.slow.Store(true)
	put(c, 1, "first", []byte("v"))
	<-disk.syncing
	for i := range uint64(50) {
		put(c, i+2, fmt.Sprintf("k%d", i), []byte("v"))
	}
	closed := make(chan error)
	go func() {
		_, err := c.Close()
		closed <- err
	}()
	disk.slow.Store(false)
	disk.unblock <- nil
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	net.wait(t, causal.KindPutReply, 51)
	again := newRecorder()
	c = startCoordinatorOn(t, fs, again, nil)
	defer c.Close()
	c.Tick()
	again.wait(t, causal.KindPutAfter, 51)
}

// slowStore blocks each Apply with writes until the test unblocks it with a result.
type slowStore struct {
	storage.Store
	applying chan []storage.Write
	unblock  chan error
}

func (s *slowStore) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	if len(writes) == 0 {
		return s.Store.Apply(ctx, writes, meta...)
	}
	s.applying <- writes
	if err := <-s.unblock; err != nil {
		return err
	}
	return s.Store.Apply(ctx, writes, meta...)
}

func openStore(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem(), Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func startMiddleman(t *testing.T, net transport.Network, store storage.Store) *Middleman {
	t.Helper()
	mm, err := NewMiddleman(t.Context(),
		MiddlemanOptions{Config: middleman.DefaultConfig(oneRing(t, 1, 0), topology.Node{Part: topology.Middleman}),
			Clock: NewClock(), Net: net, Store: store, InlineReads: true, Logger: discard})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := net.(*recorder); ok {
		establish(t, mm, r, mm.Serves)
	}
	return mm
}

// addWrite makes a middleman carry out a write, as if the process of the shard had asked for it.
func addWrite(mm *Middleman, key string) {
	mm.mu.Lock()
	defer mm.mu.Unlock()
	record := causal.Record{Version: causal.Version{HLC: 1}}
	mm.writes.add(&process.Effect{ID: 1 << 40, Kind: process.EffectWrite,
		Change: member.Change{Writes: []causal.Write{{Key: key, Record: record}}}})
}

func TestClosingAMiddlemanWaitsForTheRunningApplyAndDropsTheOtherWrites(t *testing.T) {
	store := &slowStore{Store: openStore(t), applying: make(chan []storage.Write), unblock: make(chan error)}
	mm := startMiddleman(t, newRecorder(), store)
	addWrite(mm, "first")
	<-store.applying
	addWrite(mm, "second")
	closed := make(chan struct{})
	go func() {
		mm.Close()
		close(closed)
	}()
	waitUntil(t, "the middleman to start closing", func() bool {
		mm.mu.Lock()
		defer mm.mu.Unlock()
		return mm.closing
	})
	select {
	case <-closed:
		t.Error("Close returned while the store was applying writes")
	default:
	}
	store.unblock <- nil
	<-closed
	select {
	case writes := <-store.applying:
		t.Errorf("%d writes were applied after Close", len(writes))
	default:
	}
}

// TestStoreCountsTheKeysThatAMiddlemanWrites covers the result of DBSIZE, which depends on KeyExists of every write.
func TestStoreCountsTheKeysThatAMiddlemanWrites(t *testing.T) {
	net, store := transport.NewLocal(nil), openStore(t)
	mm := startMiddleman(t, net, store)
	defer mm.Close()
	self := topology.Node{Part: topology.Coordinator}
	c, err := NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(oneRing(t, 1, 0), self),
		Clock: NewClock(), Net: net,
		Dir: "/log", FS: vfs.NewMem(), Logger: discard, OnFailure: func(err error) {
			t.Errorf("the log failed: %v", err)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer net.Close()
	ticker := NewTicker()
	defer ticker.Stop()
	for _, h := range []Host{mm, c} {
		if err := net.Register(h.ID(), h.Handle); err != nil {
			t.Fatal(err)
		}
		ticker.Add(h)
	}
	waitUntil(t, "both to serve", func() bool { return mm.Serves() && c.Membership() == coordinator.Serving })
	seq := uint64(0)
	for round := range 3 {
		for i := range 20 * (round + 1) { // some are new, some are overwritten, some many times at once
			seq++
			put(c, seq, fmt.Sprintf("k%d", i), []byte("v"))
			seq++
			put(c, seq, fmt.Sprintf("k%d", i), []byte("w"))
		}
		waitUntil(t, "the writes to be in the store", c.IsDrained)
		keys := int64(0)
		if err := store.Scan(t.Context(), func(string, causal.Record) error { keys++; return nil }); err != nil {
			t.Fatal(err)
		}
		if n, err := store.Len(t.Context()); err != nil || n != keys || keys != int64(20*(round+1)) {
			t.Errorf("round %d: the store counts %d keys and holds %d, want %d; %v", round, n, keys, 20*(round+1), err)
		}
	}
}

func TestStoreCountsTheKeysThatAMoverWritesAndRemoves(t *testing.T) {
	store := openStore(t)
	mm := &shardDriver[*process.Shard]{store: store, ctx: t.Context(), logger: discard}
	moved := func(key string, hlc causal.HLC) causal.Write {
		return causal.Write{Key: key, Record: causal.Record{Version: causal.Version{HLC: hlc, Origin: 1}}}
	}
	gone := func(key string) causal.Write { return causal.Write{Key: key, Delete: true} }
	for i, c := range []struct {
		writes []causal.Write
		want   int64
	}{
		{[]causal.Write{moved("a", 1), moved("b", 1)}, 2},
		{[]causal.Write{moved("a", 2), moved("c", 2), moved("c", 3)}, 3},
		{[]causal.Write{gone("a"), gone("never there"), gone("c"), moved("c", 4)}, 2},
	} {
		e := process.Effect{Kind: process.EffectChange, CheckExistence: true, Change: member.Change{Writes: c.writes}}
		if r := mm.carryOut(t.Context(), &e); r.Err != nil {
			t.Fatal(r.Err)
		}
		if n, err := store.Len(t.Context()); n != c.want || err != nil {
			t.Errorf("step %d: len %d, %v; want %d", i, n, err, c.want)
		}
	}
}
