package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"time"
)

// generator is a pool of connections that one thread drives through epoll: on a machine where the load generator and what
// it measures share the cores, whatever it uses is missing there. A goroutine per connection costs a failed read and two
// switches more for every request.
type generator struct {
	epoll int
	conns []*conn
	index map[int32]*conn // by file descriptor
}

// conn is one client.
type conn struct {
	fd      int
	in      []byte
	got     int    // bytes of in that hold replies not taken yet
	batch   []byte // of requests; unsent is its rest
	unsent  []byte
	waiting int // replies
	size    int // of the batch, in requests
	sent    time.Time
	draw    draw
}

// dialGenerator opens connections to an IPv4 or IPv6 address.
func dialGenerator(addr string, connections int) (*generator, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w; give an IP address and a port", addr, err)
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll instance: %w", err)
	}
	g := &generator{epoll: epoll, index: map[int32]*conn{}}
	for i := range connections {
		fd, err := connect(ap)
		if err == nil {
			err = syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
		}
		if err != nil {
			g.close()
			return nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
		c := &conn{fd: fd, in: make([]byte, 64<<10), draw: draw(uint64(i+1) * 0x9e3779b97f4a7c15)}
		g.conns, g.index[int32(fd)] = append(g.conns, c), c
	}
	return g, nil
}

func connect(ap netip.AddrPort) (int, error) {
	family, sa := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().Unmap().As4()})
	if !ap.Addr().Unmap().Is4() {
		family, sa = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(syscall.Connect(fd, sa), syscall.SetNonblock(fd, true), syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1))
	if err != nil {
		syscall.Close(fd)
	}
	return fd, err
}

func (g *generator) close() {
	for _, c := range g.conns {
		syscall.Close(c.fd)
	}
	syscall.Close(g.epoll)
}

// run drives all connections until the burst is over and every request has its answer.
func (g *generator) run(ctx context.Context, b burst) (measured, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := measured{Latency: newLatency()}
	start := time.Now()
	end := start.Add(b.duration)
	next, busy := 0, 0
	begin := func(c *conn, now time.Time) error {
		c.size, c.batch = 0, c.batch[:0]
		if b.duration == 0 {
			for ; c.size < b.pipeline && next < len(b.frames.requests); next++ {
				c.add(b.frames.requests[next])
			}
		} else if now.Before(end) && ctx.Err() == nil {
			for c.size < b.pipeline {
				c.add(b.frames.requests[c.draw.below(len(b.frames.requests))])
			}
		}
		if c.size == 0 {
			return nil
		}
		busy++
		c.waiting, c.unsent, c.sent = c.size, c.batch, now
		return g.send(c)
	}
	for _, c := range g.conns {
		if err := begin(c, time.Now()); err != nil {
			return l, err
		}
	}
	events := make([]syscall.EpollEvent, len(g.conns))
	for busy > 0 {
		n, err := syscall.EpollWait(g.epoll, events, int(stall.Milliseconds()))
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return l, fmt.Errorf("wait for replies: %w", err)
		case n == 0:
			return l, fmt.Errorf("no reply for %s on any of %d connections", stall, len(g.conns))
		}
		for _, e := range events[:n] {
			c := g.index[e.Fd]
			if e.Events&syscall.EPOLLOUT != 0 {
				if err := g.send(c); err != nil {
					return l, err
				}
			}
			if e.Events&^syscall.EPOLLOUT == 0 {
				continue
			}
			if err := c.receive(&l, b.frames.reply); err != nil {
				return l, err
			}
			if c.waiting > 0 || c.size == 0 {
				continue
			}
			now := time.Now()
			l.Ops += int64(c.size)
			if err := l.Latency.RecordValues(min(int64(now.Sub(c.sent)), l.Latency.HighestTrackableValue()), int64(c.size)); err != nil {
				return l, err
			}
			busy--
			if err := begin(c, now); err != nil {
				return l, err
			}
		}
	}
	l.Elapsed = time.Since(start)
	return l, ctx.Err()
}

func (c *conn) add(request []byte) {
	c.batch = append(c.batch, request...)
	c.size++
}

// send writes what it can; the rest goes out when the socket takes more.
func (g *generator) send(c *conn) error {
	had := len(c.unsent) < len(c.batch)
	for len(c.unsent) > 0 {
		n, err := syscall.Write(c.fd, c.unsent)
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			return g.watch(c, syscall.EPOLLIN|syscall.EPOLLOUT)
		}
		if err != nil {
			return fmt.Errorf("send requests: %w", err)
		}
		c.unsent = c.unsent[n:]
	}
	if had {
		return g.watch(c, syscall.EPOLLIN)
	}
	return nil
}

func (g *generator) watch(c *conn, events uint32) error {
	return syscall.EpollCtl(g.epoll, syscall.EPOLL_CTL_MOD, c.fd, &syscall.EpollEvent{Events: events, Fd: int32(c.fd)})
}

// receive takes what has arrived.
func (c *conn) receive(l *measured, want byte) error {
	if c.got == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...) // one reply is larger than the buffer
	}
	n, err := syscall.Read(c.fd, c.in[c.got:])
	switch {
	case err == syscall.EAGAIN || err == syscall.EINTR:
		return nil
	case err != nil:
		return fmt.Errorf("receive replies: %w", err)
	case n == 0:
		return errors.New("receive replies: the server closed a connection; its log says why")
	}
	c.got += n
	replies, wrong, used, err := skipReplies(c.in[:c.got], c.waiting, want)
	if err != nil {
		return err
	}
	if wrong > 0 && l.Example == "" {
		l.Example = string(c.in[:min(used, 120)])
	}
	l.Wrong += int64(wrong)
	c.waiting -= replies
	c.got = copy(c.in, c.in[used:c.got])
	return nil
}
