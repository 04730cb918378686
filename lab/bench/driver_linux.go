package bench

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"syscall"
	"time"
)

// driver is the load generator of the benchmarks: a pool of connections that one thread drives through epoll. The load
// generator shares the cores with what it measures, so whatever it uses is missing there. A goroutine per connection
// costs a failed read and two context switches more for every request, and a client library (package load, which
// records histories) several times the CPU time of the requests themselves.
type driver struct {
	epoll   int
	clients []*client
	byFD    map[int32]*client
}

// client is one connection.
type client struct {
	site    int // index of its address
	fd      int
	in      []byte
	got     int    // bytes of in that hold replies not taken yet
	batch   []byte // of requests; unsent is its rest
	unsent  []byte
	isGet   bool // the kind of all requests of the batch, if they are of no command
	want    byte // the type of all their replies
	size    int  // requests of the batch
	waiting int  // replies
	wrong   int  // replies of another type than the right one
	example string
	random  *rand.Rand

	// Times since the start of the run.
	sent time.Duration // the batch
	next time.Duration // when the next request is due by the rate of the site
	due  time.Duration // when a paused client sends again
}

// dialDriver opens connections, spread round robin over addresses of an IPv4 or IPv6 host.
func dialDriver(addrs []string, connections int, seed uint64) (*driver, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create an epoll instance: %w", err)
	}
	d := &driver{epoll: epoll, byFD: map[int32]*client{}}
	for i := range connections {
		addr := addrs[i%len(addrs)]
		fd, err := connect(addr)
		if err != nil {
			d.close()
			return nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
		c := &client{site: i % len(addrs), fd: fd, in: make([]byte, 16<<10),
			random: rand.New(rand.NewPCG(seed, uint64(i)))}
		d.clients, d.byFD[int32(fd)] = append(d.clients, c), c
		if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, fd,
			&syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}); err != nil {
			d.close()
			return nil, fmt.Errorf("watch the connection to %s: %w", addr, err)
		}
	}
	return d, nil
}

func connect(addr string) (int, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return 0, fmt.Errorf("%w; give an IP address and a port", err)
	}
	family, sa := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Port: int(ap.Port()),
		Addr: ap.Addr().Unmap().As4()})
	if !ap.Addr().Unmap().Is4() {
		family, sa = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(syscall.Connect(fd, sa), syscall.SetNonblock(fd, true),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1))
	if err != nil {
		_ = syscall.Close(fd)
	}
	return fd, err
}

func (d *driver) close() {
	for _, c := range d.clients {
		_ = syscall.Close(c.fd)
	}
	_ = syscall.Close(d.epoll)
}

// drive is one run of a driver. All times are since its start.
type drive struct {
	*driver
	workload
	begun time.Time
	// stop reports that nothing more is to be sent.
	stop func(at time.Duration) bool
	// record takes an answered batch, which was sent took before at.
	record func(c *client, at, took time.Duration)

	nextKey int         // of those that are asked for once
	paused  clientQueue // by the time at which they send again
	busy    int         // clients that wait for replies
}

// The longest waits for events: with paused clients, so that they notice the end of the run, and without.
const (
	longestPausedWait = 100 * time.Millisecond
	longestWait       = time.Second
)

// run sends requests on all connections until stop holds, every key was asked for once, or ctx ends, and takes every
// reply.
func (d *driver) run(ctx context.Context, r *drive) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r.driver = d
	for _, c := range d.clients {
		c.next = r.pacing.firstPause(c)
		if err := r.pause(ctx, c, 0, c.next); err != nil {
			return err
		}
	}
	events := make([]syscall.EpollEvent, len(d.clients))
	checked := time.Duration(0)
	for {
		at, err := r.resume(ctx)
		if err != nil {
			return err
		}
		if r.busy+len(r.paused) == 0 {
			return nil
		}
		if at-checked >= longestWait {
			if err := d.checkStalls(at); err != nil {
				return err
			}
			checked = at
		}
		n, err := syscall.EpollWait(d.epoll, events, r.timeout(at))
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("wait for replies: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			if err := r.handle(ctx, d.byFD[e.Fd], e.Events); err != nil {
				return err
			}
		}
	}
}

// resume lets the clients send whose pause is over; at the end of the run it forgets them.
func (r *drive) resume(ctx context.Context) (at time.Duration, err error) {
	at = time.Since(r.begun)
	if len(r.paused) > 0 && r.over(ctx, at) {
		r.paused = nil
	}
	for len(r.paused) > 0 && r.paused[0].due <= at {
		if err := r.begin(heap.Pop(&r.paused).(*client), at); err != nil {
			return at, err
		}
		at = time.Since(r.begun)
	}
	return at, nil
}

func (r *drive) over(ctx context.Context, at time.Duration) bool {
	return r.stop(at) || ctx.Err() != nil
}

// pause lets a client send when its pause is over.
func (r *drive) pause(ctx context.Context, c *client, at, pause time.Duration) error {
	switch {
	case r.over(ctx, at):
		return nil
	case pause <= 0:
		return r.begin(c, at)
	}
	c.due = at + pause
	heap.Push(&r.paused, c)
	return nil
}

