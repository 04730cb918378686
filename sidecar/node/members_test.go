package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/register"
	"github.com/causalstore/causalstore/sidecar/wal"
	"github.com/causalstore/causalstore/topology"
)

// members runs the members of one coordinator. It is their network, too: it delivers what they send each other, answers
// what a coordinator with an empty log asks, and records the rest.
type members struct {
	t        *testing.T
	topo     *topology.Topology
	register *register.Memory
	ticker   *Ticker
	recorder

	lock    sync.Mutex
	running [3]*Coordinator
	disks   [3]vfs.FS
	// events are the leaderships that the members have announced, in order.
	events [3][]causal.Leadership
}

func startMembers(t *testing.T) *members {
	t.Helper()
	topo, err := topology.New(1, []topology.DataCenter{{Name: "a", Coordinators: 1, CoordinatorMembers: 3, Shards: 1}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &members{t: t, topo: topo, ticker: NewTicker(), register: register.NewMemory(),
		recorder: recorder{news: make(chan struct{}, 1)}}
	t.Cleanup(func() {
		m.ticker.Stop()
		for i := range m.running {
			m.crash(i)
		}
	})
	for i := range m.running {
		m.disks[i] = vfs.NewMem()
		m.start(i)
	}
	m.await("all members", func() bool {
		p := m.primary()
		return p != nil && p.Membership() == coordinator.Serving && len(p.Status().Config.Members) == 3
	})
	return m
}

func (m *members) start(i int) *Coordinator {
	m.t.Helper()
	c, err := NewCoordinator(
		CoordinatorOptions{Config: coordinator.DefaultConfig(m.topo, topology.Node{Part: topology.Coordinator}),
			Member: uint8(i + 1),
			Clock:  NewClock(), Net: m, Dir: "/log", FS: m.disks[i], Logger: discard, Register: m.register,
			OnFailure: func(err error) { m.t.Errorf("member %d failed: %v", i+1, err) },
			OnLeadership: func(l causal.Leadership) {
				m.lock.Lock()
				defer m.lock.Unlock()
				m.events[i] = append(m.events[i], l)
			}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.lock.Lock()
	m.running[i] = c
	m.lock.Unlock()
	m.ticker.Add(c)
	return c
}

func (m *members) crash(i int) {
	m.lock.Lock()
	c := m.running[i]
	m.running[i] = nil
	m.lock.Unlock()
	if c != nil {
		m.ticker.Remove(c)
		if err := c.Crash(); err != nil {
			m.t.Error(err)
		}
	}
}

// Send implements transport.Network. A received message is handled by another goroutine, as with links.
func (m *members) Send(msg causal.Message) {
	switch msg.Kind {
	case causal.KindGroup:
		m.lock.Lock()
		to := m.running[msg.To.Member-1]
		m.lock.Unlock()
		if to != nil {
			go to.Handle([]causal.Message{msg})
		}
	case causal.KindPastQuery:
		if p := m.primary(); p != nil {
			go p.Handle([]causal.Message{causal.PastReply{ID: msg.PastQuery().ID}.Message(msg.To, msg.From)})
		}
	default:
		m.recorder.Send(msg)
	}
}

func (m *members) all() [3]*Coordinator {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.running
}

func (m *members) index(c *Coordinator) int { return int(c.MemberNode().Member) - 1 }

// primary returns the member that has announced the greatest leadership and has not ended it.
func (m *members) primary() (best *Coordinator) {
	m.lock.Lock()
	defer m.lock.Unlock()
	var greatest causal.Leadership
	for i, c := range m.running {
		if n := len(m.events[i]); c != nil && n > 0 && m.events[i][n-1].Compare(greatest) > 0 {
			best, greatest = c, m.events[i][n-1]
		}
	}
	return best
}

func (m *members) await(what string, is func() bool) {
	m.t.Helper()
	defer func() {
		if m.t.Failed() {
			for i, c := range m.all() {
				if c != nil {
					m.t.Logf("member %d: %+v", i+1, c.Status())
				}
			}
		}
	}()
	waitUntil(m.t, what, is)
}

// putAll puts n keys through the primary and waits for the answers. It returns the keys.
func (m *members) putAll(from, n int) (keys []string) {
	m.t.Helper()
	p := m.primary()
	for i := range n {
		key := fmt.Sprintf("k%d", from+i)
		keys = append(keys, key)
		put(p, uint64(from+i+1), key, []byte(key))
	}
	answered := map[uint64]causal.ErrCode{}
	m.await("the answers", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.sent {
			if s.Kind == causal.KindPutReply {
				answered[s.PutReply().ID] = s.PutReply().Err
			}
		}
		for i := range n {
			if _, ok := answered[uint64(from+i+1)]; !ok {
				return false
			}
		}
		return true
	})
	for id, err := range answered {
		if err != causal.OK {
			m.t.Errorf("put %d got %s", id, err)
		}
	}
	return keys
}

// awaitPropagation waits until keys were sent to the shard, since the record of what was sent was last emptied.
func (m *members) awaitPropagation(keys []string) {
	m.t.Helper()
	m.await("what was acknowledged to be propagated", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		found := map[string]bool{}
		for _, s := range m.sent {
			if s.Kind == causal.KindPutAfter {
				found[s.PutAfter().Key] = true
			}
		}
		for _, key := range keys {
			if !found[key] {
				return false
			}
		}
		return true
	})
}

func (m *members) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = nil
}

func TestAcknowledgedPutsSurviveTheLossOfAnyMember(t *testing.T) {
	m := startMembers(t)
	keys := m.putAll(0, 50)
	for round := range 3 { // each time the one that serves, with its disk
		old := m.primary()
		i := m.index(old)
		m.crash(i)
		m.disks[i] = vfs.NewMem()
		m.forget()
		m.await("another member to serve", func() bool {
			p := m.primary()
			return p != nil && p != old && p.Role() == group.Serving
		})
		m.awaitPropagation(keys)
		keys = append(keys, m.putAll(50*(round+1), 50)...)
		m.start(i)
		m.await("the new disk to be a member", func() bool {
			p := m.primary()
			return p != nil && len(p.Status().Config.Members) == 3
		})
	}
}

func TestAMemberAnnouncesItsLeadershipAndItsEnd(t *testing.T) {
	m := startMembers(t)
	old := m.primary()
	i := m.index(old)
	old.HandOver()
	m.await("another member to serve", func() bool { p := m.primary(); return p != nil && p != old })
	m.lock.Lock()
	events := m.events[i]
	m.lock.Unlock()
	if last := len(events) - 1; events[last] != (causal.Leadership{}) || events[last-1].IsZero() {
		t.Errorf("it has announced %v", events)
	}
	if !old.IsDrained() || old.Role() != group.Following || !old.Leadership().IsZero() {
		t.Errorf("the member that has handed over is %v", old.Status())
	}
}

// removeSome removes the files of a directory whose names end with a suffix.
func removeSome(t *testing.T, fs vfs.FS, dir, suffix string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
				t.Fatal(err)
			}
			removed++
		}
	}
	if removed == 0 {
		t.Fatalf("%s has no file that ends with %q: %q", dir, suffix, names)
	}
}

