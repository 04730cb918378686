package etcd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/authority"
)

// The names of certificates in their Secrets, and of the bundle beside them.
const (
	// ServerCertificate is what a member presents to clients and to members that connect to it.
	ServerCertificate = "server"
	// PeerCertificate is what a member presents to members that it connects to. It has no name of a host: etcd would
	// look it up for every connection, and compare it with the address of the caller.
	PeerCertificate = "peer"
	// ClientCertificate is that of a coordinator.
	ClientCertificate = "tls"
	BundleFile        = "ca.crt"
)

// The common names of certificates. Members admit to their peer port only whoever has that of a member.
const (
	memberName = "etcd"
	clientName = "coordinator"
)

// Certificates are as those of parts: valid for leafLife, and renewed at the age of renewAge.
const (
	leafLife = 7 * 24 * time.Hour
	renewAge = 24 * time.Hour
)

// Certificate is one that a Secret should have.
type Certificate struct {
	Name, commonName string
	hosts            []string
	usages           []x509.ExtKeyUsage
}

// MemberCertificates are those of the members of an etcd, which share them: all of them have the same rights.
func MemberCertificates(hosts []string) []Certificate {
	return []Certificate{
		{Name: ServerCertificate, commonName: memberName, hosts: hosts,
			usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		{Name: PeerCertificate, commonName: memberName, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	}
}

// ClientCertificates is that of the coordinators of a data center.
func ClientCertificates() []Certificate {
	return []Certificate{{Name: ClientCertificate, commonName: clientName,
		usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}}
}

// Renew returns the files that a Secret should have, whether they differ from those that it has, and when the first
// certificate expires. New are certificates that are missing, a day old, for other names, or not of the root that
// issues.
func (a *Authority) Renew(files map[string][]byte, wanted []Certificate, now time.Time) (renewed map[string][]byte,
	changed bool, expires time.Time, err error) {
	renewed = map[string][]byte{BundleFile: a.Bundle()}
	changed = !bytes.Equal(files[BundleFile], renewed[BundleFile])
	for _, c := range wanted {
		cert, key := files[c.Name+".crt"], files[c.Name+".key"]
		leaf := readLeaf(cert, key)
		if a.isDue(leaf, c, now) {
			if cert, key, err = a.issue(c, now); err != nil {
				return nil, false, time.Time{}, fmt.Errorf("issue certificate %s: %w", c.Name, err)
			}
			leaf, changed = readLeaf(cert, key), true
		}
		renewed[c.Name+".crt"], renewed[c.Name+".key"] = cert, key
		if expires.IsZero() || leaf.NotAfter.Before(expires) {
			expires = leaf.NotAfter
		}
	}
	return renewed, changed || len(files) != len(renewed), expires, nil
}

// readLeaf returns a certificate, or nil if it or its key is malformed.
func readLeaf(cert, key []byte) *x509.Certificate {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil
	}
	return pair.Leaf
}

func (a *Authority) isDue(leaf *x509.Certificate, c Certificate, now time.Time) bool {
	return leaf == nil || leaf.Subject.CommonName != c.commonName || !slices.Equal(leaf.DNSNames, c.hosts) ||
		!slices.Equal(leaf.ExtKeyUsage, c.usages) ||
		leaf.CheckSignatureFrom(a.issuing.leaf) != nil || now.Before(leaf.NotBefore) ||
		!now.Before(leaf.NotBefore.Add(authority.Backdate+renewAge))
}

func (a *Authority) issue(c Certificate, now time.Time) (cert, keyPEM []byte, err error) {
	ca, err := tls.X509KeyPair(a.issuing.cert, a.issuing.key)
	if err != nil {
		return nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: c.commonName}, DNSNames: c.hosts,
		NotBefore: now.Add(-authority.Backdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: c.usages, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.issuing.leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	if keyPEM, err = authority.EncodeKey(key); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM, nil
}
