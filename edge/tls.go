package edge

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/causalstore/causalstore/contract"
)

// outerName is the TLS server name of connections from the edge of one data center to that of another. It names both,
// so that an ingress knows by which bundle to verify the client before it sees a certificate; whoever claims a wrong
// one fails at that bundle.
func (in Input) outerName(from, to string) string { return from + ".edge." + to + "." + in.StoreID }

// trustName is the name of the bundle of a peer, in Envoy and as a file.
func (p Peer) trustName() string { return "trust-" + p.DataCenter }

// trust returns the bundle of a peer. A change applies to new connections.
func (p Peer) trust() *tlsv3.Secret {
	return &tlsv3.Secret{Name: p.trustName(),
		Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: p.Bundle}}}}}
}

// certificate returns the certificate of the edge itself. A renewal applies to new connections.
func certificate() *tlsv3.Secret {
	file := func(name string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: CertificateDir + "/" + name}}
	}
	return &tlsv3.Secret{Name: certificateName,
		Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: file("0.crt"), PrivateKey: file("0.key"),
			WatchedDirectory: &corev3.WatchedDirectory{Path: CertificateDir}}}}
}

// signatureAlgorithms are those of the keys that certificates of parts have. With them a peer cannot use an RSA key, of
// which Envoy accepts 1024 bits.
var signatureAlgorithms = []string{"ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384"}

// edgesOf is how the identity of each edge of a peer begins: without a member, it ends with a slash.
func (in Input) edgesOf(p Peer) string {
	return contract.Identity{TrustDomain: p.TrustDomain, StoreID: in.StoreID, DataCenter: p.DataCenter,
		Role: contract.RoleEdge}.String()
}

// mutualTLS returns what both ends of a connection with a peer have in common: TLS 1.3, and a peer that has a
// certificate of its own trust domain's authorities for the edge of its data center. A certificate of another part,
// store, data center or trust domain is refused, whoever has issued it.
func (in Input) mutualTLS(p Peer) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			SignatureAlgorithms:       signatureAlgorithms},
		AlpnProtocols: []string{"h2"},
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: certificateName,
			SdsConfig: fromFile(certificateName + ".yaml")}},
		ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				// Authorities sign directly, so that a chain has one of them.
				DefaultValidationContext: &tlsv3.CertificateValidationContext{MaxVerifyDepth: wrapperspb.UInt32(1),
					MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
						SanType: tlsv3.SubjectAltNameMatcher_URI,
						// Any of the names may match: singleName looks at all of them.
						Matcher: &matcherv3.StringMatcher{
							MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: in.edgesOf(p)},
						}}}},
				ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: p.trustName(),
					SdsConfig: fromFile(p.trustName() + ".yaml")},
			}},
	}
}

// dialing returns the TLS of connections to the edge of a peer. Sessions are not resumed: each connection is verified.
func (in Input) dialing(p Peer) *corev3.TransportSocket {
	return transportSocket(&tlsv3.UpstreamTlsContext{CommonTlsContext: in.mutualTLS(p),
		Sni:            in.outerName(in.DataCenter, p.DataCenter),
		MaxSessionKeys: wrapperspb.UInt32(0)})
}

// accepting returns the TLS of connections from the edge of a peer.
func (in Input) accepting(p Peer) *corev3.TransportSocket {
	return transportSocket(&tlsv3.DownstreamTlsContext{CommonTlsContext: in.mutualTLS(p),
		RequireClientCertificate: wrapperspb.Bool(true),
		SessionTicketKeysType: &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{
			DisableStatelessSessionResumption: true,
		},
		DisableStatefulSessionResumption: true})
}

func transportSocket(m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(m)}}
}
