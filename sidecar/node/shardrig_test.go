package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/topology"
)

// shardRig runs the members of one shard and a coordinator that writes to it.
type shardRig struct {
	testing.TB
	topo     *topology.Topology
	register *register.Memory
	net      *transport.Local
	ticker   *Ticker
	c        *Coordinator
	beside   func(i int) beside // what a new member i keeps
	seq      uint64
	want     map[string]string // what was put, by key
	// retain is ShardMemberOptions.RetainBytes.
	retain int

	lock    sync.Mutex
	running []*rigMember
	failed  []error // by member: why it has stopped
}

// beside is what outlives a process of a member: the disk of its log, and a storage that is opened by each process.
type beside struct {
	disk vfs.FS
	dir  string // of the log; "": /log
	open func() (storage.Store, error)
	// logger is nil for none.
	logger *slog.Logger
	clock  Clock // nil: one of its own
}

// rigMember is a member that runs.
type rigMember struct {
	*ShardMember
	beside  beside
	store   storage.Store
	unwatch func()
}

// inMemory is what a new member keeps, in memory.
func inMemory(int) beside {
	disk := vfs.NewMem()
	return beside{disk: vfs.NewMem(), open: func() (storage.Store, error) {
		return openEmbedded("store", disk)
	}}
}

func openEmbedded(dir string, fs vfs.FS) (storage.Store, error) {
	s, err := embedded.Open(dir, embedded.Options{FS: fs, Logger: discard})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newShardRig starts n members, each with what beside returns.
func newShardRig(t testing.TB, n int, beside func(i int) beside) *shardRig {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, Shards: 1, ShardMembers: n}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &shardRig{TB: t, topo: topo, register: register.NewMemory(), net: transport.NewLocal(nil), ticker: NewTicker(),
		beside: beside,
		want:   map[string]string{}, running: make([]*rigMember, n), failed: make([]error, n), retain: 1 << 20}
	t.Cleanup(r.stop)
	r.startCoordinator()
	for i := range n {
		r.start(i, beside(i))
	}
	r.awaitWhole()
	r.await("the coordinator to serve", func() bool { return r.c.Membership() == coordinator.Serving })
	return r
}

func (r *shardRig) stop() {
	for i := range r.running {
		r.crash(i)
	}
	r.ticker.Stop()
	if _, err := r.c.Close(); err != nil {
		r.Error(err)
	}
	if err := r.net.Close(); err != nil {
		r.Error(err)
	}
}

func (r *shardRig) startCoordinator() {
	r.Helper()
	id := topology.Node{Part: topology.Coordinator, Member: 1}
	var started atomic.Pointer[Coordinator]
	if err := r.net.Register(id, func(batch []causal.Message) {
		if c := started.Load(); c != nil {
			c.Handle(batch)
		}
	}); err != nil {
		r.Fatal(err)
	}
	c, err := NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(r.topo, id.Group()),
		Clock: NewClock(), Net: r.net, Dir: "/log", FS: vfs.NewMem(),
		Logger: discard, OnFailure: func(err error) { r.Errorf("the coordinator failed: %v", err) },
		OnLeadership: func(l causal.Leadership) { r.net.SetLeadership(id, l) }})
	if err != nil {
		r.Fatal(err)
	}
	r.c = c
	started.Store(c)
	r.net.Watch(transport.Watcher{Up: func(n topology.Node, _ causal.Leadership) { c.LinkUp(n) }})
	r.net.SetLeadership(id, c.Leadership())
	r.ticker.Add(c)
}

// start starts member i on what it keeps.
func (r *shardRig) start(i int, b beside) {
	r.Helper()
	id := topology.Node{Part: topology.Middleman, Member: uint8(i + 1)}
	store, err := b.open()
	if err != nil {
		r.Fatal(err)
	}
	clock := b.clock
	if clock == nil {
		clock = NewClock()
	}
	var started atomic.Pointer[ShardMember]
	if err := r.net.Register(id, func(batch []causal.Message) {
		if sm := started.Load(); sm != nil {
			sm.Handle(batch)
		}
	}); err != nil {
		r.Fatal(err)
	}
	sm, err := NewShardMember(context.Background(),
		ShardMemberOptions{Member: id.Member, Dir: cmp.Or(b.dir, "/log"), FS: b.disk, Register: r.register,
			RetainBytes: r.retain,
			Middleman: MiddlemanOptions{Config: middleman.DefaultConfig(r.topo, id.Group()), Clock: clock, Net: r.net,
				Store: store, InlineReads: true, Logger: cmp.Or(b.logger, discard),
				OnFailure: func(err error) {
					r.lock.Lock()
					defer r.lock.Unlock()
					r.failed[i] = errors.Join(r.failed[i], err)
				}},
			OnLeadership: func(l causal.Leadership) { r.net.SetLeadership(id, l) }})
	if err != nil {
		r.Fatal(err)
	}
	started.Store(sm)
	m := &rigMember{ShardMember: sm, beside: b, store: store,
		unwatch: r.net.Watch(transport.Watcher{Up: func(n topology.Node, _ causal.Leadership) { sm.LinkUp(n) }})}
	r.lock.Lock()
	r.running[i], r.failed[i] = m, nil
	r.lock.Unlock()
	r.ticker.Add(sm)
}

