package transport

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// regions are two processes in different regions: each dials the other one by its name, through the egress of its own
// region.
type regions struct {
	d    *directory
	ca   *authority.Authority
	a, b *testProcess
	// ofA and ofB are the egresses, and viaA is that which a uses.
	ofA, ofB *egress
	viaA     atomic.Pointer[string]
	dialsOfA chan string // buffered
}

func nameOf(n topology.Node) string {
	return contract.PartName(contract.Role(n.Part.String()), int(n.Index), string(rune('a'+n.DC)), "s")
}

func addressOf(n topology.Node) string { return nameOf(n) + ":7400" }

// start returns a process of a node that listens, and is known by its name.
func (r *regions) start(t *testing.T, n topology.Node, via func() string, changes ...change) *testProcess {
	t.Helper()
	through := func(c *Config, tm *timings) {
		c.Via = func(addr string) string {
			if strings.HasSuffix(addr, ":7400") {
				return via()
			}
			return ""
		}
	}
	p := startWith(t, r.d, n, newKeys(t, idOf(n), r.ca), append([]change{through}, changes...)...)
	r.d.set(addressOf(n), n, n.WithMember(1))
	for _, e := range []*egress{r.ofA, r.ofB} {
		e.lead(nameOf(n), p.addr)
	}
	return p
}

func startRegions(t *testing.T, changes ...change) *regions {
	t.Helper()
	r := &regions{d: newDirectory(), ca: newAuthority(t, "eu"), ofA: newEgress(t), ofB: newEgress(t),
		dialsOfA: make(chan string, 10_000)}
	r.viaA.Store(&r.ofA.addr)
	record := func(c *Config, tm *timings) {
		dial := newNameCache(nil, 0, nil).dialTCP(tm.connect)
		c.dialTCP = func(ctx context.Context, addr string) (net.Conn, error) {
			r.dialsOfA <- addr
			return dial(ctx, addr)
		}
	}
	r.a = r.start(t, coordinatorA, func() string { return *r.viaA.Load() }, append(changes, record)...)
	r.b = r.start(t, middlemanB, func() string { return r.ofB.addr }, changes...)
	return r
}

// exchange sends messages both ways until they arrive.
func (r *regions) exchange(t *testing.T) {
	t.Helper()
	toB, toA := len(r.b.all()), len(r.a.all())
	waitFor(t, "messages to arrive", func() bool {
		r.a.Send(numbered(coordinatorA, middlemanB, 1))
		r.b.Send(answer(middlemanB, coordinatorA, 1))
		return len(r.b.all()) > toB && len(r.a.all()) > toA
	})
}

func TestPartsOfOtherRegionsAreDialedByNameThroughTheEgress(t *testing.T) {
	r := startRegions(t)
	r.exchange(t)
	waitFor(t, "a link each way", func() bool { return r.ofA.count() == 1 && r.ofB.count() == 1 })
	// Each appears to connect from where an egress is, which is nowhere to dial.
	r.ofA.cut()
	r.exchange(t)
	for len(r.dialsOfA) > 0 {
		if addr := <-r.dialsOfA; addr != r.ofA.addr {
			t.Errorf("it has dialed %s instead of the egress", addr)
		}
	}
	if l := r.a.Stats().Links; len(l) != 2 || l[0].Address != addressOf(middlemanB) &&
		l[1].Address != addressOf(middlemanB) {
		t.Errorf("the links are not known by the address of the part: %+v", l)
	}
}

func TestAnEgressThatLeadsToAnotherPartIsFoundOut(t *testing.T) {
	r := startRegions(t)
	r.ofA.lead(nameOf(middlemanB), r.a.addr)
	r.a.Send(numbered(coordinatorA, middlemanB, 1))
	waitFor(t, "the wrong part to be refused", func() bool {
		return strings.Contains(r.a.log.String(), "answers at "+addressOf(middlemanB)+", which is not its address")
	})
	r.ofA.lead(nameOf(middlemanB), r.b.addr)
	r.exchange(t)
}

