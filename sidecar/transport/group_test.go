package transport

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

var memberOne, memberTwo = coordinatorA.WithMember(1), coordinatorA.WithMember(2)

// twoMembers makes a process know the members of coordinatorA.
func twoMembers(c *Config, _ *timings) {
	c.Members = func(topology.Node) []topology.Node { return []topology.Node{memberOne, memberTwo} }
}

func leadership(epoch uint64) causal.Leadership { return causal.Leadership{Epoch: epoch, Life: 1} }

// events records what a process is told of nodes, with the messages that it gets.
type events struct {
	mu     sync.Mutex
	got    []string
	unsent []uint64
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, fmt.Sprintf(format, args...))
}

func (e *events) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

func (e *events) await(t *testing.T, what string) {
	t.Helper()
	waitFor(t, what, func() bool { return slices.Contains(e.all(), what) })
}

func (e *events) use(c *Config, _ *timings) {
	c.Up = func(n topology.Node, l causal.Leadership) { e.add("up %v %d", n, l.Epoch) }
	c.Down = func(n topology.Node) { e.add("down %v", n) }
	c.Ended = func(n topology.Node) { e.add("ended %v", n) }
	c.MemberUp = func(n topology.Node) { e.add("member %v", n) }
	c.Unsent = func(m causal.Message) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.unsent = append(e.unsent, m.Put().Seq)
	}
}

// startGroup starts two members of coordinatorA, and a sidecar that has links to both.
func startGroup(t *testing.T, d *directory, e *events, changes ...change) (client, one, two *testProcess) {
	t.Helper()
	one, two = start(t, d, []topology.Node{memberOne}, twoMembers), start(t, d, []topology.Node{memberTwo}, twoMembers)
	client = start(t, d, []topology.Node{sidecarA}, append(changes, twoMembers, e.use)...)
	client.Send(put(sidecarA, coordinatorA, 0))
	e.await(t, "member coordinator-0.1@dc0")
	e.await(t, "member coordinator-0.2@dc0")
	return client, one, two
}

func TestWithoutAMemberThatServesPutsAreReportedAsUnsentAndLinksToAllAreOpened(t *testing.T) {
	e := &events{}
	client, _, _ := startGroup(t, newDirectory(), e)
	same(t, "unsent", e.unsent, []uint64{0})
	if s := client.Stats(); dropped(s, DropNotServing) != 1 || len(s.Links) != 2 {
		t.Errorf("%+v", s)
	}
	if got := e.all(); len(got) != 2 {
		t.Errorf("told %v, and nobody serves", got)
	}
}

func TestAMemberThatCameBackElsewhereIsFoundWhenTheOneThatServesIsLost(t *testing.T) {
	e, d, addresses, power := &events{}, newDirectory(), newNames(), &powerSwitch{}
	client, one, two := startGroup(t, d, e, addresses.use, power.use, func(_ *Config, tm *timings) {
		tm.keepalive, tm.memberProbe = time.Hour, 50*time.Millisecond
	})
	two.SetLeadership(leadership(5))
	e.await(t, "up coordinator-0@dc0 5")
	// Member 1 loses its host, and comes back on another one, with its name. Member 2 serves, so nothing is sent to
	// member 1.
	power.failOnly(t, one.addr)
	again := start(t, newDirectory(), []topology.Node{memberOne}, twoMembers)
	addresses.lead(map[string]string{one.addr: again.addr})
	again.SetLeadership(leadership(6))
	two.Close()
	e.await(t, "up coordinator-0@dc0 6")
	client.Send(put(sidecarA, coordinatorA, 1))
	again.wait(t, 1)
}

func TestLinksThatWereOpenedAheadCarryTheFirstMessage(t *testing.T) {
	e, d := &events{}, newDirectory()
	one, two := start(t, d, []topology.Node{memberOne}, twoMembers), start(t, d, []topology.Node{memberTwo}, twoMembers)
	client := start(t, d, []topology.Node{sidecarA}, twoMembers, e.use)
	client.Open(coordinatorA)
	e.await(t, "member coordinator-0.1@dc0")
	e.await(t, "member coordinator-0.2@dc0")
	two.SetLeadership(leadership(5))
	e.await(t, "up coordinator-0@dc0 5")
	client.Send(put(sidecarA, coordinatorA, 1))
	two.wait(t, 1)
	same(t, "to one", one.seqs(), nil)
	if len(e.unsent) > 0 {
		t.Errorf("%v were not sent", e.unsent)
	}
}

