package edge

import (
	"regexp"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	rbacfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	sslv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"
	"google.golang.org/protobuf/proto"
)

// singleName closes a connection of a peer, before anything that it sends is read, unless the certificate has one URI,
// that of an edge of this peer, and no DNS name. Envoy's validation of certificates is content if any of several names
// matches. The dialing edge cannot count the names of an ingress: Envoy has no such filter for connections that it
// opens. There the names are those that the authority of the peer has signed, and only tunnels are at stake, in which
// parts look at the names of each other.
func (in Input) singleName(p Peer) *listenerv3.Filter {
	allow, deny := action("allow", rbacv3.RBAC_ALLOW), action("deny", rbacv3.RBAC_DENY)
	oneName := &xdsmatcherv3.Matcher_MatcherList_FieldMatcher{
		Predicate: and(
			// Several URIs arrive with commas between them.
			input("uri_san", &sslv3.UriSanInput{}, regexp.QuoteMeta(in.edgesOf(p))+"[^/,]+"),
			not(input("dns_san", &sslv3.DnsSanInput{}, ".+"))),
		OnMatch: allow,
	}
	list := &xdsmatcherv3.Matcher_MatcherList{Matchers: []*xdsmatcherv3.Matcher_MatcherList_FieldMatcher{oneName}}
	return networkFilter("envoy.filters.network.rbac", &rbacfilterv3.RBAC{StatPrefix: p.edgeName(),
		Matcher: &xdsmatcherv3.Matcher{MatcherType: &xdsmatcherv3.Matcher_MatcherList_{MatcherList: list},
			OnNoMatch: deny}})
}

type predicate = xdsmatcherv3.Matcher_MatcherList_Predicate

func and(all ...*predicate) *predicate {
	return &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_AndMatcher{
		AndMatcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: all}}}
}

func not(p *predicate) *predicate {
	return &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: p}}
}

// input matches all of what a certificate has of some kind of name.
func input(name string, of proto.Message, regex string) *predicate {
	re2 := &xdsmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &xdsmatcherv3.RegexMatcher_GoogleRE2{}}
	whole := &xdsmatcherv3.StringMatcher_SafeRegex{SafeRegex: &xdsmatcherv3.RegexMatcher{EngineType: re2, Regex: regex}}
	single := &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input: &xdscorev3.TypedExtensionConfig{Name: "envoy.matching.inputs." + name, TypedConfig: pack(of)},
		Matcher: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{
			ValueMatch: &xdsmatcherv3.StringMatcher{MatchPattern: whole}},
	}
	return &predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: single}}
}

func action(name string, of rbacv3.RBAC_Action) *xdsmatcherv3.Matcher_OnMatch {
	config := &xdscorev3.TypedExtensionConfig{Name: "action", TypedConfig: pack(&rbacv3.Action{Name: name, Action: of})}
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: config}}
}