func TestLinksComeBackWhenTheWayIsFreeAgain(t *testing.T) {
	for name, fail := range map[string]func(*egress){
		"the egress ends connections":            func(e *egress) { e.set(reset, 0); e.cut() },
		"the egress accepts, and nobody answers": func(e *egress) { e.set(hang, 0); e.cut() },
		"connections break":                      (*egress).cut,
	} {
		t.Run(name, func(t *testing.T) {
			r := startRegions(t, func(_ *Config, tm *timings) { tm.hello = 300 * time.Millisecond })
			r.exchange(t)
			failed := r.a.Stats().Failed
			fail(r.ofA)
			waitFor(t, "attempts to fail", func() bool {
				r.a.Send(numbered(coordinatorA, middlemanB, 2))
				return r.a.Stats().Failed > failed+3 || name == "connections break"
			})
			r.ofA.set(forward, 0)
			r.exchange(t)
		})
	}
}

func TestATunnelThatHasFallenSilentIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("the heartbeat takes 13 seconds")
	}
	r := startRegions(t)
	r.exchange(t)
	r.ofA.halt()
	r.ofB.halt()
	r.exchange(t)
}

func TestALinkAcrossALongWayComesUp(t *testing.T) {
	r := startRegions(t, func(_ *Config, tm *timings) { tm.hello = defaultTimings.hello })
	r.ofA.set(forward, 125*time.Millisecond)
	r.ofB.set(forward, 125*time.Millisecond)
	r.exchange(t)
	if s := r.a.Stats(); s.Failed > 0 {
		t.Errorf("attempts have failed: %s", r.a.log)
	}
}

func TestLinksMoveToAnotherEgressWithoutALostMessage(t *testing.T) {
	r := startRegions(t)
	other := newEgress(t)
	other.lead(nameOf(middlemanB), r.b.addr)
	awaitServing(t, r.a, middlemanB)
	r.a.Send(numbered(coordinatorA, middlemanB, 1))
	r.b.wait(t, 1)
	awaitServing(t, r.b, coordinatorA)
	r.b.Send(answer(middlemanB, coordinatorA, 1))
	r.a.wait(t, 1)
	exchange(t, r.a, r.b, coordinatorA, middlemanB, numbered, answer, func() {
		r.viaA.Store(&other.addr)
		waitFor(t, "the link to be renewed", func() bool { return other.count() >= 1 && r.a.Stats().Opened > 2 })
	})
	if s := r.a.Stats(); s.Failed != 0 {
		t.Errorf("the change broke a link: %s", r.a.log)
	}
}

func TestPausesBetweenAttemptsThroughAnEgressAreShort(t *testing.T) {
	g := &GRPC{timing: defaultTimings}
	for range 100 {
		if d := g.backoff(100, "egress:7500"); d > 500*time.Millisecond || d < 250*time.Millisecond {
			t.Fatalf("%v", d)
		}
	}
}

func TestALongAttemptIsNotFollowedByALongPause(t *testing.T) {
	g := &GRPC{timing: defaultTimings}
	for range 100 {
		if d := g.pause(100, 0, ""); d < 500*time.Millisecond || d > time.Second {
			t.Fatalf("%v after an attempt that was refused at once", d)
		}
		if d := g.pause(100, 2*time.Second, ""); d < 25*time.Millisecond || d > 50*time.Millisecond {
			t.Fatalf("%v after an attempt of 2 s", d)
		}
	}
}

// A process that connects through a proxy is not at the address that it connects from.
func TestAProxyIsNotTakenForTheProcessBehindIt(t *testing.T) {
	r := startRegions(t)
	port := portOf(t, r.b.addr)
	// b dials a through an egress; a dials b directly, and finds the egress at the port of b first.
	r.d.set("localhost:"+port, middlemanB)
	impostor := startWith(t, newDirectory(), middlemanA, newKeys(t, idOf(middlemanA), r.ca),
		func(c *Config, _ *timings) { c.Nodes = []topology.Node{middlemanA} })
	r.a.config.dialTCP = func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == "127.0.0.1:"+port { // where b connects from
			addr = impostor.addr
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	awaitServing(t, r.b, coordinatorA)
	r.b.Send(answer(middlemanB, coordinatorA, 1))
	r.a.wait(t, 1)
	r.exchange(t)
}
