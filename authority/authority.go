// Package authority issues the certificates of parts: it makes the authority of a region, and the certificates that say
// who a part is (contract.Identity). It does no I/O but to read random numbers; the operator and the command line keep
// what it returns.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"time"

	"github.com/causalstore/causalstore/contract"
)

const (
	// Backdate is how far before now a certificate starts to be valid, so that a machine whose clock is late accepts
	// it.
	Backdate = 10 * time.Minute
	// Validity is how long an authority is valid.
	Validity = 10 * 365 * 24 * time.Hour
)

// Authority issues the certificates of one trust domain. Its own certificate is restricted: it is valid for identities
// of that trust domain only, and not for further authorities.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// domainName is the form of a trust domain: a DNS name in lower case, so that it has one spelling and can be a name
// constraint.
var domainName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// CheckTrustDomain returns why a name cannot be a trust domain.
func CheckTrustDomain(name string) error {
	if _, err := netip.ParseAddr(name); err == nil || len(name) > 253 || !domainName.MatchString(name) {
		return fmt.Errorf("the trust domain %q is not a DNS name in lower case; give one such as eu.example.com", name)
	}
	return nil
}

// NewAuthority makes an authority, with a new key, that is valid from Backdate before now.
func NewAuthority(trustDomain string, now time.Time) (*Authority, error) {
	if err := CheckTrustDomain(trustDomain); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the authority: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "CausalStore " + trustDomain},
		NotBefore: now.Add(-Backdate), NotAfter: now.Add(Validity),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true, // of all name constraints, also those of URIs
		PermittedURIDomains:         []string{trustDomain},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the authority: %w", err)
	}
	return &Authority{cert: cert, key: key}, nil
}

// Load reads an authority from the PEM blocks that CertificatePEM and KeyPEM return.
func Load(certPEM, keyPEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !isAuthority(pair.Leaf) {
		return nil, errNoAuthority
	}
	if err := contract.CheckKey(pair.Leaf); err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	return &Authority{cert: pair.Leaf, key: key}, nil
}

var errNoAuthority = errors.New(
	"read the authority: it is a certificate of another kind: an authority may issue certificates, and is " +
		"constrained to one trust domain")

func isAuthority(c *x509.Certificate) bool { return c.IsCA && len(c.PermittedURIDomains) == 1 }

// TrustDomainOf returns the trust domain of the authority whose certificate is given in PEM.
func TrustDomainOf(certPEM []byte) (string, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return "", errors.New("read the authority: it is not a certificate in PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("read the authority: %w", err)
	}
	if !isAuthority(cert) {
		return "", errNoAuthority
	}
	if err := contract.CheckKey(cert); err != nil {
		return "", fmt.Errorf("read the authority: %w", err)
	}
	return cert.PermittedURIDomains[0], nil
}

// TrustDomain returns the trust domain of the authority.
func (a *Authority) TrustDomain() string { return a.cert.PermittedURIDomains[0] }

// Certificate returns the certificate of the authority.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// CertificatePEM returns the certificate of the authority, as it goes into bundles.
func (a *Authority) CertificatePEM() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// KeyPEM returns the key of the authority. Whoever has it can be any part of the trust domain.
func (a *Authority) KeyPEM() ([]byte, error) { return EncodeKey(a.key) }

// Issue makes a key and a certificate for an identity, in PEM. The certificate does not outlive that of the authority.
func (a *Authority) Issue(id contract.Identity, notBefore time.Time, validity time.Duration) (certPEM, keyPEM []byte,
	err error) {
	if err := a.check(id); err != nil {
		return nil, nil, err
	}
	notAfter := notBefore.Add(validity)
	if notAfter.After(a.cert.NotAfter) {
		notAfter = a.cert.NotAfter
	}
	if !notBefore.Before(notAfter) {
		return nil, nil,
			fmt.Errorf(
				"issue a certificate for %s: it would be valid from %s to %s; the authority is valid until %s: make "+
					"a new one if that has passed",
				id, notBefore.UTC().Format(time.RFC3339), notAfter.UTC().Format(time.RFC3339),
				a.cert.NotAfter.UTC().Format(time.RFC3339))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key for %s: %w", id, err)
	}
	template := &x509.Certificate{
		NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{id.URI()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: %w", id, err)
	}
	if keyPEM, err = EncodeKey(key); err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), keyPEM, nil
}

// NewRequest makes a key, and a request (PKCS #10) for a certificate for an identity with it, in PEM, for an authority
// elsewhere.
func NewRequest(id contract.Identity) (key crypto.Signer, requestPEM []byte, err error) {
	if err := checkIdentity(id); err != nil {
		return nil, nil, err
	}
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, fmt.Errorf("make a key for %s: %w", id, err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{id.URI()}}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("request a certificate for %s: %w", id, err)
	}
	return key, encode("CERTIFICATE REQUEST", der), nil
}

func checkIdentity(id contract.Identity) error {
	if back, err := contract.ParseIdentity(id.URI()); err != nil {
		return fmt.Errorf("issue a certificate: %w", err)
	} else if back != id {
		return fmt.Errorf(
			"issue a certificate for %s: a name in it contains a character that URIs cannot hold as it is", id)
	}
	return nil
}

// check returns why the authority cannot issue a certificate for an identity.
func (a *Authority) check(id contract.Identity) error {
	if err := checkIdentity(id); err != nil {
		return err
	}
	if id.TrustDomain != a.TrustDomain() {
		return fmt.Errorf("issue a certificate for %s: the authority is that of the trust domain %s", id,
			a.TrustDomain())
	}
	return nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// EncodeKey returns a private key in PEM.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encode("PRIVATE KEY", der), nil
}
