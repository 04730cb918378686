package process

import (
	"fmt"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// behindEdges is good, with us in another region.
var behindEdges = strings.NewReplacer(
	`us: {coordinators: ["10.1.0.1:7400"], middlemen: ["10.1.0.2:7400"], caches: ["10.1.0.3:7400"]}`,
	`us: {coordinators: ["coordinator-0.us.1:7400"], middlemen: ["middleman-0.us.1:7400"], caches: ["cache-0.us.1:7400"], via: "edge.shop.svc:7500"}`,
	"allowPlaintext: true", "tls: {cert: c, key: k, trust: t}").Replace(good)

func TestPartsOfAnotherRegionAreDialedThroughItsEgress(t *testing.T) {
	old := mustLoad(t, behindEdges, topology.Coordinator)
	book := newAddressBook(old.addresses)
	for addr, via := range map[string]string{"cache-0.us.1:7400": "edge.shop.svc:7500", "10.2.0.1:7401": "",
		"elsewhere:1": ""} {
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
	book.replace(mustLoad(t, strings.NewReplacer("{name: us}", "{name: us, caches: 0}",
		`, caches: ["cache-0.us.1:7400"]`, "").Replace(behindEdges), topology.Coordinator).addresses)
	if book.viaOf("cache-0.us.1:7400") == "" {
		t.Error("it is forgotten")
	}
}

func TestAnEgressThatCannotWorkIsRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"tls: {cert: c, key: k, trust: t}", "allowPlaintext: true",
			"addresses.us.via: given without tls: an egress finds a part by its TLS server name"},
		{"edge.shop.svc:7500", "edge.shop.svc", `addresses.us.via: "edge.shop.svc" is not host:port`},
		{"edge.shop.svc:7500", ":7500", `addresses.us.via: ":7500" is not host:port`},
		{"cache-0.us.1:7400", "10.1.0.3:7400", "addresses.us.via: the address 10.1.0.3:7400 has no name"},
		{"eu: {coordinators", "eu: {via: \"edge.shop.svc:7500\", coordinators",
			"addresses.eu.via: eu is the data center of this process"},
	} {
		text := strings.Replace(behindEdges, c.old, c.new, 1)
		if _, err := load(t, text, topology.Coordinator); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in %v", c.new, c.want, err)
		}
	}
}

// threeMembers is good, with coordinators in us that have three members each.
var threeMembers = strings.NewReplacer("{name: us}", "{name: us, coordinators: 2, coordinatorMembers: 3}",
	`coordinators: ["10.1.0.1:7400"]`,
	`coordinators: ["10.1.1.1:1", "10.1.1.2:1", "10.1.1.3:1", "10.1.2.1:1", "10.1.2.2:1", "10.1.2.3:1"]`,
	"dataDir: /data", `dataDir: /data
register: {etcd: {endpoints: ["127.0.0.1:2379"]}}`).Replace(good)

func TestEachMemberOfACoordinatorHasAnAddress(t *testing.T) {
	s := mustLoad(t, strings.Replace(threeMembers, "dataCenter: eu\n", "dataCenter: us\nindex: 1\nmember: 3\n", 1),
		topology.Coordinator)
	if want := (topology.Node{Part: topology.Coordinator, Index: 1, Member: 3}); s.Self != want ||
		s.Config.Listen.GRPC != ":1" {
		t.Errorf("self is %v, want %v; listens at %s", s.Self, want, s.Config.Listen.GRPC)
	}
	book := newAddressBook(s.addresses)
	for index := range uint64(2) {
		for member := range uint8(4) {
			addr, ok := book.addressOf(topology.Node{Part: topology.Coordinator, Index: index, Member: member})
			if want := fmt.Sprintf("10.1.%d.%d:1", index+1, member); ok != (member > 0) || ok && addr != want {
				t.Errorf("member %d of coordinator %d is at %q, %v", member, index, addr, ok)
			}
		}
	}
	if first := mustLoad(t, strings.Replace(threeMembers, "dataCenter: eu\n", "dataCenter: us\n", 1),
		topology.Coordinator).Self; first.Member != 1 {
		t.Errorf("without member: %v", first)
	}
	if other := mustLoad(t, strings.Replace(good, "dataCenter: eu\n", "dataCenter: eu\nmember: 3\n", 1),
		topology.Sidecar).Self; other.Member != 0 {
		t.Errorf("a part without a group uses the field: %v", other)
	}
}

