package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/lab/credentials"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/sidecar/signature"
)

const store = "7d1e"

// start is the time at which a region begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// region is the trust of a region: data center eu of trust domain eu.test, us of us.test, each with an authority.
type region struct {
	t        testing.TB
	eu, us   *authority.Authority
	storeID  string
	trusted  map[string]*authority.Authority // by trust domain
	domainOf map[string]string               // by data center
}

func newRegion(t testing.TB) *region {
	t.Helper()
	r := &region{t: t, storeID: store, domainOf: map[string]string{"eu": "eu.test", "us": "us.test"}}
	r.eu, r.us = credentials.NewAuthority(t, "eu.test", start), credentials.NewAuthority(t, "us.test", start)
	r.trusted = map[string]*authority.Authority{"eu.test": r.eu, "us.test": r.us}
	return r
}

// trust returns the trust file as it is now.
func (r *region) trust() *identity.Trust {
	r.t.Helper()
	return credentials.Trust(r.t, r.storeID, r.domainOf, r.trusted)
}

func sidecarOf(dc string) contract.Identity {
	return contract.Identity{TrustDomain: dc + ".test", StoreID: store, DataCenter: dc, Role: contract.RoleSidecar,
		Member: "shop"}
}

// sidecar is a sidecar with a certificate.
type sidecar struct {
	*Certified
	t     testing.TB
	cert  *tls.Certificate
	trust *identity.Trust
	now   time.Time
}

// sidecar makes a sidecar with a certificate of seven days.
func (r *region) sidecar(by *authority.Authority, id contract.Identity) *sidecar {
	r.t.Helper()
	s := &sidecar{t: r.t, trust: r.trust(), now: start,
		cert: credentials.Issue(r.t, by, id, start.Add(-authority.Backdate), 7*24*time.Hour)}
	s.Certified = NewCertified(func() (*tls.Certificate, *identity.Trust) { return s.cert, s.trust }, func() time.Time {
		return s.now
	})
	return s
}

func (s *sidecar) seal(body string) string {
	s.t.Helper()
	token, err := s.Seal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	return token
}

// forge signs whatever it is told to, as somebody does who has the key of a certificate.
func forge(t testing.TB, with *tls.Certificate, storeID string, change func(*sealed)) string {
	t.Helper()
	s := sealed{expires: start.Add(Lifetime).Unix(), certificate: with.Certificate[0], body: []byte("body")}
	if change != nil {
		change(&s)
	}
	signer, signed, options := with.PrivateKey.(crypto.Signer), s.signedMessage(storeID), crypto.Hash(0)
	if _, ok := with.PrivateKey.(*ecdsa.PrivateKey); ok {
		options = crypto.SHA256
		h := options.New()
		h.Write(signed)
		signed = h.Sum(nil)
	}
	var err error
	if s.signature, err = signer.Sign(rand.Reader, signed, options); err != nil {
		t.Fatal(err)
	}
	return encoding.EncodeToString(s.encode())
}

func (s *sidecar) mustOpen(what, token, want string) {
	s.t.Helper()
	if body, err := s.Open(token); err != nil || body != want {
		s.t.Errorf("%s: %q, %v; want %q", what, body, err, want)
	}
}

func (s *sidecar) mustRefuse(what, token, why string) {
	s.t.Helper()
	if body, err := s.Open(token); err == nil || !strings.Contains(err.Error(), why) {
		s.t.Errorf("%s: %q, %v; want an error with %q", what, body, err, why)
	}
}

func TestATokenOfOneRegionIsOpenedInTheOther(t *testing.T) {
	r := newRegion(t)
	eu, us := r.sidecar(r.eu, sidecarOf("eu")), r.sidecar(r.us, sidecarOf("us"))
	for _, body := range []string{"", "body", strings.Repeat("x", 60000)} {
		token := eu.seal(body)
		us.mustOpen("elsewhere", token, body)
		us.mustOpen("a second time", token, body)
		eu.mustOpen("by itself", token, body)
		if len(token) > MaxBytes || strings.Trim(token,
			"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("the token has %d bytes, or is not base64url", len(token))
		}
	}
	us.mustRefuse("more than any session exports", eu.seal(strings.Repeat("x", MaxBytes)), "bytes, and no session")
}

