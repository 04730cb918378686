package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/causalstore/causalstore/lab/credentials"
)

// A certificate is parsed before anybody can look at it, so that it must not be large.
func TestHandshakesThatAreTooLargeAreRefusedAndCutNoLink(t *testing.T) {
	const attackers = 60
	ca := newAuthority(t, "eu")
	d := newDirectory()
	c := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	healthy, err := newAttacker(t, ca, idOf(middlemanB)).link(c.addr, middlemanB.WithMember(1))
	if err != nil {
		t.Fatal(err)
	}
	largest := credentials.Named(t, 82_000)
	var attack sync.WaitGroup
	for range attackers {
		attack.Go(func() {
			conn, err := tls.Dial("tcp", c.addr, &tls.Config{Certificates: []tls.Certificate{*largest},
				InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it is not refused: %v", err)
			}
		})
	}
	attack.Wait()
	waitFor(t, "all to be counted", func() bool { return violationCount(c, ViolationLimit) == attackers })
	if text := c.log.String(); !strings.Contains(text, "more than a TLS handshake may take") {
		t.Errorf("the log does not say why: %s", text)
	}
	if err := healthy.SendMsg(frameOf(answer(middlemanB, coordinatorA, 1))); err != nil {
		t.Errorf("the link of a part: %v", err)
	}
	c.wait(t, 1)
}

func TestACertificateWithAChainOfNoUseIsRefusedAndAWeakOneToo(t *testing.T) {
	ca := newAuthority(t, "eu")
	c := startWith(t, newDirectory(), coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by, own := credentials.SignerOf(t, ca), newAttacker(t, ca, idOf(middlemanB)).cert
	for _, try := range []struct {
		name string
		cert *tls.Certificate
		want string // in the log; empty: it is accepted
	}{
		{"its own", &own, ""},
		{"with its authority", credentials.WithJunk(&own, by), ""},
		{"with another curve", credentials.Sign(t, credentials.WithIdentity(idOf(middlemanB)), curve, by), ""},
		{"with junk behind it", credentials.WithJunk(&own, credentials.Named(t, 4000)),
			"does not lead to an authority that is trusted"},
		{"with itself four times more", credentials.WithJunk(&own, &own, &own, &own, &own), "a chain may have 4"},
		{"with an RSA key of 1024 bits", credentials.Sign(t, credentials.WithIdentity(idOf(middlemanB)), weak, by),
			"its RSA key has 1024 bits"},
		{"with two names", credentials.Sign(t, twoIdentities(), credentials.NewKey(t), by), "exactly one name"},
	} {
		// else a second one of a kind in a minute is not logged
		c.violations.log.flush(time.Now().Add(2*peerLogInterval), c.config.Log)
		a := newAttacker(t, ca, idOf(middlemanB))
		a.cert = *try.cert
		s, err := a.link(c.addr, middlemanB.WithMember(1))
		switch {
		case try.want == "" && err != nil:
			t.Errorf("%s: %v", try.name, err)
		case try.want == "":
			_ = s.CloseSend()
		case status.Code(err) != codes.Unavailable:
			t.Errorf("%s: %v", try.name, err)
		case !strings.Contains(c.log.String(), try.want):
			t.Errorf("%s: the log does not say %q: %s", try.name, try.want, c.log.String())
		}
	}
}

func twoIdentities() *x509.Certificate {
	both := credentials.WithIdentity(idOf(middlemanB))
	both.URIs = append(both.URIs, idOf(coordinatorA).URI())
	return both
}

// A server is as much of a stranger as a client.
func TestAServerWithTheLargestCertificateIsNotListenedTo(t *testing.T) {
	ca := newAuthority(t, "eu")
	d := newDirectory()
	l, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{*credentials.Named(t, 82_000)}, NextProtos: []string{"h2"},
			ClientAuth: tls.RequestClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = c.(*tls.Conn).Handshake(); c.Close() }() // the client says how it ended
		}
	}()
	d.set(l.Addr().String(), middlemanB, middlemanB.WithMember(1))
	a := startWith(t, d, coordinatorA, newKeys(t, idOf(coordinatorA), ca))
	a.Send(numbered(coordinatorA, middlemanB, 1))
	waitFor(t, "the link to fail for its size", func() bool {
		links := a.Stats().Links
		return len(links) == 1 && strings.Contains(links[0].LastError, "more than a TLS handshake may take")
	})
}
