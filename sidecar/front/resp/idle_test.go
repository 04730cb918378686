package resp

import (
	"strings"
	"sync"
	"testing"

	"github.com/causalstore/causalstore/sidecar/front"
)

func TestAnIdleConnectionHasNoBuffers(t *testing.T) {
	s, address := serve(t, Options{Backend: newMemory()})
	const clients = 20
	for range clients {
		p := dial(t, address)
		value := strings.Repeat("v", 40<<10)
		p.expect("+OK\r\n", "SET", "k", value)
		p.expect("$40960\r\n"+value+"\r\n", "GET", "k")
		p.expect("+PONG\r\n", "PING")
	}
	waitFor(t, "the buffers to be given up", func() bool {
		return s.ClientBytes() <= clients*(front.ConnectionBytes+front.AccountStep) && s.Connections() == clients
	})
}

// What is received between two waits must be complete and in order, also if it comes in pieces.
func TestACommandInPiecesIsReceivedWithoutABufferBeforeIt(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	frame := frameOf("ECHO", strings.Repeat("abc", 10000))
	for at := 0; at < len(frame); at += 7001 {
		p.send(frame[at:min(at+7001, len(frame))])
	}
	if got := p.reply(); got != "$30000\r\n"+strings.Repeat("abc", 10000)+"\r\n" {
		t.Errorf("a reply of %d bytes", len(got))
	}
	p.expect("+PONG\r\n", "PING")
}

func TestABufferDoesNotGrowBeyondAnArgumentOfKnownLength(t *testing.T) {
	r := newReader(&Limits{Limits: front.Limits{MaxKeyBytes: 1 << 10, MaxValueBytes: 1 << 24}, MaxArgs: 10,
		MaxCommandBytes: 1 << 24, MaxInlineBytes: 1 << 10})
	r.authenticated = true
	stream := frameOf("SET", "k", strings.Repeat("v", 3<<20))
	for at := 0; at < len(stream); {
		n := copy(r.reserve(), stream[at:])
		r.commit(n)
		at += n
		if args, err := r.next(); err != nil || len(args) > 0 != (at == len(stream)) {
			t.Fatalf("after %d of %d bytes: %d arguments, %v", at, len(stream), len(args), err)
		}
		if cap(r.buf) > len(stream)+readBytes {
			t.Fatalf("the buffer has %d bytes for a command of %d", cap(r.buf), len(stream))
		}
	}
}

func TestQueuedCommandsCountForTheMemoryOfClients(t *testing.T) {
	s, address := serve(t, Options{Backend: newMemory(),
		Limits: Limits{Limits: front.Limits{MaxClientBytes: 64 << 20}}})
	p := dial(t, address)
	p.expect("+OK\r\n", "MULTI")
	for range 3 {
		p.expect("+QUEUED\r\n", "SET", "k", strings.Repeat("v", 2<<20))
	}
	waitFor(t, "the queue to count", func() bool { return s.ClientBytes() >= 6<<20 })
	p.expect("+OK\r\n", "DISCARD")
	waitFor(t, "the queue to be forgotten", func() bool { return s.ClientBytes() < 1<<20 })
}

// The memory of an evicted client is free only when its command has ended. Until then no other client gets a larger
// buffer.
func TestMemoryOfAnEvictedClientCountsUntilItsCommandEnds(t *testing.T) {
	store, m := newMemory(), &counters{}
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	store.before = func(operation, key string) {
		if operation == "put" && key == "stuck" {
			<-released
		}
	}
	s, address := serve(t, Options{Backend: store, Metrics: m,
		Limits: Limits{Limits: front.Limits{MaxClientBytes: 12 << 20}}})
	stuck := dial(t, address)
	stuck.send(frameOf("SET", "stuck", strings.Repeat("v", 7<<20)))
	waitFor(t, "it to be evicted", func() bool { return m.evicted.Load() == 1 })
	evicted := s.ClientBytes()
	if evicted < 14<<20 {
		t.Errorf("an evicted client whose value of 7 MiB is being written counts for %d bytes", evicted)
	}
	next := dial(t, address)
	next.send(frameOf("SET", "next", strings.Repeat("v", 1<<20)))
	waitFor(t, "the next one to ask for memory", func() bool {
		return s.ClientBytes() > evicted+front.ConnectionBytes+readBytes
	})
	if grown := s.ClientBytes() - evicted; grown > 128<<10 {
		t.Errorf("the next one was given %d bytes", grown)
	}
	release()
	if got := next.reply(); got != "+OK\r\n" {
		t.Errorf("then the next one is answered %q", got)
	}
	if m.evicted.Load() != 1 {
		t.Errorf("%d clients were evicted", m.evicted.Load())
	}
}
