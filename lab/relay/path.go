//go:build unix

// Package relay carries TCP connections between ports of this machine as a long path would: bytes arrive after a delay,
// only so many are under way on a connection, and while the path is cut nothing arrives. It works on the bytes of
// connections, not on packets, and emulates what TCP does about losses:
//
//   - What is sent while the path is cut is lost, without a word to either end. It arrives when TCP sends it again
//     after the path has healed: 200 ms and a round trip after it was sent, then after twice that time, and so on. The
//     longer a cut lasts, the longer that may be.
//   - A sender whose data is lost for longer than TCP_USER_TIMEOUT finds its connection broken, if the path is given
//     that time: the kernel of this machine knows nothing of the loss. The other end notices when its own data is lost
//     for so long, or after the heal.
//   - While the path is cut, connections are not accepted: the kernel drops the first packet of each, and the client
//     repeats it after 1, 2, 4 s and so on.
//   - A connection does not speed up slowly, but has its whole window at once.
package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Direction is one of the two directions of a path.
type Direction int

// The directions.
const (
	Forth Direction = iota
	Back
)

// Path is a long path. Any number of listeners lead over it, in both directions.
type Path struct {
	delay  atomic.Int64 // one way, in nanoseconds
	window int
	giveUp time.Duration
	bytes  [2]atomic.Int64 // by direction
	cut    atomic.Bool

	mu        sync.Mutex
	healed    chan struct{} // closed while the path is not cut
	closed    bool
	listeners []*listener
	conns     map[net.Conn]bool
	done      sync.WaitGroup
}

// NewPath returns a path with a delay in each direction. On each connection and direction, window bytes may be under
// way. A giveUp that is not 0 is the TCP_USER_TIMEOUT of both ends.
func NewPath(delay time.Duration, window int, giveUp time.Duration) *Path {
	p := &Path{window: window, giveUp: giveUp, healed: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(p.healed)
	p.SetDelay(delay)
	return p
}

// SetDelay changes the delay of what is sent from now on.
func (p *Path) SetDelay(d time.Duration) { p.delay.Store(int64(d)) }

func (p *Path) oneWay() time.Duration { return time.Duration(p.delay.Load()) }

// Bytes returns how many bytes were sent in a direction.
func (p *Path) Bytes(d Direction) int64 { return p.bytes[d].Load() }

// Listen returns a new address of this machine that leads over the path in a direction to a target.
func (p *Path) Listen(d Direction, target string) (addr string, err error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (failed error) {
		// What waits in sockets before it is sent is not under way, so it is to be little.
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, socketBuffer)
		})
		return errors.Join(err, failed)
	}}
	tcp, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for %s: %w", target, err)
	}
	l := &listener{path: p, tcp: tcp.(*net.TCPListener), direction: d, target: target, fillers: map[string]bool{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listeners = append(p.listeners, l)
	p.done.Go(l.accept)
	return tcp.Addr().String(), nil
}

// socketBuffer is the size of the buffers of the sockets of a relay.
const socketBuffer = 128 << 10

// Cut cuts the path in both directions.
func (p *Path) Cut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cut.Swap(true) {
		return nil
	}
	p.healed = make(chan struct{})
	errs := make([]error, len(p.listeners))
	var all sync.WaitGroup
	for i, l := range p.listeners {
		all.Go(func() { errs[i] = l.stopAccepting() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Heal ends a cut.
func (p *Path) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heal()
}

func (p *Path) heal() error {
	if !p.cut.Swap(false) {
		return nil
	}
	close(p.healed)
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.goOnAccepting())
	}
	return errors.Join(errs...)
}

// untilHealed returns a channel that is closed while the path is not cut.
func (p *Path) untilHealed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.healed
}

// Close ends all connections, and returns when nothing of the path is left.
func (p *Path) Close() error {
	p.mu.Lock()
	err := p.heal()
	p.closed = true
	for _, l := range p.listeners {
		err = errors.Join(err, l.tcp.Close())
	}
	for c := range p.conns {
		_ = c.Close() // whatever it says, it is not used any more
	}
	p.mu.Unlock()
	p.done.Wait()
	return err
}

// add makes Close close a connection. It reports whether the path is still open.
func (p *Path) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *Path) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // both directions have ended
}
