package transport

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/causalstore/causalstore/sidecar/transport/wire"
)

// The windows allow one stream to use 40 MB/s over a round trip of 200 ms.
const (
	streamWindow = 8 << 20
	connWindow   = 16 << 20
	ioBuffer     = 64 << 10
	tlsRecord    = 16 << 10
	// maxHeaderBytes bounds the headers of a request, and of an answer with its error. gRPC keeps them as long as the
	// stream, at several times what a list of short ones counts for, and accepts 16 MiB by itself.
	maxHeaderBytes = 16 << 10
)

// dialOptions returns the options for one connection. accept is called with the verified identity of the peer, if there
// is TLS; then early says not to wait for the HTTP/2 SETTINGS of the peer.
func (g *GRPC) dialOptions(addr string, try *attempt, early bool, accept func(*peerIdentity) error) []grpc.DialOption {
	creds := insecure.NewCredentials()
	if g.keys != nil {
		creds = notingCredentials{g.clientCredentials(addr, accept), try}
		if early {
			creds = earlyCredentials{creds}
		}
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxFrame),
			grpc.MaxCallSendMsgSize(maxFrame)),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: g.timing.keepalive,
			Timeout: g.timing.keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer), grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithNoProxy(),      // HTTP proxies of the environment are not meant for these connections
		grpc.WithDisableRetry(), // the protocol retransmits; gRPC would retain every frame for a retry
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
	}
}

// serviceDesc describes the service of wire.proto, as generated code would.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: wire.Service,
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Stream", ClientStreams: true, ServerStreams: true,
		Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*GRPC).serveStream(stream) },
	}},
	Metadata: "wire.proto",
}

func newServer(g *GRPC) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}),
		grpc.MaxRecvMsgSize(maxFrame), grpc.MaxSendMsgSize(maxFrame), grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: g.timing.keepalive, Timeout: g.timing.keepaliveTimeout,
			MaxConnectionIdle: g.timing.unused}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: g.timing.keepalive / 2,
			PermitWithoutStream: true}),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
		// TLS returns 16 KiB at a time at most. Idle connections have no buffer for writing.
		grpc.ReadBufferSize(tlsRecord), grpc.WriteBufferSize(ioBuffer),
		grpc.ConnectionTimeout(g.timing.hello),
		grpc.MaxConcurrentStreams(1), // a dialer makes a connection for each
	}
	if g.keys != nil {
		options = append(options, grpc.Creds(admittingCredentials{g.serverCredentials(), g.admission}))
	}
	s := grpc.NewServer(options...)
	s.RegisterService(&serviceDesc, g)
	return s
}
