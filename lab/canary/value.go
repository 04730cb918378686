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

// value returns the n-th value that a process writes, to a key.
func (s signer) value(key, process string, n int) string {
	body := fmt.Sprintf("%s-%d", process, n)
	return body + "." + s.code(key, body)
}

// valid reports whether a canary of the run has written a value to a key.
func (s signer) valid(key, value string) bool {
	body, code, ok := cutLast(value, ".")
	return ok && hmac.Equal([]byte(code), []byte(s.code(key, body)))
}

// Writer is who has written a value.
type Writer struct {
	// Incarnation is the name of the canary, as in Position. Process is that of its operation.
	Incarnation, Process string
}

// WriterOf returns who has written a value of a canary, or false if it does not look like one. It does not verify the
// code, which canaries do.
func WriterOf(value string) (w Writer, ok bool) {
	body, _, ok := cutLast(value, ".")
	if ok {
		w.Process, _, ok = cutLast(body, "-")
	}
	if ok {
		w.Incarnation, _, ok = cutLast(w.Process, "/")
	}
	return w, ok
}

func cutLast(s, sep string) (before, after string, found bool) {
	if at := strings.LastIndex(s, sep); at >= 0 {
		return s[:at], s[at+len(sep):], true
	}
	return s, "", false
}

func (s signer) code(key, body string) string {
	m := hmac.New(sha256.New, s.secret)
	fmt.Fprintf(m, "%d:%s%s", len(key), key, body)
	return hex.EncodeToString(m.Sum(nil)[:codeBytes])
}
