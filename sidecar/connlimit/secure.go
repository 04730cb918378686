package connlimit

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Secure returns a listener for servers that only accept: of *tls.Conn whose handshakes are complete. The counter
// bounds them, and timeout each.
func (k *Counter) Secure(l net.Listener, config *tls.Config, timeout time.Duration) net.Listener {
	s := &secureListener{Listener: k.CountHandshakes(l), config: config, timeout: timeout, ready: make(chan net.Conn),
		closed: make(chan struct{})}
	go s.run()
	return s
}

type secureListener struct {
	net.Listener
	config  *tls.Config
	timeout time.Duration
	ready   chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// acceptPause is the wait after a connection could not be accepted, most likely for want of file descriptors.
const acceptPause = 50 * time.Millisecond

func (s *secureListener) run() {
	for {
		c, err := s.Listener.Accept()
		if err == nil {
			go s.secure(c.(*Conn))
			continue
		}
		select {
		case <-s.closed:
			return
		case <-time.After(acceptPause):
		}
	}
}

func (s *secureListener) secure(c *Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	conn := tls.Server(c, s.config)
	if err := conn.HandshakeContext(ctx); err != nil || !c.Complete() {
		_ = conn.Close() // nothing was served
		return
	}
	select {
	case s.ready <- conn:
	case <-s.closed:
		_ = conn.Close()
	}
}

func (s *secureListener) Accept() (net.Conn, error) {
	select {
	case c := <-s.ready:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *secureListener) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Listener.Close()
}
