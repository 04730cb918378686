package transport

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"google.golang.org/grpc/credentials"
)

// TLSFiles enables mutual TLS. The files are read again for every new connection, so rotating them needs no restart: open
// connections stay, and new ones use the current files. While the files do not match each other, as in the middle of a
// rotation, the last matching ones stay in use.
type TLSFiles struct {
	// Cert and Key are the certificate and key of this process, in PEM. The certificate must be valid for both client and
	// server authentication.
	Cert, Key string
	// CA contains the authorities that the certificates of peers must chain to, in PEM.
	CA string
	// ServerName is the name that the certificates of dialed peers must be valid for. Empty is the dialed host.
	ServerName string
}

// keyring holds the keys that were last read.
type keyring struct {
	files TLSFiles
	log   *slog.Logger

	mu          sync.Mutex
	digest      [sha256.Size]byte // of the files that were last read, valid or not
	cert        *tls.Certificate
	authorities *x509.CertPool
}

func newKeyring(files TLSFiles, log *slog.Logger) (*keyring, error) {
	k := &keyring{files: files, log: log}
	if _, err := k.reload(); err != nil {
		return nil, err
	}
	return k, nil
}

// reload reads the files if they have changed, and reports whether they have.
func (k *keyring) reload() (changed bool, err error) {
	var content [3][]byte
	sum := sha256.New()
	for i, name := range []string{k.files.Cert, k.files.Key, k.files.CA} {
		if content[i], err = os.ReadFile(name); err != nil {
			return true, fmt.Errorf("read TLS files: %w", err)
		}
		fmt.Fprintf(sum, "%d ", len(content[i]))
		sum.Write(content[i])
	}
	if digest := sum.Sum(nil); bytes.Equal(digest, k.digest[:]) {
		return false, nil
	} else {
		copy(k.digest[:], digest)
	}
	cert, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return true, fmt.Errorf("TLS certificate %s with key %s: %w", k.files.Cert, k.files.Key, err)
	}
	peers := x509.NewCertPool()
	if !peers.AppendCertsFromPEM(content[2]) {
		return true, fmt.Errorf("TLS authorities %s: the file contains no certificate in PEM", k.files.CA)
	}
	k.cert, k.authorities = &cert, peers
	return true, nil
}

// load returns the certificate and the authorities for a new connection.
func (k *keyring) load() (*tls.Certificate, *x509.CertPool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch changed, err := k.reload(); {
	case err != nil:
		k.log.Warn("cannot load the TLS files, keeping the previous ones", "error", err)
	case changed:
		k.log.Info("loaded new TLS files", "certificate", k.files.Cert)
	}
	return k.cert, k.authorities
}

// serverCredentials returns credentials that load the keys at every handshake.
func (k *keyring) serverCredentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cert, peers := k.load()
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				NextProtos:   []string{"h2"},
				Certificates: []tls.Certificate{*cert},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    peers,
				// A resumed session would not check against the rotated files.
				SessionTicketsDisabled: true,
			}, nil
		},
	})
}

// clientCredentials returns credentials for one connection, with the current keys.
func (k *keyring) clientCredentials() credentials.TransportCredentials {
	cert, peers := k.load()
	return credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{*cert},
		RootCAs:      peers,
		ServerName:   k.files.ServerName,
	})
}
