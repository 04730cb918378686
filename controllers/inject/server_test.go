package inject

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/credentials"
)

func TestTheWebhookAnswersWhileStrangersTakeItsConnections(t *testing.T) {
	certificate := &ServingCertificate{}
	certificate.certificate.Store(credentials.Named(t, 1))
	s := NewServer(0, certificate)
	s.Register("/x", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	if s.StartedChecker()(nil) == nil {
		t.Error("it has started before it was")
	}
	go func() { ended <- s.serve(ctx, l) }()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	apiServer := &http.Client{Timeout: 30 * time.Second, Transport: transport}
	ask := func(about string) {
		t.Helper()
		r, err := apiServer.Get("https://" + l.Addr().String() + "/x")
		if err != nil {
			t.Fatalf("%s: %v", about, err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK || r.ProtoMajor != 2 {
			t.Errorf("%s: answered %s %s", about, r.Proto, r.Status)
		}
	}
	ask("alone")
	if err := s.StartedChecker()(nil); err != nil {
		t.Error(err)
	}
	stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	hello := append([]byte{22, 3, 1, 64, 0}, make([]byte, 1000)...) // the beginning of a record of 16 KiB
	for range 2 * webhookConnections {
		c, err := stranger.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(hello) // it may have been closed
	}
	ask("on the connection from before")
	transport.CloseIdleConnections()
	ask("on a new one")
	transport.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
