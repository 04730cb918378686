package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// egress is a proxy as an edge is one for the parts of its data center: it accepts, reads the TLS server name, and
// forwards the bytes to the process of that name.
type egress struct {
	addr string

	mu       sync.Mutex
	routes   map[string]string // address by TLS server name
	mode     egressMode
	delay    time.Duration // each way
	accepted int
	conns    map[net.Conn]bool
	halted   chan struct{} // closed when tunnels are to fall silent
}

// egressMode is what an egress does with connections.
type egressMode int

const (
	forward egressMode = iota
	reset              // it accepts, and ends the connection at once
	hang               // it accepts, and nothing answers
)

func newEgress(t testing.TB) *egress {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &egress{addr: l.Addr().String(), routes: map[string]string{}, conns: map[net.Conn]bool{},
		halted: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		e.cut()
		wg.Wait()
	})
	return e
}

// lead makes the egress forward a name to an address.
func (e *egress) lead(name, addr string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes[name] = addr
}

// set changes what the egress does with further connections.
func (e *egress) set(m egressMode, delay time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mode, e.delay = m, delay
}

// cut ends all tunnels.
func (e *egress) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		c.Close()
	}
}

// halt makes all tunnels silent, without an end.
func (e *egress) halt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.halted)
	e.halted = make(chan struct{})
}

// count returns how many connections were accepted.
func (e *egress) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.accepted
}

func (e *egress) track(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns[c] = true
}

func (e *egress) end(c net.Conn) {
	c.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, c)
}

func (e *egress) serve(conn net.Conn) {
	e.track(conn)
	defer e.end(conn)
	e.mu.Lock()
	e.accepted++
	mode, delay, halted := e.mode, e.delay, e.halted
	e.mu.Unlock()
	switch mode {
	case reset:
		_ = conn.(*net.TCPConn).SetLinger(0)
		return
	case hang:
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	name, hello, err := readServerName(conn)
	if err != nil {
		return
	}
	e.mu.Lock()
	to := e.routes[name]
	e.mu.Unlock()
	peer, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	e.track(peer)
	defer e.end(peer)
	if _, err := peer.Write(hello); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(peer, conn, delay, halted) })
	both.Go(func() { pass(conn, peer, delay, halted) })
	both.Wait()
}

// pass copies bytes, each after a delay, until one side ends. Once halted is closed, it only discards them.
func pass(to, from net.Conn, delay time.Duration, halted <-chan struct{}) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !isClosed(halted) {
			if delay > 0 {
				time.Sleep(delay) // this is the distance, nobody waits for an event
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if isClosed(halted) { // the end does not arrive either
				_, _ = io.Copy(io.Discard, to)
			}
			return
		}
	}
}

// readServerName returns the TLS server name in the first bytes of a connection, and these bytes.
func readServerName(conn net.Conn) (name string, hello []byte, err error) {
	r := &replay{Conn: conn}
	seen := errors.New("seen")
	err = tls.Server(r, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, seen
	}}).Handshake()
	if !errors.Is(err, seen) {
		return "", nil, err
	}
	return name, r.read.Bytes(), nil
}

// replay records what is read, and writes nothing.
type replay struct {
	net.Conn
	read bytes.Buffer
}

func (r *replay) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read.Write(b[:n])
	return n, err
}

func (r *replay) Write(b []byte) (int, error) { return len(b), nil }
