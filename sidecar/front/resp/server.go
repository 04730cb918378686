package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("resp: server closed")

// Server serves Redis clients on any number of listeners, with one goroutine per connection.
type Server struct {
	options   Options
	started   time.Time
	stats     stats
	keyCounts keyCounts
	nextID    atomic.Int64

	authGuard        authGuard
	users            atomic.Pointer[userTable]
	authLog, httpLog logLimit
	tlsLog           logLimit
	handshakes       *connlimit.Counter // of clients with TLS

	// context is passed to the methods of sessions. Shutdown cancels it when it aborts connections.
	context context.Context
	cancel  context.CancelFunc

	clientBytes   atomic.Int64 // memory of all clients
	stopping      atomic.Bool
	mu            sync.Mutex
	listeners     map[net.Listener]struct{}
	connections   map[*connection]struct{}
	noConnections *sync.Cond // no connection is left
	evictedBytes  int64      // of clientBytes: of connections that were evicted and have not ended
	memoryFreed   *sync.Cond // a connection has ended, or was evicted
}

// NewServer validates the options and returns a server. It accepts no connections until Serve is called.
func NewServer(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, started: o.Clock(), listeners: make(map[net.Listener]struct{}),
		connections: make(map[*connection]struct{}),
		authGuard:   authGuard{addresses: make(map[netip.Prefix]*authBudget)}}
	// their handshakes fail, and say why
	s.handshakes = connlimit.NewCounter(connlimit.HandshakesFor(debug.SetMemoryLimit(-1)), nil)
	s.stats.init(o.Clock())
	s.users.Store(newUserTable(o.Users))
	s.context, s.cancel = context.WithCancel(context.Background())
	s.noConnections, s.memoryFreed = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	return s, nil
}

// Serve accepts connections until the listener is closed or Shutdown is called. After Shutdown it returns
// ErrServerClosed. It always closes the listener.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, nil) }

// serve is Serve, and ServeTLS if there are certificates.
func (s *Server) serve(l net.Listener, k *Certificates) error {
	defer l.Close()
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer s.removeListener(l)
	for {
		socket, err := l.Accept()
		switch {
		case err == nil:
			s.startConnection(socket, k)
		case s.stopping.Load():
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		default:
			// Most likely the process is out of file descriptors, and closing connections will free some.
			s.options.Logger.Warn("failed to accept a connection, retrying", "listener", l.Addr(), "error", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-s.context.Done():
				return ErrServerClosed
			}
		}
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// startConnection serves a connection, or refuses it if there are too many.
func (s *Server) startConnection(socket net.Conn, k *Certificates) {
	m := s.options.Metrics
	s.mu.Lock()
	if s.stopping.Load() {
		s.mu.Unlock()
		socket.Close()
		return
	}
	if len(s.connections) >= s.options.Limits.MaxClients {
		s.mu.Unlock()
		s.stats.refused.Add(1)
		if m != nil {
			m.ConnectionRefused()
		}
		if k == nil {
			socket.SetWriteDeadline(time.Now().Add(writeProbe))
			fmt.Fprintf(socket, "-%s\r\n", errMaxClients.Error())
		}
		socket.Close()
		return
	}
	limited, isSecure := socket.(*connlimit.Conn)
	if isSecure {
		socket = limited.Conn
	}
	c := newConnection(s, socket, s.nextID.Add(1))
	if isSecure {
		c.secure(limited, k)
	}
	s.connections[c] = struct{}{}
	s.mu.Unlock()
	s.stats.accepted.Add(1)
	if m != nil {
		m.ConnectionOpened()
	}
	go func() {
		defer s.removeConnection(c)
		c.serve()
	}()
}

func (s *Server) removeConnection(c *connection) {
	s.mu.Lock()
	delete(s.connections, c)
	s.forgetMemory(c)
	if len(s.connections) == 0 {
		s.noConnections.Broadcast()
	}
	s.mu.Unlock()
	if m := s.options.Metrics; m != nil {
		m.ConnectionClosed()
	}
}

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}

// Shutdown stops accepting connections, and lets the open ones execute the commands that clients have sent or begun to
// send, and send the replies. It closes each connection between two commands. If ctx ends first, Shutdown closes the
// remaining connections, cancels the context of their sessions, and returns an error that says how many there were.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.connections {
		c.stopReading()
	}
	s.mu.Unlock()
	defer s.cancel()

	// A Cond cannot wait for a context, so the end of ctx becomes a broadcast.
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noConnections.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.connections) > 0 {
		if ctx.Err() != nil {
			s.cancel()
			for c := range s.connections {
				c.abort()
			}
			return fmt.Errorf("shutdown: closed %d connections before they had finished: %w", len(s.connections),
				context.Cause(ctx))
		}
		s.noConnections.Wait()
	}
	return nil
}