func TestMessagesFollowTheMemberThatServes(t *testing.T) {
	e := &events{}
	client, one, two := startGroup(t, newDirectory(), e)
	one.SetLeadership(leadership(5))
	e.await(t, "up coordinator-0@dc0 5")
	client.Send(put(sidecarA, coordinatorA, 1))
	one.wait(t, 1)

	two.SetLeadership(leadership(6)) // while the link to the other one is up
	e.await(t, "up coordinator-0@dc0 6")
	client.Send(put(sidecarA, coordinatorA, 2))
	two.wait(t, 1)

	one.SetLeadership(leadership(4)) // late, as a member that does not know yet
	one.SetLeadership(leadership(5))
	one.Send(answer(coordinatorA, sidecarA, 0)) // comes after them
	client.wait(t, 1)
	client.Send(put(sidecarA, coordinatorA, 3))
	two.wait(t, 2)

	two.SetLeadership(causal.Leadership{})
	e.await(t, "down coordinator-0@dc0")
	client.Send(put(sidecarA, coordinatorA, 4)) // not to the one that has been replaced
	same(t, "to one", one.seqs(), []uint64{1})
	same(t, "to two", two.seqs(), []uint64{2, 3})
	same(t, "unsent", e.unsent, []uint64{0, 4})
	one.SetLeadership(leadership(7))
	e.await(t, "up coordinator-0@dc0 7")
	same(t, "told", e.all()[2:], []string{"up coordinator-0@dc0 5", "up coordinator-0@dc0 6", "down coordinator-0@dc0",
		"up coordinator-0@dc0 7"})
}

func TestAMemberThatIsGoneIsReplacedByTheNextOneThatServes(t *testing.T) {
	for _, answered := range []bool{false, true} {
		e := &events{}
		client, one, two := startGroup(t, newDirectory(), e)
		one.SetLeadership(leadership(5))
		e.await(t, "up coordinator-0@dc0 5")
		if answered {
			one.Answered()
		}
		one.Close()
		want := map[bool]string{false: "down", true: "ended"}[answered] + " coordinator-0@dc0"
		e.await(t, want)
		two.SetLeadership(leadership(6))
		e.await(t, "up coordinator-0@dc0 6")
		client.Send(put(sidecarA, coordinatorA, 1))
		two.wait(t, 1)
		failed := client.Stats().Failed
		waitFor(t, "attempts to reach the other one", func() bool { return client.Stats().Failed > failed+2 })
		if got := e.all(); got[len(got)-1] != "up coordinator-0@dc0 6" {
			t.Errorf("failed attempts to reach a member that does not serve are reported: %v", got)
		}
		if got := e.all()[2]; got != "up coordinator-0@dc0 5" || e.all()[3] != want {
			t.Errorf("told %v", e.all())
		}
	}
}

// When all volumes of a group are replaced, its leaderships start over.
func TestAMemberThatHasRestartedMayServeInALowerLeadership(t *testing.T) {
	d, e := newDirectory(), &events{}
	client, one, two := startGroup(t, d, e)
	one.SetLeadership(leadership(4))
	two.SetLeadership(leadership(5))
	e.await(t, "up coordinator-0@dc0 5")
	two.Close()
	e.await(t, "down coordinator-0@dc0")
	one.Close()
	again := start(t, d, []topology.Node{memberOne}, twoMembers)
	again.SetLeadership(leadership(1))
	waitFor(t, "it to be reached", func() bool {
		client.Send(put(sidecarA, coordinatorA, 9))
		return len(again.all()) > 0
	})
	e.await(t, "up coordinator-0@dc0 1")
}

// stopEnv makes the test binary run as a member that serves, until its standard input ends.
const stopEnv = "CAUSALSTORE_TEST_MEMBER"

func runMember() error {
	g, err := newGRPC(Config{Process: "a child", Nodes: []topology.Node{memberOne}, Handler: func([]causal.Message) {},
		Resolve: func(topology.Node) (string, bool) { return "", false }}, quick())
	if err != nil {
		return err
	}
	g.SetLeadership(leadership(5))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _, _ = os.Stdin.Read(make([]byte, 1)); os.Exit(0) }()
	fmt.Println(l.Addr())
	return g.Serve(l)
}

