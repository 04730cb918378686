package front

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/causalstore/causalstore/contract"
)

// TLSFiles names the PEM files of a listener with TLS. They are read again for every new connection, so that rotating
// them needs no restart: open connections stay. While they do not match each other, as in the middle of a rotation, the
// last matching ones stay in use.
type TLSFiles struct {
	// Field is where the configuration names the files; errors begin with it.
	Field     string
	Cert, Key string
	// ClientCA holds the authorities of clients. If it is given, each client must have a certificate of theirs.
	ClientCA string
}

// Certificates are the content of TLSFiles.
type Certificates struct {
	files TLSFiles
	log   *slog.Logger

	mu      sync.Mutex
	digest  [sha256.Size]byte // of the files in use
	config  *tls.Config       // nil until the files could be used once
	problem string            // that was logged
}

// NewCertificates returns the certificates in files, which need not exist yet: until they can be used, clients are
// refused.
func NewCertificates(files TLSFiles, log *slog.Logger) *Certificates {
	return &Certificates{files: files, log: log}
}

// Ready returns why no client can be served, or nil.
func (k *Certificates) Ready() error {
	_, err := k.load()
	return err
}

// load returns the present configuration. It returns an error if there has never been one.
func (k *Certificates) load() (*tls.Config, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.read()
	switch {
	case err == nil:
		k.problem = ""
	case k.problem != err.Error(): // report files that stay wrong once
		k.problem = err.Error()
		k.log.Error("cannot use the TLS files for clients", "field", k.files.Field, "error", err, "previousInUse",
			k.config != nil)
	}
	if k.config == nil {
		return nil, err
	}
	return k.config, nil
}

// read reads the files, and replaces the configuration if they have changed.
func (k *Certificates) read() error {
	content := map[string][]byte{}
	sum := sha256.New()
	for _, name := range []string{k.files.Cert, k.files.Key, k.files.ClientCA} {
		if name == "" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("%s: %w", k.files.Field, err)
		}
		content[name] = b
		fmt.Fprintf(sum, "%d ", len(b))
		sum.Write(b)
	}
	digest := sum.Sum(nil)
	if k.config != nil && bytes.Equal(digest, k.digest[:]) {
		return nil
	}
	cert, err := tls.X509KeyPair(content[k.files.Cert], content[k.files.Key])
	if err != nil {
		return fmt.Errorf("%s: certificate %s with key %s: %w", k.files.Field, k.files.Cert, k.files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		// A resumed session would not check the certificate of the client against the files.
		SessionTicketsDisabled: true,
	}
	if k.files.ClientCA != "" {
		authorities := x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(content[k.files.ClientCA]) {
			return fmt.Errorf("%s: the authorities %s: the file contains no certificate in PEM", k.files.Field,
				k.files.ClientCA)
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAnyClientCert, authorities // VerifyConnection verifies it
		config.VerifyConnection = func(s tls.ConnectionState) error {
			_, err := contract.VerifyChain(s.PeerCertificates,
				x509.VerifyOptions{Roots: authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			return err
		}
	}
	if k.config != nil {
		k.log.Info("loaded new TLS files for clients", "field", k.files.Field, "certificate", k.files.Cert)
	}
	k.config = config
	copy(k.digest[:], digest)
	return nil
}

// handshakeTimeout bounds the time until a client has completed the handshake.
const handshakeTimeout = 10 * time.Second

// UsesTLS reports whether the client has to use TLS.
func (c *Client) UsesTLS() bool { return c.certificates != nil }

// BelowTLS returns the socket as TLS has to read from it: bounded until the handshake is complete.
func (c *Client) BelowTLS() net.Conn { return c.limited }

// TLS returns the server's side of TLS on a connection, which reads from BelowTLS.
func (c *Client) TLS(below net.Conn) *tls.Conn {
	return tls.Server(below, &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.certificates.load() }})
}

// Handshake completes the TLS handshake. It returns false without an error if the connection had to make place for
// others meanwhile.
func (c *Client) Handshake(t *tls.Conn) (open bool, err error) {
	ctx, cancel := context.WithTimeout(c.server.context, handshakeTimeout)
	defer cancel()
	err = t.HandshakeContext(ctx)
	open = c.limited.Complete()
	return open && err == nil, err
}
