package transport

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// names leads addresses elsewhere: to another address, or with "" to where nobody answers.
type names struct {
	to    atomic.Pointer[map[string]string]
	asked chan string // has room; what was asked for
}

func newNames() *names {
	n := &names{asked: make(chan string, 1000)}
	n.lead(nil)
	return n
}

func (n *names) lead(to map[string]string) { n.to.Store(&to) }

func (n *names) use(c *Config, t *timings) {
	t.hello = 2 * patience // nothing here is to be found by being given up
	c.dialTCP = func(ctx context.Context, addr string) (net.Conn, error) {
		n.asked <- addr
		if to, ok := (*n.to.Load())[addr]; ok {
			addr = to
		}
		if addr == "" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
}

// await waits until an address was asked for.
func (n *names) await(t *testing.T, addr string) {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case is := <-n.asked:
			if is == addr {
				return
			}
		case <-limit:
			t.Fatalf("nobody asks for %s", addr)
		}
	}
}

// portOf an address.
func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestAProcessWhoseNameIsOutOfDateIsReachedWhereItCallsFrom(t *testing.T) {
	d, n := newDirectory(), newNames()
	a, b := start(t, d, []topology.Node{coordinatorA}, n.use), start(t, d, []topology.Node{middlemanB})
	name := "b.example:" + portOf(t, b.addr)
	n.lead(map[string]string{name: ""})
	d.set(name, middlemanB)
	a.Send(put(coordinatorA, middlemanB, 1))
	n.await(t, name)
	b.Send(put(middlemanB, coordinatorA, 2))
	b.wait(t, 1)
	same(t, "what waited for the link", b.seqs(), []uint64{1})
}

func TestAProcessThatCallsIsNotMadeToWaitForTheNextAttempt(t *testing.T) {
	d, n := newDirectory(), newNames()
	a := start(t, d, []topology.Node{coordinatorA}, n.use, func(_ *Config, tm *timings) { tm.backoff, tm.maxBackoff = 4*patience, 4*patience })
	b := start(t, d, []topology.Node{middlemanB})
	name := "b.example:" + portOf(t, b.addr)
	n.lead(map[string]string{name: "127.0.0.1:1"}) // which refuses
	d.set(name, middlemanB)
	a.Send(put(coordinatorA, middlemanB, 1))
	eventually(t, "the attempt to fail", func() bool { return a.Stats().Failed == 1 })
	b.Send(put(middlemanB, coordinatorA, 2))
	eventually(t, "the process to be reached", func() bool {
		a.Send(put(coordinatorA, middlemanB, 3))
		return len(b.all()) > 0
	})
}

func TestAProcessThatIsConnectedAlreadyIsFoundWithoutItsName(t *testing.T) {
	d, n := newDirectory(), newNames()
	a, b := start(t, d, []topology.Node{coordinatorA}, n.use), start(t, d, []topology.Node{middlemanB})
	name := "b.example:" + portOf(t, b.addr)
	n.lead(map[string]string{name: ""})
	d.set(name, middlemanB)
	b.Send(put(middlemanB, coordinatorA, 1))
	a.wait(t, 1)
	a.Send(put(coordinatorA, middlemanB, 2))
	b.wait(t, 1)
	same(t, "handled", b.seqs(), []uint64{2})
}

func TestAnotherLifeThatCallsEndsTheLinkToTheOneBefore(t *testing.T) {
	d, n := newDirectory(), newNames()
	a, before := start(t, d, []topology.Node{coordinatorA}, n.use), start(t, d, []topology.Node{middlemanB})
	const name = "b.example:1"
	n.lead(map[string]string{name: before.addr, "127.0.0.1:1": before.addr})
	d.set(name, middlemanB)
	a.Send(put(coordinatorA, middlemanB, 1))
	before.wait(t, 1)
	after := start(t, d, []topology.Node{middlemanB}) // the one before hangs, as after a power cut: it never ends its links
	d.set(name, middlemanB)
	n.lead(map[string]string{name: after.addr, "127.0.0.1:1": after.addr})
	after.Send(put(middlemanB, coordinatorA, 2))
	eventually(t, "the later life to be reached", func() bool {
		a.Send(put(coordinatorA, middlemanB, 3))
		return len(after.all()) > 0
	})
	if !strings.Contains(a.log.String(), "has called from another life") {
		t.Errorf("the log does not say why the link has ended:\n%s", a.log)
	}
}

func TestAnAddressThatAnotherProcessHasNowIsNotUsed(t *testing.T) {
	d, n := newDirectory(), newNames()
	a, b := start(t, d, []topology.Node{coordinatorA}, n.use), start(t, d, []topology.Node{middlemanB})
	meant := start(t, d, []topology.Node{middlemanA})
	const name = "meant.example:1"
	n.lead(map[string]string{name: b.addr})
	d.set(name, middlemanA)
	eventually(t, "the other process to be recognized", func() bool {
		a.Send(put(coordinatorA, middlemanA, 1))
		return strings.Contains(a.log.String(), "which is not who has that address here")
	})
	n.lead(map[string]string{name: meant.addr})
	eventually(t, "the process that is meant to be reached", func() bool {
		a.Send(put(coordinatorA, middlemanA, 2))
		return len(meant.all()) > 0
	})
	if s := b.Stats(); s.Dropped(DropMisrouted) > 0 || len(b.all()) > 0 {
		t.Errorf("the other one was sent %v; drops: %v", b.seqs(), s.Drops)
	}
}

// deaf is an address where nobody answers: its queue of connections is full, and nobody takes one.
func deaf(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: at.(*syscall.SockaddrInet4).Port}).String()
	for range 100 {
		conn, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this kernel takes connections that nobody accepts")
	return ""
}

func TestAnAddressWhereNobodyAnswersIsGivenUpSoon(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := dialTCP(50*time.Millisecond)(ctx, deaf(t))
	if err == nil {
		conn.Close()
		t.Fatal("somebody answers")
	}
	if ctx.Err() != nil {
		t.Errorf("it was given up only because the test did: %v", err)
	}
}
