package contract

import (
	"bytes"
	"crypto/tls"
	"errors"
	"maps"
	"slices"
	"strings"
)

// FirstUser returns a client of a store whose password is in the Secret of users, and not only its digest; of two
// passwords, the first one. Checks that connect to fronts use it.
func FirstUser(data map[string][]byte) (name, password string, err error) {
	for _, name := range slices.Sorted(maps.Keys(data)) {
		for line := range strings.Lines(string(data[name])) {
			line = strings.TrimRight(line, "\r\n")
			if _, isHash := ParsePasswordHash(line); !isHash && line != "" {
				return name, line, nil
			}
		}
	}
	return "", "", errors.New("it has no password, only digests, so that this check cannot connect; add a user for it")
}

// PinFront accepts the one certificate that fronts should have. Checks know neither the authorities that clients trust
// nor the names that they use.
func PinFront(certificate []byte) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			if !bytes.Equal(s.PeerCertificates[0].Raw, certificate) {
				return errors.New(
					"the front has another certificate than the Secret; it takes up to two minutes to " +
						"learn of a new one")
			}
			return nil
		}}
}
