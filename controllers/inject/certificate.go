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

// Lifetimes of what the webhook shows. Each is renewed when a third of its time is left.
const (
	caLife      = 10 * 365 * 24 * time.Hour
	servingLife = 90 * 24 * time.Hour
)

// Names of the files in the Secret.
const (
	fileCA    = "ca.crt" // all authorities that are trusted, the newest first
	fileCAKey = "ca.key" // of the newest
	fileCert  = "tls.crt"
	fileKey   = "tls.key"
)

// renew returns the files of the Secret as they should be at a time, and whether they differ from those given. What is broken
// is made anew. An authority that is replaced stays trusted while it lasts, so that no call fails in between.
func renew(files map[string][]byte, host string, now time.Time) (map[string][]byte, bool, error) {
	out := map[string][]byte{fileCA: files[fileCA], fileCAKey: files[fileCAKey], fileCert: files[fileCert], fileKey: files[fileKey]}
	ca, err := tls.X509KeyPair(out[fileCA], out[fileCAKey])
	changed := false
	if err != nil || !lasts(ca, "", now) {
		certificate, key, err := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "causalstore-webhook"}, IsCA: true,
			BasicConstraintsValid: true,
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife)}, nil)
		if err != nil {
			return nil, false, fmt.Errorf("make an authority for the webhook: %w", err)
		}
		out[fileCA], out[fileCAKey], changed = append(certificate, stillGood(out[fileCA], now)...), key, true
		if ca, err = tls.X509KeyPair(out[fileCA], key); err != nil {
			return nil, false, err
		}
	}
	serving, err := tls.X509KeyPair(out[fileCert], out[fileKey])
	if err == nil && trusted(serving, host, out[fileCA], now) && (changed || lasts(serving, host, now)) {
		return out, changed, nil // never both at once: whoever has not heard of the new authority trusts what is shown
	}
	out[fileCert], out[fileKey], err = issue(&x509.Certificate{Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(servingLife)}, &ca)
	if err != nil {
		return nil, false, fmt.Errorf("make a certificate for the webhook: %w", err)
	}
	return out, true, nil
}

// lasts says whether a certificate is good for a host, and more than a third of its time is left.
func lasts(c tls.Certificate, host string, now time.Time) bool {
	leaf := c.Leaf
	third := leaf.NotAfter.Sub(leaf.NotBefore) / 3
	return now.After(leaf.NotBefore) && now.Before(leaf.NotAfter.Add(-third)) && (host == "" || leaf.VerifyHostname(host) == nil)
}

// trusted says whether a certificate is good for a host, to whoever trusts some authorities.
func trusted(c tls.Certificate, host string, authorities []byte, now time.Time) bool {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(authorities)
	for _, der := range c.Certificate[1:] {
		if i, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(i)
		}
	}
	_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, CurrentTime: now})
	return err == nil
}

// stillGood keeps those of some certificates that have not run out.
func stillGood(all []byte, now time.Time) (good []byte) {
	for block, rest := pem.Decode(all); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			good = append(good, pem.EncodeToMemory(block)...)
		}
	}
	return good
}

// issue makes a key and a certificate for it, signed by an authority, or by itself.
func issue(template *x509.Certificate, by *tls.Certificate) (certificate, key []byte, err error) {
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY",
		Bytes: encoded}), nil
}
