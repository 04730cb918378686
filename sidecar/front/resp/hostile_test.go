package resp

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/lab/capture"
	"github.com/causalstore/causalstore/sidecar/front"
)

func TestNoLineOfAnHTTPRequestIsExecuted(t *testing.T) {
	store := newMemory()
	var log capture.Buffer
	server, address := serve(t, Options{Backend: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: 127.0.0.1:6379\r\nContent-Type: text/plain\r\nContent-Length: " +
			"11\r\n\r\nSET pwn 1\r\n",
		"post /fault HTTP/1.1\r\n\r\nSET pwn 1\r\n",
		"PUT / HTTP/1.1\r\nhost: localhost\r\nConnection: close\r\n\r\nSET pwn 1\r\n",
		"OPTIONS * HTTP/1.1\r\nHOST: x\r\n\r\nSET pwn 1\r\n",
	} {
		p := dial(t, address)
		p.send([]byte(request))
		p.SetReadDeadline(time.Now().Add(bound))
		replies, err := io.ReadAll(p.in) // the server closes the connection
		if err != nil && !strings.Contains(err.Error(), "reset") || strings.Contains(string(replies), "+OK") {
			t.Errorf("%.20q: %q, %v", request, replies, err)
		}
	}
	dial(t, address).expect(":0\r\n", "EXISTS", "pwn")
	if n := strings.Count(log.String(), "HTTP request"); n != 1 {
		t.Errorf("logged %d times, want once a minute:\n%s", n, log.String())
	}
	if n := server.stats.protocolErrors.Load(); n != 4 {
		t.Errorf("counted %d protocol errors", n)
	}
}

func TestAConnectionThatGuessesPasswordsIsClosed(t *testing.T) {
	var log capture.Buffer
	_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("default", "secret"),
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p := dial(t, address)
	var guesses []byte
	for range 500 {
		guesses = append(guesses, frameOf("AUTH", "guess")...)
		guesses = append(guesses, frameOf("HELLO", "2", "AUTH", "default", "guess")...)
	}
	p.send(append(guesses, frameOf("AUTH", "secret")...))
	answers := 0
	for {
		answer, err := p.tryReply()
		if err != nil {
			break
		}
		if answers++; answer != wrongPass {
			t.Fatalf("answer %d: %q", answers, answer)
		}
	}
	if answers == 0 || answers > front.MaxAuthFailures { // the end of the connection may overtake the last answers
		t.Errorf("%d guesses were answered, want %d", answers, front.MaxAuthFailures)
	}
	if n := strings.Count(log.String(), "wrong password"); n != 1 {
		t.Errorf("logged %d times, want once a minute", n)
	}
	dial(t, address).expect("+OK\r\n", "AUTH", "secret")
}
