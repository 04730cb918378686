// Package etcd knows how the operator runs the etcd of a data center: its authority and certificates, its
// configuration, and how a member starts. It reads and writes no objects of Kubernetes.
//
// An etcd has an authority of its own, which signs for that etcd and its clients and nothing else. With the authority
// of the region it could not tell its clients from other parts: it verifies chains but not the URIs that say who a part
// is, so that every sidecar of every store in the region would pass, and the only names that it can ask of clients are
// DNS names, which it also looks up for every connection and compares with the address of the caller. Nor could its
// certificates have the names of hosts where an issuer outside of the cluster signs. Here, whoever has a certificate is
// admitted; only the pods of that etcd and the coordinators that use it get one.
package etcd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/authority"
)

// Authority is what signs the certificates of one etcd. It is replaced whenever the authority of the region is, in
// steps that leave the etcd running: the next root is in the bundle until all members have it, then it signs, and the
// root before stays in the bundle until nobody presents a certificate of it.
type Authority struct {
	// Region identifies the authority of the region for which the newest root was made.
	Region  string
	issuing *root
	next    *root
	since   time.Time // when next was made
	retired *root     // without key
	until   time.Time
}

type root struct {
	leaf      *x509.Certificate
	cert, key []byte // PEM
}

// Files of the Secret of an authority.
const (
	fileIssuingCert  = "issuing.crt"
	fileIssuingKey   = "issuing.key"
	fileNextCert     = "next.crt"
	fileNextKey      = "next.key"
	fileNextSince    = "next-since"
	fileRetiredCert  = "retired.crt"
	fileRetiredUntil = "retired-until"
	fileRegion       = "region"
)

// nextFor is how long the next root waits at least: kubelets bring clients the new bundle within two minutes.
const nextFor = 10 * time.Minute

// retiredFor is how long the root before is accepted after another one has taken over. Kubelets bring pods their new
// certificates within two minutes, and etcd reads its certificates for each connection.
const retiredFor = time.Hour

// NewAuthority makes the authority of an etcd.
func NewAuthority(name, region string, now time.Time) (*Authority, error) {
	r, err := newRoot(name, now)
	if err != nil {
		return nil, err
	}
	return &Authority{Region: region, issuing: r}, nil
}

func newRoot(name string, now time.Time) (*root, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of the authority of etcd %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "CausalStore etcd " + name}, NotBefore: now.Add(-authority.Backdate),
		NotAfter: now.Add(authority.Validity),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the authority of etcd %s: %w", name, err)
	}
	keyPEM, err := authority.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	return readRoot(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM)
}

// readRoot reads a root with its key.
func readRoot(cert, key []byte) (*root, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if !pair.Leaf.IsCA {
		return nil, errors.New("it is not the certificate of an authority")
	}
	return &root{leaf: pair.Leaf, cert: cert, key: key}, nil
}

// ReadAuthority reads what Files has written.
func ReadAuthority(files map[string][]byte) (*Authority, error) {
	a := &Authority{Region: string(files[fileRegion])}
	var err error
	if a.issuing, err = readRoot(files[fileIssuingCert], files[fileIssuingKey]); err != nil {
		return nil, fmt.Errorf("read %s: %w", fileIssuingCert, err)
	}
	if len(files[fileNextCert]) > 0 {
		if a.next, err = readRoot(files[fileNextCert], files[fileNextKey]); err != nil {
			return nil, fmt.Errorf("read %s: %w", fileNextCert, err)
		}
		if a.since, err = time.Parse(time.RFC3339, string(files[fileNextSince])); err != nil {
			return nil, fmt.Errorf("read %s: %w", fileNextSince, err)
		}
	}
	if text := files[fileRetiredCert]; len(text) > 0 {
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("read %s: it is not a certificate in PEM", fileRetiredCert)
		}
		a.retired = &root{cert: text}
		if a.retired.leaf, err = x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("read %s: %w", fileRetiredCert, err)
		}
		if a.until, err = time.Parse(time.RFC3339, string(files[fileRetiredUntil])); err != nil {
			return nil, fmt.Errorf("read %s: %w", fileRetiredUntil, err)
		}
	}
	return a, nil
}

// Files returns the data of the Secret of the authority.
func (a *Authority) Files() map[string][]byte {
	files := map[string][]byte{fileRegion: []byte(a.Region), fileIssuingCert: a.issuing.cert,
		fileIssuingKey: a.issuing.key}
	if a.next != nil {
		files[fileNextCert], files[fileNextKey], files[fileNextSince] = a.next.cert, a.next.key,
			[]byte(a.since.UTC().Format(time.RFC3339))
	}
	if a.retired != nil {
		files[fileRetiredCert], files[fileRetiredUntil] = a.retired.cert, []byte(a.until.UTC().Format(time.RFC3339))
	}
	return files
}

// Advance takes the next step of a replacement, if there is one. Region identifies the authority that issues in the
// region; accepted says that every member of the etcd runs with the present bundle.
func (a *Authority) Advance(name, region string, accepted bool, now time.Time) (changed bool, err error) {
	switch {
	case a.next != nil && accepted && now.Sub(a.since) > nextFor:
		a.retired, a.until = &root{leaf: a.issuing.leaf, cert: a.issuing.cert}, now.Add(retiredFor)
		a.issuing, a.next, a.since = a.next, nil, time.Time{}
	case a.next != nil:
		return false, nil
	case a.retired != nil && accepted && now.After(a.until):
		a.retired, a.until = nil, time.Time{}
	case a.retired == nil && a.Region != region:
		if a.next, err = newRoot(name, now); err != nil {
			return false, err
		}
		a.Region, a.since = region, now
	default:
		return false, nil
	}
	return true, nil
}

// IsReplaced reports whether a replacement is under way.
func (a *Authority) IsReplaced() bool { return a.next != nil || a.retired != nil }

// Bundle returns the roots that members and clients accept, in PEM.
func (a *Authority) Bundle() []byte {
	var all [][]byte
	for _, r := range []*root{a.issuing, a.next, a.retired} {
		if r != nil {
			all = append(all, r.cert)
		}
	}
	slices.SortFunc(all, bytes.Compare) // the order says nothing, and who issues is no change of the bundle
	return slices.Concat(all...)
}

// Digest identifies the bundle. Etcd reads its bundle at a start only.
func (a *Authority) Digest() string { return BundleDigest(a.Bundle()) }

// BundleDigest identifies a bundle.
func BundleDigest(bundle []byte) string {
	sum := sha256.Sum256(bundle)
	return hex.EncodeToString(sum[:8])
}
