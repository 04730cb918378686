package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

func TestAcknowledgedWritesOfAShardSurviveTheLossOfAnyMemberWithItsStorage(t *testing.T) {
	r := newShardRig(t, 3, inMemory)
	r.putAll(200)
	for range 3 { // each time the one that serves
		p := r.primary()
		r.put(100)
		r.crash(p)
		lost := time.Now()
		next := r.awaitAnother(p)
		t.Logf("another member serves after %v", time.Since(lost))
		r.checkAcknowledged(next)
		r.put(100)
		r.start(p, inMemory(p)) // is copied under writes
		r.put(300)
		r.awaitWhole()
		r.put(100)
		r.awaitDrained()
		for i := range r.running {
			r.awaitEqual(i)
		}
	}
}

// checkAcknowledged waits until the writes are acknowledged by the member that serves now, and checks its storage.
func (r *shardRig) checkAcknowledged(i int) {
	r.Helper()
	r.awaitDrained()
	r.check(i)
}

func TestAMemberOfAShardThatWasAwayIsContinuedByTheLog(t *testing.T) {
	var cleared atomic.Int64
	onDisk := func(int) beside {
		dir := t.TempDir()
		return beside{disk: vfs.NewMem(), open: func() (storage.Store, error) {
			s, err := openEmbedded(dir, vfs.Default)
			return &clearedStore{s, &cleared}, err
		}}
	}
	r := newShardRig(t, 3, onDisk)
	r.putAll(300)
	copies := cleared.Load()
	for away := range r.running {
		r.put(50)
		kept := r.crash(away)
		r.put(300)
		r.awaitDrained()
		r.start(away, kept)
		r.put(50)
		r.awaitDrained()
		r.awaitWhole()
		r.awaitEqual(away)
	}
	if n := cleared.Load(); n > copies {
		t.Errorf("%d copies were made, though the log continues each storage", n-copies)
	}
}

// clearedStore counts how often a store is cleared, that is, how many copies begin.
type clearedStore struct {
	storage.Store
	cleared *atomic.Int64
}

func (s *clearedStore) Clear(ctx context.Context, meta ...storage.Meta) error {
	s.cleared.Add(1)
	return s.Store.Clear(ctx, meta...)
}

func TestAllMembersOfAShardMayStopAtOnce(t *testing.T) {
	r := newShardRig(t, 3, inMemory)
	r.put(500)
	var kept [3]beside
	for i := range kept {
		kept[i] = r.crash(i)
	}
	r.put(100)
	for i := range kept {
		r.start(i, kept[i])
	}
	r.awaitWhole()
	r.awaitDrained()
	for i := range kept {
		r.awaitEqual(i)
	}
}

func TestAMemberOfAShardHandsOver(t *testing.T) {
	r := newShardRig(t, 3, inMemory)
	r.put(300)
	p := r.primary()
	r.members()[p].HandOver()
	asked := time.Now()
	next := r.awaitAnother(p)
	t.Logf("another member serves after %v", time.Since(asked))
	r.put(100)
	kept := r.end(p, (*ShardMember).Close)
	r.put(100)
	r.checkAcknowledged(next)
	r.start(p, kept)
	r.awaitWhole()
	r.awaitEqual(p)
}

// A middleman that starts steps its machine while the member that starts it does.
func TestAMemberBeginsToServeWhileItsMiddlemanFindsTombstones(t *testing.T) {
	var slow atomic.Bool
	clock := NewClock()
	slowSteps := func() causal.Now {
		if slow.Load() {
			time.Sleep(5 * time.Millisecond) // with the lock of the machine
		}
		return clock()
	}
	r := newShardRig(t, 2, func(i int) beside {
		b := inMemory(i)
		open := b.open
		b.open = func() (storage.Store, error) {
			s, err := open()
			return &storeWithTombstone{s}, err
		}
		b.clock = slowSteps
		return b
	})
	r.putAll(10)
	p := r.primary()
	slow.Store(true)
	r.members()[p].HandOver()
	r.awaitAnother(p)
	slow.Store(false)
	r.putAll(10)
}

