// Package credentials makes what the parts of a store prove their identity with, for tests: authorities, certificates
// and trust files.
package credentials

import (
	"crypto/tls"
	"encoding/json"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/identity"
)

// NewAuthority makes the authority of a trust domain.
func NewAuthority(t testing.TB, domain string, at time.Time) *authority.Authority {
	t.Helper()
	a, err := authority.NewAuthority(domain, at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Issue issues a certificate.
func Issue(t testing.TB, by *authority.Authority, id contract.Identity, notBefore time.Time,
	validity time.Duration) *tls.Certificate {
	t.Helper()
	certPEM, keyPEM, err := by.Issue(id, notBefore, validity)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// Trust returns the content of the trust file of a store, as a part reads it. The trust domains of data centers and the
// authorities of trust domains are given by name.
func Trust(t testing.TB, storeID string, domains map[string]string,
	authorities map[string]*authority.Authority) *identity.Trust {
	t.Helper()
	file := contract.Trust{StoreID: storeID, DataCenters: domains, Bundles: map[string]string{}}
	for domain, a := range authorities {
		file.Bundles[domain] = string(a.CertificatePEM())
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	trust, err := identity.ParseTrust(text)
	if err != nil {
		t.Fatal(err)
	}
	return trust
}
