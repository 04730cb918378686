package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrServerClosed is what Serve returns after Shutdown.
var ErrServerClosed = errors.New("resp: server closed")

// Server serves Redis clients on any number of listeners, with one goroutine per connection.
type Server struct {
	options Options
	started time.Time
	stats   stats
	nextID  atomic.Int64

	// context ends when connections are cut; it is what the methods of sessions are given.
	context context.Context
	cancel  context.CancelFunc

	stopping    atomic.Bool
	mu          sync.Mutex
	listeners   map[net.Listener]struct{}
	connections map[*connection]struct{}
	idle        *sync.Cond // no connection is left
}

// stats are the counters that INFO shows.
type stats struct {
	commands, failures     atomic.Int64
	accepted, refused      atomic.Int64
	protocolErrors, panics atomic.Int64
}

// NewServer checks the options. The server does nothing until Serve.
func NewServer(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, started: o.Clock(), listeners: make(map[net.Listener]struct{}), connections: make(map[*connection]struct{})}
	s.context, s.cancel = context.WithCancel(context.Background())
	s.idle = sync.NewCond(&s.mu)
	return s, nil
}

// Serve accepts connections until the listener fails or Shutdown is called, which makes it return ErrServerClosed. It
// closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if !s.addListener(l) {
		return ErrServerClosed
	}
	defer s.removeListener(l)
	for {
		socket, err := l.Accept()
		switch {
		case err == nil:
			s.start(socket)
		case s.stopping.Load():
			return ErrServerClosed
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		default:
			// Most likely out of file descriptors: connections that end will free some.
			s.options.Logger.Warn("accepting a connection failed; trying again", "listener", l.Addr(), "error", err)
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

// start serves a connection, or refuses it.
func (s *Server) start(socket net.Conn) {
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
		socket.SetWriteDeadline(time.Now().Add(stallProbe))
		fmt.Fprintf(socket, "-%s\r\n", errMaxClients.Error())
		socket.Close()
		return
	}
	c := newConnection(s, socket, s.nextID.Add(1))
	s.connections[c] = struct{}{}
	s.mu.Unlock()
	s.stats.accepted.Add(1)
	if m != nil {
		m.ConnectionOpened()
	}
	go func() {
		defer s.ended(c)
		c.serve()
	}()
}

func (s *Server) ended(c *connection) {
	s.mu.Lock()
	delete(s.connections, c)
	if len(s.connections) == 0 {
		s.idle.Broadcast()
	}
	s.mu.Unlock()
	if m := s.options.Metrics; m != nil {
		m.ConnectionClosed()
	}
}

// Connections returns the number of clients.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.connections)
}

// Shutdown stops accepting and lets every connection finish the commands it has read and send their replies. When ctx ends
// first, the connections that are left are cut, the context of their sessions is cancelled, and an error says how many
// they were.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping.Store(true)
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.connections {
		c.finish()
	}
	s.mu.Unlock()
	defer s.cancel()

	// Cond knows no deadline: the end of ctx is turned into a broadcast.
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.connections) > 0 {
		if ctx.Err() != nil {
			s.cancel()
			for c := range s.connections {
				c.cut()
			}
			return fmt.Errorf("shutdown: %d connections were cut: %w", len(s.connections), context.Cause(ctx))
		}
		s.idle.Wait()
	}
	return nil
}
