package resp

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/front"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

var serials int64

func issue(t testing.TB, template *x509.Certificate, by *authority) (a *authority, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serials++
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(serials), time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour)
	a = &authority{cert: template, key: key}
	if by == nil {
		by = a
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return a, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

func newAuthority(t testing.TB) *authority {
	a, _ := issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

// leaf returns a certificate for 127.0.0.1, for servers and clients, with its key.
func (a *authority) leaf(t testing.TB) (cert, key []byte) {
	l, key := issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a)
	return l.pem, key
}

// trust returns the configuration of a client that trusts an authority.
func (a *authority) trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

// withCertificate adds a certificate of another authority, or the same.
func withCertificate(t testing.TB, c *tls.Config, of *authority) *tls.Config {
	cert, err := tls.X509KeyPair(of.leaf(t))
	if err != nil {
		t.Fatal(err)
	}
	c = c.Clone()
	c.Certificates = []tls.Certificate{cert}
	return c
}

// tlsFiles are the files of a listener.
type tlsFiles struct {
	front.TLSFiles
	t testing.TB
}

func newTLSFiles(t testing.TB, of *authority) *tlsFiles {
	dir := t.TempDir()
	f := &tlsFiles{front.TLSFiles{Field: "redisTLS", Cert: filepath.Join(dir, "tls.crt"),
		Key: filepath.Join(dir, "tls.key")}, t}
	if of != nil {
		f.renew(of)
	}
	return f
}

func (f *tlsFiles) renew(of *authority) {
	cert, key := of.leaf(f.t)
	f.write(f.Cert, cert)
	f.write(f.Key, key)
}

func (f *tlsFiles) write(name string, b []byte) {
	if err := os.WriteFile(name, b, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// serveTLS also serves clients with TLS, and returns the address for them.
func serveTLS(t testing.TB, s *Server, f *tlsFiles) (*front.Certificates, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := front.NewCertificates(f.TLSFiles, s.options.Logger)
	go func() { _ = s.ServeTLS(l, k) }() // until the cleanup of serve shuts the server down
	return k, l.Addr().String()
}

func dialTLS(t testing.TB, address string, config *tls.Config) (*peer, error) {
	t.Helper()
	c, err := tls.Dial("tcp", address, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(6 * bound)); err != nil {
		t.Fatal(err)
	}
	return &peer{t: t, Conn: c, in: bufio.NewReaderSize(c, 64<<10)}, nil
}

func mustDialTLS(t testing.TB, address string, config *tls.Config) *peer {
	t.Helper()
	p, err := dialTLS(t, address, config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGoRedisWorksOverTLS(t *testing.T) {
	ca := newAuthority(t)
	s, plain := serve(t, Options{Backend: newMemory(), Users: withPassword("app", "secret")})
	_, address := serveTLS(t, s, newTLSFiles(t, ca))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := ca.trust()
		config.MinVersion, config.MaxVersion = version, version
		o, err := goredis.ParseURL("rediss://app:secret@" + address)
		if err != nil {
			t.Fatal(err)
		}
		o.TLSConfig = config
		c := goredis.NewClient(o)
		defer c.Close()
		p := c.Pipeline()
		for i := range 20_000 {
			p.Set(t.Context(), fmt.Sprint("k", i%100), strings.Repeat("v", 200), 0)
			p.Get(t.Context(), fmt.Sprint("k", i%100))
		}
		if _, err := p.Exec(t.Context()); err != nil {
			t.Errorf("version %x: %v", version, err)
		}
		big := strings.Repeat("x", 10<<20)
		if err := c.Set(t.Context(), "big", big, 0).Err(); err != nil {
			t.Error(err)
		}
		if got, err := c.Get(t.Context(), "big").Result(); err != nil || got != big {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	old := ca.trust()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := dialTLS(t, address, old); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	p := dial(t, plain) // the other port serves on
	p.expect("+OK\r\n", "AUTH", "app", "secret")
	p.expect("$200\r\n"+strings.Repeat("v", 200)+"\r\n", "GET", "k7")
}

// The client writes a whole pipeline, whose replies fit into no buffer, before it reads the first reply.
func TestAPipelineOverTLSIsReceivedWhileRepliesWait(t *testing.T) {
	ca := newAuthority(t)
	s, _ := serve(t, Options{Backend: newMemory()})
	_, address := serveTLS(t, s, newTLSFiles(t, ca))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := ca.trust()
		config.MinVersion, config.MaxVersion = version, version
		p := mustDialTLS(t, address, config)
		value := strings.Repeat("v", 2000)
		p.expect("+OK\r\n", "SET", "k", value)
		const n = 8000
		var all bytes.Buffer
		for i := range n {
			all.Write(frameOf("ECHO", fmt.Sprint(i, value)))
			all.Write(frameOf("GET", "k"))
		}
		p.send(all.Bytes()) // it returns when the server has received nearly everything
		for i := range n {
			echo := fmt.Sprint(i, value)
			if got := p.reply(); got != fmt.Sprintf("$%d\r\n%s\r\n", len(echo), echo) {
				t.Fatalf("reply %d: %.60q", i, got)
			}
			if got := p.reply(); got != "$2000\r\n"+value+"\r\n" {
				t.Fatalf("reply %d: %.60q", i, got)
			}
		}
		p.expect("+PONG\r\n", "PING")
	}
}

func TestAClientWithTLSThatReadsNothingIsDisconnected(t *testing.T) {
	ca := newAuthority(t)
	s, _ := serve(t, Options{Backend: newMemory(),
		Limits: Limits{Limits: front.Limits{WriteTimeout: 100 * time.Millisecond}}})
	_, address := serveTLS(t, s, newTLSFiles(t, ca))
	p := mustDialTLS(t, address, ca.trust())
	p.expect("+OK\r\n", "SET", "k", strings.Repeat("v", 1<<20))
	for range 32 {
		p.send(frameOf("GET", "k"))
	}
	waitFor(t, "the client to be disconnected", func() bool { return s.Connections() == 0 })
}

func TestAShutdownAnswersWhatClientsWithTLSHaveSent(t *testing.T) {
	ca := newAuthority(t)
	s, _ := serve(t, Options{Backend: newMemory()})
	_, address := serveTLS(t, s, newTLSFiles(t, ca))
	p := mustDialTLS(t, address, ca.trust())
	p.expect("+PONG\r\n", "PING")
	whole := frameOf("SET", "k", "v")
	p.send(whole[:len(whole)-4])
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	waitFor(t, "the server to stop", s.IsStopping)
	p.send(whole[len(whole)-4:])
	if got := p.reply(); got != "+OK\r\n" {
		t.Errorf("got %q", got)
	}
	p.expectClosed()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestTheWrongProtocolIsAnsweredAndLogged(t *testing.T) {
	ca := newAuthority(t)
	var log capture.Buffer
	s, plain := serve(t, Options{Backend: newMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, secure := serveTLS(t, s, newTLSFiles(t, ca))

	p := dial(t, secure)
	if got := p.do("SET", "k",
		"v"); got != "-ERR Protocol error: this port is for TLS: use rediss:// or redis-cli --tls\r\n" {
		t.Errorf("without TLS on the port with TLS: %q", got)
	}
	p.expectClosed()
	if text := log.String(); !strings.Contains(text, "without TLS on the port with TLS") {
		t.Errorf("log: %s", text)
	}
	s.tlsLog = front.LogLimit{}
	_, err := dialTLS(t, plain, ca.trust())
	if err == nil || !strings.Contains(err.Error(), "does not look like a TLS handshake") {
		t.Errorf("with TLS on the port without: %v", err)
	}
	waitFor(t, "the log line", func() bool {
		return strings.Contains(log.String(), "with TLS on the port without TLS")
	})
	if n := s.stats.protocolErrors.Load(); n != 2 {
		t.Errorf("%d protocol errors were counted", n)
	}
	// Who only looks whether the port is open is not worth a line.
	dial(t, secure).Close()
	waitFor(t, "the connections to be closed", func() bool { return s.Connections() == 0 })
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("log: %s", log.String())
	}
	dial(t, plain).expect(":0\r\n", "EXISTS", "k")
}

func TestCertificatesChangeWithoutARestart(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	var log capture.Buffer
	s, _ := serve(t, Options{Backend: newMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f := newTLSFiles(t, nil)
	k, address := serveTLS(t, s, f)
	if err := k.Ready(); err == nil || !strings.Contains(err.Error(), f.Cert) {
		t.Errorf("without files: %v", err)
	}
	if _, err := dialTLS(t, address, before.trust()); err == nil {
		t.Error("a client was accepted without a certificate")
	}
	f.renew(before)
	if err := k.Ready(); err != nil {
		t.Error(err)
	}
	open := mustDialTLS(t, address, before.trust())
	open.expect("+PONG\r\n", "PING")

	cert, key := after.leaf(t)
	f.write(f.Cert, cert) // which does not match the key
	mustDialTLS(t, address, before.trust()).expect("+PONG\r\n", "PING")
	f.write(f.Key, key)
	mustDialTLS(t, address, after.trust()).expect("+PONG\r\n", "PING")
	if _, err := dialTLS(t, address, before.trust()); err == nil {
		t.Error("the old certificate is still in use")
	}
	open.expect("+PONG\r\n", "PING")
	if text := log.String(); !strings.Contains(text, "previousInUse=true") ||
		!strings.Contains(text, "loaded new TLS files") {
		t.Errorf("log: %s", text)
	}
}

func TestClientsNeedACertificateIfAuthoritiesAreGiven(t *testing.T) {
	servers, clients := newAuthority(t), newAuthority(t)
	s, _ := serve(t, Options{Backend: newMemory()})
	f := newTLSFiles(t, servers)
	f.ClientCA = filepath.Join(t.TempDir(), "ca.crt")
	_, address := serveTLS(t, s, f)
	ping := func(c *tls.Config) error {
		p, err := dialTLS(t, address, c)
		if err != nil {
			return err
		}
		p.send(frameOf("PING"))
		if got, err := p.tryReply(); err != nil || got != "+PONG\r\n" {
			return fmt.Errorf("%q: %w", got, err)
		}
		return nil
	}
	with := withCertificate(t, servers.trust(), clients)
	if ping(with) == nil {
		t.Error("a client was accepted although the authorities are missing")
	}
	f.write(f.ClientCA, clients.pem)
	if err := ping(with); err != nil {
		t.Error(err)
	}
	for what, c := range map[string]*tls.Config{"no certificate": servers.trust(),
		"one of a stranger": withCertificate(t, servers.trust(), servers)} {
		if ping(c) == nil {
			t.Errorf("a client with %s was accepted", what)
		}
	}
	f.write(f.ClientCA, servers.pem)
	if ping(with) == nil {
		t.Error("a client of the former authority was accepted")
	}
}

func TestTooManyClientsWithTLSAreClosedWithoutABadRecord(t *testing.T) {
	ca := newAuthority(t)
	s, _ := serve(t, Options{Backend: newMemory(), Limits: Limits{Limits: front.Limits{MaxClients: 1}}})
	_, address := serveTLS(t, s, newTLSFiles(t, ca))
	mustDialTLS(t, address, ca.trust()).expect("+PONG\r\n", "PING")
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if b, _ := io.ReadAll(raw); len(b) > 0 {
		t.Errorf("it was sent %q", b)
	}
}
