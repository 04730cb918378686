package canary

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// codeBytes is the length of the code of a value.
const codeBytes = 8

// signer makes and verifies the values of a run.
type signer struct{ secret []byte }

// value returns the n-th value that a session writes, to a key.
func (s signer) value(key, session string, n int) string {
	body := fmt.Sprintf("%s-%d", session, n)
	return body + "." + s.code(key, body)
}

// valid reports whether a canary of the run has written a value to a key.
func (s signer) valid(key, value string) bool {
	at := strings.LastIndexByte(value, '.')
	return at >= 0 && hmac.Equal([]byte(value[at+1:]), []byte(s.code(key, value[:at])))
}

func (s signer) code(key, body string) string {
	m := hmac.New(sha256.New, s.secret)
	fmt.Fprintf(m, "%d:%s%s", len(key), key, body)
	return hex.EncodeToString(m.Sum(nil)[:codeBytes])
}
