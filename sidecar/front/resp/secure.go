package resp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/connlimit"
)

// TLSFiles names the PEM files of a listener with TLS. They are read again for every new connection, so that rotating
// them needs no restart: open connections stay. While they do not match each other, as in the middle of a rotation, the
// last matching ones stay in use.
type TLSFiles struct {
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
		k.log.Error("cannot use the TLS files of the Redis port", "error", err, "previousInUse", k.config != nil)
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
			return fmt.Errorf("redisTLS: %w", err)
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
		return fmt.Errorf("redisTLS: certificate %s with key %s: %w", k.files.Cert, k.files.Key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		// A resumed session would not check the certificate of the client against the files.
		SessionTicketsDisabled: true,
	}
	if k.files.ClientCA != "" {
		authorities := x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(content[k.files.ClientCA]) {
			return fmt.Errorf("redisTLS: the authorities %s: the file contains no certificate in PEM", k.files.ClientCA)
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAnyClientCert, authorities // VerifyConnection verifies it
		config.VerifyConnection = func(s tls.ConnectionState) error {
			_, err := contract.VerifyChain(s.PeerCertificates,
				x509.VerifyOptions{Roots: authorities, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			return err
		}
	}
	if k.config != nil {
		k.log.Info("loaded new TLS files of the Redis port", "certificate", k.files.Cert)
	}
	k.config = config
	copy(k.digest[:], digest)
	return nil
}

// ServeTLS is Serve for clients that use TLS, version 1.2 or newer.
func (s *Server) ServeTLS(l net.Listener, k *Certificates) error {
	return s.serve(s.handshakes.CountHandshakes(l), k)
}

const (
	// handshakeTimeout bounds the time until a client has completed the handshake.
	handshakeTimeout = 10 * time.Second
	// tlsBytes is what a connection with TLS takes beside what is accounted for: a record that is being received.
	tlsBytes = 18 << 10
)

// ciphertext is the socket below TLS. A write that does not fit alternates with reads, as for connections without TLS:
// clients may write a whole pipeline before they read its first reply. What it reads meanwhile is kept as it came,
// because a TLS connection must not be used from inside of its own write; nor may its writes time out, since it could
// not continue then.
type ciphertext struct {
	*connlimit.Conn
	c     *connection
	ahead []byte // received during writes
}

func (s *ciphertext) Read(b []byte) (int, error) {
	if len(s.ahead) == 0 {
		return s.Conn.Read(b)
	}
	n := copy(b, s.ahead)
	if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
		s.ahead = nil
	}
	return n, nil
}

func (s *ciphertext) Write(b []byte) (int, error) { return s.c.write(b) }

// receive receives once into ahead.
func (s *ciphertext) receive() error {
	if cap(s.ahead)-len(s.ahead) < readBytes {
		size := max(2*len(s.ahead), 2*readBytes)
		s.c.charge(s.c.takes() + int64(size))
		if s.c.memory.evicted.Load() {
			return net.ErrClosed
		}
		s.ahead = append(make([]byte, 0, size), s.ahead...)
	}
	s.c.account()
	n, err := s.Conn.Read(s.ahead[len(s.ahead):cap(s.ahead)])
	s.ahead = s.ahead[:len(s.ahead)+n]
	return err
}

// secure puts TLS between the connection and its socket.
func (c *connection) secure(limited *connlimit.Conn, k *Certificates) {
	c.below = &ciphertext{Conn: limited, c: c}
	c.certificates = k
	c.socket = tls.Server(c.below, &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.load() }})
}

// handshake completes the TLS handshake, and reports whether the client can be served.
func (c *connection) handshake() bool {
	ctx, cancel := context.WithTimeout(c.server.context, handshakeTimeout)
	defer cancel()
	err := c.socket.(*tls.Conn).HandshakeContext(ctx)
	if isOpen := c.below.Complete(); err == nil {
		return isOpen
	}
	var other tls.RecordHeaderError
	wrongProtocol := errors.As(err, &other) && other.Conn != nil
	switch {
	case wrongProtocol:
		c.rejectProtocol("a client without TLS on the port with TLS; it needs a URL with rediss://, or redis-cli --tls",
			nil)
		c.socket, c.below = c.raw, nil // to answer it
		c.out.beginReply()
		c.out.writeError(errNoTLS)
		c.out.endReply()
		c.out.flush()
		c.linger()
	case errors.Is(err, io.EOF) || c.server.stopping.Load(): // it only looked whether the port is open
	default:
		c.rejectProtocol("the TLS handshake of a client failed", err)
	}
	return false
}

// rejectProtocol counts and logs a client that speaks the wrong protocol.
func (c *connection) rejectProtocol(message string, err error) {
	c.server.stats.protocolErrors.Add(1)
	if m := c.server.options.Metrics; m != nil {
		m.ProtocolError()
	}
	if n, ok := c.server.tlsLog.next(time.Now()); ok {
		attributes := []any{"client", c.socket.RemoteAddr(), "port", c.socket.LocalAddr(), "unloggedBefore", n}
		if err != nil {
			attributes = append(attributes, "error", err)
		}
		c.server.options.Logger.Warn("closed a connection: "+message, attributes...)
	}
}
