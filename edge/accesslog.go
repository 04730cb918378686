package edge

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	processratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/process_ratelimit/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What is logged. What goes well is in the metrics.
var (
	// requestFailed: the ingress refused a tunnel, or could not connect to the part.
	requestFailed = &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{StatusCodeFilter: &accesslogv3.StatusCodeFilter{
			Comparison: &accesslogv3.ComparisonFilter{Op: accesslogv3.ComparisonFilter_GE,
				Value: &corev3.RuntimeUInt32{DefaultValue: 400, RuntimeKey: "causalstore.logged_status"}}}}}
	// tunnelFailed: the egress could not reach the peer, or the peer refused the tunnel.
	tunnelFailed = &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
			ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{
				Flags: []string{"UF", "UH", "UO", "NC", "URX"}}}}
	// connectionFailed: nobody has this server name, or the TLS handshake failed.
	connectionFailed = &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{
			OrFilter: &accesslogv3.OrFilter{Filters: []*accesslogv3.AccessLogFilter{
				{
					FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
						ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"NR"}},
					},
				},
				{
					FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
						ExtensionFilter: &accesslogv3.ExtensionFilter{
							Name: "envoy.access_loggers.extension_filters.cel",
							ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{
								TypedConfig: pack(
									&celv3.ExpressionFilter{Expression: `connection.transport_failure_reason != ""`}),
							}}}},
			}}}}
)

// logFields are the fields of a line, in JSON.
var logFields = map[string]any{
	"time":       "%START_TIME%",
	"from":       "%DOWNSTREAM_REMOTE_ADDRESS%",
	"identity":   "%DOWNSTREAM_PEER_URI_SAN%",
	"serverName": "%REQUESTED_SERVER_NAME%",
	"authority":  "%REQ(:AUTHORITY)%",
	"to":         "%UPSTREAM_HOST%",
	"status":     "%RESPONSE_CODE%",
	"flags":      "%RESPONSE_FLAGS_LONG%",
	"details":    "%RESPONSE_CODE_DETAILS%",
	"accepting":  "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%",
	"dialing":    "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
}

// logRateName is the bound on lines, in Envoy and as a file. It is one for all listeners: Envoy reads all bounds of a
// process from the source of the first that it meets.
const logRateName = "log-rate"

// logRate bounds lines. While a peer is away, every part that dials it again would write one, and strangers may dial
// the ingress.
func logRate() *discoveryv3.Resource {
	return &discoveryv3.Resource{Name: logRateName,
		Resource: pack(&typev3.TokenBucket{MaxTokens: logLines, TokensPerFill: wrapperspb.UInt32(logLines),
			FillInterval: durationpb.New(logInterval)})}
}

// rarely selects what a filter selects, within the bound.
func rarely(which *accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	within := &processratelimitv3.ProcessRateLimitFilter{
		DynamicConfig: &processratelimitv3.DynamicTokenBucket{ResourceName: logRateName,
			ConfigSource: fromFile(logRateName + ".yaml")},
	}
	return &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{
			AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{which,
				{
					FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
						ExtensionFilter: &accesslogv3.ExtensionFilter{
							Name:       "envoy.access_loggers.extension_filters.process_ratelimit",
							ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: pack(within)}}}}}}}}
}

// logFailures writes what a filter selects to the standard output, as lines of JSON.
func logFailures(which *accesslogv3.AccessLogFilter, listener string) []*accesslogv3.AccessLog {
	format, err := structpb.NewStruct(logFields)
	if err != nil {
		panic(err) // unreachable: all values are strings
	}
	format.Fields["listener"] = structpb.NewStringValue(listener)
	return []*accesslogv3.AccessLog{{Name: "envoy.access_loggers.stdout", Filter: which,
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(&streamv3.StdoutAccessLog{
			AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: &corev3.SubstitutionFormatString{
				OmitEmptyValues: true,
				Format:          &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: format}}}})}}}
}
