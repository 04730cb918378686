package token

import (
	"strings"
	"testing"
)

func TestATokenIsOpenedWithTheKeyThatSealedIt(t *testing.T) {
	one := NewKeyed([]byte("a key of the tests"))
	for _, body := range []string{"", "body", strings.Repeat("x", 60000)} {
		if got, err := NewKeyed([]byte("a key of the tests")).Open(one.mustSeal(body)); err != nil || got != body {
			t.Errorf("%.20q, %v", got, err)
		}
	}
	token := one.mustSeal("body")
	for i := range token {
		altered := []byte(token)
		altered[i] ^= 1
		if _, err := one.Open(string(altered)); err == nil {
			t.Errorf("byte %d can be changed", i)
		}
		if _, err := one.Open(token[:i]); err == nil {
			t.Errorf("%d of %d bytes are accepted", i, len(token))
		}
	}
	if _, err := NewRandom().Open(token); err == nil || !strings.Contains(err.Error(), "another token key") {
		t.Errorf("with another key: %v", err)
	}
}

func TestASidecarWithoutCertificatesSaysThatItCannotVerifySignedTokens(t *testing.T) {
	r := newRegion(t)
	if _, err := NewRandom().Open(r.sidecar(r.eu, sidecarOf("eu")).seal("body")); err == nil ||
		!strings.Contains(err.Error(), "no certificates") {
		t.Errorf("%v", err)
	}
}