// docs/clients.md says how long tokens are. The names are as the operator makes them.
func TestATokenFitsIntoACookie(t *testing.T) {
	domain := "eu-west-1.9f4c2a58-3d1e-4b7a-8a55-0c6f1e2d3b4a"
	r := newRegion(t)
	r.storeID, r.eu = "2b8e5f0c-71d4-4c39-9e0a-5a1f6d7c8b90", credentials.NewAuthority(t, domain, start)
	r.domainOf["eu"], r.trusted[domain] = domain, r.eu
	eu := r.sidecar(r.eu, contract.Identity{TrustDomain: domain, StoreID: r.storeID, DataCenter: "eu",
		Role: contract.RoleSidecar, Member: "checkout-production"})
	for writes, most := range map[int]int{0: 900, 1: 920, 250: 4000, 4097: 51000} {
		token := eu.seal(strings.Repeat("x", 9+9*writes))
		t.Logf("%d writes: %d bytes", writes, len(token))
		if len(token) > most {
			t.Errorf("the token of a session with %d writes in flight has %d bytes, want at most %d", writes,
				len(token), most)
		}
	}
}

func TestATokenOfAnyKindOfKeyIsOpened(t *testing.T) {
	r := newRegion(t)
	us := r.sidecar(r.us, sidecarOf("us"))
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	caPEM := r.eu.CertificatePEM()
	keyPEM, err := r.eu.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.X509KeyPair(caPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader,
		&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{}, URIs: []*url.URL{sidecarOf("eu").URI()},
			NotBefore: start, NotAfter: start.Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		ca.Leaf, public, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	eu := r.sidecar(r.eu, sidecarOf("eu"))
	eu.cert = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	us.mustOpen("Ed25519", eu.seal("body"), "body")
	us.mustRefuse("altered", forge(t, eu.cert, "7d1f", nil), "altered")
}

func TestTokensOfThoseWhoMayNotMakeThemAreRefused(t *testing.T) {
	r := newRegion(t)
	us := r.sidecar(r.us, sidecarOf("us"))
	with := func(change func(*contract.Identity)) contract.Identity {
		id := sidecarOf("eu")
		change(&id)
		return id
	}
	for _, tt := range []struct {
		what string
		cert *tls.Certificate
		why  string
	}{
		{"a foreign authority with the same trust domain",
			credentials.Issue(t, credentials.NewAuthority(t, "eu.test", start), sidecarOf("eu"), start, time.Hour),
			"unknown authority"},
		{"an authority of another region that speaks for this one",
			credentials.Issue(t, r.eu, with(func(id *contract.Identity) {
				id.DataCenter = "us"
			}), start, time.Hour), "whose trust domain is us.test"},
		{"a data center that is not of the store", credentials.Issue(t, r.eu, with(func(id *contract.Identity) {
			id.DataCenter = "mars"
		}), start, time.Hour), "does not list"},
		{"a coordinator", credentials.Issue(t, r.eu, with(func(id *contract.Identity) {
			id.Role, id.Member = contract.RoleCoordinator, "0"
		}), start, time.Hour), "only sidecars make tokens"},
		{"an edge", credentials.Issue(t, r.eu, with(func(id *contract.Identity) {
			id.Role = contract.RoleEdge
		}), start, time.Hour), "only sidecars make tokens"},
		{"the operator", credentials.Issue(t, r.eu, with(func(id *contract.Identity) {
			id.Role = contract.RoleOperator
		}), start, time.Hour), "only sidecars make tokens"},
		{"a sidecar of another store", credentials.Issue(t, r.eu, with(func(id *contract.Identity) {
			id.StoreID = "other"
		}), start, time.Hour), "is of another store"},
		{"an expired certificate", credentials.Issue(t, r.eu, sidecarOf("eu"), start.Add(-2*time.Hour), time.Hour),
			"has expired or is not yet valid"},
		{"a certificate that is not valid yet", credentials.Issue(t, r.eu, sidecarOf("eu"), start.Add(time.Minute),
			time.Hour), "has expired or is not yet valid"},
	} {
		token := forge(t, tt.cert, store, nil)
		us.mustRefuse(tt.what, token, tt.why)
		us.mustRefuse(tt.what+", again", token, tt.why)
	}
	us.mustOpen("a sidecar", forge(t, credentials.Issue(t, r.eu, sidecarOf("eu"), start, time.Hour), store, nil),
		"body")
}

func TestAChangedTokenIsRefused(t *testing.T) {
	r := newRegion(t)
	eu, us := r.sidecar(r.eu, sidecarOf("eu")), r.sidecar(r.us, sidecarOf("us"))
	token := eu.seal("body")
	raw, err := encoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			altered := slices.Clone(raw)
			altered[i] ^= 1 << bit
			if _, err := us.Open(encoding.EncodeToString(altered)); err == nil {
				t.Fatalf("bit %d of byte %d can be changed", bit, i)
			}
		}
		us.mustRefuse("truncated", encoding.EncodeToString(raw[:i]), "")
	}
	change := func(f func(*sealed)) string {
		s, err := parse(raw[1:])
		if err != nil {
			t.Fatal(err)
		}
		f(s)
		return encoding.EncodeToString(s.encode())
	}
	other := credentials.Issue(t, r.eu, sidecarOf("eu"), start, time.Hour)
	sameKey := recertify(t, r.eu, eu.cert)
	for what, f := range map[string]func(*sealed){
		"another body":   func(s *sealed) { s.body = []byte("bodies") },
		"no body":        func(s *sealed) { s.body = nil },
		"a later expiry": func(s *sealed) { s.expires++ },
		"another certificate of the same sidecar": func(s *sealed) { s.certificate = other.Certificate[0] },
		"another certificate of the same key":     func(s *sealed) { s.certificate = sameKey },
	} {
		us.mustRefuse(what, change(f), "altered")
	}
	us.mustRefuse("a signature for another store", forge(t, eu.cert, "7d1f", nil), "altered")
	us.mustOpen("unchanged", change(func(*sealed) {}), "body")
	for what, junk := range map[string]string{"empty": "", "not base64": "a token!",
		"zeros":       encoding.EncodeToString(make([]byte, 700)),
		"a keyed one": NewRandom().mustSeal("body"), "an older format": encoding.EncodeToString([]byte("\x01 body"))} {
		us.mustRefuse(what, junk, "the token")
	}
}

