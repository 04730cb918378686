package connlimit

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
)

// crypto/tls accepts a certificate message of 256 KiB, and parses it before anybody can look at it: names of two bytes
// become 76 times as large. A handshake of a part with its peers takes 2 to 4 KiB; a chain of four certificates with
// keys for RSA of 4096 bits, about 10.
const (
	// AcceptedBytes bounds what a client may send until its handshake is complete.
	AcceptedBytes = 16 << 10
	// DialedBytes bounds what a server may send until then: a server also names the authorities that it accepts.
	DialedBytes = 32 << 10
	// handshakeBytes is the memory of a handshake: buffers for AcceptedBytes, which double while they grow, keys and
	// goroutines.
	handshakeBytes = 64 << 10
	// maxHandshakes bounds the handshakes at a time.
	maxHandshakes = 4096
)

// HandshakesFor returns how many handshakes at a time a sixteenth of the memory suffices for; math.MaxInt64 is
// unlimited.
func HandshakesFor(memory int64) int {
	return int(max(32, min(maxHandshakes, memory/16/handshakeBytes)))
}

// ErrHandshakeBytes is the error of reads beyond the bound.
var ErrHandshakeBytes = errors.New("the peer has sent more than a TLS handshake may take: " +
	"it needs a shorter chain of certificates, or certificates with fewer names")

// ErrDisplaced is the error of reads of a connection that had to make place during its handshake.
var ErrDisplaced = errors.New("too many TLS handshakes at a time, most of them from this address")

// Conn is a connection that counts, below TLS. Until the handshake is complete, no more than its bytes are read, and
// while something is computed for it, it has one of the tokens for that. Afterwards it only passes calls on.
type Conn struct {
	net.Conn
	counter *Counter // nil: it was dialed
	host    string
	place   *list.Element // in the counter; guarded by its mu

	complete  atomic.Bool
	computing atomic.Bool
	displaced atomic.Bool
	left      int // bytes; only the goroutine of the handshake reads
}

// Dialed returns a connection to a server.
func Dialed(c net.Conn) *Conn { return &Conn{Conn: c, left: DialedBytes} }

func (c *Conn) Read(p []byte) (int, error) {
	if c.complete.Load() {
		return c.Conn.Read(p)
	}
	c.endComputing()
	if c.left == 0 {
		return 0, ErrHandshakeBytes
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	if err != nil && c.displaced.Load() {
		err = ErrDisplaced
	}
	if n > 0 && c.counter != nil {
		c.counter.computing <- struct{}{}
		c.computing.Store(true)
	}
	return n, err
}

func (c *Conn) endComputing() {
	if c.computing.Swap(false) {
		<-c.counter.computing
	}
}

// Complete ends the bounds of the handshake, and with these of CountHandshakes the counting. It reports whether the
// connection is still open as far as its counter knows: false if it had to make place.
func (c *Conn) Complete() bool {
	if c.complete.Swap(true) {
		return true
	}
	c.endComputing()
	return c.counter == nil || c.counter.leave(c)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.endComputing()
	if c.counter != nil {
		c.counter.leave(c)
	}
	return c.Conn.Close()
}

// Client is a TLS client over a connection that was dialed, after its handshake. It closes the connection if that
// fails.
func Client(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	limited := Dialed(raw)
	c := tls.Client(limited, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	limited.Complete()
	return c, nil
}

// DialingCredentials bound the handshakes of a client of gRPC.
type DialingCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (c DialingCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (
	net.Conn, credentials.AuthInfo, error,
) {
	limited := Dialed(raw)
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, limited)
	limited.Complete()
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (c DialingCredentials) Clone() credentials.TransportCredentials {
	return DialingCredentials{c.TransportCredentials.Clone()}
}
