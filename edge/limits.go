package edge

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Connections between edges, at both ends.
const (
	// maxStreams is how many tunnels share a connection. An edge opens further ones to the same peer when it needs
	// more.
	maxStreams = 128
	// streamWindow is what a tunnel may have under way. Envoy gives a sender new room only when half of the window has
	// been read, so half of it is certain: 16 MB/s over a round trip of 250 ms. That is about what Linux gives one TCP
	// connection by default (net.ipv4.tcp_rmem), so that a single tunnel can use all of a connection. It is also what a
	// link between parts has under way at most, so an edge does not hold more for a tunnel whose receiver is slow than
	// the part itself would.
	streamWindow = 8 << 20
	// connectionWindow is enough for all tunnels of a connection: one whose receiver is slow does not hold up the
	// others. HTTP/2 allows less than 2 GiB.
	connectionWindow = maxStreams * streamWindow
	// bufferBytes bounds what waits in a connection's buffers in each direction, and unsentBytes what waits in the
	// kernel, before what another tunnel has to send: 50 ms at 10 MB/s in all. The kernel keeps what is under way apart
	// from these.
	bufferBytes = 256 << 10
	unsentBytes = 128 << 10
	// PeerTimeout gives up a connection between edges whose data TCP does not get acknowledged, from when it is sent
	// again for the first time. TCP waits twice as long before each further time, so after a cut of that length a new
	// connection is up sooner. On a slow path acknowledgements go on coming, unless a round trip takes longer than
	// this.
	PeerTimeout = 2 * time.Second
	// pingInterval sees to it that there is something to acknowledge, so that an idle connection is given up as soon.
	// pingTimeout is for an edge that hangs; it is long, because on a slow path a ping waits behind bufferBytes and
	// unsentBytes.
	pingInterval = 500 * time.Millisecond
	pingTimeout  = 10 * time.Second
	// partTimeout is PeerTimeout for connections within the cluster. It is longer than the heartbeat of parts, 13 s, so
	// that an edge keeps what its parts would keep.
	partTimeout = 15 * time.Second
	// connectTimeout bounds TCP and TLS handshake of a new connection within the cluster, and peerConnectTimeout
	// between edges: two round trips, of 2 s at most, since PeerTimeout bounds the first. Parts dial again, so an edge
	// does not. It is long, because its end may break off a connection that is about to be up.
	connectTimeout     = time.Second
	peerConnectTimeout = 5 * time.Second
	// connectTries is how often a connection to a peer with one IP address is tried within peerConnectTimeout: Envoy
	// goes on to the next address of a peer 300 ms after the one before, and at once when PeerTimeout ends one of them,
	// while TCP itself repeats a lost first packet after a second only. So a path that is used again after a cut is
	// noticed soon. That is 17 to 32 tries; with what TCP repeats, a thread sends at most 14 first packets a second to
	// each peer.
	connectTries = 33
	// idleTimeout closes connections without tunnels, at the dialing edge first. Tunnels themselves are never idle for
	// too long: that is for the parts to say.
	idleTimeoutEgress  = 5 * time.Minute
	idleTimeoutIngress = 10 * time.Minute
	// connectionAge is when a connection gets no further tunnels. What a peer may do is checked when a connection
	// begins.
	connectionAge = time.Hour
)

// An ingress is open to the internet; this bounds what others can make it do and hold.
const (
	// handshakeTimeout bounds reading the TLS server name, and then the handshake.
	handshakeTimeout = 5 * time.Second
	headersTimeout   = 5 * time.Second
	headersKiB       = 8
	maxHeaders       = 32
	// Connections to each listener. An edge of a peer opens one for each of its workers and 256 tunnels. Sidecars open
	// as many links as a part accepts by default; the egress of parts has the same bound.
	maxIngressConnections = 4096
	maxEgressConnections  = 16384
	maxHTTPConnections    = 256
	// maxTunnels bounds the tunnels to each peer, and to each part, of either kind of dialers. It is the number of
	// links that a part accepts by default. Envoy's own default would be 1024.
	maxTunnels = 16384
	// maxPeerConnections bounds the connections to each peer, of either kind of dialers.
	maxPeerConnections = 1024
)

// HeapBytes is the memory that an edge keeps below: at 80% of it, it begins to reset the tunnels that hold most, and at
// 95% it accepts nothing new. The memory limit of the container must be higher; half as much again is enough.
const HeapBytes = 768 << 20

// Names in DNS change as pods and load balancers come and go.
const (
	partRefresh = 2 * time.Second
	peerRefresh = 5 * time.Second
	// refreshJitter spreads the questions about many parts.
	refreshJitter = 500 * time.Millisecond
)

// At most logLines failures are logged in each logInterval; the metrics count all.
const (
	logLines    = 120
	logInterval = time.Minute
)

// overloadInterval is how often memory and connections are compared with their limits.
const overloadInterval = 250 * time.Millisecond

// workers is the number of threads that carry bytes. Envoy's own default is that of the node's processors, and every
// worker has connections of its own to each peer.
const workers = "2"

// drainSeconds is how long connections of removed listeners and peers live on.
const drainSeconds = "5"

// tcpKeepalive notices peers that have gone without a word: no tunnel has an idle timeout.
var tcpKeepalive = &corev3.TcpKeepalive{KeepaliveProbes: wrapperspb.UInt32(3), KeepaliveTime: wrapperspb.UInt32(10),
	KeepaliveInterval: wrapperspb.UInt32(3)}

// Numbers of socket options on Linux.
const (
	ipprotoTCP      = 6
	tcpUserTimeout  = 18
	tcpNotSentLoWat = 25
)

// socketOptions are those of every connection that carries tunnels; accepted ones inherit them from the listening
// socket.
func socketOptions(userTimeout time.Duration) []*corev3.SocketOption {
	option := func(about string, name, value int64) *corev3.SocketOption {
		return &corev3.SocketOption{Description: about, Level: ipprotoTCP, Name: name,
			Value: &corev3.SocketOption_IntValue{IntValue: value}}
	}
	return []*corev3.SocketOption{
		option("TCP_USER_TIMEOUT", tcpUserTimeout, userTimeout.Milliseconds()),
		option("TCP_NOTSENT_LOWAT", tcpNotSentLoWat, unsentBytes),
	}
}
