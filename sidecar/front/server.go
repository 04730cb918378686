package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("the server of clients is closed")

// Options configure a Server.
type Options struct {
	Limits Limits // with defaults
	// Users are those whom clients may authenticate as, see SetUsers. If it is nil, no client needs to authenticate.
	Users   []contract.User
	Clock   func() time.Time // the wall clock
	Logger  *slog.Logger
	Metrics Metrics // may be nil
	// Connect returns what serves a client. Server calls Serve in a goroutine of its own.
	Connect func(*Client) Connection
	// Refusal is sent to a client over Limits.MaxClients, unless it uses TLS.
	Refusal string
}

// Connection is how a front serves a client.
type Connection interface {
	// Serve runs until the client has disconnected, or Client.Abort or StopReading ends it. It closes the socket.
	Serve()
}

// Server accepts the clients of a front on any number of listeners, bounds their number and their memory, knows who
// they may be, and ends them.
type Server struct {
	options    Options
	nextID     atomic.Int64
	authGuard  authGuard
	authLog    LogLimit
	users      atomic.Pointer[Users]
	handshakes *connlimit.Counter // of clients with TLS

	// context is that of what clients do. Shutdown cancels it when it aborts connections.
	context context.Context
	cancel  context.CancelFunc

	accepted, refused, evicted atomic.Int64 // connections, since the start

	clientBytes   atomic.Int64 // memory of all clients
	stopping      atomic.Bool
	mu            sync.Mutex
	listeners     map[net.Listener]struct{}
	connections   map[*Client]Connection
	noConnections *sync.Cond // no connection is left
	evictedBytes  int64      // of clientBytes: of connections that were evicted and have not ended
	memoryFreed   *sync.Cond // a connection has ended, or was evicted
}

// NewServer returns a server. It accepts no connections until Serve is called.
func NewServer(o Options) *Server {
	s := &Server{options: o, listeners: make(map[net.Listener]struct{}), connections: make(map[*Client]Connection),
		authGuard: authGuard{addresses: make(map[netip.Prefix]*authBudget)}}
	// their handshakes fail, and say why
	s.handshakes = connlimit.NewCounter(connlimit.HandshakesFor(debug.SetMemoryLimit(-1)), nil)
	s.users.Store(newUsers(o.Users))
	s.context, s.cancel = context.WithCancel(context.Background())
	s.noConnections, s.memoryFreed = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	return s
}

// Context is that of what clients do. It ends when Shutdown aborts connections.
func (s *Server) Context() context.Context { return s.context }

// IsStopping reports whether Shutdown was called.
func (s *Server) IsStopping() bool { return s.stopping.Load() }

// Handshakes returns how many TLS handshakes of clients are in progress.
func (s *Server) Handshakes() int { return s.handshakes.Number() }

// Counts are numbers of connections since the start.
type Counts struct{ Accepted, Refused, Evicted int64 }

// Counts returns the present counts.
func (s *Server) Counts() Counts {
	return Counts{s.accepted.Load(), s.refused.Load(), s.evicted.Load()}
}

// Serve accepts connections until the listener is closed or Shutdown is called. After Shutdown it returns
// ErrServerClosed. It always closes the listener.
func (s *Server) Serve(l net.Listener) error { return s.serve(l, nil) }

// ServeTLS is Serve for clients that use TLS, version 1.2 or newer.
func (s *Server) ServeTLS(l net.Listener, k *Certificates) error {
	return s.serve(s.handshakes.CountHandshakes(l), k)
}

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

// refusalTimeout bounds the writing of Options.Refusal.
const refusalTimeout = 20 * time.Millisecond

// startConnection serves a client, or refuses it if there are too many.
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
		s.refused.Add(1)
		if m != nil {
			m.ConnectionRefused()
		}
		if k == nil {
			socket.SetWriteDeadline(time.Now().Add(refusalTimeout))
			_, _ = io.WriteString(socket, s.options.Refusal)
		}
		socket.Close()
		return
	}
	c := s.NewClient(socket, k)
	connection := s.options.Connect(c)
	s.connections[c] = connection
	s.mu.Unlock()
	s.accepted.Add(1)
	if m != nil {
		m.ConnectionOpened()
	}
	go func() {
		defer s.removeClient(c)
		connection.Serve()
	}()
}

func (s *Server) removeClient(c *Client) {
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

// List returns the open connections in the order in which they were opened.
func (s *Server) List() []Connection {
	s.mu.Lock()
	clients := maps.Clone(s.connections)
	s.mu.Unlock()
	sorted := make([]Connection, 0, len(clients))
	for _, c := range slices.SortedFunc(maps.Keys(clients), func(a, b *Client) int { return cmp.Compare(a.ID, b.ID) }) {
		sorted = append(sorted, clients[c])
	}
	return sorted
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
		c.StopReading()
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
				c.Abort()
			}
			return fmt.Errorf("shutdown: closed %d connections before they had finished: %w", len(s.connections),
				context.Cause(ctx))
		}
		s.noConnections.Wait()
	}
	return nil
}
