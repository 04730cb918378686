package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

// good is a configuration that every part can use.
const good = `
dataCenter: eu
topology:
  epoch: 3
  dataCenters: [{name: us}, {name: eu, shards: 2, caches: 0}]
  rings: [{name: america, dataCenters: [us]}, {name: europe, dataCenters: [eu]}]
addresses:
  us: {coordinators: ["10.1.0.1:7400"], middlemen: ["10.1.0.2:7400"], caches: ["10.1.0.3:7400"]}
  eu: {coordinators: ["10.2.0.1:7401"], middlemen: ["10.2.0.2:7402", "10.2.0.3:7403"]}
storage: {engine: redis, redis: {address: "127.0.0.1:6380"}}
dataDir: /data
allowPlaintext: true
limits: {writeBufferBytes: 64Mi, cacheBytes: 1000, redis: {clients: 7, writeTimeout: 3s}}
session: {scope: connection, reads: snapshot, readTimeout: 250ms}
binding: static
`

func load(t *testing.T, text string, part topology.Part) (*Settings, error) {
	t.Helper()
	c, err := contract.ParseConfig([]byte(text))
	if err != nil {
		return nil, err
	}
	return check(*c, part)
}

func mustLoad(t *testing.T, text string, part topology.Part) *Settings {
	t.Helper()
	s, err := load(t, text, part)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAValidConfigurationIsAccepted(t *testing.T) {
	s := mustLoad(t, strings.Replace(good, "dataCenter: eu\n", "dataCenter: eu\nindex: 1\n", 1), topology.Middleman)
	if want := (topology.Node{DC: 1, Part: topology.Middleman, Index: 1, Member: 1}); s.Self != want {
		t.Errorf("self is %v, want %v", s.Self, want)
	}
	if s.Scope != node.ScopeConnection || s.Level != causal.Snapshot || s.Binding != causal.Static ||
		s.Topology.Epoch != 3 {
		t.Errorf("got %+v", s)
	}
	c := s.Config
	if c.Limits.WriteBufferBytes != 64<<20 || c.Limits.CacheBytes != 1000 || c.Limits.Redis.Clients != 7 ||
		time.Duration(c.Limits.Redis.WriteTimeout) != 3*time.Second ||
		time.Duration(c.Session.ReadTimeout) != 250*time.Millisecond {
		t.Errorf("limits: %+v, session: %+v", c.Limits, c.Session)
	}
	if c.Listen.GRPC != ":7403" || c.Listen.HTTP != ":7480" {
		t.Errorf("listens at %+v", c.Listen)
	}
	if addr, ok := newAddressBook(s.addresses).addressOf(topology.Node{DC: 0, Part: topology.Cache}); !ok ||
		addr != "10.1.0.3:7400" {
		t.Errorf("the cache of us is at %q, %v", addr, ok)
	}
	for _, part := range []topology.Part{topology.Sidecar, topology.Coordinator} {
		mustLoad(t, good, part)
	}
}

func TestNearCopiesAreTheDefaultWithScopeDataCenter(t *testing.T) {
	one := strings.Replace(good, "scope: connection, reads: snapshot", "scope: dataCenter", 1)
	for _, c := range []struct {
		text string
		want contract.Bytes
	}{
		{good, 0},
		{one, contract.DefaultNearBytes},
		{one + "cache: false\n", 0},
		{one + "nearCopies: {maxBytes: 0}\n", 0},
		{one + "nearCopies: {maxBytes: 64Ki}\n", 64 << 10},
		{good + "nearCopies: {maxBytes: 64Ki}\n", 64 << 10},
	} {
		if got := *mustLoad(t, c.text, topology.Sidecar).Config.NearCopies.MaxBytes; got != c.want {
			t.Errorf("%d bytes of near copies, want %d, with\n%s", got, c.want, c.text)
		}
	}
}

func TestAPartListensForOtherMachinesWithoutTLSOnlyIfTold(t *testing.T) {
	plain := strings.Replace(good, "allowPlaintext: true", "", 1)
	for own, listen := range map[string]string{"127.0.0.1:7402": "127.0.0.1:7402", "localhost:7402": "localhost:7402",
		"[::1]:7402": "[::1]:7402"} {
		set := mustLoad(t, strings.Replace(plain, "10.2.0.2:7402", own, 1), topology.Middleman)
		if got := set.Config.Listen.GRPC; got != listen {
			t.Errorf("with the own address %s it listens at %s, want %s", own, got, listen)
		}
	}
	mustLoad(t, plain, topology.Sidecar) // it listens for no parts
	mustLoad(t, strings.Replace(good, "allowPlaintext: true", "tls: {cert: a, key: b, trust: c}", 1),
		topology.Middleman)
	for _, text := range []string{plain, strings.Replace(plain, "dataDir: /data", "listen: {grpc: 0.0.0.0:7402}", 1)} {
		if _, err := load(t, text, topology.Middleman); err == nil || !strings.Contains(err.Error(), "allowPlaintext") {
			t.Errorf("it was accepted: %v", err)
		}
	}
}

func TestATokenKeyIsIgnoredWithTLS(t *testing.T) {
	text := strings.Replace(good, "binding: static", "tokenKeyFile: /nowhere/key", 1)
	if _, err := load(t, text, topology.Sidecar); err == nil {
		t.Error("without TLS a missing key is accepted")
	}
	s := mustLoad(t, strings.Replace(text, "allowPlaintext: true", "tls: {cert: a, key: b, trust: c}", 1),
		topology.Sidecar)
	if s.tokenKey != "" || !s.ignoresTokenKey {
		t.Errorf("settings %+v", s)
	}
	without := mustLoad(t, strings.Replace(strings.Replace(good, "binding: static", "", 1), "allowPlaintext: true",
		"tls: {cert: a, key: b, trust: c}", 1), topology.Sidecar)
	if c := compareSettings(s, without); len(c.restart) > 0 || c.refused != nil {
		t.Errorf("to remove it needs a restart: %+v", c)
	}
}

func TestEveryMistakeNamesItsFieldAndTheRemedy(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		part     topology.Part
		old, new string
		want     []string
	}{
		{topology.Sidecar, "dataCenter: eu", "data-center: eu", []string{"unknown field", "data-center"}},
		{topology.Sidecar, "dataCenter: eu", "dataCenter: eu\nemulateWAN: true",
			[]string{"unknown field", "emulateWAN"}},
		{topology.Sidecar, "dataCenter: eu", "dataCenter: eu\nnearCopies: {maxBytes: 1}",
			[]string{"nearCopies.maxBytes:", "at least 64Ki, or 0"}},
		{topology.Sidecar, "dataCenter: eu", "dataCenter: eu\ncache: false\nnearCopies: {maxBytes: 64Ki}",
			[]string{"nearCopies:", "set cache to true"}},
		{topology.Sidecar, "dataCenter: eu", "dataCenter: asia", []string{"dataCenter:", `"asia"`, "us, eu"}},
		{topology.Sidecar, "dataCenter: eu", "dataCenter: eu\ntopologyFile: t.yaml",
			[]string{"topologyFile:", "leave one of them out"}},
		{topology.Middleman, "dataCenter: eu", "dataCenter: eu\nindex: 2",
			[]string{"index: 2 given", "2 of eu middlemen", "0 to 1"}},
		{topology.Sidecar, "epoch: 3", "epoch: 3\n  roundTripMs: {us: {mars: 1}}", []string{"topology:", "mars"}},
		{topology.Sidecar, `"10.2.0.2:7402", `, "",
			[]string{"addresses.eu.middlemen: 1 given, but the topology has 2"}},
		{topology.Sidecar, "10.2.0.3:7403", "10.1.0.1:7400",
			[]string{"addresses.eu.middlemen[1]", "address of coordinator 0 of us"}},
		{topology.Sidecar, "10.2.0.3:7403", "10.2.0.3", []string{"addresses.eu.middlemen[1]", "host:port"}},
		{topology.Middleman, "allowPlaintext: true", "",
			[]string{"tls: missing", "listen.grpc :7402", "--allow-plaintext"}},
		{topology.Sidecar, "addresses:", "addresses:\n  mars: {}", []string{"addresses.mars", "us, eu"}},
		{topology.Sidecar, "binding: static", "binding: loose", []string{"binding:", "Dynamic or Static"}},
		{topology.Sidecar, "scope: connection", "scope: user", []string{"session.scope:", "Pod or Connection"}},
		{topology.Sidecar, "64Mi", "64MB", []string{"64MB", "256Mi"}},
		{topology.Sidecar, "readTimeout: 250ms", "readTimeout: 250", []string{"250", `"5s"`}},
		{topology.Sidecar, "binding: static", "tokenKeyFile: " + short,
			[]string{"tokenKeyFile:", "at least 16", "openssl"}},
		{topology.Sidecar, "binding: static", "tokenKeyFile: " + dir + "/none",
			[]string{"tokenKeyFile:", "no such file"}},
		{topology.Sidecar, "redis: {clients: 7,", "redis: {keyBytes: 65Ki, valueBytes: 17Mi,",
			[]string{"limits.redis.keyBytes: 66560", "64Ki",
				"limits.redis.valueBytes: 17825792", "16384Ki"}},
		{topology.Sidecar, "binding: static", "auth: {}", []string{"auth.usersFile: missing"}},
		{topology.Sidecar, "binding: static", "auth: {usersFile: " + short + "}",
			[]string{"auth.usersFile:", "line 1 is not: user NAME"}},
		{topology.Sidecar, "binding: static", "auth: {usersFile: " + dir + "/none}",
			[]string{"auth.usersFile:", "no such file"}},
		{topology.Sidecar, "binding: static", "listen: {redis: none}",
			[]string{"listen.redis: none", "nobody could connect"}},
		{topology.Sidecar, "binding: static", "listen: {redisTLS: \":6380\"}", []string{"redisTLS: give cert and key"}},
		{topology.Sidecar, "binding: static", "redisTLS: {cert: a, key: b}",
			[]string{"listen.redisTLS: missing", ":6380"}},
		{topology.Sidecar, "binding: static", "listen: {redis: 6379}", []string{"listen.redis", "host:port"}},
		{topology.Sidecar, "binding: static", "listen: {redis: \"6379\"}", []string{"listen.redis", "host:port"}},
		{topology.Sidecar, "binding: static", "tls: {cert: a}", []string{"tls:", "cert, key and trust"}},
		{topology.Sidecar, "binding: static", "log: {level: loud, format: xml}",
			[]string{"log.level", "log.format", "text or json"}},
		{topology.Coordinator, "dataDir: /data", "", []string{"dataDir:", "durable volume"}},
		{topology.Coordinator, "cacheBytes: 1000", "logBytes: 1Mi", []string{"limits.logBytes", "64Mi"}},
		{topology.Middleman, "cacheBytes: 1000", "replyBytes: 1Mi", []string{"limits.replyBytes", "32Mi"}},
		{topology.Coordinator, "caches: 0}", "caches: 0, coordinatorMembers: 3}",
			[]string{"register: missing", "each coordinator of eu 3 members", "register.etcd.endpoints"}},
		{topology.Middleman, "caches: 0}", "caches: 0, shardMembers: 2}",
			[]string{"register: missing", "each middleman of eu 2 members (shardMembers)",
				"addresses.eu.middlemen: 2 given, but the topology has 2 with 2 members each, 4 in all"}},
		{topology.Middleman, "engine: redis,", "engine: redis, replicated: true,",
			[]string{"register: missing, and storage.replicated makes this middleman a member"}},
		{topology.Middleman, "caches: 0}", "caches: 0, shardMembers: 4}",
			[]string{"topology: data center \"eu\": 4 members for each shard, before that 0; declare 1 to 3"}},
		{topology.Coordinator, "binding: static", "register: {}", []string{"register.etcd: missing"}},
		{topology.Coordinator, "binding: static", "register: {etcd: {}}", []string{"register.etcd.endpoints: 0 given"}},
		{topology.Coordinator, "binding: static",
			"register: {etcd: {endpoints: [\"https://a:2379\", b, \"c:1\", \"c:1\"]}}",
			[]string{"endpoints[0]", "is a URL", "endpoints[1]", "host:port", "endpoints[3]: c:1 is there twice"}},
		{topology.Coordinator, "binding: static", "register: {etcd: {endpoints: [\"a:1\"], prefix: /a}}",
			[]string{"register.etcd.prefix", "empty segment"}},
		{topology.Coordinator, "binding: static", "register: {etcd: {endpoints: [\"a:1\"], tls: {cert: x}}}",
			[]string{"register.etcd.tls: give ca", "role etcd"}},
		{topology.Coordinator, "binding: static", "register: {etcd: {endpoints: [\"a:1\"], usernameFile: x}}",
			[]string{"register.etcd.usernameFile: give both"}},
		{topology.Coordinator, "binding: static", "register: {etcd: {endpoints: [\"a:1\"], usernameFile: " + dir +
			"/none, passwordFile: " + short + "}}",
			[]string{"register.etcd.usernameFile", "no such file"}},
		{topology.Coordinator, "allowPlaintext: true", "register: {etcd: {endpoints: [\"a:1\"]}}",
			[]string{"register.etcd.tls: missing", "a:1 is another machine"}},
		{topology.Middleman, "engine: redis", "engine: mongo", []string{"storage.engine", "embedded or redis"}},
		{topology.Middleman, "engine: redis", "engine: embedded", []string{"storage.embedded.dir"}},
		{topology.Middleman, `address: "127.0.0.1:6380"`, "username: x", []string{"storage.redis.address", "socket"}},
		{topology.Middleman, `address: "127.0.0.1:6380"`, `address: "127.0.0.1:6380", password: x, passwordFile: y`,
			[]string{"storage.redis.passwordFile", "leave one of them out"}},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("case %d changes nothing", i)
		}
		_, err := load(t, text, c.part)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s instead of %q: want %q in: %v", c.new, c.old, want, err)
			}
		}
	}
}