func TestADamagedMemberIsEmptiedAndJoinsAgainWithoutARestart(t *testing.T) {
	for _, lost := range []string{".log", "acknowledged", volumeFile} {
		t.Run(lost, func(t *testing.T) {
			m := startMembers(t)
			keys := m.putAll(0, 20)
			p := m.primary()
			i := m.index(p)
			m.crash(i)
			removeSome(t, m.disks[i], "/log", lost)
			before := readVolumeID(t, m.disks[i])
			m.start(i)
			m.await("the group to be whole, with another volume", func() bool {
				p := m.primary()
				if p == nil {
					return false
				}
				after, now := readVolumeID(t, m.disks[i]), p.Status().Config.Members
				return len(now) == 3 && after != before && slices.ContainsFunc(now, func(id group.ID) bool {
					return id.Volume == after
				})
			})
			for j := range m.running { // it is left alone with what it has
				if j != i {
					m.crash(j)
				}
			}
			m.forget()
			m.await("it to serve", func() bool {
				p := m.primary()
				return p != nil && m.index(p) == i && p.Role() == group.Serving
			})
			m.awaitPropagation(keys)
		})
	}
}

func TestAMemberThatReplacesADamagedOneKeepsItsTopology(t *testing.T) {
	m := startMembers(t)
	for i := range m.running {
		m.crash(i)
	}
	removeSome(t, m.disks[0], "/log", ".log")
	before := readVolumeID(t, m.disks[0])
	c := m.start(0) // and stays damaged while the others are down
	larger, err := topology.New(2, []topology.DataCenter{{Name: "a", Coordinators: 1, CoordinatorMembers: 3,
		Shards: 2}},
		[]topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetTopology(larger)
	if readVolumeID(t, m.disks[0]) != before {
		t.Fatal("the volume was emptied before the others did without it")
	}
	m.start(1)
	m.start(2)
	m.await("the volume to be emptied", func() bool {
		id := uint64(0)
		c.groupHost.Inspect(func(*member.Coordinator) { id = readVolumeID(t, m.disks[0]) })
		return id != before
	})
	c.groupHost.Inspect(func(c *member.Coordinator) {
		if c.Topology() != larger {
			t.Error("the member on the emptied volume has the topology of the start of its process")
		}
	})
}

func readVolumeID(t *testing.T, fs vfs.FS) uint64 {
	t.Helper()
	id, err := (&volume{fs, "/log"}).readID()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestADamagedLogOfOneMemberIsNotStarted(t *testing.T) {
	for _, lost := range []string{".log", "acknowledged", volumeFile} {
		fs, net := vfs.NewMem(), newRecorder()
		c := startCoordinatorOn(t, fs, net, nil)
		put(c, 1, "a", []byte("v"))
		net.wait(t, causal.KindPutReply, 1)
		if err := c.Crash(); err != nil {
			t.Fatal(err)
		}
		removeSome(t, fs, "/log", lost)
		self := topology.Node{Part: topology.Coordinator}
		_, err := NewCoordinator(CoordinatorOptions{Config: coordinator.DefaultConfig(oneRing(t, 1, 0), self),
			Clock: NewClock(), Net: net, Dir: "/log", FS: fs})
		if _, ok := errors.AsType[*wal.CorruptError](err); !ok {
			t.Errorf("without %s: %v", lost, err)
		}
	}
}

func TestALogFromBeforeGroupsIsRefusedWithWhatToDo(t *testing.T) {
	fs := vfs.NewMem()
	log, err := wal.Open("/log", wal.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	old := coordinator.LogRecord{Write: coordinator.LoggedWrite{Key: "k"}}
	record := old.AppendTo(nil)
	record[0] = 2 // the format of records in the log then
	if _, err := log.Append([][]byte{record}); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = NewCoordinator(
		CoordinatorOptions{Config: coordinator.DefaultConfig(oneRing(t, 1, 0),
			topology.Node{Part: topology.Coordinator}), Clock: NewClock(), Dir: "/log", FS: fs})
	if err == nil || !strings.Contains(err.Error(), "start the version that wrote the log") {
		t.Error(err)
	}
}

// A coordinator is started on a full disk with the space that it has kept for that.
func TestACoordinatorStartsOnAFullDisk(t *testing.T) {
	mem, net := vfs.NewMem(), newRecorder()
	c := startCoordinatorOn(t, mem, net, nil)
	put(c, 1, "a", []byte("v"))
	net.wait(t, causal.KindPutReply, 1)
	if err := c.Crash(); err != nil {
		t.Fatal(err)
	}
	// Nothing can be written to segments before the spare file is removed.
	full := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
			if _, err := mem.Stat("/log/" + spareFile); err == nil {
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	again := newRecorder()
	c = startCoordinatorOn(t, full, again, func(err error) { t.Errorf("the log failed: %v", err) })
	defer c.Close()
	c.Tick()
	again.wait(t, causal.KindPutAfter, 1)
	put(c, 2, "b", []byte("v"))
	again.wait(t, causal.KindPutReply, 1)
}

func TestSeveralMembersNeedARegister(t *testing.T) {
	m := topology.DataCenter{Name: "a", Coordinators: 1, CoordinatorMembers: 2, Shards: 1}
	topo, err := topology.New(1, []topology.DataCenter{m}, []topology.Ring{{Name: "r", DCs: []topology.DC{0}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewCoordinator(
		CoordinatorOptions{Config: coordinator.DefaultConfig(topo, topology.Node{Part: topology.Coordinator}),
			Dir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "register") {
		t.Error(err)
	}
}

// What a member with others keeps is in memory too, so its log is full long before the disk's bound.
func TestTheLimitOfALogIsTheOneThatIsMet(t *testing.T) {
	m := startMembers(t)
	p := m.primary()
	bytes, limit := p.LogUse()
	if want := int64(member.MaxLogBytesInMemory / 10 * 9); limit > want+10 || limit < want-10 || bytes <= 0 {
		t.Errorf("the log has %d bytes, and puts are refused from %d; want about %d", bytes, limit, want)
	}
}
