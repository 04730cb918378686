package inject

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
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

// It has no certificate to show, and one connection of HTTP/2 carries many requests.
func TestRequestsOfStrangersTakeABoundedAmountOfMemory(t *testing.T) {
	const mib, limit = 1 << 20, 70 << 20
	certificate := &ServingCertificate{}
	certificate.certificate.Store(credentials.Named(t, 1))
	s := NewServer(0, certificate)
	s.Register("/x", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // as the handlers of webhooks do, up to 7 MiB
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = s.serve(ctx, l) }() // until the end of the test
	dial := func(from string) *http.Client {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{ForceAttemptHTTP2: true,
			DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	}
	url := "https://" + l.Addr().String() + "/x"
	stranger := dial("127.0.0.2")
	halted, most := make(chan struct{}), make([]byte, 6*mib)
	var running sync.WaitGroup
	var sent counter
	for range 60 {
		body, w := io.Pipe()
		running.Go(func() {
			defer body.Close()
			if r, err := stranger.Post(url, "application/json", io.TeeReader(body, &sent)); err == nil {
				_ = r.Body.Close()
			}
		})
		running.Go(func() {
			_, _ = w.Write(most) // it may be refused
			<-halted
			_ = w.Close()
		})
	}
	// until nothing more of them is taken
	deadline, last, since := time.Now().Add(20*time.Second), int64(0), time.Now()
	for ; time.Since(since) < 300*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		n := sent.Load()
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes were taken in 20 s, and there is no end of it", n)
		}
		if n != last || n == 0 {
			last, since = n, time.Now()
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > limit {
		t.Errorf("%d MiB are used; at most %d should be", m.HeapAlloc/mib, limit/mib)
	}
	r, err := dial("127.0.0.3").Post(url, "application/json", bytes.NewReader(make([]byte, mib)))
	if err != nil {
		t.Fatalf("a request of another address: %v", err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("a request of another address: %s", r.Status)
	}
	close(halted)
	running.Wait()
}

// counter counts the bytes that are written to it.
type counter struct{ atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}