func TestACoordinatorWithSeveralMembersStartsWithARegister(t *testing.T) {
	several := strings.NewReplacer("caches: 0}", "caches: 0, coordinatorMembers: 3}", `"10.2.0.1:7401"`,
		`"10.2.0.1:7401", "10.2.0.4:7401", "10.2.0.5:7401"`).Replace(good)
	for what, register := range map[string]string{
		"of this machine, without TLS": `register: {etcd: {endpoints: ["127.0.0.1:2379"]}}`,
		"with the certificates of parts": "tls: {cert: a, key: b, trust: c}\nregister: {etcd: {endpoints: " +
			"[\"etcd-0:2379\", \"etcd-1:2379\"]}}",
		"with its own certificates": `register: {etcd: {endpoints: ["etcd:2379"], prefix: a/b, tls: {ca: x}}}`,
	} {
		s, err := load(t, strings.Replace(strings.Replace(several, "allowPlaintext: true", "", 1), "binding: static",
			"listen: {grpc: \"127.0.0.1:7401\"}\n"+register, 1), topology.Coordinator)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if s.Config.Register.Etcd.Prefix == "" {
			t.Errorf("%s: there is no default for the prefix", what)
		}
	}
	mustLoad(t, several, topology.Middleman)
}

func TestAllMistakesAreReportedTogether(t *testing.T) {
	_, err := load(t, "dataCenter: x\nbinding: y\nlog: {level: z}", topology.Middleman)
	for _, want := range []string{"topology:", "binding:", "log.level:", "storage.engine:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
}

func TestUnusedFieldsAreNotRequired(t *testing.T) {
	text := strings.NewReplacer("dataDir: /data\n", "",
		`storage: {engine: redis, redis: {address: "127.0.0.1:6380"}}`+"\n", "").Replace(good)
	mustLoad(t, text, topology.Sidecar)
}

func TestErrorsNameTheFileAndFlagsOverrideIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Source{Path: path, Override: func(c *contract.Config) { c.DataCenter = "us" }}.Load(topology.Coordinator)
	if err != nil || s.Self.DC != 0 {
		t.Errorf("%v, %v", s, err)
	}
	_, err = Source{Path: path, Override: func(c *contract.Config) { c.Index = 9 }}.Load(topology.Coordinator)
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprint(9)) {
		t.Errorf("got %v", err)
	}
}
