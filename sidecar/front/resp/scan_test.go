package resp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// bulks returns the strings in a reply.
func bulks(reply string) []string {
	var all []string
	for i, line := range strings.Split(reply, "\r\n") {
		if i > 0 && line != "" && line[0] != '$' && line[0] != '*' {
			all = append(all, line)
		}
	}
	return all
}

// scanned collects what SCAN returns with some options.
func (p *peer) scanned(options ...string) []string {
	p.t.Helper()
	var keys []string
	for cursor, calls := "0", 0; ; calls++ {
		got := bulks(p.do(append([]string{"SCAN", cursor}, options...)...))
		if len(got) == 0 || calls > 1000 {
			p.t.Fatalf("SCAN %s: %q after %d calls", cursor, got, calls)
		}
		keys = append(keys, got[1:]...)
		if cursor = got[0]; cursor == "0" {
			slices.Sort(keys)
			return keys
		}
	}
}

func TestScanAndKeysReturnTheExistingKeysOfTheDatabase(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	var want []string
	for i := range 250 {
		key := fmt.Sprintf("user:%03d", i)
		want = append(want, key)
		p.do("SET", key, "v")
		p.do("SET", "gone", "v")
	}
	p.do("DEL", "gone")
	p.do("SET", "expired", "v", "PXAT", "1")
	p.do("SET", "\x01odd", "v")
	p.do("SELECT", "4")
	p.do("SET", "elsewhere", "v")
	p.do("SELECT", "0")
	for _, options := range [][]string{{"MATCH", "user:*"}, {"MATCH", "user:*", "COUNT", "7"},
		{"COUNT", "100000", "MATCH", "user:*", "TYPE", "string"}} {
		if got := p.scanned(options...); !slices.Equal(got, want) {
			t.Errorf("SCAN %q: %d keys, want %d: %q", options, len(got), len(want), got)
		}
	}
	all := append([]string{"\x01odd"}, want...)
	if got := p.scanned(); !slices.Equal(got, all) {
		t.Errorf("SCAN: %q", got)
	}
	if got := bulks(p.do("KEYS", "*")); len(got) != len(all) {
		t.Errorf("KEYS: %q", got)
	}
	if got := p.scanned("TYPE", "list"); len(got) != 0 {
		t.Errorf("SCAN TYPE list: %q", got)
	}
	p.do("SELECT", "4")
	if got := p.scanned(); !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("SCAN of database 4: %q", got)
	}
	p.expect("+OK\r\n", "FLUSHDB")
	p.expect("*0\r\n", "KEYS", "*")
	p.do("SELECT", "0")
	p.expect("$1\r\nv\r\n", "GET", "user:007")
	p.do("SELECT", "9")
	p.expect("+OK\r\n", "FLUSHALL")
	p.expect("$-1\r\n", "GET", "user:007")
	p.do("SELECT", "0")
	p.expect("*0\r\n", "KEYS", "*")
}

func TestAFlushDeletesAnyNumberOfKeysWithoutReadingThem(t *testing.T) {
	m := newMemory()
	for i := range 120_000 {
		m.values[fmt.Sprint("k", i)] = causal.Value{Data: []byte("v")}
	}
	for _, other := range []string{"\x013:a", "\x01nobody's", "\x010:\x01b"} {
		m.values[other] = causal.Value{Data: []byte("v")}
	}
	m.values["expired"] = causal.Value{Data: []byte("v"), ExpireAtMs: 1}
	m.before = func(operation, key string) {
		if operation == "get" || operation == "read" {
			t.Errorf("%s %s", operation, key)
		}
	}
	_, address := serve(t, Options{Backend: m})
	p := dial(t, address)
	p.do("SELECT", "3")
	p.expect("+OK\r\n", "FLUSHDB", "ASYNC")
	if left := m.living(); len(left) != 120_003 {
		t.Fatalf("%d keys are left", len(left))
	}
	p.do("SELECT", "0")
	p.expect("+OK\r\n", "FLUSHDB")
	if left := m.living(); !slices.Equal(left, []string{"\x01nobody's"}) {
		t.Errorf("left after FLUSHDB: %q", left)
	}
	p.expect("+OK\r\n", "FLUSHALL", "SYNC")
	if left := m.living(); len(left) != 0 {
		t.Errorf("left after FLUSHALL: %q", left)
	}
	p.expect("-ERR syntax error\r\n", "FLUSHALL", "NOW")
}

// As with Redis 7: a flush changes keys that exist, and no others.
func TestAFlushAbortsNoTransactionThatWatchesAMissingKey(t *testing.T) {
	for watched, want := range map[string]string{"gone": "*1\r\n+OK\r\n", "expired": "*1\r\n+OK\r\n",
		"there": "*-1\r\n"} {
		m := newMemory()
		m.exact, m.deleted = true, []string{"gone"}
		m.put("there", causal.Value{Data: []byte("v")})
		m.put("gone", tombstone)
		m.put("expired", causal.Value{Data: []byte("v"), ExpireAtMs: 1})
		_, address := serve(t, Options{Backend: m})
		p := dial(t, address)
		p.expect("+OK\r\n", "WATCH", watched)
		dial(t, address).expect("+OK\r\n", "FLUSHALL")
		if left := m.living(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		p.expect("+OK\r\n", "MULTI")
		p.expect("+QUEUED\r\n", "SET", "x", "1")
		p.expect(want, "EXEC")
	}
}

func TestATransactionIsAbortedIfAnExpiredKeyWasWrittenBeforeTheFlush(t *testing.T) {
	m := newMemory()
	m.exact = true
	m.put("expired", causal.Value{Data: []byte("v"), ExpireAtMs: 1})
	_, address := serve(t, Options{Backend: m})
	p, other := dial(t, address), dial(t, address)
	p.expect("+OK\r\n", "WATCH", "expired")
	m.put("expired", causal.Value{Data: []byte("v"), ExpireAtMs: 2})
	other.expect("+OK\r\n", "FLUSHALL")
	p.expect("+OK\r\n", "MULTI")
	p.expect("+QUEUED\r\n", "SET", "x", "1")
	p.expect("*-1\r\n", "EXEC")
}

func TestAFlushThatFailsHasDeletedWhatCameBefore(t *testing.T) {
	m := newMemory()
	for i := range 5000 {
		m.values[fmt.Sprintf("%s%04d", "k", i)] = causal.Value{Data: []byte("v")}
	}
	m.values["refused"] = causal.Value{Data: []byte("v")} // behind the others
	m.values["z"] = causal.Value{Data: []byte("v")}
	_, address := serve(t, Options{Backend: m})
	dial(t, address).expect("-BUSY the write buffer is full; try again\r\n", "FLUSHALL")
	if left := m.living(); !slices.Equal(left, []string{"refused"}) {
		t.Errorf("left: %q", left)
	}
}

func TestACursorMayHaveASign(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "7": 7, "+7": 7, "-1": 1<<64 - 1, "-7": 1<<64 - 7, "-18446744073709551615": 1,
		"-0": 0, "7\x00x": 7} {
		if got, err := parseCursor([]byte(text)); got != want || err != nil {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"-", "+-1", "--1", "18446744073709551616", "x"} {
		if _, err := parseCursor([]byte(text)); err == nil {
			t.Errorf("%q is a cursor", text)
		}
	}
}
