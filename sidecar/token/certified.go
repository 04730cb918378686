package token

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/identity"
	"github.com/causalstore/causalstore/sidecar/signature"
)

// Lifetime is for how long a token is valid. It ends earlier with the certificate that it was signed with.
const Lifetime = 7 * 24 * time.Hour

// Certified signs tokens with the certificate of this sidecar, and verifies the certificates in those of others.
//
// A token is, in base64url: format (1 byte), expiry (8 bytes, seconds since the epoch), certificate and signature (each
// with its length as a uvarint), and the body.
type Certified struct {
	credentials signature.Credentials
	now         func() time.Time
	signers     signature.Signers
}

// NewCertified returns a Sealer. Credentials returns the certificate of this sidecar and whom it trusts, both as they
// are now: a new certificate signs the next token, and who is not trusted any more is so at once.
func NewCertified(credentials signature.Credentials, now func() time.Time) *Certified {
	return &Certified{credentials: credentials, now: now}
}

// Seal implements Sealer. It fails if nobody could open the token.
func (c *Certified) Seal(body string) (string, error) {
	own, trust := c.credentials()
	now := c.now()
	signer, err := c.verify(own.Certificate[0], trust, now)
	if err != nil {
		return "", fmt.Errorf("the certificate of this sidecar is not accepted: %w", err)
	}
	expires := now.Add(Lifetime)
	if signer.NotAfter.Before(expires) {
		expires = signer.NotAfter
	}
	// Seconds are rounded down, so that the certificate is valid for as long as the token.
	t := sealed{expires: expires.Unix(), certificate: own.Certificate[0], body: []byte(body)}
	if t.signature, err = signature.Sign(own, t.signedMessage(trust.StoreID())); err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return encoding.EncodeToString(t.encode()), nil
}

// Open implements Sealer. A client may send any number of tokens, so what costs little comes first. At most it costs
// the verification of a certificate, if that is new, and of a signature.
func (c *Certified) Open(token string) (string, error) {
	b, err := decode(token, formatCertified)
	if err != nil {
		return "", err
	}
	t, err := parse(b)
	if err != nil {
		return "", err
	}
	now := c.now()
	if now.Unix() >= t.expires {
		return "", fmt.Errorf("the token has expired at %s: go on without it",
			time.Unix(t.expires, 0).UTC().Format(time.RFC3339))
	}
	_, trust := c.credentials()
	signer, err := c.verify(t.certificate, trust, now)
	if err != nil {
		return "", fmt.Errorf("the token is of a sidecar that this one does not trust: %w", err)
	}
	if err := signer.Check(t.signedMessage(trust.StoreID()), t.signature); err != nil {
		return "", errors.New("the token was altered: its signature is wrong")
	}
	return string(t.body), nil
}

// verify returns the sidecar with a certificate that is trusted to sign tokens now. An authority in the trust file
// itself must have issued it: a token has no room for a chain.
func (c *Certified) verify(certificate []byte, trust *identity.Trust, now time.Time) (*signature.Signer, error) {
	signer, err := c.signers.Verify([][]byte{certificate}, trust, now)
	if err == nil {
		err = checkSigner(signer.Identity)
	}
	return signer, err
}

// sealed is a token, decoded.
type sealed struct {
	expires                      int64 // seconds since the epoch
	certificate, signature, body []byte
}

func (t *sealed) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{formatCertified}, uint64(t.expires))
	b = binary.AppendUvarint(b, uint64(len(t.certificate)))
	b = append(b, t.certificate...)
	b = binary.AppendUvarint(b, uint64(len(t.signature)))
	b = append(b, t.signature...)
	return append(b, t.body...)
}

// parse reads what encode has written, after the format.
func parse(b []byte) (*sealed, error) {
	t := &sealed{}
	if len(b) < 8 {
		return nil, errMalformed
	}
	expires := binary.BigEndian.Uint64(b)
	if expires > uint64(maxExpiry) {
		return nil, errMalformed
	}
	t.expires, b = int64(expires), b[8:]
	for _, part := range []*[]byte{&t.certificate, &t.signature} {
		length, n := binary.Uvarint(b)
		if n <= 0 || length == 0 || length > uint64(len(b)-n) {
			return nil, errMalformed
		}
		*part, b = b[n:n+int(length)], b[n+int(length):]
	}
	t.body = b
	return t, nil
}

// maxExpiry is the greatest time that certificates can hold: the end of the year 9999.
const maxExpiry = 253402300799

// signedContext begins what is signed.
const signedContext = "causalstore session token\x00"

// signedMessage returns what is signed: everything but the signature, for one store. All but the last part have a fixed
// length or are preceded by it, so no two tokens have the same.
func (t *sealed) signedMessage(storeID string) []byte {
	b := append([]byte(signedContext), formatCertified)
	b = binary.BigEndian.AppendUint64(b, uint64(len(storeID)))
	b = append(b, storeID...)
	b = binary.BigEndian.AppendUint64(b, uint64(t.expires))
	digest := sha256.Sum256(t.certificate)
	b = append(b, digest[:]...)
	return append(b, t.body...)
}

// checkSigner returns why an identity must not sign tokens.
func checkSigner(id contract.Identity) error {
	if id.Role != contract.RoleSidecar {
		return fmt.Errorf("%s is no sidecar: only sidecars make tokens", id)
	}
	return nil
}
