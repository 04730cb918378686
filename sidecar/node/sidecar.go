package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/resp"
	"github.com/causalstore/causalstore/sidecar/topology"
	"github.com/causalstore/causalstore/sidecar/transport"
)

// Scope says what one session is.
type Scope string

// The scopes.
const (
	// ScopePod makes all connections of a sidecar one session, because apps use connection pools.
	ScopePod Scope = "Pod"
	// ScopeConnection makes each connection a session.
	ScopeConnection Scope = "Connection"
)

// SidecarOptions is what a sidecar runs on.
type SidecarOptions struct {
	Config causal.SidecarConfig // Self.Index is drawn if it is 0
	Clock  Clock
	Net    transport.Network
	Scope  Scope
}

// Sidecar runs a causal.Sidecar: sessions for client connections.
type Sidecar struct {
	*Host
	topo    atomic.Pointer[topology.Topology]
	dc      topology.DC
	scope   Scope
	keys    keyLocks
	waiters []*waiter // by place, under Host.mu
	idle    []*waiter // those that belong to no session, under Host.mu
	results []causal.Result
	nextID  atomic.Uint64
}

// podSession is the id of the only session with ScopePod; connections' sessions count from above it.
const podSession = 1

// NewSidecarIndex draws a number that no other sidecar has, for topology.Node.Index.
func NewSidecarIndex() uint64 {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // the platform has no source of randomness
	}
	return binary.LittleEndian.Uint64(b[:])>>1 + 1
}

// NewSidecar makes a sidecar. The caller registers Handle with the network.
func NewSidecar(o SidecarOptions) *Sidecar {
	if o.Config.Self.Index == 0 {
		o.Config.Self.Index = NewSidecarIndex()
	}
	s := &Sidecar{Host: newHost(o.Config.Self, o.Clock, o.Net), dc: o.Config.Self.DC, scope: o.Scope}
	s.topo.Store(o.Config.Topology)
	s.keys.held = map[string]*keyLock{}
	m := causal.NewSidecar(o.Config)
	m.Open(podSession)
	s.nextID.Store(podSession)
	s.m = m
	s.collect = func() { s.deliver(m) }
	return s
}

