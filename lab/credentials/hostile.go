package credentials

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

// NewKey makes a key for ECDSA.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Sign issues a certificate that no authority of this module would, for clients and servers: it has whatever is in the
// template, from an hour ago to an hour from now. Without by it signs itself.
func Sign(t testing.TB, template *x509.Certificate, key crypto.Signer, by *tls.Certificate) *tls.Certificate {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()),
		time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if !template.IsCA {
		template.KeyUsage = x509.KeyUsageDigitalSignature
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey.(crypto.Signer)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// SignerOf returns the certificate and the key of an authority, for Sign.
func SignerOf(t testing.TB, a *authority.Authority) *tls.Certificate {
	t.Helper()
	key, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(a.CertificatePEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// WithIdentity is the template of a certificate for an identity.
func WithIdentity(id contract.Identity) *x509.Certificate {
	return &x509.Certificate{URIs: []*url.URL{id.URI()}}
}

// Named is a certificate that nobody has issued, with so many names of three bytes: with 82,000 of them it is the
// largest that crypto/tls accepts, and parsed takes 13 MB.
func Named(t testing.TB, names int) *tls.Certificate {
	t.Helper()
	return Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "nobody"},
		DNSNames: slices.Repeat([]string{"a"}, names)}, NewKey(t), nil)
}

// WithJunk returns a certificate with further ones in its chain, which are of no use.
func WithJunk(c *tls.Certificate, junk ...*tls.Certificate) *tls.Certificate {
	longer := *c
	longer.Certificate = slices.Clone(c.Certificate)
	for _, j := range junk {
		longer.Certificate = append(longer.Certificate, j.Certificate...)
	}
	return &longer
}
