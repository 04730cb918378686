// Package trust keeps the authority of the operator's region and the bundles of other regions, and issues the
// certificates of parts. What to do is decided by pure functions of what exists and of the time; Keeper reads and
// writes it. Private keys are in Secrets only, never in logs, status or ConfigMaps.
package trust

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

// retireTime is how long an authority that no longer issues stays in the bundle: longer than a certificate that it has
// issued can be valid.
const retireTime = LeafLife + 24*time.Hour

// The keys of the Secret with the authorities of a region. Several certificates are in one PEM, several times in lines.
const (
	keyTrustDomain  = "trust-domain"
	keySequence     = "sequence"
	keyIssuingCert  = "issuing.crt"
	keyIssuingKey   = "issuing.key"
	keyIssuingSince = "issuing-since"
	keyNextCert     = "next.crt"
	keyNextKey      = "next.key"
	keyNextSince    = "next-since"
	keyRetiredCert  = "retired.crt"
	keyRetiredUntil = "retired-until"
)

// Root is an authority of a region: one that this operator has the key of, or that of an issuer of cert-manager.
type Root struct {
	cert *x509.Certificate
	own  *authority.Authority // nil: that of an issuer
}

// OwnRoot returns the root of an authority that this operator has the key of.
func OwnRoot(a *authority.Authority) *Root { return &Root{a.Certificate(), a} }

// Certificate returns the certificate of the authority.
func (r *Root) Certificate() *x509.Certificate { return r.cert }

// CertificatePEM returns the certificate of the authority, as it goes into bundles.
func (r *Root) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.cert.Raw})
}

// Is reports whether two roots have the same certificate. Neither may be there.
func (r *Root) Is(other *Root) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.cert.Equal(other.cert)
}

// authorityWarning is how long before its end an authority must be replaced, since other regions have to be told; one
// that is valid for less than three times that, as those of issuers may be, when a third of its validity is left.
const authorityWarning = 180 * 24 * time.Hour

// ExpiresSoon reports whether an authority must be replaced. It may be nil.
func (r *Root) ExpiresSoon(now time.Time) bool {
	return r != nil && r.cert.NotAfter.Sub(now) < min(authorityWarning, r.cert.NotAfter.Sub(r.cert.NotBefore)/3)
}

// files writes a root to the Secret.
func (r *Root) files(to map[string][]byte, cert, key string) error {
	to[cert] = r.CertificatePEM()
	if r.own == nil {
		return nil
	}
	var err error
	to[key], err = r.own.KeyPEM()
	return err
}

// readRoot reads what files has written.
func readRoot(cert, key []byte, trustDomain string) (*Root, error) {
	if len(key) > 0 {
		a, err := authority.Load(cert, key)
		if err != nil {
			return nil, err
		}
		if a.TrustDomain() != trustDomain {
			return nil, fmt.Errorf("it is of trust domain %s, and %s is %s", a.TrustDomain(), keyTrustDomain,
				trustDomain)
		}
		return OwnRoot(a), nil
	}
	all, err := ParseBundle(string(cert), trustDomain)
	if err != nil {
		return nil, err
	}
	return &Root{cert: all[0]}, nil
}

// Retired is an authority that does not issue any more. Its certificates are accepted until a time.
type Retired struct {
	Root  *Root
	Until time.Time
}

// Authorities are the authorities of a region: one that issues, during a rotation the next one, and those before.
type Authorities struct {
	TrustDomain string
	// Sequence grows with every change of the bundle.
	Sequence int64
	// Issuing issues since IssuingSince, which is zero for the first one.
	Issuing      *Root
	IssuingSince time.Time
	// Next is in the bundle since NextSince, and does not issue yet.
	Next      *Root
	NextSince time.Time
	// Retired are without keys, the latest first.
	Retired []Retired
}

// Create returns the authority of a new region.
func Create(trustDomain string, now time.Time) (Authorities, error) {
	a, err := authority.NewAuthority(trustDomain, now)
	if err != nil {
		return Authorities{}, err
	}
	return Authorities{TrustDomain: trustDomain, Sequence: now.Unix(), Issuing: OwnRoot(a)}, nil
}