// timeout is how long to wait for events, in milliseconds.
func (r *drive) timeout(at time.Duration) int {
	wait := longestWait
	if len(r.paused) > 0 {
		wait = min(longestPausedWait, max(0, r.paused[0].due-at))
	}
	return int((wait + time.Millisecond - 1) / time.Millisecond)
}

// checkStalls fails the run if a connection got no reply for too long.
func (d *driver) checkStalls(at time.Duration) error {
	for _, c := range d.clients {
		if c.waiting > 0 && at-c.sent > replyTimeout {
			return fmt.Errorf("connection %d got no reply for %s", c.fd, replyTimeout)
		}
	}
	return nil
}

// begin sends the next batch of a client.
func (r *drive) begin(c *client, at time.Duration) error {
	c.size, c.batch, c.wrong, c.example = 0, c.batch[:0], 0, ""
	c.isGet = r.reads >= 1 || r.reads > 0 && c.random.Float64() < r.reads
	switch {
	case r.command != nil:
		c.want = r.command.reply
	case c.isGet:
		c.want = '$'
	default:
		c.want = '+'
	}
	if r.once {
		for ; c.size < r.pipeline && r.nextKey < r.records.count; r.nextKey++ {
			r.add(c, r.nextKey)
		}
	} else {
		for c.size < r.pipeline {
			r.add(c, r.popular.draw(c.random, r.records.count))
		}
	}
	if c.size == 0 {
		return nil
	}
	r.busy++
	c.waiting, c.unsent, c.sent = c.size, c.batch, at
	return r.send(c)
}

func (r *drive) add(c *client, key int) {
	switch {
	case r.command != nil:
		c.batch = r.command.request(r.records, c.batch, key)
	case c.isGet:
		c.batch = r.records.get(c.batch, key)
	default:
		c.batch = r.records.set(c.batch, key)
	}
	c.size++
}

// handle sends and receives what a connection is ready for.
func (r *drive) handle(ctx context.Context, c *client, events uint32) error {
	if events&syscall.EPOLLOUT != 0 {
		if err := r.send(c); err != nil {
			return err
		}
	}
	if events&^syscall.EPOLLOUT == 0 {
		return nil
	}
	if err := c.receive(); err != nil {
		return err
	}
	if c.waiting > 0 || c.size == 0 {
		return nil
	}
	at := time.Since(r.begun)
	r.record(c, at, at-c.sent)
	c.size = 0
	r.busy--
	return r.pause(ctx, c, at, r.pacing.pause(c, at))
}

// send writes what it can; the rest goes out when the socket takes more.
func (d *driver) send(c *client) error {
	blocked := len(c.unsent) < len(c.batch)
	for len(c.unsent) > 0 {
		n, err := syscall.Write(c.fd, c.unsent)
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			return d.watch(c, syscall.EPOLLIN|syscall.EPOLLOUT)
		}
		if err != nil {
			return fmt.Errorf("send requests: %w", err)
		}
		c.unsent = c.unsent[n:]
	}
	if blocked {
		return d.watch(c, syscall.EPOLLIN)
	}
	return nil
}

func (d *driver) watch(c *client, events uint32) error {
	return syscall.EpollCtl(d.epoll, syscall.EPOLL_CTL_MOD, c.fd, &syscall.EpollEvent{Events: events, Fd: int32(c.fd)})
}

// receive takes the replies that have arrived.
func (c *client) receive() error {
	if c.got == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...) // one reply is larger than the buffer, or many have arrived
	}
	n, err := syscall.Read(c.fd, c.in[c.got:])
	switch {
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("receive replies: %w", err)
	case n == 0:
		return errors.New("receive replies: the server closed a connection; its log says why")
	}
	c.got += n
	replies, wrong, used, err := skipReplies(c.in[:c.got], c.waiting, c.want)
	if err != nil {
		return err
	}
	if wrong > 0 && c.example == "" {
		c.example = string(c.in[:min(used, 120)])
	}
	c.wrong += wrong
	c.waiting -= replies
	c.got = copy(c.in, c.in[used:c.got])
	return nil
}

// clientQueue is a heap of clients by the time at which they send again.
type clientQueue []*client

// Len implements heap.Interface.
func (q clientQueue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q clientQueue) Less(i, j int) bool { return q[i].due < q[j].due }

// Swap implements heap.Interface.
func (q clientQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *clientQueue) Push(c any) { *q = append(*q, c.(*client)) }

// Pop implements heap.Interface.
func (q *clientQueue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// burst sends load without pauses and measures it.
func (d *driver) burst(ctx context.Context, b burst) (burstResult, error) {
	m := burstResult{Latency: newLatency()}
	b.once = b.duration == 0
	begun := time.Now()
	err := d.run(ctx, &drive{
		workload: b.workload, begun: begun,
		stop: func(at time.Duration) bool { return !b.once && at >= b.duration },
		record: func(c *client, _, took time.Duration) {
			m.Ops += int64(c.size)
			m.Wrong += int64(c.wrong)
			if m.Example == "" {
				m.Example = c.example
			}
			_ = m.Latency.RecordValues(inRange(m.Latency, took), int64(c.size))
		},
	})
	m.Elapsed = time.Since(begun)
	if err == nil {
		err = ctx.Err()
	}
	return m, err
}
