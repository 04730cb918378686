package member

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/topology"
)

// shardMember is a member of a shard's group with its disk and its storage.
type shardMember struct {
	number  uint8
	volume  uint64
	damaged bool
	s       *Storage // nil while it is down
	modelDisk
	store modelStore
	held  *StorageTask // is under way
	hung  bool         // the storage does nothing
	// logHung: the disk of the log does nothing; what it was given is in unwritten.
	logHung   bool
	unwritten []group.Entry
	fails     int  // tasks that fail, every second one after it took effect
	cut       bool // from the other members
	paused    bool
}

// shardRig runs the members of one shard in virtual time. Disks are instantaneous; storages are, unless they hang or
// fail.
type shardRig struct {
	t       *testing.T
	now     causal.Now
	topo    *topology.Topology
	members []*shardMember
	modelRegister
	broken  causal.Mutations
	volumes uint64
	retain  int
	maxLog  int
	// copied is asked about each message of a copy: how often is it delivered?
	copied  func(m *causal.Message) int
	serial  uint64
	known   map[string]bool   // what the middleman of the session believes to be there
	by      *Storage          // whose session it is
	session uint64            // its number
	pending map[uint64]uint64 // proposals of the session, with their serials
	keyOf   map[uint64]string // by serial
	acked   map[string]uint64 // by key
	// unchecked: proposals are made that this does not know.
	unchecked bool
	wrong     string // the first thing that was wrong
}

func newShardRig(t *testing.T, members int, mutations ...causal.Mutation) *shardRig {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, CoordinatorMembers: members,
		Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &shardRig{t: t, topo: topo, now: causal.Now{Mono: int64(time.Hour), WallMs: 1_700_000_000_000},
		broken: causal.MutationsOf(mutations...), volumes: 100,
		keyOf: map[uint64]string{}, acked: map[string]uint64{}, retain: 1 << 10, copied: func(*causal.Message) int {
			return 1
		}}
	for i := range members {
		p := &shardMember{number: uint8(i + 1), volume: r.newVolume(), modelDisk: modelDisk{first: 1},
			store: newModelStore()}
		r.members = append(r.members, p)
	}
	return r
}

// startAll starts all members and waits until all are in the configuration.
func (r *shardRig) startAll() *shardRig {
	r.t.Helper()
	for _, p := range r.members {
		r.start(p)
	}
	r.awaitAll()
	return r
}

func (r *shardRig) awaitAll() {
	r.t.Helper()
	r.await("all members", func() bool {
		p := r.primary()
		return p != nil && len(p.s.Status().Config.Members) == len(r.members)
	})
}

func (r *shardRig) newVolume() uint64 {
	r.volumes++
	return r.volumes
}

// start starts a member from its disk and its storage.
func (r *shardRig) start(p *shardMember) {
	r.t.Helper()
	image := p.image(r.t)
	p.held = nil
	p.s = NewStorage(StorageConfig{Self: self.WithMember(p.number), Topology: r.topo, Volume: p.volume,
		Damaged: p.damaged, Found: p.store.marker,
		Empty: len(p.store.keys)+len(p.store.meta) == 0, RetainBytes: r.retain, MaxLogBytes: r.maxLog,
		Broken: r.broken}, image, r.now)
	r.flush()
}

func (p *shardMember) crash() { p.s, p.held, p.unwritten = nil, nil, nil }

// wipe takes the log of a member that is down, and gives it another volume.
func (r *shardRig) wipe(p *shardMember) {
	p.volume, p.damaged, p.disk, p.first = r.newVolume(), false, nil, 1
}

// primary returns the member that serves; nil: none does.
func (r *shardRig) primary() *shardMember {
	for _, p := range r.members {
		if p.s != nil && !p.paused && p.s.HoldsLease(r.now) {
			return p
		}
	}
	return nil
}

// flush carries out what the members ask for until they ask for nothing.
func (r *shardRig) flush() {
	r.t.Helper()
	for busy := true; busy; {
		busy = false
		for _, p := range r.members {
			if p.s != nil && !p.paused {
				busy = r.flushOne(p) || busy
			}
		}
		r.check()
	}
}

