package resp

import (
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/front"
)

func TestCommandOverALimitIsRefusedAndTheConnectionContinues(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store,
		Limits: Limits{Limits: front.Limits{MaxKeyBytes: 100, MaxValueBytes: 1000}, MaxArgs: 20,
			MaxCommandBytes: 3000}})
	p := dial(t, address)
	key, value := strings.Repeat("k", 101), strings.Repeat("v", 1001)
	p.expect("-ERR key is 101 bytes, more than the limit of 100 bytes\r\n", "GET", key)
	p.expect("-ERR key is 101 bytes, more than the limit of 100 bytes\r\n", "MSET", "a", "1", key, "2")
	p.expect("-ERR key is 1001 bytes, more than the limit of 100 bytes\r\n", "SET", value, "v")
	p.expect("-ERR key is 1001 bytes, more than the limit of 100 bytes\r\n", "DEL", "a", value, "b")
	p.expect("-ERR value is 1001 bytes, more than the limit of 1000 bytes\r\n", "SET", "k", value)
	p.expect("-ERR value is 1001 bytes, more than the limit of 1000 bytes\r\n", "MSET", "k", value, "l", "v")
	p.expect("-ERR value is 1001 bytes, more than the limit of 1000 bytes\r\n", value, "k")
	p.expect("-ERR command has 21 arguments, more than the limit of 20\r\n",
		append([]string{"DEL"}, strings.Split(strings.Repeat("k", 20), "")...)...)
	p.expect("-ERR command is longer than the limit of 3000 bytes; split it\r\n", "MSET", "a", value[:1000], "b",
		value[:1000], "c", value[:1000])
	p.expect("+OK\r\n", "SET", key[:100], value[:1000])
	p.expect("-ERR the resulting value is 1001 bytes, more than the limit of 1000 bytes\r\n", "APPEND", key[:100], "v")
	p.expect(":1000\r\n", "STRLEN", key[:100])

	p.send(append(append(frameOf("SET", "a", "1"), frameOf("SET", "b", value)...), frameOf("SET", "c", "3")...))
	if got := p.reply() + p.reply() +
		p.reply(); got != "+OK\r\n-ERR value is 1001 bytes, more than the limit of 1000 bytes\r\n+OK\r\n" {
		t.Errorf("in a pipeline: %q", got)
	}
	p.expect("*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n", "MGET", "a", "b", "c")
}

func TestLargeValuesAreReturnedUnchanged(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	for _, n := range []int{0, 1, noCopyBytes - 1, noCopyBytes, flushBytes, 5 << 20, 16 << 20} {
		v := strings.Repeat("0123456789abcde\n", n/16+1)[:n]
		p.expect("+OK\r\n", "SET", "k", v)
		if got := p.do("GET", "k"); !strings.HasSuffix(got, "\r\n"+v+"\r\n") || len(got) > n+20 {
			t.Errorf("%d bytes came back as %d", n, len(got))
		}
	}
}

func TestReplyLargerThanTheBufferIsComplete(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	v := strings.Repeat("v", noCopyBytes-1)
	p.expect("+OK\r\n", "SET", "k", v)
	p.expect("*200\r\n"+strings.Repeat("$32767\r\n"+v+"\r\n", 200),
		append([]string{"MGET"}, slices.Repeat([]string{"k"}, 200)...)...)
	p.send(batch([]string{"CLIENT", "REPLY", "SKIP"}, append([]string{"MGET"}, slices.Repeat([]string{"k"}, 200)...),
		[]string{"PING"}))
	if got := p.reply(); got != "+PONG\r\n" {
		t.Errorf("got %.50q", got)
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"Backend":     {},
		"MaxKeyBytes": {Backend: newMemory(), Limits: Limits{Limits: front.Limits{MaxKeyBytes: -1}}},
		"MaxKeyBytes is 65537; set it": {Backend: newMemory(),
			Limits: Limits{Limits: front.Limits{MaxKeyBytes: 64<<10 + 1}}},
		"MaxValueBytes is 16777217; set it between": {Backend: newMemory(),
			Limits: Limits{Limits: front.Limits{MaxValueBytes: 16<<20 + 1}}},
		"MaxArgs":      {Backend: newMemory(), Limits: Limits{MaxArgs: 1 << 31}},
		"WriteTimeout": {Backend: newMemory(), Limits: Limits{Limits: front.Limits{WriteTimeout: -1}}},
	} {
		if _, err := NewServer(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %s, got %v", want, err)
		}
	}
}
