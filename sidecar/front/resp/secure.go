package resp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// tlsBytes is what a connection with TLS takes beside what is accounted for: a record that is being received.
const tlsBytes = 18 << 10

// ciphertext is the socket below TLS. A write that does not fit alternates with reads, as for connections without TLS:
// clients may write a whole pipeline before they read its first reply. What it reads meanwhile is kept as it came,
// because a TLS connection must not be used from inside of its own write; nor may its writes time out, since it could
// not continue then.
type ciphertext struct {
	net.Conn // front.Client.BelowTLS
	c        *connection
	ahead    []byte // received during writes
}

func (s *ciphertext) Read(b []byte) (int, error) {
	if len(s.ahead) == 0 {
		return s.Conn.Read(b)
	}
	n := copy(b, s.ahead)
	if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
		s.ahead = nil
	}
	return n, nil
}

func (s *ciphertext) Write(b []byte) (int, error) { return s.c.write(b) }

// receive receives once into ahead.
func (s *ciphertext) receive() error {
	if cap(s.ahead)-len(s.ahead) < readBytes {
		size := max(2*len(s.ahead), 2*readBytes)
		s.c.client.Account(s.c.takes() + int64(size))
		if s.c.client.IsEvicted() {
			return net.ErrClosed
		}
		s.ahead = append(make([]byte, 0, size), s.ahead...)
	}
	s.c.account()
	n, err := s.Conn.Read(s.ahead[len(s.ahead):cap(s.ahead)])
	s.ahead = s.ahead[:len(s.ahead)+n]
	return err
}

// secure puts TLS between the connection and its socket.
func (c *connection) secure() {
	c.below = &ciphertext{Conn: c.client.BelowTLS(), c: c}
	c.socket = c.client.TLS(c.below)
}

// handshake completes the TLS handshake, and reports whether the client can be served.
func (c *connection) handshake() bool {
	isOpen, err := c.client.Handshake(c.socket.(*tls.Conn))
	if err == nil {
		return isOpen
	}
	var other tls.RecordHeaderError
	wrongProtocol := errors.As(err, &other) && other.Conn != nil
	switch {
	case wrongProtocol:
		c.rejectProtocol("a client without TLS on the port with TLS; it needs a URL with rediss://, or redis-cli --tls",
			nil)
		c.socket, c.below = c.client.Socket, nil // to answer it
		c.out.beginReply()
		c.out.writeError(errNoTLS)
		c.out.endReply()
		c.out.flush()
		c.linger()
	case errors.Is(err, io.EOF) || c.server.IsStopping(): // it only looked whether the port is open
	default:
		c.rejectProtocol("the TLS handshake of a client failed", err)
	}
	return false
}

// rejectProtocol counts and logs a client that speaks the wrong protocol.
func (c *connection) rejectProtocol(message string, err error) {
	c.server.stats.protocolErrors.Add(1)
	if m := c.server.options.Metrics; m != nil {
		m.ProtocolError()
	}
	if n, ok := c.server.tlsLog.Next(time.Now()); ok {
		attributes := []any{"client", c.socket.RemoteAddr(), "port", c.socket.LocalAddr(), "unloggedBefore", n}
		if err != nil {
			attributes = append(attributes, "error", err)
		}
		c.server.options.Logger.Warn("closed a connection: "+message, attributes...)
	}
}
