package front

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// Client is what a Server knows of a client that is connected. The goroutine of its Connection uses it; methods that
// others may call say so.
type Client struct {
	// ID is greater than those of clients that connected before.
	ID     int64
	Opened time.Time
	Socket net.Conn // the socket itself, below TLS

	server *Server
	// limited is what TLS reads from, and certificates are those of the listener; nil without TLS.
	limited      *connlimit.Conn
	certificates *Certificates

	user         atomic.Pointer[contract.User] // that the client is, or nil; SetUsers looks at it too
	authFailures int                           // since the last success
	memory       clientMemory
}

// NewClient returns a client on a socket that was accepted, with TLS if there are certificates. Serve calls it; a
// client that somebody else has made is not listed, nor ended by Shutdown.
func (s *Server) NewClient(socket net.Conn, k *Certificates) *Client {
	c := &Client{ID: s.nextID.Add(1), Opened: s.options.Clock(), Socket: socket, server: s, certificates: k}
	if limited, ok := socket.(*connlimit.Conn); ok {
		c.limited, c.Socket = limited, limited.Conn
	}
	c.login(s.Users().AtStart())
	return c
}

// pastDeadline makes blocked reads return at once.
var pastDeadline = time.Unix(1, 0)

// StopReading makes blocked reads of the socket return at once. Any goroutine may call it once the server is stopping.
func (c *Client) StopReading() { c.Socket.SetReadDeadline(pastDeadline) }

// Abort closes the socket at once. Any goroutine may call it.
func (c *Client) Abort() { c.Socket.Close() }
