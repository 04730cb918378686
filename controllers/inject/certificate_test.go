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
		t.Fatalf("at %s the certificate is not good: %v", now, err)
	}
	return out, changed
}

// TestCertificatesAreRenewedInTimeAndNobodyIsCutOff lives through thirty years of looks, and checks that whoever has heard of
// the authorities at one look trusts what is shown until the next.
func TestCertificatesAreRenewedInTimeAndNobodyIsCutOff(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	files, changed := mustRenew(t, nil, now)
	if !changed {
		t.Fatal("there was nothing, and nothing was made")
	}
	if _, changed = mustRenew(t, files, now); changed {
		t.Fatal("a new certificate was renewed at once")
	}
	servings, authorities := 0, 0
	for range 30 * 52 {
		now = now.Add(7 * 24 * time.Hour)
		next, changed := mustRenew(t, files, now)
		if !bytes.Equal(next[fileCert], files[fileCert]) {
			servings++
		}
		if !bytes.Equal(next[fileCAKey], files[fileCAKey]) {
			authorities++
		}
		if err := verify(t, files, next, now); err != nil {
			t.Errorf("who trusts the new authorities does not trust the certificate that is still shown: %v", err)
		}
		if err := verify(t, next, files, now); err != nil {
			t.Errorf("who trusts the old authorities only does not trust the new certificate: %v", err)
		}
		if changed != !bytes.Equal(bytes.Join([][]byte{next[fileCA], next[fileCert]}, nil), bytes.Join([][]byte{files[fileCA],
			files[fileCert]}, nil)) {
			t.Fatal("it says wrongly whether something has changed")
		}
		files = next
	}
	if authorities != 4 || servings < 150 || servings > 200 {
		t.Errorf("in 30 years: %d authorities and %d certificates more; want 4, and one in two months", authorities, servings)
	}
}

func TestWhatIsBrokenIsMadeAnew(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, _ := mustRenew(t, nil, now)
	for _, name := range []string{fileCA, fileCAKey, fileCert, fileKey} {
		broken := map[string][]byte{}
		for k, v := range good {
			broken[k] = v
		}
		broken[name] = []byte("?")
		if _, changed := mustRenew(t, broken, now); !changed {
			t.Errorf("a broken %s stays", name)
		}
	}
	if out, _, err := renew(good, "another.host", now); err != nil || bytes.Equal(out[fileCert], good[fileCert]) {
		t.Errorf("a certificate for another host stays (%v)", err)
	}
}