// crash stops member i as kill -9 does. It returns what the member has kept.
func (r *shardRig) crash(i int) beside {
	return r.end(i, (*ShardMember).Crash)
}

func (r *shardRig) end(i int, how func(*ShardMember) error) beside {
	r.lock.Lock()
	m := r.running[i]
	r.running[i] = nil
	r.lock.Unlock()
	if m == nil {
		return beside{}
	}
	m.unwatch()
	r.net.Deregister(topology.Node{Part: topology.Middleman, Member: uint8(i + 1)})
	r.ticker.Remove(m)
	if err := how(m.ShardMember); err != nil {
		r.Error(err)
	}
	if err := m.store.Close(); err != nil {
		r.Error(err)
	}
	return m.beside
}

func (r *shardRig) members() []*rigMember {
	r.lock.Lock()
	defer r.lock.Unlock()
	return append([]*rigMember(nil), r.running...)
}

func (r *shardRig) failure(i int) error {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.failed[i]
}

// primary returns the index of the member that serves; -1: none does.
func (r *shardRig) primary() int {
	for i, m := range r.members() {
		if m != nil && !m.Leadership().IsZero() && m.Serves() {
			return i
		}
	}
	return -1
}

func (r *shardRig) await(what string, is func() bool) {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			for i, m := range r.members() {
				if m != nil {
					failures, problem := m.StorageState()
					r.Logf("member %d: %+v; %d failures of the storage, %v; %v", i+1, m.Status(), failures, problem,
						r.failure(i))
				}
			}
			r.Fatalf("timed out after a minute waiting for %s", what)
		}
	}
}

// awaitWhole waits until all members are in the configuration and one of them serves.
func (r *shardRig) awaitWhole() {
	r.Helper()
	r.await("a whole group", func() bool {
		p := r.primary()
		return p >= 0 && len(r.members()[p].Status().Config.Members) == len(r.running)
	})
}

// awaitAnother waits until another member than one serves. It returns its index.
func (r *shardRig) awaitAnother(than int) (p int) {
	r.Helper()
	r.await("another member to serve", func() bool {
		p = r.primary()
		return p >= 0 && p != than
	})
	return p
}

// put writes n keys, some of which exist.
func (r *shardRig) put(n int) {
	for range n {
		r.seq++
		key, value := "k"+strconv.FormatUint(r.seq%1000, 10), fmt.Sprintf("v%d", r.seq)
		put(r.c, r.seq, key, []byte(value))
		r.want[key] = value
	}
}

// putAll writes n keys and waits until the coordinator knows that the shard has them.
func (r *shardRig) putAll(n int) {
	r.Helper()
	r.put(n)
	r.awaitDrained()
}

func (r *shardRig) awaitDrained() {
	r.Helper()
	r.await("the writes to be acknowledged", r.c.IsDrained)
}

// check verifies the storage of a member: what was put and acknowledged, and nothing else, and the number of keys.
func (r *shardRig) check(i int) {
	r.Helper()
	m := r.members()[i]
	found := int64(0)
	err := m.store.Scan(context.Background(), func(key string, rec causal.Record) error {
		found++
		if want, ok := r.want[key]; !ok || !bytes.Equal(rec.Value.Data, []byte(want)) {
			r.Errorf("member %d has %q = %q, want %q", i+1, key, rec.Value.Data, want)
		}
		return nil
	})
	if err != nil {
		r.Error(err)
	}
	if n, err := m.store.Len(context.Background()); err != nil || n != found || found != int64(len(r.want)) {
		r.Errorf("member %d counts %d keys and has %d, want %d; %v", i+1, n, found, len(r.want), err)
	}
}

// awaitEqual waits until a member has applied everything, and checks its storage.
func (r *shardRig) awaitEqual(i int) {
	r.Helper()
	r.await("a member to have everything", func() bool {
		m, p := r.members()[i], r.primary()
		if m == nil || p < 0 {
			return false
		}
		a, b := r.applied(i), r.applied(p)
		return a == b && a >= r.members()[p].Status().Commit
	})
	r.check(i)
}

// applied returns the position up to which the storage of a member has the log.
func (r *shardRig) applied(i int) uint64 {
	a, _, err := readApplied(context.Background(), r.members()[i].store)
	if err != nil {
		return 0
	}
	return a.Position
}
