package process

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/capture"
)

// serveBounded serves 200 to everything, with bounds.
func serveBounded(t *testing.T, b httpBounds) (addr string, log *capture.Buffer) {
	t.Helper()
	log = &capture.Buffer{}
	server, limit := b.server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		slog.New(slog.NewTextHandler(log, nil)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go func() { _ = server.Serve(limit(l)) }() // until the cleanup
	return l.Addr().String(), log
}

func dialFrom(t *testing.T, ip, addr string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request, and returns the status of the answer.
func ask(t *testing.T, c net.Conn, request string) int {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	return r.StatusCode
}

const plainRequest = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

func awaitEnd(t *testing.T, what string, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection stays", what)
	}
}

func TestTheHTTPPortEndsConnectionsThatAreIdleOrSlow(t *testing.T) {
	b := defaultHTTPBounds
	b.idle, b.read = 200*time.Millisecond, 300*time.Millisecond
	addr, _ := serveBounded(t, b)
	idle := dialFrom(t, "127.0.0.1", addr)
	if got := ask(t, idle, plainRequest); got != 200 {
		t.Errorf("answered %d", got)
	}
	awaitEnd(t, "idle after a request", idle)
	awaitEnd(t, "without a request", dialFrom(t, "127.0.0.1", addr))
	slow := dialFrom(t, "127.0.0.1", addr)
	if _, err := io.WriteString(slow, "GET /healthz HTTP/1.1\r\nHost:"); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, "half of a request", slow)
	if d := defaultHTTPBounds; d.idle <= 0 || d.read <= 0 || d.write <= 0 || d.connections <= 0 {
		t.Errorf("the port has no bound: %+v", d)
	}
}

func TestTheHTTPPortRefusesLongHeadersAndBodies(t *testing.T) {
	addr, _ := serveBounded(t, defaultHTTPBounds)
	for name, c := range map[string]struct {
		request string
		want    int
	}{
		"plain": {plainRequest, 200},
		"a body": {"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
			http.StatusRequestEntityTooLarge},
		"chunks": {"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
			http.StatusRequestEntityTooLarge},
		"a long header": {"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*httpHeaderBytes) +
			"\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
	} {
		conn := dialFrom(t, "127.0.0.1", addr)
		if got := ask(t, conn, c.request); got != c.want {
			t.Errorf("%s: answered %d", name, got)
		}
		if c.want != 200 {
			awaitEnd(t, name, conn)
		}
	}
}

// If connections filled the port, the kubelet would restart the part.
func TestProbesAreAnsweredWhileAnAddressTakesAllConnections(t *testing.T) {
	b := defaultHTTPBounds
	b.connections = 10
	addr, log := serveBounded(t, b)
	scraper := dialFrom(t, "127.0.0.3", addr) // it keeps its connection
	if got := ask(t, scraper, plainRequest); got != 200 {
		t.Errorf("answered %d", got)
	}
	var hostile []net.Conn
	for range 3 * b.connections {
		hostile = append(hostile, dialFrom(t, "127.0.0.2", addr))
		if got := ask(t, dialFrom(t, "127.0.0.1", addr),
			"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); got != 200 {
			t.Errorf("a probe is answered %d", got)
		}
	}
	awaitEnd(t, "the oldest one", hostile[0])
	if got := ask(t, scraper, plainRequest); got != 200 {
		t.Errorf("on the old connection: answered %d", got)
	}
	if n := strings.Count(log.String(), "too many connections"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}
