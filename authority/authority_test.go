package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
)

var (
	today = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	shard = contract.Identity{TrustDomain: "eu.0b1c", StoreID: "7d1e", DataCenter: "eu-west-1",
		Role: contract.RoleMiddleman, Member: "2"}
)

func newAuthority(t *testing.T, domain string) *Authority {
	t.Helper()
	a, err := NewAuthority(domain, today)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// leaf issues a certificate and reads it back.
func leaf(t *testing.T, a *Authority, id contract.Identity) *x509.Certificate {
	t.Helper()
	cert, key, err := a.Issue(id, today.Add(-Backdate), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func verify(root, leaf *x509.Certificate, at time.Time, usage x509.ExtKeyUsage) error {
	roots := x509.NewCertPool()
	roots.AddCert(root)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{usage}})
	return err
}

func TestCertificatesCarryExactlyTheIdentityAndAreValidForBothSidesOfALink(t *testing.T) {
	a := newAuthority(t, shard.TrustDomain)
	c := leaf(t, a, shard)
	if len(c.URIs) != 1 || c.URIs[0].String() != shard.String() ||
		len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses) > 0 || c.IsCA {
		t.Errorf("names %v %v, authority %t", c.URIs, c.DNSNames, c.IsCA)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if err := verify(a.Certificate(), c, today.Add(-9*time.Minute), usage); err != nil {
			t.Error(err)
		}
	}
	if err := verify(newAuthority(t, shard.TrustDomain).Certificate(), c, today,
		x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("another authority of the same name verifies it")
	}
	if err := verify(a.Certificate(), c, today.Add(25*time.Hour), x509.ExtKeyUsageClientAuth); err == nil {
		t.Error("it is valid after its end")
	}
}

func TestAuthoritiesAreReadBackFromPEM(t *testing.T) {
	a := newAuthority(t, shard.TrustDomain)
	key, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Load(a.CertificatePEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	if b.TrustDomain() != shard.TrustDomain {
		t.Errorf("trust domain %s", b.TrustDomain())
	}
	if err := verify(a.Certificate(), leaf(t, b, shard), today, x509.ExtKeyUsageServerAuth); err != nil {
		t.Error(err)
	}
	cert, leafKey, err := a.Issue(shard, today, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(cert, leafKey); err == nil {
		t.Error("the certificate of a part is read as an authority")
	}
}

func TestAuthoritiesIssueForTheirTrustDomainOnly(t *testing.T) {
	a := newAuthority(t, shard.TrustDomain)
	for name, change := range map[string]func(*contract.Identity){
		"another trust domain": func(id *contract.Identity) { id.TrustDomain = "us.0b1c" },
		"no store":             func(id *contract.Identity) { id.StoreID = "" },
		"an unknown role":      func(id *contract.Identity) { id.Role = "root" },
		"no index":             func(id *contract.Identity) { id.Member = "web" },
		"a slash":              func(id *contract.Identity) { id.DataCenter = "eu/west" },
	} {
		id := shard
		change(&id)
		if _, _, err := a.Issue(id, today, time.Hour); err == nil {
			t.Errorf("%s: a certificate was issued for %s", name, id)
		}
	}
}

// forge makes a certificate with the key of an authority, as someone would who has it, past the checks of Issue.
func forge(t *testing.T, a *Authority, key *ecdsa.PrivateKey, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{NotBefore: today.Add(-time.Hour), NotAfter: today.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheConstraintsOfAnAuthorityHoldAgainstItsOwnKey(t *testing.T) {
	a := newAuthority(t, "eu")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign := forge(t, a, key, func(c *x509.Certificate) {
		c.URIs = []*url.URL{{Scheme: "spiffe", Host: "us", Path: "/7d1e/dc/us-east-1/cache/0"}}
	})
	if err := verify(a.Certificate(), foreign, today, x509.ExtKeyUsageClientAuth); err == nil ||
		!strings.Contains(err.Error(), "not permitted") {
		t.Errorf("an identity of another trust domain: %v", err)
	}
	sub := forge(t, a, key, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	under := forge(t, &Authority{cert: sub, key: key}, key, func(c *x509.Certificate) {
		c.URIs = []*url.URL{shard.URI()}
	})
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(a.Certificate())
	between.AddCert(sub)
	if _, err := under.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: today,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("an authority below the authority is accepted")
	}
}

func TestCertificatesDoNotOutliveTheirAuthority(t *testing.T) {
	a := newAuthority(t, shard.TrustDomain)
	end := a.Certificate().NotAfter
	cert, key, err := a.Issue(shard, end.Add(-time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if !pair.Leaf.NotAfter.Equal(end) {
		t.Errorf("valid until %v, the authority until %v", pair.Leaf.NotAfter, end)
	}
	if _, _, err := a.Issue(shard, end, time.Hour); err == nil {
		t.Error("an expired authority issues")
	}
}

func TestTrustDomainsAreDNSNamesInLowerCase(t *testing.T) {
	for _, good := range []string{"eu", "eu.0b1c", "eu-6c1f0d2e-7a3b-4c5d-8e9f-0a1b2c3d4e5f", "a.b.c"} {
		if err := CheckTrustDomain(good); err != nil {
			t.Error(err)
		}
		c := leaf(t, newAuthority(t, good), contract.Identity{TrustDomain: good, StoreID: "s", DataCenter: "d",
			Role: contract.RoleSidecar, Member: "shop"})
		if len(c.URIs) != 1 {
			t.Errorf("%s: %v", good, c.URIs)
		}
	}
	for _, bad := range []string{"", "EU", "eu..b", ".eu", "eu.", "127.0.0.1", "::1", "a/b", "a_b",
		strings.Repeat("a", 64)} {
		if CheckTrustDomain(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
