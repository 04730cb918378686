package token

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/identity"
)

// verifiedCertificates are the certificates of sidecars that were verified lately, so that the next token of the same sidecar does
// not cost that again. The zero value is ready to use.
type verifiedCertificates struct {
	mu    sync.Mutex
	trust *identity.Trust // that has verified them
	known map[[sha256.Size]byte]*verified
}

type verified struct {
	certificate *x509.Certificate
	ends        time.Time // when it, or the authority that has issued it, expires
}

// maxVerified bounds the certificates that are kept: about two for each namespace with sidecars of the store, in each data center.
// Nobody but an authority can make more of them.
const maxVerified = 1024

// verify returns a certificate that is trusted to sign tokens now. It must be issued by an authority in the trust file itself: a token
// has no room for a chain.
func (c *verifiedCertificates) verify(der []byte, trust *identity.Trust, now time.Time) (*verified, error) {
	digest := sha256.Sum256(der)
	if v := c.get(digest, trust); v != nil && now.Before(v.ends) && !now.Before(v.certificate.NotBefore) {
		return v, nil
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("its certificate cannot be read: %w", err)
	}
	if a := certificate.PublicKeyAlgorithm; a != x509.ECDSA && a != x509.Ed25519 {
		return nil, errKeyKind
	}
	peer, err := trust.Verify([]*x509.Certificate{certificate}, now, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	if err := checkSigner(peer.Identity); err != nil {
		return nil, err
	}
	v := &verified{certificate: certificate, ends: peer.NotAfter}
	c.put(digest, trust, v)
	return v, nil
}

func (c *verifiedCertificates) get(digest [sha256.Size]byte, trust *identity.Trust) *verified {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trust != trust {
		return nil
	}
	return c.known[digest]
}

func (c *verifiedCertificates) put(digest [sha256.Size]byte, trust *identity.Trust, v *verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trust != trust || len(c.known) >= maxVerified {
		c.trust, c.known = trust, map[[sha256.Size]byte]*verified{}
	}
	c.known[digest] = v
}