// NewSession implements resp.Backend.
func (s *Sidecar) NewSession(net.Addr) (resp.Session, error) {
	id := uint64(podSession)
	if s.scope == ScopeConnection {
		id = s.nextID.Add(1)
		s.do(func(causal.Now) { s.m.(*causal.Sidecar).Open(id) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &session{s: s, id: id, waiter: s.waiter()}, nil
}

// Close fails what is under way and stops the sidecar.
func (s *Sidecar) Close() {
	s.mu.Lock()
	s.stopped = true
	for _, w := range s.waiters {
		if w.op != 0 {
			err := causal.ErrUnavailable
			if w.put {
				err = causal.ErrUnknown
			}
			w.deliver(&causal.Result{Err: err})
		}
	}
	s.mu.Unlock()
}

// SetTopology takes a topology that differs from the one in use in the numbers of shards and caches only.
func (s *Sidecar) SetTopology(t *topology.Topology) {
	s.do(func(causal.Now) { s.m.(*causal.Sidecar).SetTopology(t) })
	s.topo.Store(t)
}

// LinkDown tells the machine that node has gone, so that operations on it need not time out.
func (s *Sidecar) LinkDown(n topology.Node) {
	s.do(func(now causal.Now) { s.m.(*causal.Sidecar).LinkDown(now, n) })
}

// LinkUp tells the machine that a node can be reached.
func (s *Sidecar) LinkUp(n topology.Node) {
	s.do(func(causal.Now) { s.m.(*causal.Sidecar).LinkUp(n) })
}

// Unreached tells the machine that a node cannot be reached and nothing was ever sent to it.
func (s *Sidecar) Unreached(n topology.Node) {
	s.do(func(now causal.Now) { s.m.(*causal.Sidecar).Unreached(now, n) })
}

// Machine gives f the machine to look at.
func (s *Sidecar) Machine(f func(*causal.Sidecar)) { s.View(func(m any) { f(m.(*causal.Sidecar)) }) }

// session is one client connection's view.
type session struct {
	s      *Sidecar
	id     uint64
	waiter *waiter // for the operation that the connection waits for at once: there is one at a time
	latest causal.Outcome
	locked bool     // inside a read-modify-write: it modifies the newest value
	next   []string // keys that the client has asked for behind the current command
}

func (c *session) run(op causal.Op) causal.Result {
	op.Session = c.id
	c.s.start(c.waiter, op)
	return c.waiter.end()
}

func (c *session) finish(r causal.Result, what string) error {
	c.latest = r.Outcome
	if r.Err == causal.OK {
		return nil
	}
	return clientError(r.Err, what)
}

// clientError is what an app reads. BUSY, UNAVAILABLE and CLOCK promise that nothing was done; UNKNOWN does not.
func clientError(code causal.ErrCode, what string) error {
	switch code {
	case causal.ErrBusy:
		return resp.Errorf("BUSY", "write buffer full: too many writes have not reached every ring yet; nothing was written, try again later")
	case causal.ErrClock:
		return resp.Errorf("CLOCK", "a timestamp is too far ahead of the coordinator's clock; nothing was written; check that the clocks of the nodes are synchronised")
	case causal.ErrUnknown:
		return resp.Errorf("UNKNOWN", "the coordinator did not answer in time; the write may or may not have been accepted")
	case causal.ErrStale:
		return resp.Errorf("UNAVAILABLE", "the write was overtaken after a broken connection; nothing was written, try again")
	default:
		return resp.Errorf("UNAVAILABLE", "no ring that this session may use answered the %s in time (%s); try again", what, code)
	}
}

// Get implements resp.Session.
func (c *session) Get(_ context.Context, key string) (causal.Value, error) {
	c.s.start(c.waiter, causal.Op{Kind: causal.OpGet, Session: c.id, Key: key, Latest: c.locked})
	if len(c.next) > 0 && !c.waiter.done() {
		// This one takes its time, and so would each of those behind it: let the cache fetch them all meanwhile. They are
		// still read one after the other.
		c.s.do(func(now causal.Now) { c.s.m.(*causal.Sidecar).Prefetch(now, c.id, c.next) })
		c.next = c.next[:0]
	}
	r := c.waiter.end()
	return r.Record.Value, c.finish(r, "read")
}

// Prefetch implements resp.Prefetcher.
func (c *session) Prefetch(keys []string) { c.next = append(c.next[:0], keys...) }

// MGet implements resp.Session.
func (c *session) MGet(_ context.Context, keys []string) ([]causal.Value, error) {
	if len(keys) == 1 {
		v, err := c.Get(context.Background(), keys[0])
		return []causal.Value{v}, err
	}
	r := c.run(causal.Op{Kind: causal.OpMGet, Keys: keys, Latest: c.locked})
	values := make([]causal.Value, len(r.Records))
	for i := range r.Records {
		values[i] = r.Records[i].Value
	}
	return values, c.finish(r, "multi-key read")
}

// Put implements resp.Session.
func (c *session) Put(_ context.Context, key string, v causal.Value) error {
	r := c.run(causal.Op{Kind: causal.OpPut, Key: key, Value: v})
	return c.finish(r, "write")
}

// PutAsync implements resp.Pipeliner: the coordinator orders the puts of a session as they arrive.
func (c *session) PutAsync(key string, v causal.Value) func() error {
	w := c.s.borrow()
	c.s.start(w, causal.Op{Kind: causal.OpPut, Session: c.id, Key: key, Value: v})
	return func() error {
		r := w.end()
		c.s.giveBack(w)
		return c.finish(r, "write")
	}
}

// Lock implements resp.Session.
func (c *session) Lock(keys ...string) func() {
	unlock := c.s.keys.lock(keys)
	c.locked = true
	return func() {
		c.locked = false
		unlock()
	}
}

// DBSize implements resp.Session.
func (c *session) DBSize(context.Context) (int64, error) {
	r := c.run(causal.Op{Kind: causal.OpCount})
	return r.Count, c.finish(r, "count")
}

// Close implements resp.Session.
func (c *session) Close() {
	c.s.giveBack(c.waiter)
	if c.id != podSession {
		c.s.do(func(now causal.Now) { c.s.m.(*causal.Sidecar).Close(now, c.id) })
	}
}

// Info implements resp.Session.
func (c *session) Info() string {
	dc := c.s.topo.Load().DCs[c.s.dc]
	return fmt.Sprintf("# CausalStore\r\ndata_center:%s\r\nring:%s\r\nsession_scope:%s\r\ntopology_epoch:%d\r\n",
		dc.Name, c.s.topo.Load().Rings[dc.Ring].Name, c.s.scope, c.s.topo.Load().Epoch)
}

// defaultWait bounds CAUSAL RESUME.
const defaultWait = 10 * time.Second
