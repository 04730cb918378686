package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// Failure says why a dialed link is down.
type Failure uint8

// The failures. What is not known to be another one is FailureUnreachable. Behind an egress that is all that can be
// known of the network and of names: the egress accepts connections first, and ends them if it cannot reach the other
// side.
const (
	NoFailure            Failure = iota
	FailureUnreachable           // it does not answer, or not as a part of the store does
	FailureUnresolved            // its name, or that of the egress, has no address
	FailureNotTrusted            // one of both does not accept the certificate of the other
	FailureOtherManifest         // it runs other data centers, rings or another binding
)

var failureNames = [...]string{"none", "unreachable", "unresolved", "notTrusted", "otherManifest"}

func (f Failure) String() string { return failureNames[f] }

// remoteAlert is the operation in the errors of crypto/tls about alerts that the peer has sent.
const remoteAlert = "remote error"

// errNotTrusted is wrapped by the errors about certificates of peers that are not accepted.
var errNotTrusted = errors.New("its certificate is not accepted")

// classify says what the error of a link amounts to. It looks at types, not at texts.
func classify(err error) Failure {
	var name *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, errOtherManifest):
		return FailureOtherManifest
	case errors.Is(err, errNotTrusted):
		return FailureNotTrusted
	case errors.As(err, &op) && op.Op == remoteAlert:
		// after its own part of the handshake, the peer looks at the certificate
		return FailureNotTrusted
	case errors.As(err, &name):
		return FailureUnresolved
	}
	if c := status.Code(err); c == codes.PermissionDenied || c == codes.Unauthenticated {
		return FailureNotTrusted
	}
	return FailureUnreachable
}

// attempt is one attempt to open a stream. gRPC keeps only the text of what goes wrong with a connection, so the error
// is kept here.
type attempt struct {
	mu    sync.Mutex
	first error
}

// note keeps the first error, and returns its argument.
func (a *attempt) note(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		a.first = err
	}
	return err
}

// failure classifies the error that the attempt ended with, or the one behind it.
func (a *attempt) failure(err error) Failure {
	if f := classify(err); f != FailureUnreachable {
		return f
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		return FailureUnreachable
	}
	return classify(a.first)
}

// notingCredentials note the errors of TLS in an attempt.
type notingCredentials struct {
	credentials.TransportCredentials
	attempt *attempt
}

// ClientHandshake implements credentials.TransportCredentials. The client has finished its handshake before the server
// looks at its certificate, so a refusal is the error of a later read.
func (c notingCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, c.attempt.note(err)
	}
	return notingConn{conn, c.attempt}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c notingCredentials) Clone() credentials.TransportCredentials {
	return notingCredentials{c.TransportCredentials.Clone(), c.attempt}
}

// lastWords is how long to wait for the reason why the peer has closed a connection.
const lastWords = 100 * time.Millisecond

// notingConn notes the errors of reads in an attempt.
type notingConn struct {
	net.Conn
	attempt *attempt
}

func (c notingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		_ = c.attempt.note(err)
	}
	return n, err
}

// Write also reads what the peer has said before it closed the connection: gRPC writes first, and after an error does
// not read.
func (c notingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		_ = c.SetReadDeadline(time.Now().Add(lastWords))
		_, _ = c.Read(make([]byte, 1))
	}
	return n, err
}