func TestAMemberThatHangsIsReplaced(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), stopEnv+"=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		_ = child.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	d, e := newDirectory(), &events{}
	d.set(addr[:len(addr)-1], memberOne)
	two := start(t, d, []topology.Node{memberTwo}, twoMembers)
	client := start(t, d, []topology.Node{sidecarA}, twoMembers, e.use)
	client.Send(put(sidecarA, coordinatorA, 0))
	e.await(t, "up coordinator-0@dc0 5")
	e.await(t, "member coordinator-0.2@dc0")
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	client.Send(put(sidecarA, coordinatorA, 1))
	two.SetLeadership(leadership(6))
	e.await(t, "up coordinator-0@dc0 6")
	client.Send(put(sidecarA, coordinatorA, 2))
	two.wait(t, 1)
	same(t, "to two", two.seqs(), []uint64{2})
	if slices.Contains(e.all(), "down coordinator-0@dc0") {
		t.Errorf("told %v: the failover was to need no broken link", e.all())
	}
}

// A message is handled after the announcements that were made before it was sent, and before those that were made
// later.
func TestAnnouncementsKeepTheirPlaceAmongTheMessages(t *testing.T) {
	e := &events{}
	_, one, _ := startGroup(t, newDirectory(), e, func(c *Config, _ *timings) {
		c.Handler = func(batch []causal.Message) {
			for i := range batch {
				e.add("message %d", batch[i].PutReply().ID)
			}
		}
	})
	var want []string
	const n = 200
	for i := range uint64(n) {
		one.SetLeadership(leadership(i + 1))
		want = append(want, fmt.Sprintf("up coordinator-0@dc0 %d", i+1))
		for range i % 3 {
			one.Send(causal.PutReply{ID: i}.Message(coordinatorA, sidecarA))
			want = append(want, fmt.Sprintf("message %d", i))
		}
		if i%5 == 0 {
			one.SetLeadership(causal.Leadership{})
			want = append(want, "down coordinator-0@dc0")
		}
	}
	e.await(t, fmt.Sprintf("up coordinator-0@dc0 %d", n))
	waitFor(t, "all messages", func() bool { return len(e.all()) >= 2+len(want) })
	same(t, "order", e.all()[2:], want)
}

func TestAMemberThatDoesNotServeDropsWhatIsForItsNode(t *testing.T) {
	d := newDirectory()
	one := start(t, d, []topology.Node{memberOne})
	d.set(one.addr, coordinatorA)
	s := link(t, one.addr)
	if err := s.SendMsg(&wire.Hello{Protocol: wire.Protocol, MinProtocol: wire.MinProtocol, Process: "p",
		Nodes: []topology.Node{sidecarA}}); err != nil {
		t.Fatal(err)
	}
	send := func(to topology.Node, seq uint64) {
		t.Helper()
		if err := s.SendMsg(frameOf(put(sidecarA, to, seq))); err != nil {
			t.Fatal(err)
		}
	}
	send(coordinatorA, 1)
	send(memberTwo, 2)
	waitFor(t, "both to be dropped", func() bool {
		s := one.Stats()
		return dropped(s, DropNotServing) == 1 && dropped(s, DropMisrouted) == 1
	})
	one.Send(put(coordinatorA, coordinatorA, 3)) // nor does it itself
	one.SetLeadership(leadership(1))
	one.Send(put(coordinatorA, coordinatorA, 4))
	send(coordinatorA, 5)
	one.wait(t, 2)
	same(t, "handled", one.seqs(), []uint64{4, 5})
}

func TestMessagesBetweenMembersGoToTheMemberTheyAreFor(t *testing.T) {
	d, e := newDirectory(), &events{}
	one, two := start(t, d, []topology.Node{memberOne}, twoMembers, e.use),
		start(t, d, []topology.Node{memberTwo}, twoMembers)
	two.SetLeadership(leadership(1))
	m := causal.GroupMessage{Body: []byte("frame")}.Message(memberOne, memberTwo)
	one.Send(m)
	same(t, "handled", two.wait(t, 1), []causal.Message{m})
	one.Send(put(coordinatorA, coordinatorA, 1)) // its own node is nobody else
	if s := one.Stats(); dropped(s, DropNotServing) != 1 {
		t.Errorf("drops: %v", s.Drops)
	}
	same(t, "told", e.all(), []string{"member coordinator-0.2@dc0"})
}

