package signature

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/credentials"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/topology"
)

const (
	store = "7d1e"
	eu    = topology.DC(0)
	us    = topology.DC(1)
)

// start is the time at which a deployment begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// deployment has data centers eu and us, each in a trust domain and a ring of its own.
type deployment struct {
	t           testing.TB
	topo        *topology.Topology
	authorities map[string]*authority.Authority // by trust domain
	trusted     map[string]*authority.Authority
}

func newDeployment(t testing.TB) *deployment {
	t.Helper()
	d := &deployment{t: t, topo: twoDataCenters(t, "eu", "us"), authorities: map[string]*authority.Authority{},
		trusted: map[string]*authority.Authority{}}
	for _, domain := range []string{"eu.test", "us.test"} {
		d.authorities[domain] = credentials.NewAuthority(t, domain, start)
		d.trusted[domain] = d.authorities[domain]
	}
	return d
}

func twoDataCenters(t testing.TB, names ...string) *topology.Topology {
	t.Helper()
	var dcs []topology.DataCenter
	var rings []topology.Ring
	for i, name := range names {
		dcs = append(dcs, topology.DataCenter{Name: name, Coordinators: 2, Shards: 1})
		rings = append(rings, topology.Ring{Name: "ring of " + name, DCs: []topology.DC{topology.DC(i)}})
	}
	topo, err := topology.New(1, dcs, rings, nil)
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

func (d *deployment) trust() *identity.Trust {
	d.t.Helper()
	return credentials.Trust(d.t, store, map[string]string{"eu": "eu.test", "us": "us.test"}, d.trusted)
}

func leaderOf(dc string) contract.Identity {
	return contract.Identity{TrustDomain: dc + ".test", StoreID: store, DataCenter: dc, Role: contract.RoleCoordinator,
		Member: "0"}
}

// process is one that signs and verifies.
type process struct {
	*Vectors
	cert  *tls.Certificate
	trust *identity.Trust
	topo  *topology.Topology
	now   time.Time
	log   bytes.Buffer
}

func (d *deployment) process(id contract.Identity) *process {
	d.t.Helper()
	p := &process{cert: d.issue(d.authorities[id.TrustDomain], id), trust: d.trust(), topo: d.topo, now: start}
	p.Vectors = NewVectors(func() (*tls.Certificate, *identity.Trust) {
		return p.cert, p.trust
	}, func() *topology.Topology { return p.topo },
		func() time.Time { return p.now }, slog.New(slog.NewTextHandler(&p.log, nil)))
	return p
}

func (d *deployment) issue(by *authority.Authority, id contract.Identity) *tls.Certificate {
	d.t.Helper()
	return credentials.Issue(d.t, by, id, start.Add(-authority.Backdate), 7*24*time.Hour)
}

var ofUS = causal.SignedVectors{DC: us, Entries: []causal.VectorEntry{{Origin: 17, SV: 5, RV: []causal.HLC{5, 9}},
	{Origin: 18, Last: 32, SV: 8}}}

func (p *process) mustSign(t testing.TB, statement []byte) []byte {
	t.Helper()
	seal, err := p.Sign(statement)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

func TestSignedVectorsAreThoseOfTheFirstCoordinatorOfTheirDataCenter(t *testing.T) {
	d := newDeployment(t)
	at, statement := d.process(leaderOf("eu")), ofUS.Statement()
	signed := d.process(leaderOf("us")).mustSign(t, statement)
	t.Logf("the seal has %d bytes", len(signed))
	refused := uint64(0)
	check := func(what string, statement, seal []byte, why string) {
		t.Helper()
		err := at.Verify(us, statement, seal, topology.Node{Part: topology.Coordinator, DC: 2})
		switch {
		case why == "" && err != nil:
			t.Errorf("%s: %v", what, err)
		case why != "" && (err == nil || !strings.Contains(err.Error(), why)):
			t.Errorf("%s: %v; want an error with %q", what, err, why)
		}
		if err != nil {
			refused++
		}
		if n := at.Refused(us); n != refused {
			t.Errorf("%s: %d are counted; want %d", what, n, refused)
		}
	}
	check("as signed", statement, signed, "")
	check("the same again", statement, signed, "")

	// By somebody else, also of the same region.
	check("not signed", statement, nil, "not signed")
	check("by the receiver", statement, at.mustSign(t, statement), "is not the first coordinator of data center us")
	second, sidecar, store := leaderOf("us"), leaderOf("us"), leaderOf("us")
	second.Member, sidecar.Role, store.StoreID = "1", contract.RoleSidecar, "other"
	check("by the second coordinator", statement, d.process(second).mustSign(t, statement),
		"is not the first coordinator")
	check("by a sidecar", statement, d.process(sidecar).mustSign(t, statement), "is not the first coordinator")
	check("by another store", statement, d.process(store).mustSign(t, statement), "another store")
	stranger := d.process(leaderOf("us"))
	stranger.cert = d.issue(credentials.NewAuthority(t, "us.test", start), leaderOf("us"))
	check("by an authority of the same name", statement, stranger.mustSign(t, statement), "unknown authority")
	posing := leaderOf("us") // the authority of eu makes a leader of us
	posing.TrustDomain = "eu.test"
	check("by the authority of another region", statement, d.process(posing).mustSign(t, statement),
		"whose trust domain is us.test")

	// Something else than was signed.
	more := ofUS
	more.Entries = []causal.VectorEntry{{Origin: 17, SV: 6, RV: []causal.HLC{5, 9}}, ofUS.Entries[1]}
	check("more", more.Statement(), signed, "signature is wrong")
	ofEU := ofUS
	ofEU.DC = eu
	if at.Verify(eu, ofEU.Statement(), signed, topology.Node{}) == nil {
		t.Error("vectors of us are those of eu")
	}
	at.topo = twoDataCenters(t, "eu", "us", "ap")
	check("in another manifest", statement, signed, "signature is wrong")
	at.topo = d.topo
	if n := strings.Count(at.log.String(), "vectors refused"); n != 2 { // once of each data center in this minute
		t.Errorf("the refusals are logged %d times: %s", n, at.log.String())
	}

	// A new certificate, and one that has expired.
	renewed := d.process(leaderOf("us"))
	check("with a new certificate", statement, renewed.mustSign(t, statement), "")
	at.now = start.Add(8 * 24 * time.Hour)
	check("after the certificate has expired", statement, signed, "expired")
	at.now = start

	// A region that is not trusted any more, though the same was verified before.
	delete(d.trusted, "us.test")
	at.trust = d.trust()
	check("of a region that is not trusted any more", statement, signed, "no bundle")
}

func TestASealThatIsMalformedIsRefused(t *testing.T) {
	d := newDeployment(t)
	at, statement := d.process(leaderOf("eu")), ofUS.Statement()
	signed := d.process(leaderOf("us")).mustSign(t, statement)
	for i := range signed {
		if at.Verify(us, statement, signed[:i], topology.Node{}) == nil {
			t.Fatalf("the first %d bytes are accepted", i)
		}
	}
	if at.Verify(us, statement, append(signed, 0), topology.Node{}) == nil {
		t.Error("a byte more is accepted")
	}
	chain := make([][]byte, maxChain+1)
	if _, err := seal(chain, func() ([]byte, error) { return nil, nil }); err == nil {
		t.Error("a chain that is too long is sent")
	}
}

func FuzzSealsOfStrangers(f *testing.F) {
	d := newDeployment(f)
	at, statement := d.process(leaderOf("eu")), ofUS.Statement()
	signed := d.process(leaderOf("us")).mustSign(f, statement)
	f.Add(statement, signed)
	f.Add(statement, signed[:len(signed)/2])
	f.Add([]byte{}, []byte{4, 1, 1})
	f.Fuzz(func(t *testing.T, altered, seal []byte) {
		if at.Verify(us, altered, seal, topology.Node{}) == nil && !bytes.Equal(altered, statement) {
			t.Errorf("accepted: %x", altered)
		}
	})
}

func TestCertificatesThatAreKeptAreBounded(t *testing.T) {
	trust := newDeployment(t).trust()
	var s Signers
	for i := range maxSigners + 10 {
		s.put([sha256.Size]byte{byte(i), byte(i >> 8)}, trust, &Signer{})
	}
	if n := len(s.known); n > maxSigners || n == 0 {
		t.Errorf("%d certificates are kept", n)
	}
}

func BenchmarkVectors(b *testing.B) {
	d := newDeployment(b)
	at, by, statement := d.process(leaderOf("eu")), d.process(leaderOf("us")), ofUS.Statement()
	signed := by.mustSign(b, statement)
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			_, _ = by.Sign(statement)
		}
		m := causal.SignedVectors{DC: us, Entries: ofUS.Entries, Seal: signed}
		b.ReportMetric(float64(len(m.Seal)), "bytes")
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			_ = at.Verify(us, statement, signed, topology.Node{})
		}
	})
	b.Run("verify with a new certificate", func(b *testing.B) {
		for b.Loop() {
			at.signers = Signers{}
			_ = at.Verify(us, statement, signed, topology.Node{})
		}
	})
}
