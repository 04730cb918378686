package resp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

// journal records the calls of a session, in order.
type journal struct {
	mu      sync.Mutex
	entries []string
}

func (j *journal) note(operation, key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, operation+" "+key)
}

func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := strings.Join(j.entries, ", ")
	j.entries = nil
	return all
}

// pipelined sends commands in one write, and returns the replies and the calls of the session.
func pipelined(t *testing.T, commands ...[]string) (replies, calls string) {
	t.Helper()
	store := newMemory()
	var j journal
	store.before = j.note
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(batch(commands...))
	for range commands {
		replies += p.reply()
	}
	return replies, j.take()
}

func batch(commands ...[]string) (b []byte) {
	for _, args := range commands {
		b = append(b, frameOf(args...)...)
	}
	return b
}

func TestPipelinedSetsAreIssuedInOrderAndAwaitedBeforeOtherCommands(t *testing.T) {
	replies, calls := pipelined(t, []string{"SET", "a", "1"}, []string{"SET", "b", "2", "EX", "100"},
		[]string{"SETEX", "c", "9", "3"},
		[]string{"GET", "a"}, []string{"SET", "d", "4"}, []string{"SET", "e", "5", "NX"}, []string{"SET", "f", "6"})
	if replies != "+OK\r\n+OK\r\n+OK\r\n$1\r\n1\r\n+OK\r\n+OK\r\n+OK\r\n" {
		t.Errorf("replies %q", replies)
	}
	want := "issue a, issue b, issue c, await a, await b, await c, get a, issue d, await d, get e, put e, put f"
	if calls != want {
		t.Errorf("calls\n %s, want\n %s", calls, want)
	}
}

func TestErrorsInAPipelineKeepTheirPosition(t *testing.T) {
	replies, calls := pipelined(t, []string{"SET", "a", "1"}, []string{"SET", "refused", "2"},
		[]string{"SET", "b", "1", "EX", "0"},
		[]string{"SET", "c", "3"}, []string{"SET"}, []string{"SET", "d", "4"}, []string{"NOSUCH"},
		[]string{"SET", "refused", "5"})
	want := "+OK\r\n-BUSY the write buffer is full; try again\r\n-ERR invalid expire time in 'set' command\r\n+OK\r\n" +
		"-ERR wrong number of arguments for 'set' command\r\n+OK\r\n-ERR unknown command 'NOSUCH', with args " +
		"beginning with: \r\n" +
		"-BUSY the write buffer is full; try again\r\n"
	if replies != want {
		t.Errorf("replies\n %q, want\n %q", replies, want)
	}
	if !strings.HasPrefix(calls, "issue a, issue refused, await a, issue c, await c, issue d, await d") {
		t.Errorf("calls %s", calls)
	}
}

func TestSetOutsideAPipelineUsesPut(t *testing.T) {
	if _, calls := pipelined(t, []string{"SET", "a", "1"}); calls != "put a" {
		t.Errorf("calls %s", calls)
	}
}

func TestPipelinedGetsAreReadTogetherAndAnsweredInOrder(t *testing.T) {
	_, calls := pipelined(t, []string{"GET", "a"}, []string{"GET", "b"}, []string{"GET", "c"},
		[]string{"SET", "d", "1"}, []string{"GET", "e"}, []string{"GET", "f"})
	want := "read a, read b, read c, issue d, await d, read e, read f"
	if calls != want {
		t.Errorf("calls\n %s, want\n %s", calls, want)
	}
}

// A session that reads fewer than it is asked for is asked for the others when their turn has come.
func TestPipelinedGetsWhoseValuesTakeTooMuchMemoryAreReadLater(t *testing.T) {
	store := newMemory()
	store.together = 2
	var j journal
	store.before = j.note
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	var commands [][]string
	want := ""
	for _, key := range []string{"a", "b", "c", "d"} {
		store.put(key, causal.Value{Data: []byte("v" + key)})
		commands = append(commands, []string{"GET", key})
		want += "$2\r\nv" + key + "\r\n"
	}
	p.send(batch(commands...))
	replies := ""
	for range commands {
		replies += p.reply()
	}
	if calls := j.take(); replies != want || calls != "read a, read b, get c, read d" &&
		calls != "read a, read b, get c, get d" {
		t.Errorf("%q after the calls %s", replies, calls)
	}
}

// What was read ahead is not the answer to a GET that comes after another command.
func TestAnyOtherCommandDropsWhatWasReadAhead(t *testing.T) {
	c := connection{ahead: readAhead{keys: [][]byte{[]byte("a"), []byte("b")}, results: make([]front.GetResult, 2),
		next: 1, bytes: 3}}
	c.ahead.results[1].Value.Data = []byte("old")
	c.server = &Server{options: Options{Clock: time.Now}}
	c.server.stats.init(time.Now())
	c.in = newReader(&c.server.options.Limits)
	c.out = writer{send: func([]byte) error { return nil }}
	c.execute([][]byte{[]byte("GET"), []byte("b")}) // it is refused: the user is gone
	if c.ahead.bytes != 0 || len(c.ahead.keys) != 0 || c.ahead.results[1].Value.Data != nil {
		t.Errorf("left: %+v", c.ahead)
	}
}

