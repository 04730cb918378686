package edge_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
	"github.com/causalstore/causalstore/lab/ports"
)

// outerConfig is how the edge of one region dials that of another.
func outerConfig(from, to *region, client *pair) *tls.Config {
	c := &tls.Config{ServerName: from.dc + ".edge." + to.dc + "." + storeID, NextProtos: []string{"h2"},
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, VerifyConnection: to.verifier()}
	if client != nil {
		c.Certificates = []tls.Certificate{client.tls}
	}
	return c
}

// tunnel asks an ingress for a tunnel, as an edge that has this TLS configuration, and returns the status.
func tunnel(t *testing.T, to *region, config *tls.Config, method, authority string) (int, error) {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", to.edge.at.Ingress)
		}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	body, more := io.Pipe()
	defer more.Close()
	req, err := http.NewRequestWithContext(ctx, method, "https://ingress/", body)
	must(t, err)
	req.Host = authority
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	resp.Header.Del("Date")
	resp.Header.Del("Content-Length")
	if len(resp.Header) > 0 && resp.StatusCode != http.StatusServiceUnavailable { // whose text has a type
		t.Errorf("%s %s is answered with headers: %v", method, authority, resp.Header)
	}
	return resp.StatusCode, nil
}

func TestAnIngressAdmitsOnlyTheEdgesOfItsPeers(t *testing.T) {
	us, eu, ap, cn := newRegion(t, "us"), newRegion(t, "eu"), newRegion(t, "ap"), newRegion(t, "cn")
	// The bundle of ap holds an authority without name constraints, which could issue for all trust domains if it were
	// believed.
	rogueKey, rogue := unrestricted(t)
	us.input.Peers = []edge.Peer{eu.peer(), ap.peer()}
	us.input.Peers[1].Bundle += string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rogue.Raw}))
	us.edge.configure(t, us.input)
	us.edge.start(t)
	now := time.Now()
	ofEU := func(change func(*contract.Identity)) *pair {
		id := edgeIdentity("eu", eu.dc)
		if change != nil {
			change(&id)
		}
		p := issue(t, eu.ca, id, now.Add(-time.Minute), time.Hour)
		return &p
	}
	signed := func(trustDomain, dc string) *pair { return forge(t, rogueKey, rogue, edgeIdentity(trustDomain, dc)) }
	id, other := edgeIdentity("ap", ap.dc).URI(), contract.Identity{TrustDomain: "ap", StoreID: storeID,
		DataCenter: ap.dc, Role: contract.RoleCoordinator, Member: "0"}.URI()
	special := func(template *x509.Certificate) *pair { return forgeWith(t, template, newKey(t), rogue, rogueKey) }
	twoURIs, twoURIsReversed := special(&x509.Certificate{URIs: []*url.URL{id, other}}),
		special(&x509.Certificate{URIs: []*url.URL{other, id}})
	withDNSName := special(&x509.Certificate{URIs: []*url.URL{id}, DNSNames: []string{"edge.example.com"}})
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	weak := forgeWith(t, &x509.Certificate{URIs: []*url.URL{id}}, weakKey, rogue, rogueKey)
	betweenKey, between := sign(t, &x509.Certificate{SerialNumber: big.NewInt(3),
		Subject: pkix.Name{CommonName: "between"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}, rogue, rogueKey)
	below := forgeWith(t, &x509.Certificate{URIs: []*url.URL{id}}, newKey(t), between, betweenKey)
	below.tls.Certificate = append(below.tls.Certificate, between.Raw)
	expired := issue(t, eu.ca, edgeIdentity("eu", eu.dc), now.Add(-time.Hour), time.Minute)
	unknown := cn.issue(t, contract.RoleEdge, "0")
	impostor := issue(t, newAuthority(t, "eu"), edgeIdentity("eu", eu.dc), now.Add(-time.Minute), time.Hour)
	for _, c := range []struct {
		about string
		from  *region // whose server name it uses
		with  *pair
		want  bool
	}{
		{"the edge of a peer", eu, ofEU(nil), true},
		{"another replica of it", eu, ofEU(func(id *contract.Identity) { id.Member = "1" }), true},
		{"no certificate", eu, nil, false},
		{"a sidecar", eu, ofEU(func(id *contract.Identity) {
			id.Role, id.Member = contract.RoleSidecar,
				"shop"
		}), false},
		{"a coordinator", eu, ofEU(func(id *contract.Identity) { id.Role = contract.RoleCoordinator }), false},
		{"the operator", eu, ofEU(func(id *contract.Identity) { id.Role = contract.RoleOperator }), false},
		{"the edge of another store", eu, ofEU(func(id *contract.Identity) {
			id.StoreID = "2c8f6a52-93f4-4f7e-8c0a-5b1f6d2e7a90"
		}), false},
		{"the edge of a data center that the manifest does not give to its trust domain", eu,
			ofEU(func(id *contract.Identity) { id.DataCenter = us.dc }), false},
		{"that of a data center whose name begins alike", eu, ofEU(func(id *contract.Identity) {
			id.DataCenter = "eu-11"
		}), false},
		{"an expired certificate", eu, &expired, false},
		{"an authority of the same name that is not in the bundle", eu, &impostor, false},
		{"a region that is not trusted, by its own name", cn, &unknown, false},
		{"a region that is not trusted, by the name of a peer", eu, &unknown, false},
		{"the edge of one peer by the name of another", ap, ofEU(nil), false},
		{"the name of eu in a certificate of ap's unrestricted authority", eu, signed("eu", eu.dc), false},
		{"the same by the name of ap", ap, signed("eu", eu.dc), false},
		{"the same authority's certificate for ap", ap, signed("ap", ap.dc), true},
		{"a certificate with two URIs", ap, twoURIs, false},
		{"the same in another order", ap, twoURIsReversed, false},
		{"a certificate with a DNS name beside the URI", ap, withDNSName, false},
		{"a certificate with an RSA key of 1024 bits", ap, weak, false},
		{"a certificate below an intermediate authority", ap, below, false},
	} {
		status, err := tunnel(t, us, outerConfig(c.from, us, c.with), http.MethodConnect, us.part(0)+":7400")
		if admitted := err == nil && status == http.StatusOK; admitted != c.want {
			t.Errorf("%s: admitted %t (status %d, %v), want %t", c.about, admitted, status, err, c.want)
		} else if !c.want && err == nil {
			t.Errorf("%s: it was refused only after the handshake, with status %d", c.about, status)
		}
	}
	old := outerConfig(eu, us, ofEU(nil))
	old.MaxVersion = tls.VersionTLS12
	if _, err := tunnel(t, us, old, http.MethodConnect, us.part(0)+":7400"); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
	eventually(t, "refused certificates are logged", func() bool {
		return us.edge.metric(t, "envoy_listener_ssl_fail_verify_san", `envoy_listener_address="ingress"`) > 0
	})
}

