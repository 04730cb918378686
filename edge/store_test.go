package edge_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/authority"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

const storeID = "1c8f6a52-93f4-4f7e-8c0a-5b1f6d2e7a90"

// pair is a certificate with its key, in PEM and for TLS.
type pair struct {
	cert, key []byte
	tls       tls.Certificate
}

func issue(t *testing.T, a *authority.Authority, id contract.Identity, notBefore time.Time,
	validity time.Duration) pair {
	t.Helper()
	cert, key, err := a.Issue(id, notBefore, validity)
	must(t, err)
	return newPair(t, cert, key)
}

func newPair(t *testing.T, cert, key []byte) pair {
	t.Helper()
	c, err := tls.X509KeyPair(cert, key)
	must(t, err)
	return pair{cert, key, c}
}

func (p pair) files() map[string]string {
	return map[string]string{"0.crt": string(p.cert), "0.key": string(p.key)}
}

// region is a trust domain with one data center, its edge and one part that echoes.
type region struct {
	name, dc string
	ca       *authority.Authority
	edge     *envoy
	input    edge.Input
	echo     net.Listener
	// seen are the certificates of the clients of the part.
	seen chan *x509.Certificate
}

func newAuthority(t *testing.T, name string) *authority.Authority {
	t.Helper()
	ca, err := authority.NewAuthority(name, time.Now())
	must(t, err)
	return ca
}

// newRegion makes a region without peers, whose middleman 0 is a TLS server that echoes.
func newRegion(t *testing.T, name string) *region {
	t.Helper()
	r := &region{name: name, dc: name + "-1", ca: newAuthority(t, name), edge: newEnvoy(t),
		seen: make(chan *x509.Certificate, 1000)}
	r.edge.certificate.write(t, r.issue(t, contract.RoleEdge, "0").files())
	r.input = edge.Input{StoreID: storeID, DataCenter: r.dc, TrustDomain: name, Bundle: string(r.ca.CertificatePEM())}
	r.echo = r.serve(t, r.issue(t, contract.RoleMiddleman, "0"))
	r.input.Parts = []edge.Part{{Name: r.part(0), Address: byName(r.echo.Addr().String())}}
	return r
}

func (r *region) part(index int) string {
	return contract.PartName(contract.RoleMiddleman, index, r.dc, storeID)
}

func (r *region) issue(t *testing.T, role contract.Role, member string) pair {
	t.Helper()
	return issue(t, r.ca, contract.Identity{TrustDomain: r.name, StoreID: storeID, DataCenter: r.dc, Role: role,
		Member: member}, time.Now().Add(-time.Minute), time.Hour)
}

// peer returns the region as others know it.
func (r *region) peer() edge.Peer {
	return edge.Peer{DataCenter: r.dc, Address: byName(r.edge.at.Ingress), TrustDomain: r.name, Bundle: r.input.Bundle}
}

// byName returns a loopback address with the name that DNS has for it, which is also that of ::1, where nothing
// listens.
func byName(address string) string { return strings.Replace(address, "127.0.0.1", "localhost", 1) }

func (r *region) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(r.ca.Certificate())
	return pool
}

// trust makes regions peers of each other and starts their edges.
func trust(t *testing.T, regions ...*region) {
	t.Helper()
	for _, r := range regions {
		for _, other := range regions {
			if other != r {
				r.input.Peers = append(r.input.Peers, other.peer())
			}
		}
		r.edge.configure(t, r.input)
	}
	for _, r := range regions {
		r.edge.start(t)
	}
}

// serve starts a server that demands a client certificate, reports it, and echoes.
func (r *region) serve(t *testing.T, p pair) net.Listener {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{p.tls},
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				conn := c.(*tls.Conn)
				if conn.Handshake() != nil {
					return
				}
				select {
				case r.seen <- conn.ConnectionState().PeerCertificates[0]:
				default:
				}
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l
}

// verifier returns a check of a server's chain by a region's authorities: server names of parts are not in
// certificates.
func (r *region) verifier() func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: r.roots(),
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		return err
	}
}

// dial connects to a part of another region through the egress for parts of this one.
func (r *region) dial(client pair, to *region, name string) (*tls.Conn, error) {
	return r.dialThrough(r.edge.at.EgressParts, client, to, name)
}

// dialThrough connects to a part of another region through an egress.
func (r *region) dialThrough(egress string, client pair, to *region, name string) (*tls.Conn, error) {
	raw, err := net.DialTimeout("tcp", egress, patience)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(patience))
	conn := tls.Client(raw, &tls.Config{ServerName: name, Certificates: []tls.Certificate{client.tls},
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, VerifyConnection: to.verifier()})
	if err := conn.Handshake(); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// speak sends a line over a connection and wants it back.
func speak(conn io.ReadWriter, line string) error {
	if _, err := io.WriteString(conn, line); err != nil {
		return err
	}
	got := make([]byte, len(line))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != line {
		return fmt.Errorf("sent %q, got %q", line, got)
	}
	return nil
}
