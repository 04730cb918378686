package edge

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// adminSocket is an abstract socket: only processes in the same network namespace can connect, and no file system is
// written. The admin interface can stop Envoy, so that no port leads to all of it.
const adminSocket = "@causalstore-edge-admin"

// bootstrap returns what Envoy starts with: where it finds the rest, its limits, and the HTTP port, which works
// whatever the rest says.
func (in Input) bootstrap() *bootstrapv3.Bootstrap {
	return &bootstrapv3.Bootstrap{
		Node:  &corev3.Node{Id: in.DataCenter, Cluster: in.StoreID},
		Admin: &bootstrapv3.Admin{Address: admin()},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{LdsConfig: fromFile(listenersFile),
			CdsConfig: fromFile(clustersFile)},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{httpListener()},
			Clusters: []*clusterv3.Cluster{{
				Name: "admin", ConnectTimeout: durationpb.New(connectTimeout),
				ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
				LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: "admin",
					Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
						HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
							Endpoint: &endpointv3.Endpoint{Address: admin()},
						}}}}}}}}},
		OverloadManager: overloadManager(),
		LayeredRuntime: &bootstrapv3.LayeredRuntime{
			Layers: []*bootstrapv3.RuntimeLayer{{Name: "limits",
				LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: connectionLimits()}}},
		},
		StatsConfig: &metricsv3.StatsConfig{StatsTags: statsTags()},
	}
}

func admin() *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: adminSocket}}}
}

// httpListener leads two paths to the admin interface. It works while an edge accepts nothing else, so that probes do
// not restart an edge that is merely busy.
func httpListener() *listenerv3.Listener {
	m := newManager("http")
	m.RequestTimeout = durationpb.New(headersTimeout)
	m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idleTimeoutEgress),
		MaxHeadersCount: wrapperspb.UInt32(maxHeaders)}
	host := &routev3.VirtualHost{Name: "admin", Domains: []string{"*"}}
	for _, path := range []string{"/ready", "/stats/prometheus"} {
		host.Routes = append(host.Routes, &routev3.Route{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: path},
				Headers: []*routev3.HeaderMatcher{{Name: ":method",
					HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
						StringMatch: &matcherv3.StringMatcher{
							MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "GET"},
						},
					}}}},
			Action: &routev3.Route_Route{
				Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "admin"}},
			}})
	}
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{Name: "admin",
		VirtualHosts: []*routev3.VirtualHost{host}}}
	return &listenerv3.Listener{Name: "http", StatPrefix: "http", Address: socketAddress("0.0.0.0", PortHTTP),
		IgnoreGlobalConnLimit: true, BypassOverloadManager: true,
		PerConnectionBufferLimitBytes: wrapperspb.UInt32(bufferBytes),
		FilterChains: []*listenerv3.FilterChain{
			{Filters: []*listenerv3.Filter{networkFilter("envoy.filters.network.http_connection_manager", m)}},
		}}
}

func networkFilter(name string, m proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(m)}}
}

// connectionLimits are those of each listener, in the form of Envoy's runtime.
func connectionLimits() *structpb.Struct {
	limit := func(n float64) *structpb.Value { return structpb.NewNumberValue(n) }
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"envoy.resource_limits.listener.ingress.connection_limit":      limit(maxIngressConnections),
		"envoy.resource_limits.listener.egress.connection_limit":       limit(maxEgressConnections),
		"envoy.resource_limits.listener.egress_parts.connection_limit": limit(maxEgressConnections),
		"envoy.resource_limits.listener.http.connection_limit":         limit(maxHTTPConnections),
	}}
}

// overloadManager keeps Envoy below HeapBytes and the sum of the connection limits.
func overloadManager() *overloadv3.OverloadManager {
	const heap = "envoy.resource_monitors.fixed_heap"
	const connections = "envoy.resource_monitors.global_downstream_max_connections"
	above := func(share float64) []*overloadv3.Trigger {
		return []*overloadv3.Trigger{
			{Name: heap,
				TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: share}}},
		}
	}
	return &overloadv3.OverloadManager{
		RefreshInterval: durationpb.New(overloadInterval),
		ResourceMonitors: []*overloadv3.ResourceMonitor{
			{Name: heap,
				ConfigType: &overloadv3.ResourceMonitor_TypedConfig{
					TypedConfig: pack(&heapv3.FixedHeapConfig{MaxHeapSizeBytes: HeapBytes}),
				}},
			{Name: connections,
				ConfigType: &overloadv3.ResourceMonitor_TypedConfig{
					TypedConfig: pack(&connectionsv3.DownstreamConnectionsConfig{
						MaxActiveDownstreamConnections: maxIngressConnections + 2*maxEgressConnections})}},
		},
		Actions: []*overloadv3.OverloadAction{
			{Name: "envoy.overload_actions.reset_high_memory_stream", Triggers: []*overloadv3.Trigger{{Name: heap,
				TriggerOneof: &overloadv3.Trigger_Scaled{Scaled: &overloadv3.ScaledTrigger{ScalingThreshold: 0.8,
					SaturationThreshold: 0.95}}}}},
			{Name: "envoy.overload_actions.shrink_heap", Triggers: above(0.9)},
			{Name: "envoy.overload_actions.stop_accepting_connections", Triggers: above(0.95)},
			{Name: "envoy.overload_actions.stop_accepting_requests", Triggers: above(0.95)},
		},
		// Streams that hold less than 2^20 bytes are not counted one by one.
		BufferFactoryConfig: &overloadv3.BufferFactoryConfig{MinimumAccountToTrackPowerOfTwo: 20},
	}
}

// statsTags add labels to the metrics of peers and parts; Envoy's own labels stay.
func statsTags() []*metricsv3.TagSpecifier {
	tag := func(name, regex string) *metricsv3.TagSpecifier {
		return &metricsv3.TagSpecifier{TagName: name, TagValue: &metricsv3.TagSpecifier_Regex{Regex: regex}}
	}
	return []*metricsv3.TagSpecifier{
		tag("peer", `^(?:cluster|http|tcp)\.(edge_([^_]+?)(?:_parts)?\.)`),
		tag("part", `^cluster\.(part_(.+?)\.)`),
	}
}
