package register

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
)

// namedCertificates makes an authority, and certificates of a server with a host name and of a client, as files.
func namedCertificates(t *testing.T, host string) (server, client files, ca string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var parent *x509.Certificate
	var parentKey *ecdsa.PrivateKey
	issue := func(name string, template x509.Certificate) files {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour),
			time.Now().Add(time.Hour)
		template.BasicConstraintsValid = true
		if parent == nil {
			parent, parentKey = &template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, &template, parent, key.Public(), parentKey)
		if err != nil {
			t.Fatal(err)
		}
		keyPEM, err := authority.EncodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return files{cert: write(name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			key: write(name+".key", keyPEM)}
	}
	ca = issue("ca", x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign}).cert
	// The gateway of etcd connects to the server itself, with the certificate of the server.
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return issue("server", x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: both}),
		issue("client", x509.Certificate{ExtKeyUsage: both[1:]}), ca
}
