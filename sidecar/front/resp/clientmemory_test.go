package resp

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

func TestTheClientsThatTakeMostAreClosedBeyondTheLimit(t *testing.T) {
	m := &counters{}
	s, address := serve(t, Options{Backend: newMemory(), Metrics: m,
		Limits: Limits{Limits: front.Limits{MaxClientBytes: 8 << 20}}})
	small := dial(t, address)
	small.expect("+OK\r\n", "SET", "k", "v")
	for range 6 { // each sends three of four values
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		value := fmt.Sprintf("$1\r\nk\r\n$%d\r\n%s\r\n", 1<<20, strings.Repeat("v", 1<<20))
		fmt.Fprint(conn, "*9\r\n$4\r\nMSET\r\n", value, value, value) // fails if it is closed meanwhile
	}
	waitFor(t, "clients to be closed", func() bool { return m.evicted.Load() >= 3 && s.ClientBytes() <= 8<<20 })
	small.expect("$1\r\nv\r\n", "GET", "k")
	waitFor(t, "the closed ones to be gone", func() bool { return int64(s.Connections())+m.evicted.Load() == 7 })
}

func TestMemoryOfClosedClientsIsNotCounted(t *testing.T) {
	s, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.expect("+OK\r\n", "SET", "k", strings.Repeat("v", 2<<20))
	if s.ClientBytes() == 0 {
		t.Error("the client counts for nothing")
	}
	p.expect("+OK\r\n", "QUIT")
	waitFor(t, "its memory to be forgotten", func() bool { return s.Connections() == 0 && s.ClientBytes() == 0 })
}

// What waits for its answer counts once, and no more when it is answered.
func TestPipelinedUpdatesCountUntilTheyAreAnswered(t *testing.T) {
	store, arrived := newMemory(), make(chan struct{})
	store.before = func(_, key string) {
		if key == "first" {
			<-arrived
		}
	}
	s, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(frameOf("INCR", "first"))
	var commands [][]string
	for range 100 {
		commands = append(commands, []string{"APPEND", "k", strings.Repeat("v", 200)})
	}
	p.send(batch(commands...))
	close(arrived)
	for range 1 + len(commands) {
		p.reply()
	}
	waitFor(t, "the client to count for what it takes", func() bool {
		n := s.ClientBytes()
		return n > front.ConnectionBytes/2 && n < 3*front.ConnectionBytes
	})
}

// A client that does not read its replies holds their values.
func TestRepliesThatAreNotReadCount(t *testing.T) {
	m := &counters{}
	s, address := serve(t, Options{Backend: newMemory(), Metrics: m,
		Limits: Limits{Limits: front.Limits{MaxClientBytes: 32 << 20, WriteTimeout: time.Hour}}})
	p := dial(t, address)
	p.expect("+OK\r\n", "SET", "k", strings.Repeat("v", 14<<20))
	waitFor(t, "the buffers of the command to be released", func() bool {
		p.expect("+PONG\r\n", "PING")
		return s.ClientBytes() < 1<<20
	})
	lazy := []*peer{dial(t, address), dial(t, address), dial(t, address)}
	for _, q := range lazy {
		q.send(frameOf("GET", "k"))
	}
	waitFor(t, "one of them to be closed", func() bool { return m.evicted.Load() == 1 })
	p.expect("+PONG\r\n", "PING")
}
