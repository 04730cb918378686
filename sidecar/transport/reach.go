package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// A process may come back elsewhere, as pods do, and its name leads to where it was, or nowhere, for as long as name servers
// remember: half a minute in many clusters. Nobody answers there, not even to refuse. So the wait for an answer is short, the name is
// asked again for each attempt, and a process that is connected to this one is looked for where it calls from: it calls as soon as it
// is back.

// errAnotherLife ends a link whose process has come back as another one.
var errAnotherLife = errors.New("the process has called from another life")

// heard tells the dialers of a process that it has called.
func (g *GRPC) heard(peer *wire.Hello) {
	for _, n := range peer.Nodes {
		addr, ok := g.config.Resolve(n)
		if !ok {
			continue
		}
		g.mu.RLock()
		d := g.dialed[addr]
		g.mu.RUnlock()
		if d != nil {
			d.hear(peer)
		}
	}
}

// hear lets the dialer try at once, unless it is linked to this life of its process.
func (d *dialer) hear(peer *wire.Hello) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.up && d.peer.Incarnation == peer.Incarnation {
		return
	}
	if d.up {
		d.cut(errAnotherLife)
	}
	select {
	case d.called <- struct{}{}:
	default:
	}
}

// callback returns where the process calls from, at its own port; empty if it is not connected to this one.
func (d *dialer) callback() string {
	_, port, err := net.SplitHostPort(d.addr)
	if err != nil {
		return "" // the attempt will say so
	}
	d.g.mu.RLock()
	defer d.g.mu.RUnlock()
	for n, a := range d.g.behind {
		if addr, ok := d.g.config.Resolve(n); !ok || addr != d.addr {
			continue
		}
		if host, _, err := net.SplitHostPort(a.from); err == nil {
			return net.JoinHostPort(host, port)
		}
	}
	return ""
}

// connect opens a connection to the process: to where it calls from, and else to its address.
func (d *dialer) connect(ctx context.Context, addr string) (net.Conn, error) {
	for {
		select {
		case <-d.called: // it is looked at now
		default:
		}
		if at := d.callback(); at != "" {
			bounded, cancel := context.WithTimeout(ctx, d.g.timing.callback)
			conn, err := d.g.config.dialTCP(bounded, at)
			cancel()
			if err == nil {
				return conn, nil
			}
		}
		if conn, err := d.connectUnlessCalled(ctx, addr); conn != nil || !errors.Is(err, errCalled) {
			return conn, err
		}
	}
}

var errCalled = errors.New("the process has called")

// connectUnlessCalled stops trying when the process calls.
func (d *dialer) connectUnlessCalled(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-d.called:
			cancel(errCalled)
		case <-ended:
		}
	}()
	conn, err := d.g.config.dialTCP(ctx, addr)
	close(ended)
	<-watched
	if err != nil && errors.Is(context.Cause(ctx), errCalled) {
		return nil, errCalled
	}
	return conn, err
}

// dialTCP tries the addresses of a name one after the other, each for so long.
func dialTCP(each time.Duration) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		var errs []error
		for _, ip := range found {
			dialer := net.Dialer{Timeout: each}
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}
}

// recognize says why a process that has answered at the address is not the one that is meant: an address that is out of date may
// belong to another one by now, which would throw away all that it is sent.
func (d *dialer) recognize(peer *wire.Hello) error {
	here := func(n topology.Node) bool {
		addr, ok := d.g.config.Resolve(n)
		return ok && addr == d.addr
	}
	if slices.ContainsFunc(peer.Nodes, here) {
		return nil
	}
	return fmt.Errorf("link to %s: %q answers there, which is not who has that address here; a name may be out of date", d.addr, peer.Process)
}
