package trust

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

const (
	// LeafLife is how long a certificate is valid, and renewAge its age at which it is renewed: so parts run on for six days without
	// an operator.
	LeafLife = 7 * 24 * time.Hour
	renewAge = 24 * time.Hour
	// LateAfter is the remaining time at which a certificate should have been renewed long ago.
	LateAfter = 3 * 24 * time.Hour
)

// CertFile and KeyFile return the names of the files of a certificate.
func CertFile(name string) string { return name + ".crt" }
func KeyFile(name string) string  { return name + ".key" }

// Renew returns the certificates that a Secret should have at a time, by the names of their files, and whether they differ from those that
// it has. New are those that are missing, a day old, of another identity, or not of the authority that issues now; files that are not
// wanted are left out. If an error is returned, what could not be renewed is as it was.
func Renew(files map[string][]byte, wanted map[string]contract.Identity, by *authority.Authority, now time.Time) (renewed map[string][]byte,
	changed bool, failed error) {
	renewed = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		cert, key := files[CertFile(name)], files[KeyFile(name)]
		if isDue(readLeaf(cert, key), wanted[name], by, now) {
			newCert, newKey, err := issue(by, wanted[name], now)
			if err != nil {
				failed = err
			} else {
				cert, key, changed = newCert, newKey, true
			}
		}
		if len(cert) > 0 {
			renewed[CertFile(name)], renewed[KeyFile(name)] = cert, key
		}
	}
	return renewed, changed || len(renewed) != len(files), failed
}

// Expires returns when the first of the certificates that are wanted expires, or zero if one is missing.
func Expires(files map[string][]byte, wanted map[string]contract.Identity) (first time.Time) {
	for name := range wanted {
		leaf := readLeaf(files[CertFile(name)], files[KeyFile(name)])
		if leaf == nil {
			return time.Time{}
		}
		if first.IsZero() || leaf.NotAfter.Before(first) {
			first = leaf.NotAfter
		}
	}
	return first
}

func issue(by *authority.Authority, id contract.Identity, now time.Time) (cert, key []byte, err error) {
	if by == nil {
		return nil, nil, fmt.Errorf("issue a certificate for %s: the region has no authority", id)
	}
	return by.Issue(id, now.Add(-authority.Backdate), LeafLife+authority.Backdate)
}

// readLeaf returns a certificate, or nil if it or its key is malformed.
func readLeaf(cert, key []byte) *x509.Certificate {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil
	}
	return pair.Leaf
}

// isDue reports whether a certificate must be replaced.
func isDue(leaf *x509.Certificate, id contract.Identity, by *authority.Authority, now time.Time) bool {
	switch {
	case leaf == nil || len(leaf.URIs) != 1 || leaf.URIs[0].String() != id.String():
		return true
	case by != nil && leaf.CheckSignatureFrom(by.Certificate()) != nil:
		return true
	}
	issued := leaf.NotBefore.Add(authority.Backdate)
	return !now.Before(issued.Add(renewAge)) || now.Before(leaf.NotBefore)
}
