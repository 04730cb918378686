package inject

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"
)

const host = "operator.system.svc"

func verify(t *testing.T, files, trusted map[string][]byte, now time.Time) error {
	t.Helper()
	block, _ := pem.Decode(files[fileCert])
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted[fileCA])
	_, err = c.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now})
	return err
}

func mustRenew(t *testing.T, files map[string][]byte, now time.Time) (map[string][]byte, bool) {
	t.Helper()
	out, changed, err := renew(files, host, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t, out, out, now); err != nil {
		t.Fatalf("at %s the certificate is not valid: %v", now, err)
	}
	return out, changed
}

// TestCertificatesAreRenewedInTimeWithoutBreakingClients runs thirty years of weekly checks. A client that knows the
// CAs as of one check must trust the certificate that is served until the next.
func TestCertificatesAreRenewedInTimeWithoutBreakingClients(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	files, changed := mustRenew(t, nil, now)
	if !changed {
		t.Fatal("no certificate was created")
	}
	if _, changed = mustRenew(t, files, now); changed {
		t.Fatal("a new certificate was renewed at once")
	}
	certificates, authorities := 0, 0
	for range 30 * 52 {
		now = now.Add(7 * 24 * time.Hour)
		next, changed := mustRenew(t, files, now)
		if !bytes.Equal(next[fileCert], files[fileCert]) {
			certificates++
		}
		if !bytes.Equal(next[fileCAKey], files[fileCAKey]) {
			authorities++
		}
		if err := verify(t, files, next, now); err != nil {
			t.Errorf("a client that trusts the new CAs does not trust the certificate that is still served: %v", err)
		}
		if err := verify(t, next, files, now); err != nil {
			t.Errorf("a client that trusts only the old CAs does not trust the new certificate: %v", err)
		}
		if changed != !bytes.Equal(bytes.Join([][]byte{next[fileCA], next[fileCert]}, nil),
			bytes.Join([][]byte{files[fileCA],
				files[fileCert]}, nil)) {
			t.Fatal("renew reports wrongly whether the files changed")
		}
		files = next
	}
	if authorities != 4 || certificates < 150 || certificates > 200 {
		t.Errorf("in 30 years: %d new CAs and %d new certificates; want 4, and one every two months", authorities,
			certificates)
	}
}

func TestMalformedFilesAreReplaced(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, _ := mustRenew(t, nil, now)
	for _, name := range []string{fileCA, fileCAKey, fileCert, fileKey} {
		broken := map[string][]byte{}
		for k, v := range good {
			broken[k] = v
		}
		broken[name] = []byte("?")
		if _, changed := mustRenew(t, broken, now); !changed {
			t.Errorf("a malformed %s is kept", name)
		}
	}
	if out, _, err := renew(good, "another.host", now); err != nil || bytes.Equal(out[fileCert], good[fileCert]) {
		t.Errorf("a certificate for another host is kept (%v)", err)
	}
}
