package transport

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// testTopology has two data centers in one ring, and a third one in another ring.
func testTopology(t testing.TB) *topology.Topology {
	t.Helper()
	dcs := []topology.DataCenter{{Name: "a", Coordinators: 2, Shards: 1, Caches: 1},
		{Name: "b", Coordinators: 2, Shards: 1}, {Name: "c", Coordinators: 1, Shards: 1}}
	top, err := topology.New(1, dcs, []topology.Ring{{Name: "one", DCs: []topology.DC{0, 1}},
		{Name: "two", DCs: []topology.DC{2}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func newAuthority(t *testing.T, domain string) *authority.Authority {
	t.Helper()
	ca, err := authority.NewAuthority(domain, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// idOf returns the identity of a node of testTopology; every data center is in the trust domain "eu".
func idOf(n topology.Node) contract.Identity {
	member := fmt.Sprint(n.Index)
	if n.Part == topology.Sidecar {
		member = "shop"
	}
	return contract.Identity{TrustDomain: "eu", StoreID: "s", DataCenter: string(rune('a' + n.DC)),
		Role: contract.Role(n.Part.String()), Member: member}
}

// keys are the TLS files of one process.
type keys struct {
	contract.LinkTLS
	id contract.Identity
}

// newKeys makes the files for an identity: a certificate of ca, and a bundle of ca and more.
func newKeys(t *testing.T, id contract.Identity, ca *authority.Authority, trusted ...*authority.Authority) *keys {
	dir := t.TempDir()
	k := &keys{contract.LinkTLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"),
		Trust: filepath.Join(dir, "trust.yaml")}, id}
	k.renew(t, ca)
	k.trust(t, append(trusted, ca)...)
	return k
}

// write replaces a file atomically.
func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// renew replaces certificate and key by new ones of an authority.
func (k *keys) renew(t *testing.T, ca *authority.Authority) {
	t.Helper()
	k.issue(t, ca, time.Now().Add(-authority.Backdate), time.Hour)
}

func (k *keys) issue(t *testing.T, ca *authority.Authority, notBefore time.Time, validity time.Duration) {
	t.Helper()
	id := k.id
	id.TrustDomain = ca.TrustDomain()
	cert, key, err := ca.Issue(id, notBefore, validity)
	if err != nil {
		t.Fatal(err)
	}
	write(t, k.Cert, cert)
	write(t, k.Key, key)
}

// trust replaces the trust file: all data centers are in the trust domain of the last authority.
func (k *keys) trust(t *testing.T, authorities ...*authority.Authority) {
	t.Helper()
	domain := authorities[len(authorities)-1].TrustDomain()
	file := contract.Trust{StoreID: "s", DataCenters: map[string]string{"a": domain, "b": domain, "c": domain},
		Bundles: map[string]string{}}
	for _, ca := range authorities {
		file.Bundles[ca.TrustDomain()] += string(ca.CertificatePEM())
	}
	b, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, k.Trust, b)
}

func withTLS(k *keys) change {
	return func(c *Config, tm *timings) {
		c.TLS = &k.LinkTLS
		tm.keysInterval, tm.distrust, tm.hello = 5*time.Millisecond, patience, patience
	}
}

// authorized gives a process the topology, so that it authorizes messages.
func authorized(t testing.TB) change {
	top := testTopology(t)
	return func(c *Config, _ *timings) { c.Topology = func() *topology.Topology { return top } }
}

// startWith starts a process with one node and a certificate.
func startWith(t *testing.T, d *directory, n topology.Node, k *keys, changes ...change) *testProcess {
	t.Helper()
	return start(t, d, []topology.Node{n}, append([]change{authorized(t), withTLS(k)}, changes...)...)
}

// numbered is a message that a coordinator may send to a middleman.
func numbered(from, to topology.Node, seq uint64) causal.Message {
	return causal.LaneSync{Away: seq}.Message(from, to)
}

// answer is a message that a middleman may send to a coordinator.
func answer(from, to topology.Node, seq uint64) causal.Message {
	return causal.PastReply{Away: seq}.Message(from, to)
}

func violationCount(p *testProcess, v Violation) uint64 { return p.Stats().Violations[v] }

func TestOnlyTrustedCertificatesAreAccepted(t *testing.T) {
	ca, stranger := newAuthority(t, "eu"), newAuthority(t, "eu")
	d := newDirectory()
	b := startWith(t, d, middlemanB, newKeys(t, idOf(middlemanB), ca))
	late, early := newKeys(t, idOf(coordinatorA), ca), newKeys(t, idOf(coordinatorA), ca)
	late.issue(t, ca, time.Now().Add(-2*time.Minute), time.Minute)
	early.issue(t, ca, time.Now().Add(time.Minute), time.Minute)
	for name, changes := range map[string][]change{
		"plain TCP":                       {authorized(t)},
		"a stranger's certificate":        {authorized(t), withTLS(newKeys(t, idOf(coordinatorA), stranger, ca))},
		"a client that does not trust us": {authorized(t), withTLS(newKeys(t, idOf(coordinatorA), stranger))},
		"an expired certificate":          {authorized(t), withTLS(late)},
		"one that is not valid yet":       {authorized(t), withTLS(early)},
	} {
		a := start(t, d, []topology.Node{coordinatorA}, changes...)
		a.Open(middlemanB)
		waitFor(t, name+" to be refused", func() bool {
			s := a.Stats()
			return s.Failed > 1 && s.Opened == 0
		})
		a.Close()
	}
	if n := violationCount(b, ViolationCertificate); n < 3 {
		t.Errorf("%d certificates were refused", n)
	}
	if n := strings.Count(b.log.String(), "link refused"); n != 1 {
		t.Errorf("the refusals of one peer were logged %d times:\n%s", n, b.log)
	}
	a := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	awaitServing(t, a, middlemanB)
	a.Send(numbered(coordinatorA, middlemanB, 2))
	b.wait(t, 1)
	same(t, "handled", b.seqs(), []uint64{2})
	if s := b.Stats(); s.Opened != 1 {
		t.Errorf("%d links were opened", s.Opened)
	}
}

func TestAProcessDoesNotStartWithTheCertificateOfAnother(t *testing.T) {
	ca := newAuthority(t, "eu")
	for name, id := range map[string]contract.Identity{
		"role": idOf(sidecarA), "index": idOf(topology.Node{Part: topology.Coordinator, Index: 1}),
		"data center": idOf(topology.Node{Part: topology.Coordinator, DC: 1}),
	} {
		k := newKeys(t, id, ca)
		c := Config{Process: "p", Nodes: []topology.Node{coordinatorA}, Handler: newRecorder().handle,
			Resolve: newDirectory().resolve, TLS: &k.LinkTLS}
		authorized(t)(&c, nil)
		if g, err := newGRPC(c, quick()); err == nil {
			g.Close()
			t.Errorf("it starts with another %s", name)
		}
	}
}

func TestTheDialerTalksOnlyToTheNodeThatItWants(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	b := startWith(t, d, middlemanB, newKeys(t, idOf(middlemanB), ca))
	d.set("", middlemanB.WithMember(1))
	d.set(b.addr, middlemanA.WithMember(1)) // as an attacker would who answers at the address of another part
	a := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a.Open(middlemanA)
	waitFor(t, "the link to be refused", func() bool {
		s := a.Stats()
		return s.Failed > 1 && len(s.Links) == 1 && strings.Contains(s.Links[0].LastError, "which is not its address")
	})
}

func TestMismatchedFilesLeaveThePreviousKeysInUse(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	ka, kb := newKeys(t, idOf(coordinatorA), ca), newKeys(t, idOf(middlemanB), ca)
	a := startWith(t, d, coordinatorA, ka)
	b := startWith(t, d, middlemanB, kb)
	good, err := os.ReadFile(kb.Key)
	if err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(){
		func() { write(t, kb.Key, []byte("half a key")) },
		func() { write(t, kb.Key, good); write(t, kb.Trust, nil) },
		func() { _ = os.Remove(kb.Cert) },
	} {
		spoil()
		awaitServing(t, a, middlemanB)
		a.Send(numbered(coordinatorA, middlemanB, uint64(i)))
		b.wait(t, i+1)
		waitFor(t, "the invalid files to be reported", func() bool {
			return strings.Count(b.log.String(), "keeping the previous ones") > i
		})
		a.Close()
		a = startWith(t, d, coordinatorA, ka)
	}
}
