// Package trust keeps the authority of the operator's region and the bundles of other regions, and issues the
// certificates of parts. What to do is decided by pure functions of what exists and of the time; Keeper reads and writes
// it. Private keys are in Secrets only, never in logs, status or ConfigMaps.
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
)

const (
	// SettleTime is how long a new authority is in the bundle until it may issue: by then every part has read the bundle. The
	// kubelet brings a changed ConfigMap to a pod within two minutes.
	SettleTime = 10 * time.Minute
	// retireTime is how long an authority that no longer issues stays in the bundle: longer than a certificate that it has issued
	// can be valid.
	retireTime = LeafLife + 24*time.Hour
)

// The keys of the Secret with the authorities of a region.
const (
	keyTrustDomain  = "trust-domain"
	keySequence     = "sequence"
	keyIssuingCert  = "issuing.crt"
	keyIssuingKey   = "issuing.key"
	keyNextCert     = "next.crt"
	keyNextKey      = "next.key"
	keyNextSince    = "next-since"
	keyRetiredCert  = "retired.crt"
	keyRetiredUntil = "retired-until"
)

// Authorities are the authorities of a region: one that issues, and during a rotation the next one or the one before.
type Authorities struct {
	TrustDomain string
	// Sequence grows with every change of the bundle.
	Sequence int64
	Issuing  *authority.Authority
	// Next is in the bundle since NextSince, and does not issue yet.
	Next      *authority.Authority
	NextSince time.Time
	// Retired is the certificate of the one before, in PEM. Its certificates are accepted until RetiredUntil.
	Retired      []byte
	RetiredUntil time.Time
}

// Create returns the authority of a new region.
func Create(trustDomain string, now time.Time) (Authorities, error) {
	a, err := authority.NewAuthority(trustDomain, now)
	if err != nil {
		return Authorities{}, err
	}
	return Authorities{TrustDomain: trustDomain, Sequence: now.Unix(), Issuing: a}, nil
}

// Read reads what Files has written.
func Read(files map[string][]byte) (Authorities, error) {
	a := Authorities{TrustDomain: string(files[keyTrustDomain])}
	var err error
	if a.Sequence, err = strconv.ParseInt(string(files[keySequence]), 10, 64); err != nil {
		return a, fmt.Errorf("%s: %w", keySequence, err)
	}
	if a.Issuing, err = authority.Load(files[keyIssuingCert], files[keyIssuingKey]); err != nil {
		return a, fmt.Errorf("%s: %w", keyIssuingCert, err)
	}
	if a.Issuing.TrustDomain() != a.TrustDomain {
		return a, fmt.Errorf("%s is of trust domain %s, and %s is %s", keyIssuingCert, a.Issuing.TrustDomain(), keyTrustDomain, a.TrustDomain)
	}
	if len(files[keyNextCert]) > 0 {
		if a.Next, err = authority.Load(files[keyNextCert], files[keyNextKey]); err != nil {
			return a, fmt.Errorf("%s: %w", keyNextCert, err)
		}
		if a.NextSince, err = time.Parse(time.RFC3339, string(files[keyNextSince])); err != nil {
			return a, fmt.Errorf("%s: %w", keyNextSince, err)
		}
	}
	if a.Retired = files[keyRetiredCert]; len(a.Retired) > 0 {
		if a.RetiredUntil, err = time.Parse(time.RFC3339, string(files[keyRetiredUntil])); err != nil {
			return a, fmt.Errorf("%s: %w", keyRetiredUntil, err)
		}
	}
	return a, nil
}

// Files returns the content of the Secret.
func (a Authorities) Files() (map[string][]byte, error) {
	key, err := a.Issuing.KeyPEM()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{keyTrustDomain: []byte(a.TrustDomain), keySequence: []byte(strconv.FormatInt(a.Sequence, 10)),
		keyIssuingCert: a.Issuing.CertificatePEM(), keyIssuingKey: key}
	if a.Next != nil {
		if files[keyNextKey], err = a.Next.KeyPEM(); err != nil {
			return nil, err
		}
		files[keyNextCert], files[keyNextSince] = a.Next.CertificatePEM(), []byte(a.NextSince.UTC().Format(time.RFC3339))
	}
	if len(a.Retired) > 0 {
		files[keyRetiredCert], files[keyRetiredUntil] = a.Retired, []byte(a.RetiredUntil.UTC().Format(time.RFC3339))
	}
	return files, nil
}

// Bundle returns the certificates that others must trust, the one that issues first, in PEM.
func (a Authorities) Bundle() string {
	bundle := string(a.Issuing.CertificatePEM())
	if a.Next != nil {
		bundle += string(a.Next.CertificatePEM())
	}
	return bundle + string(a.Retired)
}

// The verbs of rotation requests. What follows names the authority that the request is about by its fingerprint, so that a request
// that stays where it is asks for one thing only once.
const (
	// RotateBegin asks for a successor of the authority that issues. RotateActivate asks that the next authority issues, once it has
	// been in the bundle for SettleTime; RotateForce does not wait.
	RotateBegin    = "begin"
	RotateActivate = "activate"
	RotateForce    = "force"
)

// RotationRequest returns the value of AnnotationRotate that asks for a step.
func RotationRequest(verb, fingerprint string) string { return verb + " " + fingerprint }

// Advance returns the authorities as they should be at a time, given the last request, and whether they have changed. It drops what
// has retired.
func (a Authorities) Advance(request string, now time.Time) (Authorities, bool, error) {
	before := a
	if len(a.Retired) > 0 && !now.Before(a.RetiredUntil) {
		a.Retired, a.RetiredUntil = nil, time.Time{}
	}
	verb, fingerprint, _ := strings.Cut(request, " ")
	switch {
	case verb == RotateBegin && a.Next == nil && len(a.Retired) == 0 && fingerprint == Fingerprint(a.Issuing.Certificate()):
		next, err := authority.NewAuthority(a.TrustDomain, now)
		if err != nil {
			return before, false, err
		}
		a.Next, a.NextSince = next, now
	case a.Next != nil && fingerprint == Fingerprint(a.Next.Certificate()) &&
		(verb == RotateForce || verb == RotateActivate && !now.Before(a.NextSince.Add(SettleTime))):
		a.Retired, a.RetiredUntil = a.Issuing.CertificatePEM(), now.Add(retireTime)
		a.Issuing, a.Next, a.NextSince = a.Next, nil, time.Time{}
	}
	if a.Bundle() == before.Bundle() {
		return a, false, nil
	}
	// Seconds since 1970 also grow if the Secret is lost and made again.
	a.Sequence = max(before.Sequence+1, now.Unix())
	return a, true, nil
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
		case !c.IsCA || !c.MaxPathLenZero || !c.PermittedDNSDomainsCritical || len(c.PermittedURIDomains) != 1 || c.PermittedURIDomains[0] != trustDomain:
			return nil, fmt.Errorf("certificate %s is not an authority that is restricted to trust domain %s", Fingerprint(c), trustDomain)
		case c.CheckSignatureFrom(c) != nil:
			return nil, fmt.Errorf("certificate %s is not signed by its own key", Fingerprint(c))
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
