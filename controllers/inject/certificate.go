package inject

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Lifetimes of the webhook's certificates. Each is renewed when a third of its lifetime is left.
const (
	caLife      = 10 * 365 * 24 * time.Hour
	servingLife = 90 * 24 * time.Hour
)

// Names of the files in the Secret.
const (
	fileCA    = "ca.crt" // all trusted CAs, the newest first
	fileCAKey = "ca.key" // of the newest CA
	fileCert  = "tls.crt"
	fileKey   = "tls.key"
)

// renew returns the files that the Secret should have at a time, and whether they differ from those given. It replaces
// files that are malformed. A CA that is replaced stays trusted until it expires, so that no call fails in between.
func renew(files map[string][]byte, host string, now time.Time) (map[string][]byte, bool, error) {
	out := map[string][]byte{fileCA: files[fileCA], fileCAKey: files[fileCAKey], fileCert: files[fileCert],
		fileKey: files[fileKey]}
	ca, err := tls.X509KeyPair(out[fileCA], out[fileCAKey])
	changed := false
	if err != nil || !isFresh(ca, "", now) {
		certificate, key, err := issueCertificate(
			&x509.Certificate{Subject: pkix.Name{CommonName: "causalstore-webhook"}, IsCA: true,
				BasicConstraintsValid: true,
				KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
				NotBefore:             now.Add(-time.Hour), NotAfter: now.Add(caLife)}, nil)
		if err != nil {
			return nil, false, fmt.Errorf("create the CA of the webhook: %w", err)
		}
		out[fileCA], out[fileCAKey], changed = append(certificate, unexpired(out[fileCA], now)...), key, true
		if ca, err = tls.X509KeyPair(out[fileCA], key); err != nil {
			return nil, false, err
		}
	}
	serving, err := tls.X509KeyPair(out[fileCert], out[fileKey])
	if err == nil && isTrusted(serving, host, out[fileCA], now) && (changed || isFresh(serving, host, now)) {
		// never both at once: clients that do not know the new CA yet must trust the served certificate
		return out, changed, nil
	}
	out[fileCert], out[fileKey], err = issueCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: host},
		DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(servingLife)}, &ca)
	if err != nil {
		return nil, false, fmt.Errorf("create the certificate of the webhook: %w", err)
	}
	return out, true, nil
}

// isFresh reports whether a certificate is valid for a host and more than a third of its lifetime is left.
func isFresh(c tls.Certificate, host string, now time.Time) bool {
	leaf := c.Leaf
	third := leaf.NotAfter.Sub(leaf.NotBefore) / 3
	return now.After(leaf.NotBefore) && now.Before(leaf.NotAfter.Add(-third)) &&
		(host == "" || leaf.VerifyHostname(host) == nil)
}

// isTrusted reports whether a client that trusts the given CAs accepts a certificate for a host.
func isTrusted(c tls.Certificate, host string, authorities []byte, now time.Time) bool {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	for _, der := range c.Certificate[1:] {
		if i, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(i)
		}
	}
	_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, DNSName: host,
		CurrentTime: now})
	return err == nil
}

// unexpired returns the certificates that have not expired.
func unexpired(all []byte, now time.Time) (valid []byte) {
	for block, rest := pem.Decode(all); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			valid = append(valid, pem.EncodeToMemory(block)...)
		}
	}
	return valid
}

// issueCertificate creates a key and a certificate for it, signed by a CA, or self-signed if by is nil.
func issueCertificate(template *x509.Certificate, by *tls.Certificate) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	parent, signer := template, any(private)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	encoded, err2 := x509.MarshalECPrivateKey(private)
	if err = errors.Join(err, err2); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
			Bytes: encoded}), nil
}
