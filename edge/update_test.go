package edge_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/edge"
)

// TestChangesApplyWithoutARestartAndCutOnlyWhatIsRemoved follows an edge through the changes of its life.
func TestChangesApplyWithoutARestartAndCutOnlyWhatIsRemoved(t *testing.T) {
	us, eu, ap := newRegion(t, "us"), newRegion(t, "eu"), newRegion(t, "ap")
	trust(t, us, eu, ap)
	client := us.issue(t, contract.RoleCoordinator, "0")
	open := func(to *region, index int) (*tls.Conn, error) { return us.dial(client, to, to.part(index)) }
	toEU, err := open(eu, 0)
	must(t, err)
	toAP, err := open(ap, 0)
	must(t, err)
	still := func(after string, conns ...*tls.Conn) {
		t.Helper()
		for _, c := range conns {
			if err := speak(c, "still there\n"); err != nil {
				t.Fatalf("a tunnel has not outlived that %s: %v", after, err)
			}
		}
	}

	if conn, err := open(eu, 1); err == nil {
		conn.Close()
		t.Fatal("a part is reached that does not exist")
	}
	more := eu.serve(t, eu.issue(t, contract.RoleMiddleman, "1"))
	eu.input.Parts = append(eu.input.Parts, edge.Part{Name: eu.part(1), Address: more.Addr().String()})
	eu.edge.configure(t, eu.input)
	eventually(t, "a new part is reached", func() bool {
		conn, err := open(eu, 1)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	still("a part was added", toEU, toAP)

	// A rotation of eu's authority: the next one is trusted, then it issues, then the old one is dropped.
	next, old := newAuthority(t, "eu"), edgeIdentity("eu", eu.dc)
	oldEdge, newEdge := eu.issue(t, contract.RoleEdge, "0"),
		issue(t, next, old, time.Now().Add(-time.Minute), time.Hour)
	admitted := func(p pair) func() bool {
		return func() bool {
			status, err := tunnel(t, us, outerConfig(eu, us, &p), http.MethodConnect, us.part(0)+":7400")
			return err == nil && status == http.StatusOK
		}
	}
	refused := func(p pair) func() bool { return func() bool { return !admitted(p)() } }
	if !admitted(oldEdge)() || admitted(newEdge)() {
		t.Fatal("before the rotation, the new authority is trusted or the old one is not")
	}
	bundle := func(text string) {
		us.input.Peers[slices.IndexFunc(us.input.Peers, func(p edge.Peer) bool {
			return p.DataCenter == eu.dc
		})].Bundle = text
		us.edge.configure(t, us.input)
	}
	bundle(string(eu.ca.CertificatePEM()) + string(next.CertificatePEM()))
	eventually(t, "the next authority is trusted", admitted(newEdge))
	if !admitted(oldEdge)() {
		t.Error("the old authority is not trusted any more")
	}
	eu.edge.certificate.write(t, newEdge.files())
	eventually(t, "the edge of eu shows its new certificate", func() bool {
		return bytes.Equal(served(t, us, eu), newEdge.tls.Certificate[0])
	})
	bundle(string(next.CertificatePEM()))
	eventually(t, "the old authority is not trusted any more", refused(oldEdge))
	if !admitted(newEdge)() {
		t.Error("the new authority is not trusted any more")
	}
	still("authorities changed", toEU, toAP)

	// eu is not trusted any more: what leads there and from there is cut, the rest is not.
	us.input.Peers = slices.DeleteFunc(us.input.Peers, func(p edge.Peer) bool { return p.DataCenter == eu.dc })
	us.edge.configure(t, us.input)
	eventually(t, "the edge of eu is refused", refused(newEdge))
	if conn, err := open(eu, 0); err == nil {
		conn.Close()
		t.Error("a peer that was removed is reached")
	}
	if _, err := toEU.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel to a peer that was removed goes on")
	}
	still("a peer was removed", toAP)

	// The last peer goes, and comes back.
	ofAP := us.input.Peers
	us.input.Peers = nil
	us.edge.configure(t, us.input)
	eventually(t, "nothing listens without peers", func() bool {
		conn, err := net.Dial("tcp", us.edge.at.Ingress)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	us.input.Peers = ofAP
	us.edge.configure(t, us.input)
	eventually(t, "a peer that comes back is reached", func() bool {
		conn, err := open(ap, 0)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	for _, r := range []*region{us, eu, ap} {
		if n := r.edge.rejected(t); n != 0 {
			t.Errorf("the edge of %s refused %v files", r.name, n)
		}
	}
}

// The files of a peer that is new appear a moment after the configuration that names them.
func TestAPeerThatIsTrustedLaterIsServed(t *testing.T) {
	us, eu := newRegion(t, "us"), newRegion(t, "eu")
	us.edge.configure(t, us.input)
	us.edge.start(t)
	trust(t, eu)
	us.input.Peers, eu.input.Peers = []edge.Peer{eu.peer()}, []edge.Peer{us.peer()}
	us.edge.configure(t, us.input)
	eu.edge.configure(t, eu.input)
	eventually(t, "each reaches the other", func() bool {
		for _, pair := range [][2]*region{{us, eu}, {eu, us}} {
			conn, err := pair[0].dial(pair[0].issue(t, contract.RoleCoordinator, "0"), pair[1], pair[1].part(0))
			if err != nil {
				return false
			}
			conn.Close()
		}
		return true
	})
	for _, r := range []*region{us, eu} {
		if n := r.edge.rejected(t); n != 0 {
			t.Errorf("the edge of %s refused %v files", r.name, n)
		}
	}
}

// served returns the certificate that the edge of one region shows to that of another.
func served(t *testing.T, from, to *region) (der []byte) {
	t.Helper()
	client := from.issue(t, contract.RoleEdge, "0")
	config := outerConfig(from, to, &client)
	config.VerifyConnection = func(s tls.ConnectionState) error { der = s.PeerCertificates[0].Raw; return nil }
	conn, err := tls.Dial("tcp", to.edge.at.Ingress, config)
	must(t, err)
	conn.Close()
	return der
}

// begin opens a tunnel through an egress to a part, and says no more than its name.
func begin(t *testing.T, egress, name string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", egress)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = conn.Write(clientHello(t, name))
	must(t, err)
	return conn
}

// fill opens a tunnel to a part that does not read, and writes until nothing more is taken.
func fill(t *testing.T, from *region, name string) {
	t.Helper()
	conn := begin(t, from.edge.at.EgressParts, name)
	go func() { _, _ = io.Copy(conn, endless{}) }()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// clientHello returns the first message of a TLS client that wants a server name.
func clientHello(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() }()
	header := make([]byte, 5)
	_, err := io.ReadFull(server, header)
	must(t, err)
	body := make([]byte, int(header[3])<<8|int(header[4]))
	_, err = io.ReadFull(server, body)
	must(t, err)
	return append(header, body...)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}
