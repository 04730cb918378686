package transport

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// gRPC opens no stream on a connection until it has read the first frame of the server: its SETTINGS. HTTP/2 lets a
// client send requests before they have arrived (RFC 9113, section 3.4), and after a cut of the WAN the round trip
// counts. So gRPC first reads empty SETTINGS that this process has made, and those of the server after them, as
// SETTINGS may come at any time. Until then HTTP/2's defaults apply, which are enough for a hello.
//
// The server verifies the certificate of this process only after this process has finished its handshake. With early
// credentials the hello may therefore be on its way to a server that refuses it.

// emptySettings is an HTTP/2 frame of type SETTINGS without content.
const emptySettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// earlyCredentials let gRPC send requests as soon as TLS is complete on this side.
type earlyCredentials struct {
	credentials.TransportCredentials
}

// ClientHandshake implements credentials.TransportCredentials.
func (c earlyCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return &earlyConn{Conn: conn, ahead: emptySettings}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c earlyCredentials) Clone() credentials.TransportCredentials {
	return earlyCredentials{c.TransportCredentials.Clone()}
}

// earlyConn has bytes to read ahead of those of the connection. Only one goroutine reads.
type earlyConn struct {
	net.Conn
	ahead string
}

func (c *earlyConn) Read(b []byte) (int, error) {
	if c.ahead != "" {
		n := copy(b, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}