// storeWithTombstone is a store that finds a tombstone at the start of a scan.
type storeWithTombstone struct{ storage.Store }

func (s *storeWithTombstone) Scan(ctx context.Context, fn func(key string, rec causal.Record) error) error {
	if err := fn("deleted", causal.Record{Version: causal.Version{HLC: 1, Origin: 1},
		Value: causal.Value{Tombstone: true}}); err != nil {
		return err
	}
	return s.Store.Scan(ctx, fn)
}

// stuckStore is a store whose changes can be made to hang.
type stuckStore struct {
	storage.Store
	mu sync.RWMutex // held for writing: they hang
}

func (s *stuckStore) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.Store.Apply(ctx, writes, meta...)
}

// fullStore is a store that can be full.
type fullStore struct {
	storage.Store
	full atomic.Bool
}

func (s *fullStore) Apply(ctx context.Context, writes []storage.Write, meta ...storage.Meta) error {
	if s.full.Load() {
		return storage.ErrFull
	}
	return s.Store.Apply(ctx, writes, meta...)
}

// newFullRig returns three members whose storages can be made full.
func newFullRig(t *testing.T) (*shardRig, *[3]fullStore) {
	var full [3]fullStore
	return newShardRig(t, 3, func(i int) beside {
		b := inMemory(i)
		open := b.open
		b.open = func() (_ storage.Store, err error) {
			full[i].Store, err = open()
			return &full[i], err
		}
		return b
	}), &full
}

// The storages of all members are full at the same time, as they hold the same. Else: each member takes its own for one
// that does not respond, and nobody serves reads.
func TestAShardWithFullStoragesGoesOnToServe(t *testing.T) {
	r, full := newFullRig(t)
	r.putAll(100)
	p := r.primary()
	l := r.members()[p].Leadership()
	for i := range full {
		full[i].full.Store(true)
	}
	r.put(100)
	r.await("many attempts", func() bool {
		for _, m := range r.members() {
			if failures, problem := m.StorageState(); failures < 10 || !errors.Is(problem, storage.ErrFull) {
				return false
			}
		}
		return true
	})
	if now := r.members()[p].Leadership(); now != l {
		t.Errorf("the leadership is %v, it was %v", now, l)
	}
	for i := range full {
		full[i].full.Store(false)
	}
	r.awaitDrained()
	for i := range full {
		r.awaitEqual(i)
	}
}

func TestOthersGoOnWithoutAMemberWhoseStorageHangs(t *testing.T) {
	var stuck [3]stuckStore
	r := newShardRig(t, 3, func(i int) beside {
		b := inMemory(i)
		open := b.open
		b.open = func() (_ storage.Store, err error) {
			stuck[i].Store, err = open()
			return &stuck[i], err
		}
		return b
	})
	r.putAll(100)
	for range 2 {
		p := r.primary()
		stuck[p].mu.Lock()
		r.put(100)
		stopped := time.Now()
		next := r.awaitAnother(p)
		t.Logf("another member serves %v after the storage has stopped", time.Since(stopped))
		r.checkAcknowledged(next)
		r.putAll(100)
		stuck[p].mu.Unlock()
		r.awaitWhole()
		r.put(100)
		r.awaitDrained()
		r.awaitEqual(p)
	}
}