// A node that cannot be dialed answers on the links that it has opened, also if it is served by a member.
func TestAMemberWithoutAddressIsReachedOverItsOwnLink(t *testing.T) {
	d := newDirectory()
	b := start(t, d, []topology.Node{cacheB}, twoMembers)
	one := start(t, d, []topology.Node{memberOne}, twoMembers)
	d.set("", memberOne)
	one.SetLeadership(leadership(1))
	one.Send(put(coordinatorA, cacheB, 1))
	b.wait(t, 1)
	awaitServing(t, b, coordinatorA)
	b.Send(put(cacheB, coordinatorA, 2))
	one.wait(t, 1)
}

func TestLinksToAllMembersBecomeIdleTogether(t *testing.T) {
	e := &events{}
	client, one, two := startGroup(t, newDirectory(), e, func(_ *Config, tm *timings) {
		tm.idle = 200 * time.Millisecond
	})
	one.SetLeadership(leadership(1))
	e.await(t, "up coordinator-0@dc0 1")
	client.GRPC.mu.RLock()
	used := []any{}
	for _, d := range client.dialed {
		used = append(used, d.out.lastUsed)
	}
	client.GRPC.mu.RUnlock()
	if len(used) != 2 || used[0] != used[1] {
		t.Errorf("the links do not know of each other's use: %v", used)
	}
	waitFor(t, "the idle links to be closed", func() bool { return len(client.Stats().Links) == 0 })
	if slices.Contains(e.all(), "down coordinator-0@dc0") {
		t.Errorf("told %v", e.all())
	}
	waitFor(t, "them to be opened again", func() bool {
		client.Send(put(sidecarA, coordinatorA, 1))
		return len(one.all()) > 0 && len(two.Stats().Links) == 1
	})
}

// Else a member that has moved would be taken for unreachable, and so nobody would dial it.
func TestFailedAttemptsAtAnOldAddressAreNotReported(t *testing.T) {
	for _, n := range []topology.Node{memberOne, cacheB} {
		d, e := newDirectory(), &events{}
		d.set("127.0.0.1:1", n)
		client := start(t, d, []topology.Node{sidecarA}, twoMembers, e.use)
		client.Send(put(sidecarA, n.Group(), 0))
		e.await(t, fmt.Sprintf("down %v", n.Group()))
		d.set("127.0.0.1:2", n)
		failed := client.Stats().Failed
		waitFor(t, "an attempt that was under way to end", func() bool { return client.Stats().Failed > failed+1 })
		before := len(e.all())
		waitFor(t, "more attempts", func() bool { return client.Stats().Failed > failed+5 })
		if got := e.all(); len(got) != before {
			t.Errorf("told %v", got[before:])
		}
	}
}

// The member has restarted since, and its present process has said on another link what it is.
func TestALateAnnouncementOfAnEarlierProcessChangesNothing(t *testing.T) {
	d, e := newDirectory(), &events{}
	client, one, _ := startGroup(t, d, e)
	one.SetLeadership(leadership(4))
	e.await(t, "up coordinator-0@dc0 4")
	before := e.all()
	earlier := &wire.Hello{Nodes: []topology.Node{memberOne}, Incarnation: 12345}
	client.hearAnnouncement(earlier, wire.Announcement{Leadership: leadership(9), Number: 99})
	if got := e.all(); !slices.Equal(got, before) {
		t.Errorf("then: %q", got[len(before):])
	}
	if _, reason := client.groupOutbox(coordinatorA); reason != notDropped {
		t.Errorf("messages to the member that serves are dropped: %v", reason)
	}
}

func TestALinkToAnEarlierProcessOfAMemberIsNotUsed(t *testing.T) {
	g := &GRPC{config: Config{Resolve: func(topology.Node) (string, bool) { return "address", true }}}
	m := &member{link: &dialer{addr: "address", out: &outbox{}}, linkedTo: 1, incarnation: 1}
	if g.outboxOf(memberOne, m) != m.link.out {
		t.Error("the link to the process that serves is not used")
	}
	if m.incarnation = 2; g.outboxOf(memberOne, m) != nil {
		t.Error("the link to the earlier process is used")
	}
}
