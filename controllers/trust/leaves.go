package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
)

const (
	// LeafLife is how long a certificate is valid, and renewAge its age at which it is renewed: so parts run on for six
	// days without an operator.
	LeafLife = 7 * 24 * time.Hour
	renewAge = 24 * time.Hour
	// LateAfter is the remaining time at which a certificate should have been renewed long ago.
	LateAfter = 3 * 24 * time.Hour
	// edgeDelay is how long the certificates of edges stay those of the authority before, once a new one issues. Edges
	// do not say what they accept; the kubelet brings them the new bundle within two minutes, as it does to the parts
	// beside them.
	edgeDelay = 10 * time.Minute
)

// CertFile and KeyFile return the names of the files of a certificate.
func CertFile(name string) string { return name + ".crt" }
func KeyFile(name string) string  { return name + ".key" }

// signer issues the certificates of a region.
type signer interface {
	// issue returns a certificate and its key, in PEM. It returns the same until done is called. While there is none
	// yet, it returns a PendingError. A certificate that is not urgent replaces one that lasts for days.
	issue(ctx context.Context, id contract.Identity, urgent bool, now time.Time) (cert, key []byte, err error)
	// done says that an identity has its certificate.
	done(ctx context.Context, id contract.Identity) error
}

// PendingError says that certificates have been asked for and are not there yet.
type PendingError struct{ Message string }

func (e *PendingError) Error() string { return e.Message }

// IsPending reports whether an error is that certificates are not there yet.
func IsPending(err error) bool {
	var pending *PendingError
	return errors.As(err, &pending)
}

// ownSigner signs with the key of the region's authority.
type ownSigner struct{ by *authority.Authority }

func (s ownSigner) issue(_ context.Context, id contract.Identity, _ bool, now time.Time) (cert, key []byte, err error) {
	return s.by.Issue(id, now.Add(-authority.Backdate), LeafLife+authority.Backdate)
}

func (ownSigner) done(context.Context, contract.Identity) error { return nil }

// noSigner is that of a region whose authority cannot be used.
type noSigner struct{ why string }

func (s noSigner) issue(_ context.Context, id contract.Identity, _ bool, _ time.Time) (cert, key []byte, err error) {
	return nil, nil, fmt.Errorf("issue a certificate for %s: %s", id, s.why)
}

func (noSigner) done(context.Context, contract.Identity) error { return nil }

// Renew returns the certificates that a Secret should have at a time, by the names of their files, and whether they
// differ from those that it has. New are those that are missing, a day old, of another identity, or not of the
// authority that issues now; files that are not wanted are left out. If an error is returned, what could not be renewed
// is as it was; it is a PendingError if that is only not there yet.
func (s *State) Renew(ctx context.Context, files map[string][]byte, wanted map[string]contract.Identity,
	now time.Time) (renewed map[string][]byte,
	changed bool, failed error) {
	renewed = map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		cert, key := files[CertFile(name)], files[KeyFile(name)]
		leaf := readLeaf(cert, key)
		var err error
		if s.isDue(leaf, wanted[name], now) {
			var newCert, newKey []byte
			if newCert, newKey, err = s.signer.issue(ctx, wanted[name], isUrgent(leaf, wanted[name], now),
				now); err == nil {
				cert, key, changed = newCert, newKey, true
			}
		} else {
			err = s.signer.done(ctx, wanted[name])
		}
		if err != nil && (failed == nil || IsPending(failed)) {
			failed = err
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

// readLeaf returns a certificate, or nil if it or its key is malformed.
func readLeaf(cert, key []byte) *x509.Certificate {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil
	}
	return pair.Leaf
}

func isOf(leaf *x509.Certificate, id contract.Identity) bool {
	return leaf != nil && len(leaf.URIs) == 1 && leaf.URIs[0].String() == id.String()
}

// isUrgent reports whether a part has no certificate that others accept for days.
func isUrgent(leaf *x509.Certificate, id contract.Identity, now time.Time) bool {
	return !isOf(leaf, id) || now.Before(leaf.NotBefore) || leaf.NotAfter.Sub(now) < LateAfter
}

// isDue reports whether a certificate must be replaced.
func (s *State) isDue(leaf *x509.Certificate, id contract.Identity, now time.Time) bool {
	switch {
	case isUrgent(leaf, id, now):
		return true
	case id.Role == contract.RoleEdge && now.Before(s.IssuingSince.Add(edgeDelay)) && s.isRetired(leaf):
		return false
	case s.Issuing != nil && leaf.CheckSignatureFrom(s.Issuing.Certificate()) != nil:
		return true
	}
	issued := leaf.NotBefore.Add(authority.Backdate)
	return !now.Before(issued.Add(renewAge))
}

// isRetired reports whether a certificate is that of an authority which does not issue any more and is still accepted.
func (s *State) isRetired(leaf *x509.Certificate) bool {
	return slices.ContainsFunc(s.Retired, func(r Retired) bool {
		return leaf.CheckSignatureFrom(r.Root.Certificate()) == nil
	})
}
