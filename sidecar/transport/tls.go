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

// TLSFiles turns on mutual TLS. The files are read again for every new connection, so a rotation needs no restart:
// connections that are open stay, new ones use what the files hold then. While the files do not fit together, as in the
// middle of a rotation, the last ones that did stay in use.
type TLSFiles struct {
	// Cert and Key are of this process, in PEM. The certificate must be good for client and server authentication.
	Cert, Key string
	// CA holds the certificates, in PEM, that those of the peers must descend from.
	CA string
	// ServerName is what the certificates of dialed peers must be for; empty is the host that is dialed.
	ServerName string
}

// keyring holds the keys as they were last read.
type keyring struct {
	files TLSFiles
	log   *slog.Logger

	mu    sync.Mutex
	read  [sha256.Size]byte // of the files as they were last read, fit or not
	cert  *tls.Certificate
	peers *x509.CertPool
}

func newKeyring(files TLSFiles, log *slog.Logger) (*keyring, error) {
	k := &keyring{files: files, log: log}
	if _, err := k.reload(); err != nil {
		return nil, err
	}
	return k, nil
}

// reload takes over the files if they have changed, and reports whether they have.
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
	if digest := sum.Sum(nil); bytes.Equal(digest, k.read[:]) {
		return false, nil
	} else {
		copy(k.read[:], digest)
	}
	cert, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return true, fmt.Errorf("TLS certificate %s with key %s: %w", k.files.Cert, k.files.Key, err)
	}
	peers := x509.NewCertPool()
	if !peers.AppendCertsFromPEM(content[2]) {
		return true, fmt.Errorf("TLS authorities %s: no certificate in PEM is in it", k.files.CA)
	}
	k.cert, k.peers = &cert, peers
	return true, nil
}

// current returns the keys for a new connection.
func (k *keyring) current() (*tls.Certificate, *x509.CertPool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch changed, err := k.reload(); {
	case err != nil:
		k.log.Warn("keeping the last TLS keys", "error", err)
	case changed:
		k.log.Info("using new TLS keys", "certificate", k.files.Cert)
	}
	return k.cert, k.peers
}

// server returns credentials that ask the keyring at every handshake.
func (k *keyring) server() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cert, peers := k.current()
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				NextProtos:   []string{"h2"},
				Certificates: []tls.Certificate{*cert},
				ClientAuth:   tls.RequireAndVerifyClientCert,
				ClientCAs:    peers,
				// A resumed session would skip what a rotation has changed.
				SessionTicketsDisabled: true,
			}, nil
		},
	})
}

// client returns credentials for one connection.
func (k *keyring) client() credentials.TransportCredentials {
	cert, peers := k.current()
	return credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{*cert},
		RootCAs:      peers,
		ServerName:   k.files.ServerName,
	})
}