// Read reads what Files has written.
func Read(files map[string][]byte) (Authorities, error) {
	a := Authorities{TrustDomain: string(files[keyTrustDomain])}
	var err error
	if a.Sequence, err = strconv.ParseInt(string(files[keySequence]), 10, 64); err != nil {
		return a, fmt.Errorf("%s: %w", keySequence, err)
	}
	if a.Issuing, err = readRoot(files[keyIssuingCert], files[keyIssuingKey], a.TrustDomain); err != nil {
		return a, fmt.Errorf("%s: %w", keyIssuingCert, err)
	}
	if since := files[keyIssuingSince]; len(since) > 0 {
		if a.IssuingSince, err = time.Parse(time.RFC3339, string(since)); err != nil {
			return a, fmt.Errorf("%s: %w", keyIssuingSince, err)
		}
	}
	if len(files[keyNextCert]) > 0 {
		if a.Next, err = readRoot(files[keyNextCert], files[keyNextKey], a.TrustDomain); err != nil {
			return a, fmt.Errorf("%s: %w", keyNextCert, err)
		}
		if a.NextSince, err = time.Parse(time.RFC3339, string(files[keyNextSince])); err != nil {
			return a, fmt.Errorf("%s: %w", keyNextSince, err)
		}
	}
	a.Retired, err = readRetired(files, a.TrustDomain)
	return a, err
}

func readRetired(files map[string][]byte, trustDomain string) (all []Retired, err error) {
	if len(files[keyRetiredCert]) == 0 {
		return nil, nil
	}
	certs, err := ParseBundle(string(files[keyRetiredCert]), trustDomain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyRetiredCert, err)
	}
	times := strings.Fields(string(files[keyRetiredUntil]))
	if len(times) != len(certs) {
		return nil, fmt.Errorf("%s has %d times, and %s %d certificates", keyRetiredUntil, len(times), keyRetiredCert,
			len(certs))
	}
	for i, text := range times {
		until, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keyRetiredUntil, err)
		}
		all = append(all, Retired{&Root{cert: certs[i]}, until})
	}
	return all, nil
}

// Files returns the content of the Secret.
func (a Authorities) Files() (map[string][]byte, error) {
	files := map[string][]byte{keyTrustDomain: []byte(a.TrustDomain),
		keySequence: []byte(strconv.FormatInt(a.Sequence, 10))}
	if err := a.Issuing.files(files, keyIssuingCert, keyIssuingKey); err != nil {
		return nil, err
	}
	if !a.IssuingSince.IsZero() {
		files[keyIssuingSince] = []byte(formatTime(a.IssuingSince))
	}
	if a.Next != nil {
		if err := a.Next.files(files, keyNextCert, keyNextKey); err != nil {
			return nil, err
		}
		files[keyNextSince] = []byte(formatTime(a.NextSince))
	}
	for _, r := range a.Retired {
		files[keyRetiredCert] = append(files[keyRetiredCert], r.Root.CertificatePEM()...)
		files[keyRetiredUntil] = append(files[keyRetiredUntil], formatTime(r.Until)+"\n"...)
	}
	return files, nil
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Bundle returns the certificates that others must trust, the one that issues first, in PEM.
func (a Authorities) Bundle() string {
	bundle := string(a.Issuing.CertificatePEM())
	if a.Next != nil {
		bundle += string(a.Next.CertificatePEM())
	}
	for _, r := range a.Retired {
		bundle += string(r.Root.CertificatePEM())
	}
	return bundle
}

// Fingerprint returns the SHA-256 of a certificate, as people compare it.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// maxAuthorities bounds the certificates of a bundle. A rotation needs two.
const maxAuthorities = 4

// ParseBundle returns the authorities of a bundle, all of which must be of one trust domain.
func ParseBundle(bundle, trustDomain string) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode([]byte(bundle)); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it has a block %q; a bundle has certificates only, never keys", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		switch {
		case !c.IsCA || !c.MaxPathLenZero || !c.PermittedDNSDomainsCritical || len(c.PermittedURIDomains) != 1 ||
			c.PermittedURIDomains[0] != trustDomain:
			return nil, fmt.Errorf("certificate %s is not an authority that is restricted to trust domain %s",
				Fingerprint(c), trustDomain)
		case c.CheckSignatureFrom(c) != nil:
			return nil, fmt.Errorf("certificate %s is not signed by its own key", Fingerprint(c))
		}
		if err := contract.CheckKey(c); err != nil {
			return nil, fmt.Errorf("certificate %s: %w", Fingerprint(c), err)
		}
		if all = append(all, c); len(all) > maxAuthorities {
			return nil, fmt.Errorf("it has more than %d certificates", maxAuthorities)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	return all, nil
}