// unrestricted makes an authority that has no name constraints, as ours never do.
func unrestricted(t *testing.T) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "unrestricted"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}
	return sign(t, template, nil, nil)
}

// sign makes a certificate, signed by its own key if it has no parent.
func sign(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey,
	*x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	must(t, err)
	c, err := x509.ParseCertificate(der)
	must(t, err)
	return key, c
}

// forge makes a certificate for any identity.
func forge(t *testing.T, by *ecdsa.PrivateKey, parent *x509.Certificate, id contract.Identity) *pair {
	t.Helper()
	return forgeWith(t, &x509.Certificate{URIs: []*url.URL{id.URI()}}, newKey(t), parent, by)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

// forgeWith makes a certificate with any names and any key.
func forgeWith(t *testing.T, template *x509.Certificate, key crypto.Signer, parent *x509.Certificate,
	by *ecdsa.PrivateKey) *pair {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(2), time.Now().Add(-time.Minute),
		time.Now().Add(time.Hour)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature,
		[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	p := newPair(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return &p
}

func TestAnIngressConnectsToItsPartsOnly(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.input.Parts = append(us.input.Parts, edge.Part{Name: us.part(1), Address: "no-such-host.invalid:7400"},
		edge.Part{Name: us.part(2), Address: ports.ForTest(t)})
	us.input.Peers = []edge.Peer{eu.peer()}
	us.edge.configure(t, us.input)
	us.edge.start(t)
	client := eu.issue(t, contract.RoleEdge, "0")
	for _, c := range []struct {
		about, method, authority string
		want                     int
	}{
		{"a part", http.MethodConnect, us.part(0) + ":7400", http.StatusOK},
		{"a part that has no address yet", http.MethodConnect, us.part(1) + ":7400", http.StatusServiceUnavailable},
		{"a part that does not listen", http.MethodConnect, us.part(2) + ":7400", http.StatusServiceUnavailable},
		{"a part that does not exist", http.MethodConnect, us.part(3) + ":7400", http.StatusNotFound},
		{"another port", http.MethodConnect, us.part(0) + ":7480", http.StatusNotFound},
		{"no port", http.MethodConnect, us.part(0), http.StatusNotFound},
		{"the address of a part", http.MethodConnect, us.echo.Addr().String(), http.StatusNotFound},
		{"another host", http.MethodConnect, "kubernetes.default.svc:443", http.StatusNotFound},
		{"another method", http.MethodPost, us.part(0) + ":7400", http.StatusNotFound},
	} {
		if status, err := tunnel(t, us, outerConfig(eu, us, &client), c.method, c.authority); err != nil ||
			status != c.want {
			t.Errorf("%s: status %d (%v), want %d", c.about, status, err, c.want)
		}
	}
}

// TestAnEgressDialsOnlyTheEdgeOfThePeer: whoever else answers at the address gets no tunnel.
func TestAnEgressDialsOnlyTheEdgeOfThePeer(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	trust(t, us, eu)
	client := us.issue(t, contract.RoleCoordinator, "0")
	for _, c := range []struct {
		about string
		shows pair
		want  bool
	}{
		{"a sidecar", eu.issue(t, contract.RoleSidecar, "shop"), false},
		{"the edge of another data center", issue(t, eu.ca, edgeIdentity("eu", "eu-2"), time.Now().Add(-time.Minute),
			time.Hour), false},
		{"the edge of another region", issue(t, us.ca, edgeIdentity("us", us.dc), time.Now().Add(-time.Minute),
			time.Hour), false},
		{"an authority of the same name that is not in the bundle",
			issue(t, newAuthority(t, "eu"), edgeIdentity("eu", eu.dc), time.Now().Add(-time.Minute), time.Hour), false},
		{"an expired certificate", issue(t, eu.ca, edgeIdentity("eu", eu.dc), time.Now().Add(-time.Hour), time.Minute),
			false},
		{"the edge of the peer", eu.issue(t, contract.RoleEdge, "0"), true},
	} {
		eu.edge.certificate.write(t, c.shows.files())
		eventually(t, "the edge of eu shows another certificate", func() bool {
			return bytes.Equal(served(t, us, eu), c.shows.tls.Certificate[0])
		})
		conn, err := us.dial(client, eu, eu.part(0))
		if err == nil {
			conn.Close()
		}
		if reached := err == nil; reached != c.want {
			t.Errorf("%s answers for the edge of eu: a part is reached %t (%v), want %t", c.about, reached, err, c.want)
		}
	}
}