// A member that cannot reach the others keeps its middleman for when it can again, but that one hears, says and does
// nothing meanwhile: another member may serve.
func TestTheMiddlemanOfAMemberActsOnlyUnderTheLease(t *testing.T) {
	r := newShardRig(t, 3, inMemory)
	r.putAll(100)
	p := r.primary()
	m := r.members()[p]
	var answers atomic.Int64
	asker := topology.Node{Part: topology.Coordinator, Index: 5}
	if err := r.net.Register(asker, func(batch []causal.Message) { answers.Add(int64(len(batch))) }); err != nil {
		t.Fatal(err)
	}
	ask := func() int64 {
		before := answers.Load()
		m.Handle([]causal.Message{causal.PastQuery{ID: 1}.Message(asker, m.ID())})
		return answers.Load() - before
	}
	r.await("an answer", func() bool { return ask() > 0 })
	shard := func() (s *process.Shard) {
		m.host.Inspect(func(m *process.Member) { s = m.Shard() })
		return s
	}
	before := shard()
	r.register.SetFault(register.Away) // so the others cannot be dropped
	var kept [3]beside
	for i := range kept {
		if i != p {
			kept[i] = r.crash(i)
		}
	}
	r.await("the lease to end", func() bool { return m.Leadership().IsZero() })
	r.put(100)
	for range 20 {
		m.Tick()
		if n := ask(); n > 0 || before == nil || shard() != before {
			t.Errorf("without the lease, it gave %d answers; the shard is %p, it was %p", n, shard(), before)
		}
	}
	r.register.SetFault(register.NoFault)
	for i := range kept {
		if i != p {
			r.start(i, kept[i])
		}
	}
	r.awaitDrained()
	r.awaitWhole()
	for i := range kept {
		r.awaitEqual(i)
	}
}

func TestAShardWithDataGetsMembers(t *testing.T) {
	kept := inMemory(0)
	store, err := kept.open()
	if err != nil {
		t.Fatal(err)
	}
	mm := startMiddleman(t, newRecorder(), store)
	mm.Close()
	want := map[string]string{}
	var writes []storage.Write
	for i := range 3000 {
		w := storage.Write{Key: "old" + strings.Repeat("x", i%100) + string(rune('a'+i%26)) + strings.Repeat("y", i/26)}
		w.Record.Version.HLC, w.Record.Version.Origin = 1, 1
		w.Record.Value.Data = []byte(w.Key)
		writes = append(writes, w)
		want[w.Key] = w.Key
	}
	if err := store.Apply(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	r := newShardRig(t, 3, func(i int) beside {
		if i == 0 {
			return kept
		}
		return inMemory(i)
	})
	r.want = want
	r.put(100)
	r.awaitDrained()
	for i := range r.running {
		r.awaitEqual(i)
	}
}

func TestAMemberOfAShardNeedsARegister(t *testing.T) {
	_, err := NewShardMember(t.Context(),
		ShardMemberOptions{
			Middleman: MiddlemanOptions{Config: middleman.DefaultConfig(oneRing(t, 1, 0),
				topology.Node{Part: topology.Middleman})},
		})
	if err == nil || !strings.Contains(err.Error(), "shardMembers") {
		t.Error(err)
	}
}

// staleStore is a storage on which no middleman starts, as on one that was resharded since the topology of its member.
type staleStore struct {
	storage.Store
	stale atomic.Bool
}

func (s *staleStore) Meta(ctx context.Context, name string) ([]byte, bool, error) {
	if s.stale.Load() && name == process.MarkState {
		return nil, false, errors.New("the topology of this member is older than its storage")
	}
	return s.Store.Meta(ctx, name)
}

// The member that takes over cannot start. Else: it ends its process after ten seconds, during which nobody serves.
func TestAMemberOfAShardThatCannotServeHandsOver(t *testing.T) {
	var stores [3]staleStore
	r := newShardRig(t, 3, func(i int) beside {
		b := inMemory(i)
		open := b.open
		b.open = func() (_ storage.Store, err error) {
			stores[i].Store, err = open()
			return &stores[i], err
		}
		return b
	})
	r.putAll(100)
	p := r.primary()
	next := 0 // members act in their order
	if p == next {
		next = 1
	}
	for i := range stores {
		stores[i].stale.Store(i == next)
	}
	r.crash(p)
	serving := r.awaitAnother(p)
	if err := r.failure(next); serving == next || err != nil {
		t.Errorf("member %d serves, and member %d has failed: %v", serving+1, next+1, err)
	}
	r.putAll(100)
	r.checkAcknowledged(serving)
}