func TestFewerLargeValuesAreReadAhead(t *testing.T) {
	var a readAhead
	batch := func(n, bytes int) int {
		for range n {
			a.keys = append(a.keys, []byte("k"))
			a.results = append(a.results, front.GetResult{Value: causal.Value{Data: make([]byte, bytes)}})
		}
		a.measure()
		for range n {
			_, _ = a.take()
		}
		if a.bytes != 0 {
			t.Errorf("%d bytes are left", a.bytes)
		}
		a.drop()
		a.results = nil
		return a.maxKeys()
	}
	if n := a.maxKeys(); n != firstReadAhead {
		t.Errorf("the first batch has %d keys", n)
	}
	for _, step := range []struct{ n, bytes, next int }{{16, 100, 32}, {32, 100, 64}, {64, 100, 64}, {64, 1 << 20, 1},
		{1, 100 << 10, 2}, {2, 100 << 10, 4}} {
		if next := batch(step.n, step.bytes); next != step.next {
			t.Errorf("after %d values of %d bytes, %d are read ahead; want %d", step.n, step.bytes, next, step.next)
		}
	}
}

func TestMSetIssuesItsPutsInOrder(t *testing.T) {
	replies, calls := pipelined(t, []string{"MSET", "a", "1", "b", "2", "a", "3"},
		[]string{"MSET", "c", "1", "refused", "2", "d", "3"}, []string{"MGET", "a", "b", "d"})
	if replies != "+OK\r\n-BUSY the write buffer is full; try again\r\n*3\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n3\r\n" {
		t.Errorf("replies %q", replies)
	}
	if !strings.HasPrefix(calls,
		"issue a, issue b, issue a, await a, await b, await a, issue c, issue refused, issue d") {
		t.Errorf("calls %s", calls)
	}
}

func TestRepliesAreSentBeforeWaitingForTheRestOfACommand(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	last := frameOf("GET", "a")
	p.send(append(batch([]string{"SET", "a", "1"}, []string{"SET", "b", "1"}, []string{"GET", "a"}), last[:5]...))
	if got := p.reply() + p.reply() + p.reply(); got != "+OK\r\n+OK\r\n$1\r\n1\r\n" {
		t.Errorf("got %q", got)
	}
	p.send(last[5:])
	if got := p.reply(); got != "$1\r\n1\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestPipelineIsReceivedWhileItsRepliesBlock(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	value := strings.Repeat("v", 10000)
	p.expect("+OK\r\n", "SET", "k", value)
	const n = 5000
	// 50 MB of replies, and 5 MB of commands that are all written before the first reply is read.
	commands := make([][]string, 0, 2*n)
	for i := range n {
		commands = append(commands, []string{"GET", "k"}, []string{"ECHO", fmt.Sprint(i, strings.Repeat(".", 1000))})
	}
	p.send(batch(commands...))
	for i := range n {
		if got := p.reply(); got != "$10000\r\n"+value+"\r\n" {
			t.Fatalf("reply %d is %d bytes", i, len(got))
		}
		if got := p.reply(); !strings.Contains(got, fmt.Sprint(i, "....")) {
			t.Fatalf("reply %d is %.20q", i, got)
		}
	}
}

// slowSocket blocks the first write, during which the rest of a pipeline arrives.
type slowSocket struct {
	net.Conn
	arriving [][]byte
	blocked  bool
	written  bytes.Buffer
}

func (s *slowSocket) Read(b []byte) (int, error) {
	if len(s.arriving) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.arriving[0])
	s.arriving = s.arriving[1:]
	return n, nil
}

func (s *slowSocket) Write(b []byte) (int, error) {
	if !s.blocked {
		s.blocked = true
		return 0, os.ErrDeadlineExceeded
	}
	return s.written.Write(b)
}

func (*slowSocket) SetReadDeadline(time.Time) error  { return nil }
func (*slowSocket) SetWriteDeadline(time.Time) error { return nil }
func (*slowSocket) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*slowSocket) Close() error                     { return nil }

// A client that has sent its whole pipeline sends nothing more until it has received all replies.
func TestCommandsReceivedDuringTheLastFlushAreExecuted(t *testing.T) {
	s, err := NewServer(Options{Backend: newMemory(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	socket := &slowSocket{arriving: [][]byte{frameOf("SET", "a", "1"), frameOf("GET", "a")}}
	newConnection(s, s.NewClient(socket, nil)).Serve()
	if got := socket.written.String(); got != "+OK\r\n$1\r\n1\r\n" {
		t.Errorf("replies %q; want those of both commands", got)
	}
}

func TestClientThatNeverReadsIsDisconnected(t *testing.T) {
	s, address := serve(t, Options{Backend: newMemory(),
		Limits: Limits{Limits: front.Limits{WriteTimeout: 50 * time.Millisecond}, MaxPipelineBytes: 1 << 20}})
	p := dial(t, address)
	p.expect("+OK\r\n", "SET", "k", strings.Repeat("v", 1<<20))
	p.send(batch(slices.Repeat([][]string{{"GET", "k"}}, 100)...))
	waitFor(t, "the client to be disconnected", func() bool { return s.Connections() == 0 })
}

// waitFor waits until f returns true.
func waitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(bound); !f(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s waiting for %s", bound, what)
		}
	}
}

func TestClientReplySuppressesReplies(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	big := strings.Repeat("v", 2*noCopyBytes)
	p.send(batch([]string{"SET", "big", big}, []string{"CLIENT", "REPLY", "SKIP"}, []string{"SET", "a", "1"},
		[]string{"SET", "b", "2"},
		[]string{"CLIENT", "REPLY", "SKIP"}, []string{"GET", "big"}, []string{"CLIENT", "REPLY", "OFF"},
		[]string{"GET", "big"}, []string{"SET", "c", "3"},
		[]string{"SET", "d", "4"}, []string{"NOSUCH"}, []string{"CLIENT", "REPLY", "SKIP"},
		[]string{"MGET", "big", "big", "big"}, []string{"CLIENT", "REPLY", "ON"},
		[]string{"MGET", "a", "b", "c", "d"}))
	got := p.reply() + p.reply() + p.reply() + p.reply()
	if got != "+OK\r\n+OK\r\n+OK\r\n*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n4\r\n" {
		t.Errorf("got %.200q", got)
	}
}
