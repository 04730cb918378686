package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// A process that anybody reaches must stay within its memory whatever they send. So connections are counted from the
// moment they are accepted: during the handshake by the address that they come from, afterwards by the identity of the
// peer. What sidecars send and do not complete, and what they ask for and do not read, takes from a part of the memory
// that all of them share.

const (
	// connectionBytes is the memory of an idle connection with its stream: buffers, TLS and goroutines.
	connectionBytes = 64 << 10
	// partConnections bounds the connections of one part that is no sidecar: it needs one for each of the links that it
	// dials, and another one while it renews that.
	partConnections = 64
	// partFrames is how many of the largest frames from one part may be on their way: one of its link, and one while it
	// renews that.
	partFrames = 2
)

// limits are the bounds on what peers take, in connections and bytes.
type limits struct {
	links, linksPerIdentity int // of sidecars
	handshakes              int
	// receive and send bound the messages from sidecars that have not been handled and to them that have not been sent,
	// beyond connectionAllowance for each connection.
	receive, send int64
}

// limitsFor derives the bounds that a configuration leaves open from the memory that the process may use, in bytes;
// math.MaxInt64 is unlimited. All together are at most 9/16 of it.
func limitsFor(links, linksPerIdentity int, memory int64) limits {
	l := limits{links: links, linksPerIdentity: linksPerIdentity}
	if l.links == 0 {
		l.links = int(max(16, min(1<<14, memory/4/connectionBytes))) // 16384 are about the sidecars of a whole region
	}
	if l.linksPerIdentity == 0 {
		l.linksPerIdentity = max(1, l.links/4)
	}
	l.handshakes = connlimit.HandshakesFor(memory)
	l.receive = max(1<<20, min(256<<20, memory/8))
	l.send = max(maxFrame, l.receive) // the largest value can be sent
	return l
}

// memoryLimit is that of GOMEMLIMIT.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit <= 0 {
		return math.MaxInt64
	}
	return limit
}

// admission counts the connections that others have opened to this process.
type admission struct {
	limits        limits
	receive, send *budget
	// parts is for messages from parts that are no sidecars. Each has its own share, since they are few.
	parts      *budget
	handshakes *connlimit.Counter
	// note counts a refusal and logs it. who is an address or an identity.
	note func(who string, err error)

	mu         sync.Mutex
	sidecars   int
	identities map[string]int
}

func newAdmission(l limits, note func(who string, err error)) *admission {
	displaced := func(address net.Addr) { note(address.String(), connlimit.ErrDisplaced) }
	return &admission{limits: l, receive: newBudget(l.receive), send: newBudget(l.send),
		parts: newShares(partFrames * maxFrame), handshakes: connlimit.NewCounter(l.handshakes, displaced),
		note: note, identities: map[string]int{}}
}

// admitted is a connection that counts: during the handshake by its address, then by its peer.
type admitted struct {
	*connlimit.Conn
	a *admission

	// guarded by a.mu
	closed   bool
	identity string // empty until the handshake has succeeded
	sidecar  bool
}

// identify counts the connection for the identity of its peer, or returns why it is refused.
func (c *admitted) identify(id contract.Identity) error {
	a, who := c.a, id.String()
	isOpen := c.Complete()
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.closed || !isOpen {
		return net.ErrClosed
	}
	if id.Role != contract.RoleSidecar {
		if a.identities[who] >= partConnections {
			return fmt.Errorf("it has %d connections, which is the limit for one part", partConnections)
		}
	} else {
		// A link that is being renewed has two connections.
		if most := a.limits.linksPerIdentity + a.limits.linksPerIdentity/4 + 1; a.identities[who] >= most {
			return fmt.Errorf("it has %d connections, which is the limit for one identity", most)
		}
		if most := a.limits.links + a.limits.links/4 + 1; a.sidecars >= most {
			return fmt.Errorf("sidecars have %d connections, which is the limit", most)
		}
		c.sidecar = true
		a.sidecars++
	}
	c.identity = who
	a.identities[who]++
	return nil
}

func (c *admitted) Close() error {
	c.a.mu.Lock()
	if !c.closed {
		c.closed = true
		if c.identity != "" {
			decrement(c.a.identities, c.identity)
		}
		if c.sidecar {
			c.a.sidecars--
		}
	}
	c.a.mu.Unlock()
	return c.Conn.Close()
}

func decrement(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// admissionListener accepts connections that count.
type admissionListener struct {
	net.Listener
	a *admission
}

func (a *admission) listen(l net.Listener) net.Listener {
	return admissionListener{a.handshakes.CountHandshakes(l), a}
}

func (l admissionListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &admitted{Conn: c.(*connlimit.Conn), a: l.a}, nil
}

// admittingCredentials are the server's credentials. They count each connection for its peer, and let sidecars hold
// only as much memory as there is for them.
type admittingCredentials struct {
	credentials.TransportCredentials
	a *admission
}

// meteredInfo is the authentication of a connection, with its meter. Sidecars share what is sent to them, too.
type meteredInfo struct {
	credentials.TLSInfo
	meter       *meter
	fromSidecar bool
}

func (c admittingCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		if errors.Is(err, connlimit.ErrHandshakeBytes) {
			c.a.note(raw.RemoteAddr().String(), err)
		}
		return nil, nil, err
	}
	tlsInfo := info.(credentials.TLSInfo)
	// the handshake has verified that it has one
	id, err := contract.ParseIdentity(tlsInfo.State.PeerCertificates[0].URIs[0])
	if err == nil {
		if err = raw.(*admitted).identify(id); err != nil && !errors.Is(err, net.ErrClosed) {
			c.a.note(id.String(), err)
		}
	}
	if err != nil {
		_ = conn.Close() // it is refused
		return nil, nil, err
	}
	m := &meter{Conn: conn, wake: make(chan struct{}, 1), note: func(err error) { c.a.note(id.String(), err) }}
	if m.account, m.patience = c.a.receive.account(id.String()), largeMessageTime; id.Role != contract.RoleSidecar {
		m.account, m.patience = c.a.parts.account(id.String()), largePartMessageTime
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m, meteredInfo{tlsInfo, m, id.Role == contract.RoleSidecar}, nil
}

func (c admittingCredentials) Clone() credentials.TransportCredentials {
	return admittingCredentials{c.TransportCredentials.Clone(), c.a}
}
