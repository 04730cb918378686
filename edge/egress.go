package edge

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/causalstore/causalstore/contract"
)

// edgeName is the name of a peer in Envoy and, with the tag "peer", in its metrics.
func (p Peer) edgeName() string { return "edge_" + p.DataCenter }

// dialers are those who dial an egress. Each kind has a listener of its own, connections of its own to every peer, and
// at the other end bounds of its own for every part.
type dialers struct {
	egress string // the name of the listener
	port   uint32
	// suffix is that of the names of clusters.
	suffix string
}

var (
	sidecars = dialers{egress: "egress", port: PortEgress}
	parts    = dialers{egress: "egress_parts", port: PortEgressParts, suffix: "_parts"}
)

// clusterName is the name of the connections of dialers to a peer.
func (d dialers) clusterName(p Peer) string { return p.edgeName() + d.suffix }

// tunneling makes a tunnel of each connection. The server name says which part it is for. Tunnels of parts have a
// header: an ingress believes its peers about nothing but that.
func (d dialers) tunneling() *tcpproxyv3.TcpProxy_TunnelingConfig {
	c := &tcpproxyv3.TcpProxy_TunnelingConfig{Hostname: net.JoinHostPort("%REQUESTED_SERVER_NAME%",
		strconv.Itoa(contract.DefaultPartsPort))}
	if d == parts {
		c.HeadersToAdd = []*corev3.HeaderValueOption{
			{Header: &corev3.HeaderValue{Key: dialersHeader, Value: dialersParts}},
		}
	}
	return c
}

// egress is a listener for the parts or the sidecars of this cluster. The server name of their TLS says which part they
// want, and by that which peer.
func (in Input) egress(d dialers) *listenerv3.Listener {
	l := newListener(d.egress, d.port, partTimeout)
	// Sidecars' connections can take all memory. Those of parts are few.
	l.BypassOverloadManager = d == parts
	for _, p := range in.Peers {
		l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{
			Name: p.DataCenter,
			FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "tls",
				ServerNames: []string{"*." + p.DataCenter + "." + in.StoreID}},
			Filters: []*listenerv3.Filter{networkFilter("envoy.filters.network.tcp_proxy", &tcpproxyv3.TcpProxy{
				StatPrefix:       d.clusterName(p),
				ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: d.clusterName(p)},
				IdleTimeout:      durationpb.New(0), // none
				TunnelingConfig:  d.tunneling(),
				AccessLog:        logFailures(rarely(tunnelFailed), d.egress),
			})},
		})
	}
	return l
}

// peerCluster is the edge of a peer, as dialers reach it. Envoy pools the connections to it: a worker opens one, and a
// further one for every maxStreams tunnels. There are no retries, health checks or outlier detection: the parts know
// what they need, and dial again.
func (in Input) peerCluster(p Peer, d dialers) *clusterv3.Cluster {
	c := newCluster(d.clusterName(p), p.Address, peerNames, peerConnectTimeout, PeerTimeout)
	if c.GetClusterType() == nil { // its host is an IP address
		again := c.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint()
		for range connectTries - 1 {
			again.AdditionalAddresses = append(again.AdditionalAddresses,
				&endpointv3.Endpoint_AdditionalAddress{Address: again.Address})
		}
	}
	c.TransportSocket = in.dialing(p)
	http2 := http2Options()
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": pack(&httpv3.HttpProtocolOptions{
			CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idleTimeoutEgress)},
			UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
						Http2ProtocolOptions: http2,
					}}},
		})}
	c.CircuitBreakers = &clusterv3.CircuitBreakers{
		Thresholds: []*clusterv3.CircuitBreakers_Thresholds{limits(corev3.RoutingPriority_DEFAULT, maxPeerConnections)},
	}
	return c
}

// http2Options are those of both ends of a connection between edges.
func http2Options() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		MaxConcurrentStreams:        wrapperspb.UInt32(maxStreams),
		InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
		InitialConnectionWindowSize: wrapperspb.UInt32(connectionWindow),
		ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: durationpb.New(pingInterval),
			Timeout: durationpb.New(pingTimeout)},
	}
}

// limits returns the bounds of connections and tunnels to a cluster, which Envoy calls circuit breakers. There is a set
// for each priority.
func limits(priority corev3.RoutingPriority, connections uint32) *clusterv3.CircuitBreakers_Thresholds {
	return &clusterv3.CircuitBreakers_Thresholds{Priority: priority,
		MaxConnections: wrapperspb.UInt32(connections), MaxPendingRequests: wrapperspb.UInt32(maxTunnels),
		MaxRequests: wrapperspb.UInt32(maxTunnels),
		MaxRetries:  wrapperspb.UInt32(0)}
}

// newCluster returns a cluster of one address. If its host is a name, Envoy goes on asking DNS for it.
func newCluster(name, address string, names *dnsv3.DnsCluster, connect, userTimeout time.Duration) *clusterv3.Cluster {
	host, portText, _ := net.SplitHostPort(address) // check has seen that it is host:port
	port, _ := strconv.ParseUint(portText, 10, 16)
	c := &clusterv3.Cluster{
		Name:                          name,
		ConnectTimeout:                durationpb.New(connect),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(bufferBytes),
		UpstreamConnectionOptions:     &clusterv3.UpstreamConnectionOptions{TcpKeepalive: tcpKeepalive},
		UpstreamBindConfig:            &corev3.BindConfig{SocketOptions: socketOptions(userTimeout)},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{
				LbEndpoints: []*endpointv3.LbEndpoint{
					{
						HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
							Endpoint: &endpointv3.Endpoint{Address: socketAddress(host, uint32(port))},
						},
					},
				}}}},
	}
	if _, err := netip.ParseAddr(host); err == nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		return c
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{
		ClusterType: &clusterv3.Cluster_CustomClusterType{Name: "envoy.clusters.dns", TypedConfig: pack(names)},
	}
	return c
}

// partNames: a part has one address, or none for a while.
var partNames = &dnsv3.DnsCluster{
	DnsRefreshRate: durationpb.New(partRefresh), DnsJitter: durationpb.New(refreshJitter),
	DnsFailureRefreshRate: &dnsv3.DnsCluster_RefreshRate{BaseInterval: durationpb.New(time.Second),
		MaxInterval: durationpb.New(partRefresh)},
	DnsLookupFamily: commondnsv3.DnsLookupFamily_V4_PREFERRED,
}

// peerNames: all addresses of a peer lead to the same place. A connection tries one after the other, IPv4 and IPv6 in
// turns.
var peerNames = &dnsv3.DnsCluster{
	DnsRefreshRate: durationpb.New(peerRefresh), DnsJitter: durationpb.New(refreshJitter),
	DnsFailureRefreshRate: &dnsv3.DnsCluster_RefreshRate{BaseInterval: durationpb.New(time.Second),
		MaxInterval: durationpb.New(peerRefresh)},
	DnsLookupFamily:              commondnsv3.DnsLookupFamily_ALL,
	AllAddressesInSingleEndpoint: true,
}

func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{
		Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: host,
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}},
	}
}
