package resp

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/lab/credentials"
	"github.com/causalstore/causalstore/sidecar/front"
)

// The certificates of clients are looked at as those of parts: before they are parsed they must be small, and then
// strong and of use.
func TestCertificatesOfClientsAreSmallStrongAndOfUse(t *testing.T) {
	servers := newAuthority(t)
	clients := credentials.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "clients"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign},
		credentials.NewKey(t), nil)
	var log capture.Buffer
	s, _ := serve(t, Options{Backend: newMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f := newTLSFiles(t, servers)
	f.ClientCA = filepath.Join(t.TempDir(), "ca.crt")
	f.write(f.ClientCA, encodeCertificate(clients.Leaf))
	_, address := serveTLS(t, s, f)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := credentials.Sign(t, &x509.Certificate{DNSNames: []string{"app"}}, credentials.NewKey(t), clients)
	for _, try := range []struct {
		name string
		cert *tls.Certificate
		want string // in the log; empty: it is served
	}{
		{"good", good, ""},
		{"with its authority", credentials.WithJunk(good, clients), ""},
		{"the largest that crypto/tls accepts with TLS 1.2", credentials.Named(t, 21_000),
			"more than a TLS handshake may take"},
		{"with junk behind it", credentials.WithJunk(good, credentials.Named(t, 1000)),
			"does not lead to an authority that is trusted"},
		{"of nobody", credentials.Named(t, 1), "unknown authority"},
		{"weak", credentials.Sign(t, &x509.Certificate{DNSNames: []string{"app"}}, weak, clients),
			"its RSA key has 1024 bits"},
	} {
		for i, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			s.tlsLog = front.LogLimit{}
			config := servers.trust()
			config.MinVersion, config.MaxVersion = version, version
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return try.cert, nil
			}
			p, err := dialTLS(t, address, config)
			if try.want == "" {
				if err != nil {
					t.Errorf("%s, %x: %v", try.name, version, err)
					continue
				}
				p.expect("+PONG\r\n", "PING")
				continue
			}
			if err == nil {
				if _, err = p.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s, %x: not refused: %v", try.name, version, err)
				}
			}
			waitFor(t, fmt.Sprintf("%s to be refused with TLS %x", try.name, version), func() bool {
				return strings.Count(log.String(), try.want) == i+1 && s.Handshakes() == 0
			})
		}
	}
}

func TestHandshakesOfClientsAreBoundedAndOpenConnectionsAreNotInTheWay(t *testing.T) {
	ca := newAuthority(t)
	s, _ := serve(t, Options{Backend: newMemory()})
	_, address := serveTLS(t, s, newTLSFiles(t, ca))
	open := mustDialTLS(t, address, ca.trust())
	open.expect("+PONG\r\n", "PING")
	const more = 10
	for range 4096 + more { // without a memory limit
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	waitFor(t, "the oldest ones to make place", func() bool {
		return s.Handshakes() == 4096 && s.stats.protocolErrors.Load() == more
	})
	open.expect("+PONG\r\n", "PING")
	p := mustDialTLS(t, address, ca.trust())
	p.expect("+PONG\r\n", "PING")
}

func encodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
