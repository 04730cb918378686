package resp

import (
	"io"
	"strings"
	"testing"
	"time"
)

// After each stream the server closes the connection, or waits for the rest of a command.
var malformed = map[string]string{
	"multibulk length is not a number":    "*abc\r\n",
	"multibulk length is empty":           "*\r\n",
	"multibulk length is huge":            "*2147483648\r\n",
	"multibulk length has a sign":         "*+1\r\n",
	"multibulk length has a leading zero": "*01\r\n$4\r\nPING\r\n",
	"multibulk line is endless":           "*" + strings.Repeat("1", 70000),
	"bulk length is missing":              "*1\r\nPING\r\n",
	"bulk header is an empty line":        "*1\r\n\r\n",
	"bulk header is an integer":           "*2\r\n$4\r\nPING\r\n:5\r\n",
	"bulk length is not a number":         "*1\r\n$x\r\n",
	"bulk length is negative":             "*1\r\n$-1\r\n",
	"bulk length is over 512 MB":          "*1\r\n$536870913\r\n",
	"bulk line is endless":                "*1\r\n$" + strings.Repeat("1", 70000),
	"inline command is endless":           strings.Repeat("x", 70000),
	"inline quote is not closed":          "SET a \"b\r\n",
	"inline quote is followed by text":    "SET a \"b\"c\r\n",
	"inline single quote is not closed":   "ECHO 'a\r\n",
	"good commands come first":            "PING\r\n*1\r\n$4\r\nPING\r\n*1\r\n$x\r\nPING\r\n",
	"line breaks are not checked":         "*1\rX$4\rXPINGXXECHO hi\r\n*1\r\n$x\r\n",
	"empty commands are skipped":          "\r\n\n*0\r\n*-5\r\n   \r\nPING\n*1\r\n$x\r\n",
	"escapes in inline commands": "ECHO \"\\x41\\n\\r\\t\\b\\a\\\\\\\"\\q\\x4\"\r\nECHO 'a\\'b\\n'\r\nECHO " +
		"a\"b\"\r\nECHO a'b\r\n",
	"a command is not complete": "PING\r\n*2\r\n$4\r\nECHO\r\n$3\r\nab",
}

func TestMalformedStreamsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	_, address := serve(t, Options{Backend: newMemory()})
	answer := func(address, stream string) string {
		p := dial(t, address)
		p.SetDeadline(time.Now().Add(bound))
		_, _ = p.Write([]byte(stream)) // the server may close before all of it is written
		if w, ok := p.Conn.(interface{ CloseWrite() error }); ok {
			w.CloseWrite()
		}
		all, _ := io.ReadAll(p.in)
		return string(all)
	}
	for name, stream := range malformed {
		if theirs, ours := answer(socket, stream), answer(address, stream); theirs != ours {
			t.Errorf("%s\nredis: %q\n ours: %q", name, theirs, ours)
		}
	}
}

func TestMalformedFrameClosesOnlyItsConnection(t *testing.T) {
	s, address := serve(t, Options{Backend: newMemory()})
	good, bad := dial(t, address), dial(t, address)
	good.expect("+OK\r\n", "SET", "k", "v")
	bad.send([]byte("*1\r\n$4\r\nPING\r\n*1\r\n:1\r\n*1\r\n$4\r\nPING\r\n"))
	if got := bad.reply() + bad.reply(); got != "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n" {
		t.Errorf("got %q", got)
	}
	bad.expectClosed()
	good.expect("$1\r\nv\r\n", "GET", "k")
	if n := s.stats.protocolErrors.Load(); n != 1 {
		t.Errorf("%d protocol errors counted", n)
	}
}

func TestUnauthenticatedClientMaySendOnlySmallCommands(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("default", "secret")})
	for stream, want := range map[string]string{
		"*11\r\n":                        "-ERR Protocol error: unauthenticated multibulk length\r\n",
		"*2\r\n$4\r\nECHO\r\n$16385\r\n": "-ERR Protocol error: unauthenticated bulk length\r\n",
	} {
		p := dial(t, address)
		p.send([]byte(stream))
		if got := p.reply(); got != want {
			t.Errorf("%q: got %q", stream, got)
		}
		p.expectClosed()
	}
}
