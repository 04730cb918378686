package transport

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/transport/wan"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a GRPC network. The callbacks must not block.
type Config struct {
	// Process is the name of this process in the logs and status of its peers, such as the name of its pod.
	Process string
	// Nodes are the nodes that this process runs. Messages between them stay in the process. Messages that arrive for
	// any other node are dropped. A member of a group also speaks for its node, and gets messages for it while it
	// serves (GRPC.SetLeadership).
	Nodes []topology.Node
	// Members returns the members of a node's group, as topology.MembersOf does. It is asked for nodes that have one
	// (topology.Node.HasGroup), and only when links are opened. If it is nil, no node has a group.
	Members func(topology.Node) []topology.Node
	// Handler receives the messages for Nodes. Send calls it directly for a message between two of Nodes, as Local
	// does.
	Handler Handler
	// Resolve returns the address (host:port) of the process that runs a node, and false if the process cannot be
	// dialed. Nodes with a group have none, their members do. Every Send calls it, and its results may change.
	Resolve func(topology.Node) (addr string, ok bool)
	// Via returns the egress (host:port) through which an address is dialed, or "" to dial it directly. It needs TLS:
	// the egress finds the process by the TLS server name, which is the host of the address. Its results may change. It
	// may be nil.
	Via func(addr string) string
	// Up is called when a node can be reached: the stream to its process, which this one has dialed, opens. For a node
	// with a group, it is called when the link to the member that serves is there and it has said so, with its
	// leadership, and again for each later leadership, also if no Down came before. Else the leadership is zero. It may
	// be nil.
	Up func(topology.Node, causal.Leadership)
	// Down is called when that stream breaks, or the member announces that it no longer serves: requests that were sent
	// there will not be answered. It is also called after every failed attempt to connect, unless another member
	// serves. It may be nil.
	Down func(topology.Node)
	// Ended is called instead of Down when the peer has stopped in order (GRPC.Answered): requests that it has not
	// answered had no effect. It may be nil.
	Ended func(topology.Node)
	// MemberUp is called when the stream to a member of a group opens, whether or not it serves. It may be nil.
	MemberUp func(member topology.Node)
	// Unsent is called with each put that is dropped before anything of it was sent, because there is no link or its
	// queue is full: the put has surely not been accepted. If the link breaks, it is called before Down. It may be nil.
	Unsent func(put causal.Message)
	// Epoch returns the epoch of the topology in use, which peers show in their status. It may be nil.
	Epoch func() uint64
	// WAN delays and cuts messages to other data centers. If it is nil, they are sent at once.
	WAN *wan.Emulator
	// Topology returns the topology in use. With it, peers send only what package authorize permits. Only tests of this
	// package leave it out.
	Topology func() *topology.Topology
	// Binding is the name of that of the deployment, which peers must have as well. Empty is not known.
	Binding string
	// Version is that of the build, for the status of peers.
	Version string
	// TLS enables mutual TLS. If it is nil, links use plain TCP, and peers are whom they say they are.
	TLS *contract.LinkTLS
	// QueueBytes bounds the queue of one peer. 0 is 32 MiB.
	QueueBytes int
	// MaxLinks bounds the links that peers may open to this process, and MaxLinksPerIdentity those of one identity: all
	// sidecars of a namespace in a data center share one. 0 is what a quarter of GOMEMLIMIT suffices for, at most
	// 16384, and a quarter of MaxLinks.
	MaxLinks, MaxLinksPerIdentity int
	// Log receives the state of links. nil is slog.Default().
	Log *slog.Logger

	// dialTCP opens a connection to host:port. It must return when its context ends. Tests replace it.
	dialTCP func(context.Context, string) (net.Conn, error)
	// lookupHost returns the addresses of a host. It must return when its context ends. Tests replace it.
	lookupHost func(context.Context, string) ([]string, error)
}

// timings are the timeouts of links. Only tests change them.
type timings struct {
	// to connect, complete TLS and exchange hellos; through an egress, until the peer answers, and again for the hellos
	hello   time.Duration
	connect time.Duration // to connect to one IP address; long enough to retransmit a lost packet
	probe   time.Duration // for a process to answer, if another one claims to be the same part
	// for a member to answer, if the one that served is gone; otherwise the link is renewed
	memberProbe      time.Duration
	refusal          time.Duration // for which a process is refused after the other one was last alive
	lookup           time.Duration // of a host name, before the addresses are used that it had
	namesPause       time.Duration // between the look-ups of the names of parts after the start
	namesInterval    time.Duration // in which all are looked up again
	incoming         time.Duration // to connect to the address that the process has connected from
	backoff          time.Duration // before the first reconnect; doubles with each attempt
	maxBackoff       time.Duration
	maxBackoffVia    time.Duration // of links through an egress
	keepalive        time.Duration // without traffic until a ping
	keepaliveTimeout time.Duration // until the ping is answered, or TCP has data acknowledged: then the link is broken
	unused           time.Duration // for a connection to this process without a stream until it is closed
	flush            time.Duration // for Close to send what is queued
	idle             time.Duration // without use until a dialed link is closed
	keysInterval     time.Duration // at which the TLS files are read and the peers of all links are verified again
	distrust         time.Duration // for a peer that is not trusted any more to renew its link, until the link is cut
	// the age at which a dialer renews a link at the latest; it does so at a random age from half of it on
	renewAfter time.Duration
}

var defaultTimings = timings{
	hello: 5 * time.Second, connect: 2 * time.Second, probe: 2 * time.Second, memberProbe: time.Second,
	refusal: 15 * time.Second, incoming: 500 * time.Millisecond,
	lookup: 500 * time.Millisecond, namesPause: 200 * time.Millisecond, namesInterval: 30 * time.Minute,
	backoff: 50 * time.Millisecond, maxBackoff: time.Second, maxBackoffVia: 500 * time.Millisecond,
	keepalive: 10 * time.Second, keepaliveTimeout: 3 * time.Second, // 10 s is the minimum that gRPC allows
	unused: 30 * time.Second, flush: 2 * time.Second, idle: 10 * time.Minute,
	keysInterval: 2 * time.Second, distrust: 15 * time.Second, renewAfter: time.Hour,
}