func (k *Keyed) mustSeal(body string) string {
	token, err := k.Seal(body)
	if err != nil {
		panic(err)
	}
	return token
}

// recertify returns another certificate for the key of one.
func recertify(t *testing.T, by *authority.Authority, cert *tls.Certificate) []byte {
	t.Helper()
	keyPEM, err := by.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := tls.X509KeyPair(by.CertificatePEM(), keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	template := *cert.Leaf
	template.SerialNumber = big.NewInt(2)
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.Leaf, cert.Leaf.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestATokenExpiresWithItsCertificateAtTheLatest(t *testing.T) {
	r := newRegion(t)
	eu, us := r.sidecar(r.eu, sidecarOf("eu")), r.sidecar(r.us, sidecarOf("us"))
	token := eu.seal("body")
	us.now = eu.cert.Leaf.NotAfter.Add(-time.Second)
	us.mustOpen("until its certificate expires", token, "body")
	us.now = eu.cert.Leaf.NotAfter
	us.mustRefuse("after its certificate has expired", token, "has expired at 2026-03-08T11:50:00Z")
	us.now = us.now.Add(time.Second)
	// Somebody with the key lets it live longer than the certificate.
	us.mustRefuse("a token that is to outlive its certificate", forge(t, eu.cert, store, func(s *sealed) {
		s.expires = start.Add(365 * 24 * time.Hour).Unix()
	}),
		"has expired")
	eu.cert, us.now = credentials.Issue(t, r.eu, sidecarOf("eu"), start, 365*24*time.Hour), start
	token = eu.seal("body")
	us.now = start.Add(Lifetime)
	us.mustRefuse("after its own lifetime", token, "has expired at 2026-03-08T12:00:00Z")
}

func TestTokensFollowTheTrustFile(t *testing.T) {
	r := newRegion(t)
	eu, us := r.sidecar(r.eu, sidecarOf("eu")), r.sidecar(r.us, sidecarOf("us"))
	old := eu.seal("old")
	us.mustOpen("before", old, "old")

	eu.cert = credentials.Issue(t, r.eu, sidecarOf("eu"), start, time.Hour)
	us.mustOpen("with a new certificate", eu.seal("new"), "new")
	us.mustOpen("with the certificate before it", old, "old")

	revoked := maps.Clone(r.trusted)
	delete(revoked, "eu.test")
	r.trusted = revoked
	us.trust = r.trust()
	us.mustRefuse("of a region that is not trusted any more", old, "no bundle of trust domain eu.test")

	r.trusted = map[string]*authority.Authority{"eu.test": credentials.NewAuthority(t, "eu.test", start),
		"us.test": r.us}
	us.trust = r.trust()
	us.mustRefuse("of an authority that was replaced", old, "unknown authority")
}

func TestASidecarWithoutAnAcceptedCertificateMakesNoToken(t *testing.T) {
	r := newRegion(t)
	eu := r.sidecar(r.eu, sidecarOf("eu"))
	eu.now = start.Add(8 * 24 * time.Hour)
	if _, err := eu.Seal("body"); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("with an expired certificate: %v", err)
	}
	eu.now, eu.cert = start, credentials.Issue(t, credentials.NewAuthority(t, "eu.test", start), sidecarOf("eu"),
		start, time.Hour)
	if _, err := eu.Seal("body"); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("with a certificate that nobody trusts: %v", err)
	}
}