func (r *shardRig) flushOne(p *shardMember) (busy bool) {
	messages := p.s.Take(nil)
	p.unwritten = p.s.Writes(p.unwritten)
	if n := len(p.unwritten); n > 0 && !p.logHung {
		busy = true
		p.write(p.unwritten)
		last := p.unwritten[n-1].Index
		p.unwritten = nil
		p.s.Appended(r.now, last)
	}
	p.truncate(p.s.TruncateBefore())
	for _, op := range p.s.RegisterOps(nil) {
		busy = true
		p.s.RegisterDone(r.now, r.request(op))
	}
	for _, t := range p.s.Tasks(nil) {
		if p.held != nil {
			r.t.Fatal("two tasks at a time")
		}
		p.held = &t
	}
	if t := p.held; t != nil && !p.hung {
		busy = true
		r.runTask(p, t)
	}
	for i := range messages {
		busy = true
		r.deliver(p, &messages[i])
	}
	if p.s.NeedsReset() {
		busy = true
		p.crash()
		r.wipe(p)
		r.start(p)
	}
	return busy
}

func (r *shardRig) runTask(p *shardMember, t *StorageTask) {
	p.held = nil
	if p.fails > 0 {
		p.fails--
		if p.fails%2 == 0 {
			p.store.run(t)
		}
		p.s.TaskDone(r.now, t.ID, StorageTaskResult{Err: errors.New("it fails")})
		return
	}
	p.s.TaskDone(r.now, t.ID, p.store.run(t))
}

func (r *shardRig) deliver(from *shardMember, m *causal.Message) {
	to := r.members[m.To.Member-1]
	times := 1
	if m.Kind == causal.KindCopy {
		times = r.copied(m)
	}
	for range times {
		if to.s != nil && !to.paused && !to.cut && !from.cut {
			to.s.Step(r.now, m)
		}
	}
}

// check checks that one member serves at most, and that its storage has every acknowledged write.
func (r *shardRig) check() {
	r.t.Helper()
	var p *shardMember
	for _, q := range r.members {
		if q.s == nil || !q.s.HoldsLease(r.now) {
			continue
		}
		if p != nil && !p.paused && !q.paused {
			r.fail("two members serve")
		}
		p = q
	}
	if p == nil || p.paused {
		return
	}
	if r.by != p.s || r.session != p.s.Session() {
		r.by, r.session, r.pending = p.s, p.s.Session(), map[uint64]uint64{}
		r.known = map[string]bool{}
		for k := range p.store.keys {
			r.known[k] = true
		}
		for key, want := range r.acked {
			if got := r.serialIn(p, key); got < want {
				r.fail(fmt.Sprintf("member %d serves %s of %d, and %d was acknowledged", p.number, key, got, want))
			}
		}
	}
	for _, id := range p.s.Done(nil) {
		serial, ok := r.pending[id]
		if !ok && r.unchecked {
			continue
		} else if !ok {
			r.fail(fmt.Sprintf("proposal %d is done, which was not made", id))
			continue
		}
		delete(r.pending, id)
		key := r.keyOf[serial]
		r.acked[key] = max(r.acked[key], serial)
		if got := r.serialIn(p, key); got < serial {
			r.fail(fmt.Sprintf("%s of %d is done, and the storage has that of %d", key, serial, got))
		}
	}
}

func (r *shardRig) fail(what string) {
	if r.wrong == "" {
		r.wrong = what
	}
}

// serialIn returns the serial of the last write of a key in the storage of a member: that of a removal is in the
// metadata.
func (r *shardRig) serialIn(p *shardMember, key string) uint64 {
	serial := uint64(p.store.keys[key].Version.HLC)
	removed, _ := strconv.ParseUint(p.store.meta["removed "+key], 10, 64)
	return max(serial, removed)
}

