package contract

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
)

const (
	// minRSABits and minCurveBits are those of keys with a strength of 112 and 128 bits.
	minRSABits   = 2048
	minCurveBits = 256
	// MaxChain bounds the certificates that a peer may send: that of its own, two intermediate ones, and their
	// authority.
	MaxChain = 4
)

// CheckKey returns why the key of a certificate proves nothing: it is too weak, or of another kind than RSA, ECDSA and
// Ed25519. Weak signatures need no check: crypto/x509 verifies none that uses MD5 or SHA-1.
func CheckKey(c *x509.Certificate) error {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("its RSA key has %d bits, and %d are the least; ECDSA with P-256 is better",
				bits, minRSABits)
		}
	case *ecdsa.PublicKey:
		if p := key.Curve.Params(); p.BitSize < minCurveBits {
			return fmt.Errorf("its key is on the curve %s, which is too weak; use P-256", p.Name)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("its key is of the kind %s; use ECDSA with P-256", c.PublicKeyAlgorithm)
	}
	return nil
}

// VerifyChain verifies the certificates of a peer, its own first, up to one of the roots. Beside what crypto/x509
// verifies, the chain must be short, all keys strong, and every certificate of use: what no authority has signed is
// neither accepted nor kept. It returns the chains that are good.
func VerifyChain(sent []*x509.Certificate, o x509.VerifyOptions) (good [][]*x509.Certificate, err error) {
	switch {
	case len(sent) == 0:
		return nil, errors.New("the peer has sent no certificate")
	case len(sent) > MaxChain:
		return nil, fmt.Errorf("the peer has sent %d certificates, and a chain may have %d", len(sent), MaxChain)
	}
	o.Intermediates = x509.NewCertPool()
	for _, c := range sent[1:] {
		o.Intermediates.AddCert(c)
	}
	all, err := sent[0].Verify(o)
	if err != nil {
		return nil, err
	}
	for _, chain := range all {
		if weak := checkKeys(chain); weak != nil {
			err = weak
		} else {
			good = append(good, chain)
		}
	}
	if len(good) == 0 {
		return nil, err
	}
	for _, c := range sent[1:] {
		if !isIn(good, c) {
			return nil,
				fmt.Errorf(
					"the peer has sent the certificate of %q, which does not lead to an authority that is trusted; "+
						"remove it from the file of the certificate", c.Subject.String())
		}
	}
	return good, nil
}

func checkKeys(chain []*x509.Certificate) error {
	for i, c := range chain {
		switch err := CheckKey(c); {
		case err == nil:
		case i == 0:
			return fmt.Errorf("the certificate is too weak: %w", err)
		default:
			return fmt.Errorf("the certificate is signed by an authority that is too weak, %q: %w",
				c.Subject.String(), err)
		}
	}
	return nil
}

func isIn(chains [][]*x509.Certificate, c *x509.Certificate) bool {
	for _, chain := range chains {
		for _, used := range chain {
			if used.Equal(c) {
				return true
			}
		}
	}
	return false
}
