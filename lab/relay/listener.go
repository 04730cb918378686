//go:build unix

package relay

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// listener accepts the connections to one target.
type listener struct {
	path      *Path
	tcp       *net.TCPListener
	direction Direction
	target    string

	mu      sync.Mutex
	fillers map[string]bool // local addresses of connections that fill the queue
	filling []net.Conn
}

// backlog is how many connections may wait to be accepted.
const backlog = 1024

func (l *listener) accept() {
	for {
		c, err := l.tcp.Accept()
		if err != nil {
			return // it is closed
		}
		<-l.path.untilHealed()
		l.mu.Lock()
		fills := l.fillers[c.RemoteAddr().String()]
		delete(l.fillers, c.RemoteAddr().String())
		l.mu.Unlock()
		if fills || !l.path.add(c) {
			_ = c.Close() // nobody uses it
			continue
		}
		l.path.done.Go(func() { l.relay(c.(*net.TCPConn)) })
	}
}

// stopAccepting makes the kernel drop the first packet of each further connection, as it does if too many wait to be
// accepted.
func (l *listener) stopAccepting() error {
	if err := l.setBacklog(0); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for refused := 0; refused < 2 && len(l.filling) < 4; {
		// one for the goroutine that accepts, which may be late, and one that waits
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.tcp.Addr().String())
		cancel()
		if err != nil {
			refused++
			continue
		}
		refused = 0
		l.fillers[c.LocalAddr().String()] = true
		l.filling = append(l.filling, c)
	}
	return nil
}

func (l *listener) goOnAccepting() error {
	l.mu.Lock()
	for _, c := range l.filling {
		_ = c.Close() // nothing was sent on it
	}
	l.filling = nil
	l.mu.Unlock()
	return l.setBacklog(backlog)
}

func (l *listener) setBacklog(n int) (err error) {
	raw, err := l.tcp.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), n) }), err)
}

// relay carries a connection until both directions have ended.
func (l *listener) relay(client *net.TCPConn) {
	defer l.path.remove(client)
	// To connect takes a round trip.
	time.Sleep(2 * l.path.oneWay())
	conn, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil {
		_ = client.SetLinger(0) // the client is refused, too
		return
	}
	server := conn.(*net.TCPConn)
	defer l.path.remove(server)
	if !l.path.add(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { newStream(l.path, l.direction, client, server).run() })
	both.Go(func() { newStream(l.path, 1-l.direction, server, client).run() })
	both.Wait()
}
