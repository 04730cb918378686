package node

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/front"
	"github.com/causalstore/causalstore/sidecar/token"
	"github.com/causalstore/causalstore/sidecar/transport"
	"github.com/causalstore/causalstore/sidecar/value"
	"github.com/causalstore/causalstore/topology"
)

// Scope determines which connections share a session.
type Scope string

// The scopes.
const (
	// ScopePod makes all connections of a sidecar one session, because applications use connection pools.
	ScopePod Scope = "Pod"
	// ScopeConnection makes each connection a session.
	ScopeConnection Scope = "Connection"
	// ScopeDataCenter makes all sidecars of a data center one server to their clients: what one has written, all others
	// see at once (PROTOCOL HOM). Connections of a sidecar share a session, as with ScopePod.
	ScopeDataCenter Scope = "DataCenter"
)

// SidecarOptions configures a Sidecar.
type SidecarOptions struct {
	Config session.Config // a Self.Index of 0 is replaced by a random one
	Clock  Clock
	Net    transport.Network
	Scope  Scope
	// PerConnection makes each connection a session with ScopeDataCenter too.
	PerConnection bool
	// Tokens authenticates session tokens. If it is nil, tokens are valid at this sidecar only.
	Tokens token.Sealer
}

// Sidecar runs a session.Sidecar and serves sessions to client connections.
type Sidecar struct {
	*host[*session.Sidecar]
	topo     atomic.Pointer[topology.Topology]
	dc       topology.DC
	scope    Scope
	each     bool // connection is a session
	tokens   token.Sealer
	hasNear  bool // near copies are kept
	keyLocks keyLocks
	ops      []*pendingOp // by index, under host.mu
	idleOps  []*pendingOp // those that no session uses, under host.mu
	results  []session.Result
	gets     []session.Op // of startGets, under host.mu
	nextID   atomic.Uint64

	// of clients that wait, under host.mu
	awaits    map[uint64]*await
	lastAwait uint64
	turns     []session.Turn
}

// podSession is the id of the only session under ScopePod. The ids of other sessions are greater.
const podSession = 1

// NewSidecarIndex draws a topology.Node.Index. It is random, so that no other sidecar has it.
func NewSidecarIndex() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // the platform has no source of randomness
	}
	return binary.LittleEndian.Uint64(b[:])>>1 + 1
}

// NewSidecar returns a sidecar. The caller registers Handle with the network.
func NewSidecar(o SidecarOptions) *Sidecar {
	if o.Config.Self.Index == 0 {
		o.Config.Self.Index = NewSidecarIndex()
	}
	if o.Tokens == nil {
		o.Tokens = token.NewRandom()
	}
	if o.Scope == ScopeDataCenter {
		o.Config.Level = causal.Local
	}
	o.Config.Types = value.Shipped()
	m := session.New(o.Config)
	m.Open(podSession)
	s := &Sidecar{host: newHost(o.Config.Self, o.Clock, o.Net, m), dc: o.Config.Self.DC, scope: o.Scope,
		each:   o.Scope == ScopeConnection || o.PerConnection,
		tokens: o.Tokens, hasNear: o.Config.MaxNearBytes > 0}
	s.topo.Store(o.Config.Topology)
	s.keyLocks.used = map[string]*keyLock{}
	s.nextID.Store(podSession)
	s.awaits = map[uint64]*await{}
	s.collectRequests = func() {
		s.deliverResults(m)
		s.deliverTurns(m)
	}
	return s
}

// NewSession implements front.Backend.
func (s *Sidecar) NewSession() (front.Session, error) {
	id := uint64(podSession)
	if s.each {
		id = s.nextID.Add(1)
		s.step(func(_ causal.Now, m *session.Sidecar) { m.Open(id) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &clientSession{sidecar: s, id: id, op: s.takeIdleOp()}, nil
}

// Close fails the operations in flight and stops the sidecar.
func (s *Sidecar) Close() {
	s.mu.Lock()
	s.stopped = true
	for _, op := range s.ops {
		if op.id != 0 {
			err := causal.ErrUnavailable
			if op.put {
				err = causal.ErrUnknown
			}
			op.complete(&session.Result{Err: err})
		}
	}
	s.mu.Unlock()
}

// SetTopology replaces the topology by one that differs only in the numbers of shards and caches.
func (s *Sidecar) SetTopology(t *topology.Topology) {
	s.step(func(_ causal.Now, m *session.Sidecar) { m.SetTopology(t) })
	s.topo.Store(t)
}

// LinkDown tells the machine that a node became unreachable: reads go elsewhere, and puts wait for its return.
func (s *Sidecar) LinkDown(n topology.Node) {
	s.step(func(now causal.Now, m *session.Sidecar) { m.LinkDown(now, n) })
}

// LinkEnded tells the machine that a node has stopped, and that requests to it without a reply had no effect.
func (s *Sidecar) LinkEnded(n topology.Node) {
	s.step(func(now causal.Now, m *session.Sidecar) { m.LinkEnded(now, n) })
}

// LinkUp tells the machine that a node is reachable, and under which leadership it serves; zero if it has none.
func (s *Sidecar) LinkUp(n topology.Node, serving causal.Leadership) {
	s.step(func(now causal.Now, m *session.Sidecar) { m.LinkUp(now, n, serving) })
}

// Unsent tells the machine that one of its puts was dropped before it was sent.
func (s *Sidecar) Unsent(put causal.Message) {
	s.step(func(now causal.Now, m *session.Sidecar) { m.Unsent(now, &put) })
}
