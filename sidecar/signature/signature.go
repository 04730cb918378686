// Package signature signs with the private key of a part's own certificate, and verifies what other parts have signed
// with theirs. Who trusts a part on links trusts its signatures, and nobody else can make one.
package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/causalstore/causalstore/sidecar/identity"
)

// Credentials returns the certificate of this process and whom it trusts, both as they are now: a new certificate signs
// what comes next, and who is not trusted any more is so at once.
type Credentials func() (*tls.Certificate, *identity.Trust)

var errKeyKind = errors.New("signatures need a certificate with a key for ECDSA or Ed25519")

// Sign signs a message with the key of a certificate. The key signs the handshakes of TLS 1.3 too, which begin with 64
// spaces: messages begin with text that says what they are for.
func Sign(with *tls.Certificate, message []byte) ([]byte, error) {
	key, ok := with.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the private key (%T) of the certificate cannot sign", with.PrivateKey)
	}
	switch key.Public().(type) {
	case ed25519.PublicKey:
		return key.Sign(rand.Reader, message, crypto.Hash(0))
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		return key.Sign(rand.Reader, digest[:], crypto.SHA256)
	}
	return nil, errKeyKind
}

// Signer is the owner of a certificate that is trusted.
type Signer struct {
	identity.Peer
	certificate *x509.Certificate
}

// Check returns an error unless the signer has signed a message.
func (s *Signer) Check(message, signature []byte) error {
	algorithm := x509.ECDSAWithSHA256
	if s.certificate.PublicKeyAlgorithm == x509.Ed25519 {
		algorithm = x509.PureEd25519
	}
	return s.certificate.CheckSignature(algorithm, message, signature)
}

// Signers are the certificates that were verified lately, so that the next signature with one of them does not cost
// that again. The zero value is ready to use, also concurrently.
type Signers struct {
	mu    sync.Mutex
	trust *identity.Trust // that has verified them
	known map[[sha256.Size]byte]*Signer
}

// maxSigners bounds the certificates that are kept: about two for each namespace with sidecars of the store, in each
// data center. Nobody but an authority can make more of them.
const maxSigners = 1024

// Verify returns the owner of a certificate chain, leaf first, that is trusted to sign now.
func (s *Signers) Verify(chain [][]byte, trust *identity.Trust, now time.Time) (*Signer, error) {
	digest := digestOf(chain)
	if v := s.get(digest, trust); v != nil && now.Before(v.NotAfter) && !now.Before(v.certificate.NotBefore) {
		return v, nil
	}
	certificates := make([]*x509.Certificate, len(chain))
	for i, der := range chain {
		var err error
		if certificates[i], err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("its certificate cannot be read: %w", err)
		}
	}
	if len(chain) > 0 {
		if a := certificates[0].PublicKeyAlgorithm; a != x509.ECDSA && a != x509.Ed25519 {
			return nil, errKeyKind
		}
	}
	peer, err := trust.Verify(certificates, now, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	v := &Signer{Peer: peer, certificate: certificates[0]}
	s.put(digest, trust, v)
	return v, nil
}

func digestOf(chain [][]byte) (digest [sha256.Size]byte) {
	h := sha256.New()
	for _, der := range chain {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(der))))
		h.Write(der)
	}
	h.Sum(digest[:0])
	return digest
}

func (s *Signers) get(digest [sha256.Size]byte, trust *identity.Trust) *Signer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trust != trust {
		return nil
	}
	return s.known[digest]
}

func (s *Signers) put(digest [sha256.Size]byte, trust *identity.Trust, v *Signer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trust != trust || len(s.known) >= maxSigners {
		s.trust, s.known = trust, map[[sha256.Size]byte]*Signer{}
	}
	s.known[digest] = v
}
