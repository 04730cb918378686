package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
	"github.com/causalstore/causalstore/topology"
)

// A process may restart at another IP address, as pods do. Until DNS caches expire, half a minute in many clusters, its
// name resolves to the old address or to nothing, and no host may answer at the old address, not even to refuse. So the
// timeout per address is short and each attempt resolves the name again. Besides, a process connects to its peers as
// soon as it has restarted, so the dialer also tries the address that the process has connected from.

// errPeerRestarted ends a link when a later incarnation of its process has connected.
var errPeerRestarted = errors.New("the process has restarted and connected again")

// wakeDialers notifies the dialers of a process that it has connected to this one.
func (g *GRPC) wakeDialers(peer *wire.Hello) {
	for _, n := range peer.Nodes {
		addr, ok := g.config.Resolve(n)
		if !ok {
			continue
		}
		g.mu.RLock()
		d := g.dialed[addr]
		g.mu.RUnlock()
		if d != nil {
			d.peerConnected(peer)
		}
	}
}

// peerConnected makes the dialer try at once, unless it has a link to this incarnation of the process.
func (d *dialer) peerConnected(peer *wire.Hello) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.up && d.peer.Incarnation == peer.Incarnation {
		return
	}
	if d.up {
		d.cancelStream(errPeerRestarted)
	}
	select {
	case d.incoming <- struct{}{}:
	default:
	}
}

// incomingAddr returns the IP address that the process has connected from, with the port that it listens on; empty if
// it has not connected to this process.
func (d *dialer) incomingAddr() string {
	_, port, err := net.SplitHostPort(d.addr)
	if err != nil {
		return "" // dialing will return the error
	}
	d.g.mu.RLock()
	defer d.g.mu.RUnlock()
	for n, a := range d.g.acceptedFrom {
		if addr, ok := d.g.config.Resolve(n); !ok || addr != d.addr {
			continue
		}
		if host, _, err := net.SplitHostPort(a.remoteAddr); err == nil {
			return net.JoinHostPort(host, port)
		}
	}
	return ""
}

// connector returns the function that opens the connection of a stream.
func (d *dialer) connector(s *dialedStream) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (conn net.Conn, err error) {
		if s.via != "" {
			conn, err = d.g.config.dialTCP(ctx, s.via)
		} else {
			conn, err = d.connect(ctx, addr)
		}
		if err != nil {
			return nil, s.attempt.note(err)
		}
		return conn, nil
	}
}

// connect opens a connection to the process: to the address that it has connected from, if any, or else to addr. If the
// process is not at the former, as when it connects through a proxy, the next attempt is at addr.
func (d *dialer) connect(ctx context.Context, addr string) (net.Conn, error) {
	for {
		select {
		case <-d.incoming: // incomingAddr takes it into account
		default:
		}
		if at := d.incomingAddr(); at != "" && !d.incomingFailed.Swap(false) {
			bounded, cancel := context.WithTimeout(ctx, d.g.timing.incoming)
			conn, err := d.g.config.dialTCP(bounded, at)
			cancel()
			if err == nil {
				d.incomingFailed.Store(true) // unless the stream opens
				return conn, nil
			}
		}
		if conn, err := d.dialUnlessPeerConnects(ctx, addr); conn != nil || !errors.Is(err, errPeerConnected) {
			return conn, err
		}
	}
}

var errPeerConnected = errors.New("the process has connected")

// dialUnlessPeerConnects dials addr, but returns errPeerConnected if the process connects to this one meanwhile.
func (d *dialer) dialUnlessPeerConnects(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-d.incoming:
			cancel(errPeerConnected)
		case <-ended:
		}
	}()
	conn, err := d.g.config.dialTCP(ctx, addr)
	close(ended)
	<-watched
	if err != nil && errors.Is(context.Cause(ctx), errPeerConnected) {
		return nil, errPeerConnected
	}
	return conn, err
}

// verifyPeer returns an error if the process at the address runs none of the nodes that this address is for: an
// outdated address may belong to another process by now, which would drop all messages.
func (d *dialer) verifyPeer(peer *wire.Hello) error {
	resolvesHere := func(n topology.Node) bool {
		addr, ok := d.g.config.Resolve(n)
		return ok && addr == d.addr
	}
	if slices.ContainsFunc(peer.Nodes, resolvesHere) {
		return nil
	}
	return fmt.Errorf("link to %s: process %q answers, which has another address; the name may be outdated in DNS",
		d.addr, peer.Process)
}