// write proposes that a key is written, or removed; as middlemen do, it knows what is there. It returns whether
// somebody took the proposal.
func (r *shardRig) write(key string, remove bool) bool {
	r.t.Helper()
	p := r.primary()
	if p == nil {
		return false
	}
	r.check()
	r.serial++
	w := Write{Key: key, KeyExists: r.known[key], Delete: remove}
	c := Change{}
	if remove {
		c.Meta = []Meta{{"removed " + key, []byte(fmt.Sprint(r.serial))}}
	} else {
		w.Record = causal.Record{Version: causal.Version{HLC: causal.HLC(r.serial), Origin: 1},
			Value: causal.Value{Data: []byte(fmt.Sprint("value ", r.serial))}}
	}
	c.Writes = []Write{w}
	id, err := p.s.Propose(r.now, c)
	if err != nil {
		return false
	}
	r.known[key] = !remove
	r.keyOf[r.serial], r.pending[id] = key, r.serial
	r.flush()
	return true
}

// mustWrite writes keys and waits until all are acknowledged.
func (r *shardRig) mustWrite(keys ...string) {
	r.t.Helper()
	for _, key := range keys {
		want := r.serial + 1
		r.await("a primary", func() bool { want = r.serial + 1; return r.write(key, false) })
		r.await("the write of "+key, func() bool { return r.acked[key] >= want })
	}
}

// pass lets time pass.
func (r *shardRig) pass(d time.Duration) {
	r.t.Helper()
	const step = 25 * time.Millisecond
	for end := r.now.Mono + int64(d); r.now.Mono < end; {
		r.now.Mono += int64(step)
		r.now.WallMs += step.Milliseconds()
		for _, p := range r.members {
			if p.s != nil && !p.paused {
				p.s.Tick(r.now)
			}
		}
		r.flush()
	}
}

// await lets time pass until something is so, and returns how long that took.
func (r *shardRig) await(what string, is func() bool) time.Duration {
	r.t.Helper()
	began := r.now.Mono
	for !is() {
		if r.wrong != "" {
			r.t.Fatal(r.wrong)
		}
		if r.pass(25 * time.Millisecond); r.now.Mono-began > int64(time.Minute) {
			r.t.Fatalf("waiting for %s took a minute%s", what, r.describe())
		}
	}
	return time.Duration(r.now.Mono - began)
}

func (r *shardRig) describe() (text string) {
	for _, p := range r.members {
		if p.s != nil {
			text += fmt.Sprintf("\n%d: %+v, applied %+v, session %d, copying %+v, failure %v", p.number, p.s.Status(),
				p.s.applied, p.s.Session(), p.s.copying, p.s.Failure())
		}
	}
	return text
}

// isQuiet reports whether all members have applied the same log.
func (r *shardRig) isQuiet() bool {
	for _, p := range r.members {
		if p.s == nil || p.s.applied.Position < r.members[0].s.group.Last() || p.s.copying != nil ||
			p.s.group.Commit() < p.s.group.Last() {
			return false
		}
	}
	return true
}

// compare checks that all storages are the same, and have every acknowledged write.
func (r *shardRig) compare() {
	first := &r.members[0].store
	for _, p := range r.members {
		if !maps.EqualFunc(first.keys, p.store.keys, func(a, b causal.Record) bool {
			return a.Version == b.Version
		}) || !maps.Equal(first.meta, p.store.meta) {
			r.fail(fmt.Sprintf("member %d has (-) what member 1 has not (+):\n%s", p.number,
				cmp.Diff(p.store, *first, cmp.AllowUnexported(modelStore{}))))
		}
		if p.store.len != len(p.store.keys) {
			r.fail(fmt.Sprintf("member %d counts %d keys of %d", p.number, p.store.len, len(p.store.keys)))
		}
		for key, want := range r.acked {
			if got := r.serialIn(p, key); got < want {
				r.fail(fmt.Sprintf("member %d has %s of %d, and %d was acknowledged", p.number, key, got, want))
			}
		}
	}
}

// checkEnd checks a group whose members are all there.
func (r *shardRig) checkEnd() {
	r.t.Helper()
	r.awaitAll()
	r.await("all storages to have everything", r.isQuiet)
	if r.compare(); r.wrong != "" {
		r.t.Error(r.wrong)
	}
}