// twoShardMembers is good, with shards in eu that have two members each.
var twoShardMembers = strings.NewReplacer("caches: 0}", "caches: 0, shardMembers: 2}", "dataDir: /data", `dataDir: /data
register: {etcd: {endpoints: ["127.0.0.1:2379"]}}`).Replace(good)

func TestEachMemberOfAShardHasAnAddress(t *testing.T) {
	parsed, err := contract.ParseConfig([]byte(twoShardMembers))
	if err != nil {
		t.Fatal(err)
	}
	c := *parsed
	eu := c.Addresses["eu"]
	eu.Middlemen = []string{"10.3.1.1:1", "10.3.1.2:1", "10.3.2.1:1", "10.3.2.2:1"}
	c.Addresses["eu"], c.Index, c.Member = eu, 1, 2
	s, err := check(c, topology.Middleman)
	if err != nil {
		t.Fatal(err)
	}
	want := topology.Node{DC: 1, Part: topology.Middleman, Index: 1, Member: 2}
	if addr, _ := newAddressBook(s.addresses).addressOf(want); s.Self != want || addr != "10.3.2.2:1" {
		t.Errorf("self is %v, at %s", s.Self, addr)
	}
	c.DataDir = ""
	if _, err := check(c, topology.Middleman); err == nil || !strings.Contains(err.Error(), "dataDir: missing") ||
		!strings.Contains(err.Error(), "(shardMembers)") {
		t.Errorf("without dataDir: %v", err)
	}
	c.DataDir, c.Storage = "/data/./x", contract.Storage{Engine: contract.EngineEmbedded,
		Embedded: contract.EmbeddedStorage{Dir: "/data/x"}}
	if _, err := check(c, topology.Middleman); err == nil ||
		!strings.Contains(err.Error(), "is storage.embedded.dir as well") {
		t.Errorf("with one folder for log and storage: %v", err)
	}
	for _, dirs := range [][2]string{{"/data", "/data/x/storage"}, {"/data/x/log/", "/data/x"}, {"a/log", "a/."}} {
		c.DataDir, c.Storage.Embedded.Dir = dirs[0], dirs[1]
		for _, part := range []topology.Part{topology.Middleman, topology.Coordinator} {
			if part == topology.Coordinator {
				c.Index, c.Member = 0, 0
			} else {
				c.Index, c.Member = 1, 2
			}
			if _, err := check(c, part); err == nil || !strings.Contains(err.Error(), "one inside the other") {
				t.Errorf("%v of a %s: %v", dirs, part, err)
			}
		}
	}
	c.Index, c.Member, c.DataDir, c.Storage.Embedded.Dir = 1, 2, "/data/x", "/data/x2"
	if _, err := check(c, topology.Middleman); err != nil {
		t.Errorf("with folders beside each other: %v", err)
	}
}

func TestMembersThatCannotBeAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"dataCenter: eu\n", "dataCenter: us\nmember: 4\n",
			"member: 4 given, but a coordinator of us has 3; give 1 to 3, or change coordinatorMembers"},
		{"dataCenter: eu\n", "dataCenter: us\nmember: -1\n", "member: -1 given"},
		{"dataCenter: eu\n", "dataCenter: eu\nmember: 2\n",
			"member: 2 given, but a coordinator of eu has 1; give 1 to 1"},
		{`, "10.1.2.3:1"`, "",
			"addresses.us.coordinators: 5 given, but the topology has 2 with 3 members each, 6 in all"},
		{"10.1.2.3:1", "10.1.1.2:1",
			"addresses.us.coordinators[5]: 10.1.1.2:1 is the address of coordinator 0, member 2, of us as well"},
	} {
		if _, err := load(t, strings.Replace(threeMembers, c.old, c.new, 1), topology.Coordinator); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q in %v", c.new, c.want, err)
		}
	}
}

// The operator gives all parts one file, and only coordinators the secrets of the register.
func TestAMiddlemanAloneDoesNotLookAtTheRegister(t *testing.T) {
	s := mustLoad(t, strings.Replace(good, "dataDir: /data",
		"dataDir: /data\nregister: {etcd: {endpoints: [\"127.0.0.1:2379\"], usernameFile: /absent, passwordFile: "+
			"/absent}}", 1),
		topology.Middleman)
	if s.Config.Register != nil || s.unusedRegister == nil {
		t.Errorf("it has the register %v, and in reserve %v", s.Config.Register, s.unusedRegister)
	}
}
