package transport

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// silentPart completes TLS as a part, reads what a dialer sends, and never says anything. It returns its address, and
// what the first message is that arrives on a connection.
func silentPart(t *testing.T, k *keys) (addr string, first <-chan []byte) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(k.Cert, k.Key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAnyClientCert, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	messages := make(chan []byte, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				if m, err := firstMessage(conn); err == nil {
					messages <- m
				}
			}()
		}
	}()
	return l.Addr().String(), messages
}

// firstMessage reads HTTP/2 until there is content of a request.
func firstMessage(conn net.Conn) ([]byte, error) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return nil, err
	}
	for framer := http2.NewFramer(io.Discard, conn); ; {
		f, err := framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		if data, ok := f.(*http2.DataFrame); ok {
			return bytes.Clone(data.Data()), nil
		}
	}
}

// soon gives up a peer that says nothing.
func soon(_ *Config, tm *timings) { tm.hello = time.Second }

func TestTheHelloDoesNotWaitForTheSettingsOfThePeer(t *testing.T) {
	r := startRegions(t, soon)
	addr, first := silentPart(t, newKeys(t, idOf(middlemanB), r.ca))
	r.ofA.lead(nameOf(middlemanB), addr)
	r.a.Send(numbered(coordinatorA, middlemanB, 1))
	select {
	case hello := <-first:
		if !bytes.Contains(hello, []byte(r.a.config.Process)) {
			t.Errorf("the first message is no hello of %s: %q", r.a.config.Process, hello)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no hello\n%s", r.a.log)
	}
	r.ofA.lead(nameOf(middlemanB), r.b.addr)
	r.exchange(t)
}

// A renewal must not replace the link before the peer has accepted the new connection, which it does after the
// handshake of the dialer.
func TestARenewalWaitsForThePeerBeforeItsHello(t *testing.T) {
	r := startRegions(t, soon)
	r.exchange(t)
	failed := r.a.Stats().Failed
	addr, first := silentPart(t, newKeys(t, idOf(middlemanB), r.ca))
	r.ofA.lead(nameOf(middlemanB), addr)
	r.a.GRPC.mu.RLock()
	d := r.a.dialed[addressOf(middlemanB)]
	r.a.GRPC.mu.RUnlock()
	d.requestRenewal()
	waitFor(t, "the renewal to fail", func() bool { return strings.Contains(r.a.log.String(), "cannot renew a link") })
	select {
	case m := <-first:
		t.Errorf("it has said %q", m)
	default:
	}
	if s := r.a.Stats(); s.Failed > failed {
		t.Errorf("the link has failed: %s", r.a.log)
	}
	r.exchange(t)
}
