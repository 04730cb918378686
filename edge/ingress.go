package edge

import (
	"net"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/causalstore/causalstore/contract"
)

// ingress is the listener for the edges of peers. Each peer has its own filter chain, with its own bundle: the
// authorities of one cannot vouch for another, and if a peer is removed, its connections are closed and no others.
func (in Input) ingress() *listenerv3.Listener {
	l := newListener("ingress", PortIngress, PeerTimeout)
	for _, p := range in.Peers {
		l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{
			Name: p.DataCenter,
			FilterChainMatch: &listenerv3.FilterChainMatch{TransportProtocol: "tls",
				ServerNames: []string{in.outerName(p.DataCenter, in.DataCenter)}},
			TransportSocket: in.accepting(p), TransportSocketConnectTimeout: durationpb.New(handshakeTimeout),
			Filters: []*listenerv3.Filter{in.singleName(p),
				networkFilter("envoy.filters.network.http_connection_manager", ingressManager(p))},
		})
	}
	return l
}

// ingressManager reads CONNECT requests of a peer. Of their headers only dialersHeader is read, and they carry bytes.
func ingressManager(p Peer) *hcmv3.HttpConnectionManager {
	m := newManager(p.edgeName())
	m.CodecType = hcmv3.HttpConnectionManager_HTTP2
	m.Http2ProtocolOptions = http2Options()
	m.Http2ProtocolOptions.AllowConnect = true
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idleTimeoutIngress),
		MaxConnectionDuration:        durationpb.New(connectionAge),
		MaxHeadersCount:              wrapperspb.UInt32(maxHeaders),
		HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_REJECT_REQUEST}
	m.StreamIdleTimeout = durationpb.New(0) // none
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "parts",
		ConfigSource: fromFile(routesFile)}}
	m.AccessLog = logFailures(rarely(requestFailed), "ingress")
	return m
}

// newManager returns what the ingress and the HTTP port have in common.
func newManager(name string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		HttpFilters: []*hcmv3.HttpFilter{{Name: "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{
				TypedConfig: pack(&routerv3.Router{SuppressEnvoyHeaders: true}),
			}}},
		RequestHeadersTimeout:      durationpb.New(headersTimeout),
		MaxRequestHeadersKb:        wrapperspb.UInt32(headersKiB),
		UseRemoteAddress:           wrapperspb.Bool(true),
		SkipXffAppend:              true,
		GenerateRequestId:          wrapperspb.Bool(false),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH, // without a name of its own
	}
}

// dialersHeader, with the value dialersParts, says that a tunnel is for one of the store's own parts. It gives no
// rights: it chooses the bounds that the tunnel counts for.
const (
	dialersHeader = "causalstore-dialers"
	dialersParts  = "parts"
)

// routes leads CONNECT to the exact address of a part to that part. All else is not found. They are apart from the
// listener, so that connections outlive a change of parts.
func (in Input) routes() *routev3.RouteConfiguration {
	r := &routev3.RouteConfiguration{Name: "parts"}
	ofParts := &routev3.HeaderMatcher{Name: dialersHeader,
		HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: dialersParts}}}}
	for _, p := range in.Parts {
		r.VirtualHosts = append(r.VirtualHosts, &routev3.VirtualHost{Name: p.Name,
			Domains: []string{net.JoinHostPort(p.Name, strconv.Itoa(contract.DefaultPartsPort))},
			Routes: []*routev3.Route{p.route(corev3.RoutingPriority_HIGH, ofParts),
				p.route(corev3.RoutingPriority_DEFAULT)}})
	}
	return r
}

// route leads tunnels to a part. Priorities in Envoy order nothing: they have bounds of their own.
func (p Part) route(priority corev3.RoutingPriority, with ...*routev3.HeaderMatcher) *routev3.Route {
	return &routev3.Route{
		Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_ConnectMatcher_{ConnectMatcher: &routev3.RouteMatch_ConnectMatcher{}},
			Headers:       with,
		},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: p.Name},
			Priority:         priority,
			Timeout:          durationpb.New(0), // none
			UpgradeConfigs: []*routev3.RouteAction_UpgradeConfig{{UpgradeType: "CONNECT",
				ConnectConfig: &routev3.RouteAction_UpgradeConfig_ConnectConfig{}}},
		}},
	}
}

// partCluster is a part.
func partCluster(p Part) *clusterv3.Cluster {
	c := newCluster(p.Name, p.Address, partNames, connectTimeout, partTimeout)
	label, _, _ := strings.Cut(p.Name, ".")
	c.AltStatName = "part_" + label // with the tag "part", in its metrics
	c.CircuitBreakers = &clusterv3.CircuitBreakers{
		Thresholds: []*clusterv3.CircuitBreakers_Thresholds{limits(corev3.RoutingPriority_DEFAULT, maxTunnels),
			limits(corev3.RoutingPriority_HIGH, maxTunnels)}}
	return c
}

// newListener returns a listener that reads TLS server names.
func newListener(name string, port uint32, userTimeout time.Duration) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: name, StatPrefix: name, Address: socketAddress("0.0.0.0", port),
		ListenerFilters: []*listenerv3.ListenerFilter{{Name: "envoy.filters.listener.tls_inspector",
			ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pack(&tlsinspectorv3.TlsInspector{})}}},
		ListenerFiltersTimeout:        durationpb.New(handshakeTimeout),
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(bufferBytes),
		SocketOptions:                 socketOptions(userTimeout),
		TcpKeepalive:                  tcpKeepalive,
		// Connections are few and live long: without it, one worker may get most of them.
		ConnectionBalanceConfig: &listenerv3.Listener_ConnectionBalanceConfig{
			BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
				ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{}}},
		AccessLog: logFailures(rarely(connectionFailed), name),
	}
}
