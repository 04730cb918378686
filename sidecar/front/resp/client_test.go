package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

// bound is how long a test waits for an event.
const bound = 10 * time.Second

// serve starts a server on a loopback port and stops it with the test.
func serve(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !t.Failed() {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; !errors.Is(err, front.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

// peer is a client that returns replies as raw bytes.
type peer struct {
	t testing.TB
	net.Conn
	in *bufio.Reader
}

func dial(t testing.TB, address string) *peer {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(6 * bound))
	return &peer{t: t, Conn: c, in: bufio.NewReaderSize(c, 64<<10)}
}

// frameOf encodes a command.
func frameOf(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// do sends a command and returns its reply.
func (p *peer) do(args ...string) string {
	p.t.Helper()
	p.send(frameOf(args...))
	return p.reply()
}

// reply reads one whole reply.
func (p *peer) reply() string {
	p.t.Helper()
	s, err := p.tryReply()
	if err != nil {
		p.t.Fatalf("read a reply: %v (got %q)", err, s)
	}
	return s
}

func (p *peer) tryReply() (string, error) {
	line, err := p.in.ReadString('\n')
	if err != nil {
		return line, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	children := 0
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return line, nil
		}
		body := make([]byte, n+2)
		_, err := io.ReadFull(p.in, body)
		return line + string(body), err
	case '*', '~':
		children = n
	case '%':
		children = 2 * n
	}
	var whole bytes.Buffer
	whole.WriteString(line)
	for range children {
		child, err := p.tryReply()
		whole.WriteString(child)
		if err != nil {
			return whole.String(), err
		}
	}
	return whole.String(), nil
}

// expect checks the reply of a command.
func (p *peer) expect(want string, args ...string) {
	p.t.Helper()
	if got := p.do(args...); got != want {
		p.t.Errorf("%q:\n got %q\nwant %q", args, got, want)
	}
}

// expectClosed checks that the server closes the connection and sends nothing more.
func (p *peer) expectClosed() {
	p.t.Helper()
	p.SetReadDeadline(time.Now().Add(bound))
	if rest, err := io.ReadAll(p.in); err != nil || len(rest) > 0 {
		p.t.Errorf("want the connection to be closed, got %q, %v", rest, err)
	}
}

func waitForClose(t testing.TB, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(bound):
		t.Fatalf("timed out after %s waiting for %s", bound, what)
	}
}