func FuzzTokensOfStrangers(f *testing.F) {
	r := newRegion(f)
	eu, us := r.sidecar(r.eu, sidecarOf("eu")), r.sidecar(r.us, sidecarOf("us"))
	token := eu.seal("body")
	f.Add(token)
	f.Add(token[:len(token)/2])
	f.Add(token + "AAAA")
	f.Add(forge(f, eu.cert, "7d1f", nil))
	f.Add(NewRandom().mustSeal("body"))
	f.Add("")
	f.Fuzz(func(t *testing.T, altered string) {
		body, err := us.Open(altered)
		if err == nil && body != "body" {
			t.Errorf("%q was opened: %q", altered, body)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	r := newRegion(b)
	eu, us := r.sidecar(r.eu, sidecarOf("eu")), r.sidecar(r.us, sidecarOf("us"))
	token := eu.seal(strings.Repeat("x", 20))
	stranger := forge(b, credentials.Issue(b, credentials.NewAuthority(b, "eu.test", start), sidecarOf("eu"), start,
		time.Hour), store, nil)
	for what, token := range map[string]string{"known certificate": token, "unknown authority": stranger} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				_, _ = us.Open(token)
			}
		})
	}
	b.Run("new certificate", func(b *testing.B) {
		for b.Loop() {
			us.signers = signature.Signers{}
			_, _ = us.Open(token)
		}
	})
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			_, _ = eu.Seal("x")
		}
		b.ReportMetric(float64(len(token)), "bytes")
	})
}
