package transport

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/causalstore/causalstore/topology"
)

// A host name is looked up at each attempt to connect, since the process may have restarted at another address. But
// when a zone goes, name servers may go with it, and just then links are opened to parts that were not needed before.
// So a process remembers the addresses of names, also those that a lookup returns after the attempt, and looks up the
// names of all parts in advance. If a remembered address belongs to another process by now, the hello or the TLS
// identity tells.

// nameCache looks up host names and remembers their addresses. It forgets no name: a deployment has had few.
type nameCache struct {
	lookup    func(ctx context.Context, host string) ([]string, error)
	tolerance time.Duration // for a lookup, before remembered addresses are used
	log       *slog.Logger

	ctx    context.Context // of lookups
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	names  map[string]*hostName
}

// hostName is what is known of a name.
type hostName struct {
	addrs   []string // of the latest lookup that has succeeded
	at      time.Time
	warned  bool // that they are used instead of those of a lookup
	pending *lookup
}

// lookup is one under way.
type lookup struct {
	ended chan struct{}
	addrs []string // once ended
	err   error
}

// lookupTimeout is longer than an attempt to connect: an answer that comes late is for the next attempt.
const lookupTimeout = 30 * time.Second

func newNameCache(find func(context.Context, string) ([]string, error), tolerance time.Duration,
	log *slog.Logger) *nameCache {
	c := &nameCache{lookup: find, tolerance: tolerance, log: log, names: make(map[string]*hostName)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// close ends all lookups.
func (c *nameCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// start returns the lookup of a host that is under way, or begins one, and the addresses that it had before, if any.
func (c *nameCache) start(host string) (l *lookup, known []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.names[host]
	if n == nil {
		n = &hostName{}
		c.names[host] = n
	}
	if n.pending == nil {
		n.pending = &lookup{ended: make(chan struct{})}
		if c.closed {
			n.pending.err = net.ErrClosed
			close(n.pending.ended)
		} else {
			c.wg.Go(func() { c.run(host, n) })
		}
	}
	return n.pending, n.addrs
}

// run carries out the pending lookup of a host.
func (c *nameCache) run(host string, n *hostName) {
	ctx, cancel := context.WithTimeout(c.ctx, lookupTimeout)
	defer cancel()
	addrs, err := c.lookup(ctx, host)
	c.mu.Lock()
	defer c.mu.Unlock()
	l := n.pending
	l.addrs, l.err, n.pending = addrs, err, nil
	if err == nil {
		n.addrs, n.at, n.warned = addrs, time.Now(), false
	}
	close(l.ended)
}

// resolve returns the addresses of a host: of a lookup or, if that takes long or fails, those that it had before. A
// host that does not exist has none.
func (c *nameCache) resolve(ctx context.Context, host string) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	l, known := c.start(host)
	var tolerated <-chan time.Time
	if known != nil {
		timer := time.NewTimer(c.tolerance)
		defer timer.Stop()
		tolerated = timer.C
	}
	select {
	case <-l.ended:
		var failure *net.DNSError
		if l.err == nil || known == nil || errors.As(l.err, &failure) && failure.IsNotFound {
			return l.addrs, l.err
		}
	case <-tolerated:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.warn(host)
	return known, nil
}

// warn logs, once until a lookup succeeds, that remembered addresses are used.
func (c *nameCache) warn(host string) {
	c.mu.Lock()
	n := c.names[host]
	first, at := !n.warned, n.at
	n.warned = true
	c.mu.Unlock()
	if first {
		c.log.Warn("the name servers do not answer; connecting to the address that the name had", "host", host,
			"looked up", at)
	}
}

// dialTCP returns a function that tries the addresses of a name one after the other, with a timeout for each.
func (c *nameCache) dialTCP(timeout time.Duration) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		found, err := c.resolve(ctx, host)
		if err != nil {
			return nil, err
		}
		var errs []error
		for _, ip := range found {
			dialer := net.Dialer{Timeout: timeout}
			conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, port))
			if err == nil {
				return conn, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}
}

// keepNames looks up the names of all parts, one after the other, and again from time to time.
func (g *GRPC) keepNames() {
	for pause := g.timing.namesPause; ; {
		hosts := g.hosts()
		for _, host := range append(hosts, "") {
			select {
			case <-time.After(pause/2 + rand.N(pause+1)):
			case <-g.closing:
				return
			}
			if host != "" {
				g.names.start(host)
			}
		}
		pause = max(pause, g.timing.namesInterval/time.Duration(len(hosts)+1))
	}
}

// hosts returns the names of the hosts that this process may dial: those of all parts, but for caches of other data
// centers, or of egresses to them. Coordinators come first, since writes wait for one of them, and the nearest before
// the others.
func (g *GRPC) hosts() (hosts []string) {
	t, self := g.config.Topology(), g.config.Nodes[0].DC
	var nodes []topology.Node
	t.Nodes(func(n topology.Node) {
		if n.Part != topology.Cache || n.DC == self {
			nodes = append(nodes, t.MembersOf(n)...)
		}
	})
	slices.SortStableFunc(nodes, func(a, b topology.Node) int {
		if first, second := a.Part == topology.Coordinator, b.Part == topology.Coordinator; first != second {
			if first {
				return -1
			}
			return 1
		}
		return cmp.Compare(t.RTT[self][a.DC], t.RTT[self][b.DC])
	})
	for _, n := range nodes {
		addr, ok := g.config.Resolve(n)
		if !ok || slices.Contains(g.config.Nodes, n) {
			continue
		}
		if via := g.viaOf(addr); via != "" {
			addr = via
		}
		host, _, err := net.SplitHostPort(addr)
		if _, literal := netip.ParseAddr(host); err == nil && literal != nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
