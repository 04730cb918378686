package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// authority is a CA of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serial int64

func issue(t *testing.T, template *x509.Certificate, by *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	template.SerialNumber = big.NewInt(serial)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func newAuthority(t *testing.T, name string) *authority {
	return issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// keys are the TLS files of one process.
type keys struct{ TLSFiles }

func newKeys(t *testing.T, ca *authority, trusted ...*authority) *keys {
	dir := t.TempDir()
	k := &keys{TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt"), ServerName: "orders.causalstore"}}
	k.renew(t, ca)
	k.trust(t, append(trusted, ca)...)
	return k
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// renew replaces certificate and key by new ones of an authority.
func (k *keys) renew(t *testing.T, ca *authority) {
	t.Helper()
	leaf := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "node"}, DNSNames: []string{"orders.causalstore"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca)
	der, err := x509.MarshalECPrivateKey(leaf.key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, k.Cert, leaf.pem)
	write(t, k.Key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func (k *keys) trust(t *testing.T, authorities ...*authority) {
	t.Helper()
	var all []byte
	for _, ca := range authorities {
		all = append(all, ca.pem...)
	}
	write(t, k.CA, all)
}

func withTLS(k *keys) change { return func(c *Config, _ *timings) { c.TLS = &k.TLSFiles } }

func TestOnlyTrustedCertificatesAreAccepted(t *testing.T) {
	ca, stranger := newAuthority(t, "ours"), newAuthority(t, "a stranger's")
	d := newDirectory()
	b := start(t, d, []topology.Node{middlemanB}, withTLS(newKeys(t, ca)))
	wrongName := newKeys(t, ca)
	wrongName.ServerName = "other.causalstore"
	for name, changes := range map[string][]change{
		"plain TCP":                       nil,
		"a stranger's certificate":        {withTLS(newKeys(t, stranger, ca))},
		"a client that does not trust us": {withTLS(newKeys(t, stranger))},
		"another server name":             {withTLS(wrongName)},
	} {
		a := start(t, d, []topology.Node{coordinatorA}, changes...)
		a.Send(put(coordinatorA, middlemanB, 1))
		waitFor(t, name+" to be refused", func() bool {
			s := a.Stats()
			return s.Failed > 1 && dropped(s, DropBroken) == 1 && s.Opened == 0
		})
		a.Close()
	}
	a := start(t, d, []topology.Node{coordinatorA}, withTLS(newKeys(t, ca)))
	a.Send(put(coordinatorA, middlemanB, 2))
	b.wait(t, 1)
	same(t, "handled", b.seqs(), []uint64{2})
	if s := b.Stats(); s.Opened != 1 {
		t.Errorf("%d links were opened", s.Opened)
	}
}

func TestKeyRotationKeepsLinks(t *testing.T) {
	before, after := newAuthority(t, "old"), newAuthority(t, "new")
	d := newDirectory()
	ka, kb := newKeys(t, before), newKeys(t, before)
	a := start(t, d, []topology.Node{coordinatorA}, withTLS(ka))
	b := start(t, d, []topology.Node{middlemanB}, withTLS(kb))
	a.Send(put(coordinatorA, middlemanB, 0))
	b.wait(t, 1)

	// The order of a safe rotation: trust both authorities, renew the certificates, then trust only the new authority.
	for _, k := range []*keys{ka, kb} {
		k.trust(t, before, after)
	}
	for _, k := range []*keys{ka, kb} {
		k.renew(t, after)
	}
	for _, k := range []*keys{ka, kb} {
		k.trust(t, after)
	}
	a.Send(put(coordinatorA, middlemanB, 1))
	b.wait(t, 2)
	b.Send(put(middlemanB, coordinatorA, 2)) // a new connection, with new keys on both sides
	a.wait(t, 1)
	newcomer := start(t, d, []topology.Node{middlemanA}, withTLS(newKeys(t, after)))
	newcomer.Send(put(middlemanA, middlemanB, 2))
	b.wait(t, 3)
	same(t, "handled", b.seqs(), upTo(3))

	late := start(t, d, []topology.Node{sidecarA}, withTLS(newKeys(t, before, after)))
	late.Send(put(sidecarA, middlemanB, 9))
	waitFor(t, "a certificate of the old authority to be refused", func() bool { return late.Stats().Failed > 1 })
	if s := a.Stats(); s.Failed != 0 || len(s.Drops) != 0 {
		t.Errorf("the rotation broke a link: %+v", s)
	}
}

func TestMismatchedFilesLeaveThePreviousKeysInUse(t *testing.T) {
	ca := newAuthority(t, "ours")
	d := newDirectory()
	ka, kb := newKeys(t, ca), newKeys(t, ca)
	a := start(t, d, []topology.Node{coordinatorA}, withTLS(ka))
	b := start(t, d, []topology.Node{middlemanB}, withTLS(kb))
	good, err := os.ReadFile(kb.Key)
	if err != nil {
		t.Fatal(err)
	}
	for i, spoil := range []func(){
		func() { write(t, kb.Key, []byte("half a key")) },
		func() { write(t, kb.Key, good); write(t, kb.CA, nil) },
		func() { _ = os.Remove(kb.Cert) },
	} {
		spoil()
		a.Send(put(coordinatorA, middlemanB, uint64(i)))
		b.wait(t, i+1)
		a.Close()
		a = start(t, d, []topology.Node{coordinatorA}, withTLS(ka))
	}
	if n := strings.Count(b.log.String(), "keeping the previous ones"); n < 3 {
		t.Errorf("the invalid files were reported %d times:\n%s", n, b.log)
	}
}
