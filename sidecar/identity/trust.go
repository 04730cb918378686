// Package identity decides who is at the other end of a link: it verifies the certificate of a peer against the trust
// file, and says for which node of the topology it may speak. It does no I/O.
package identity

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// Trust is a trust file with its bundles parsed.
type Trust struct {
	file    contract.Trust
	bundles map[string]*x509.CertPool // by trust domain
	roots   map[string][]uint64       // digests of what is in the bundles
}

// ParseTrust reads a trust file. A data center whose trust domain has no bundle is not an error: it is not trusted yet,
// or no longer.
func ParseTrust(b []byte) (*Trust, error) {
	file, err := contract.ParseTrust(b)
	if err != nil {
		return nil, err
	}
	t := &Trust{file: *file, bundles: map[string]*x509.CertPool{}, roots: map[string][]uint64{}}
	for domain, text := range file.Bundles {
		if t.bundles[domain], t.roots[domain], err = parseBundle([]byte(text)); err != nil {
			return nil, fmt.Errorf("bundle of %s: %w", domain, err)
		}
	}
	return t, nil
}

// StoreID returns the store whose parts are trusted.
func (t *Trust) StoreID() string { return t.file.StoreID }

// Roots returns the digests (contract.RootDigest) of the authorities of a trust domain, in ascending order without
// repetition. It is not nil.
func (t *Trust) Roots(domain string) []uint64 {
	if all := t.roots[domain]; all != nil {
		return all
	}
	return []uint64{}
}

// parseBundle refuses what it cannot read: a bundle with half of its authorities would cut links that should live.
func parseBundle(text []byte) (pool *x509.CertPool, roots []uint64, err error) {
	pool = x509.NewCertPool()
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, err
		}
		pool.AddCert(cert)
		roots = append(roots, contract.RootDigest(cert))
	}
	if len(roots) == 0 {
		return nil, nil, errors.New("it contains no certificate in PEM")
	}
	slices.Sort(roots)
	return pool, slices.Compact(roots), nil
}

// Peer is who a verified certificate belongs to.
type Peer struct {
	contract.Identity
	// NotAfter is when the certificate, or an authority above it, expires.
	NotAfter time.Time
}

// Verify returns who a certificate chain, leaf first, belongs to. It accepts the chain only if the trust domain in the
// leaf is the one of the data center that it speaks for, the bundle of that trust domain verifies it, and it is of the
// same store.
func (t *Trust) Verify(chain []*x509.Certificate, now time.Time, usage x509.ExtKeyUsage) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errors.New("the peer has sent no certificate")
	}
	id, err := read(chain[0])
	if err != nil {
		return Peer{}, err
	}
	if id.StoreID != t.file.StoreID {
		return Peer{}, fmt.Errorf("%s is of another store; this one is %s", id, t.file.StoreID)
	}
	domain, ok := t.file.DataCenters[id.DataCenter]
	switch {
	case !ok:
		return Peer{}, fmt.Errorf("%s speaks for data center %s, which the trust file does not list", id, id.DataCenter)
	case domain != id.TrustDomain:
		return Peer{}, fmt.Errorf("%s speaks for data center %s, whose trust domain is %s", id, id.DataCenter, domain)
	case t.bundles[domain] == nil:
		return Peer{}, fmt.Errorf("%s: the trust file has no bundle of trust domain %s", id, domain)
	}
	chains, err := contract.VerifyChain(chain, x509.VerifyOptions{Roots: t.bundles[domain], CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return Peer{}, fmt.Errorf("%s: %w", id, err)
	}
	return Peer{Identity: id, NotAfter: latestEnd(chains)}, nil
}

// read returns the identity of a certificate: its only name.
func read(leaf *x509.Certificate) (contract.Identity, error) {
	if n := len(leaf.DNSNames) + len(leaf.EmailAddresses) + len(leaf.IPAddresses); len(leaf.URIs) != 1 || n != 0 {
		return contract.Identity{},
			fmt.Errorf(
				"the certificate has %d URIs and %d other names; the certificate of a part has exactly one name, a URI",
				len(leaf.URIs), n)
	}
	return contract.ParseIdentity(leaf.URIs[0])
}

// latestEnd returns until when the chain that lasts longest is valid.
func latestEnd(chains [][]*x509.Certificate) (latest time.Time) {
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(latest) {
			latest = end
		}
	}
	return latest
}
