package transport

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// powerSwitch makes the connections that a process has dialed so far silent, as if the machines at their other end had
// lost power: nothing arrives, and nobody closes them.
type powerSwitch struct {
	mu    sync.Mutex
	conns []*silentConn
}

func (p *powerSwitch) use(c *Config, _ *timings) {
	dial := c.dialTCP
	c.dialTCP = func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		s := &silentConn{Conn: conn, silent: make(chan struct{}), closed: make(chan struct{})}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns = append(p.conns, s)
		return s, nil
	}
}

func (p *powerSwitch) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		close(c.silent)
	}
	p.conns = nil
}

// failOnly makes those to one address silent.
func (p *powerSwitch) failOnly(t *testing.T, addr string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.conns)
	p.conns = slices.DeleteFunc(p.conns, func(c *silentConn) bool {
		if c.RemoteAddr().String() != addr {
			return false
		}
		close(c.silent)
		return true
	})
	if len(p.conns) == before {
		t.Fatalf("there is no connection to %s", addr)
	}
}

type silentConn struct {
	net.Conn
	silent, closed chan struct{}
	once           sync.Once
}

func (c *silentConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.silent:
		<-c.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (c *silentConn) Write(b []byte) (int, error) {
	select {
	case <-c.silent:
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

func (c *silentConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// quickRefusal shortens what a refused process has to wait for.
func quickRefusal(_ *Config, tm *timings) { tm.refusal = 300 * time.Millisecond }

func TestOfTwoLiveProcessesThatRunAsOnePartTheFirstIsKept(t *testing.T) {
	d := newDirectory()
	a, first := start(t, d, []topology.Node{coordinatorA}, quickRefusal), start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanB, 1))
	first.wait(t, 1)
	second := start(t, d, []topology.Node{middlemanB}, func(c *Config, _ *timings) { c.Process = "the second" })
	d.set(first.addr, middlemanB)

	waitFor(t, "the second process to be refused", func() bool {
		second.Send(put(middlemanB, coordinatorA, 9))
		return second.Duplicate() != nil
	})
	for _, want := range []string{"the second", first.config.Process, "instance", "started"} {
		if got := second.Duplicate().Error(); !strings.Contains(got, want) {
			t.Errorf("the refusal does not say %q: %s", want, got)
		}
	}
	if s := a.Stats(); s.RefusedDuplicates == 0 || s.IsDuplicate {
		t.Errorf("statistics of the peer: %+v", s)
	}
	if !second.Stats().IsDuplicate || first.Duplicate() != nil {
		t.Error("the wrong process counts as refused")
	}
	for i := range uint64(100) {
		a.Send(put(coordinatorA, middlemanB, 2+i))
	}
	first.wait(t, 101) // the link to the first one has not been cut

	first.Close()
	waitFor(t, "the second process to be accepted when the first has gone", func() bool {
		second.Send(put(middlemanB, coordinatorA, 10))
		return len(a.all()) > 0
	})
}

func TestTheFirstProcessMayRestartWhileTheSecondIsRefused(t *testing.T) {
	d := newDirectory()
	a := start(t, d, []topology.Node{coordinatorA}, func(_ *Config, tm *timings) { tm.refusal = 4 * patience })
	first := start(t, d, []topology.Node{middlemanB})
	a.Send(put(coordinatorA, middlemanB, 1))
	first.wait(t, 1)
	second := start(t, d, []topology.Node{middlemanB})
	d.set(first.addr, middlemanB)
	waitFor(t, "the second process to be refused", func() bool {
		second.Send(put(middlemanB, coordinatorA, 9))
		return second.Duplicate() != nil
	})
	first.Close()
	again := start(t, d, []topology.Node{middlemanB})
	waitFor(t, "the restarted process to be heard", func() bool {
		again.Send(put(middlemanB, coordinatorA, 2))
		return len(a.all()) > 0
	})
	for _, seq := range a.seqs() {
		if seq != 2 {
			t.Errorf("a message of the refused process arrived")
		}
	}
	waitFor(t, "the restarted process to be reached", func() bool {
		a.Send(put(coordinatorA, middlemanB, 3))
		return len(again.all()) > 0
	})
	if again.Duplicate() != nil {
		t.Errorf("the restarted process was refused: %v", again.Duplicate())
	}
}
