package process

import (
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// behindEdges is good, with us in another region.
var behindEdges = strings.NewReplacer(`us: {coordinators: ["10.1.0.1:7400"], middlemen: ["10.1.0.2:7400"], caches: ["10.1.0.3:7400"]}`,
	`us: {coordinators: ["coordinator-0.us.1:7400"], middlemen: ["middleman-0.us.1:7400"], caches: ["cache-0.us.1:7400"], via: "edge.shop.svc:7500"}`,
	"allowPlaintext: true", "tls: {cert: c, key: k, trust: t}").Replace(good)

func TestPartsOfAnotherRegionAreDialedThroughItsEgress(t *testing.T) {
	old := mustLoad(t, behindEdges, topology.Coordinator)
	book := newAddressBook(old.addresses)
	for addr, via := range map[string]string{"cache-0.us.1:7400": "edge.shop.svc:7500", "10.2.0.1:7401": "", "elsewhere:1": ""} {
		if got := book.viaOf(addr); got != via {
			t.Errorf("%s is dialed via %q, want %q", addr, got, via)
		}
	}
	for text, via := range map[string]string{
		strings.Replace(behindEdges, "edge.shop", "edge2.shop", 1):         "edge2.shop.svc:7500",
		strings.Replace(behindEdges, `, via: "edge.shop.svc:7500"`, "", 1): "",
	} {
		next := mustLoad(t, text, topology.Coordinator)
		if c := compareSettings(old, next); !c.addresses || c.refused != nil || len(c.restart) > 0 {
			t.Errorf("a change of via to %q: %+v", via, c)
		}
		book.replace(next.addresses)
		if got := book.viaOf("cache-0.us.1:7400"); got != via {
			t.Errorf("after the change it is dialed via %q, want %q", got, via)
		}
	}
}

func TestAnAddressThatIsRemovedKeepsItsEgressWhileALinkIsOpen(t *testing.T) {
	book := newAddressBook(mustLoad(t, behindEdges, topology.Coordinator).addresses)
	book.replace(mustLoad(t, strings.NewReplacer("{name: us}", "{name: us, caches: 0}", `, caches: ["cache-0.us.1:7400"]`, "").Replace(behindEdges), topology.Coordinator).addresses)
	if _, ok := book.nodeAt("cache-0.us.1:7400"); !ok || book.viaOf("cache-0.us.1:7400") == "" {
		t.Error("it is forgotten")
	}
}

func TestAnEgressThatCannotWorkIsRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"tls: {cert: c, key: k, trust: t}", "allowPlaintext: true", "addresses.us.via: given without tls: an egress finds a part by its TLS server name"},
		{"edge.shop.svc:7500", "edge.shop.svc", `addresses.us.via: "edge.shop.svc" is not host:port`},
		{"edge.shop.svc:7500", ":7500", `addresses.us.via: ":7500" is not host:port`},
		{"cache-0.us.1:7400", "10.1.0.3:7400", "addresses.us.via: the address 10.1.0.3:7400 has no name"},
		{"eu: {coordinators", "eu: {via: \"edge.shop.svc:7500\", coordinators", "addresses.eu.via: eu is the data centre of this process"},
	} {
		text := strings.Replace(behindEdges, c.old, c.new, 1)
		if _, err := load(t, text, topology.Coordinator); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in %v", c.new, c.want, err)
		}
	}
}
