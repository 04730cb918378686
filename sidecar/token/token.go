// Package token authenticates session tokens: it seals what a session exports into a string that clients carry, and
// opens such a string at the sidecar that resumes it. Tokens are not encrypted.
//
// With certificates (Certified), a sidecar signs with the private key of its own certificate, which the token carries;
// whoever trusts that sidecar on links trusts its tokens, and nobody else can make one. Without (Keyed), all sidecars
// share a key.
//
// A token proves which sidecar has made it, and nothing else: a permitted sidecar may claim anything, and whoever
// resumes a token bounds what is in it, as coordinators bound what is in puts.
package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// Sealer seals and opens tokens. Both may be called concurrently.
type Sealer interface {
	// Seal returns a token with a body.
	Seal(body string) (token string, err error)
	// Open returns the body of a token, or why it is not authentic. The error is for the client.
	Open(token string) (body string, err error)
}

// The first byte of a token is its format.
const (
	formatKeyed     = 2 // body, MAC
	formatCertified = 3 // see certified.go
)

// MaxBytes bounds a token. That of a session which has read as many in-flight versions as it may has about 80 KiB.
const MaxBytes = 96 << 10

var errMalformed = errors.New("the token is malformed: pass it exactly as CAUSAL TOKEN returned it")

// encoding refuses bits at the end that mean nothing.
var encoding = base64.RawURLEncoding.Strict()

// decode returns what follows the first byte of a token in a format.
func decode(token string, format byte) ([]byte, error) {
	if len(token) > MaxBytes {
		return nil,
			fmt.Errorf(
				"the token has %d bytes, and no session makes one of more than %d: pass it exactly as CAUSAL TOKEN "+
					"returned it", len(token), MaxBytes)
	}
	b, err := encoding.DecodeString(token)
	switch {
	case err != nil || len(b) == 0:
		return nil, errMalformed
	case b[0] == format:
		return b[1:], nil
	case b[0] == formatKeyed:
		return nil,
			errors.New(
				"the token was made by a sidecar without certificates (tls), and this one accepts signed tokens only")
	case b[0] == formatCertified:
		return nil,
			errors.New(
				"the token was signed with the certificate of a sidecar, and this sidecar has no certificates (tls) " +
					"to verify it with")
	}
	return nil,
		fmt.Errorf("the token has format %d, which this sidecar does not read: export it again with CAUSAL TOKEN", b[0])
}

// macBytes is the length of the truncated HMAC-SHA-256 at the end of a keyed token.
const macBytes = 16

// Keyed authenticates tokens with a key that all sidecars share.
type Keyed struct{ key []byte }

// NewKeyed returns a Sealer with a key.
func NewKeyed(key []byte) *Keyed { return &Keyed{key} }

// NewRandom returns a Sealer with a new key: it opens its own tokens only.
func NewRandom() *Keyed {
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		panic(err) // the platform has no source of randomness
	}
	return NewKeyed(key)
}

// Seal implements Sealer.
func (k *Keyed) Seal(body string) (string, error) {
	b := append([]byte{formatKeyed}, body...)
	return encoding.EncodeToString(append(b, k.mac(b)...)), nil
}

// Open implements Sealer.
func (k *Keyed) Open(token string) (string, error) {
	b, err := decode(token, formatKeyed)
	if err != nil {
		return "", err
	}
	if len(b) < macBytes {
		return "", errMalformed
	}
	body, mac := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !hmac.Equal(mac, k.mac(append([]byte{formatKeyed}, body...))) {
		return "", errors.New("the token was altered, or is from a deployment with another token key")
	}
	return string(body), nil
}

func (k *Keyed) mac(b []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write(b)
	return h.Sum(nil)[:macBytes]
}
