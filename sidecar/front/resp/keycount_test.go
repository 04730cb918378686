package resp

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

func (p *peer) dbSize() int {
	p.t.Helper()
	n, err := strconv.Atoi(strings.Trim(p.do("DBSIZE"), ":\r\n"))
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func TestKeysAreCountedPerDatabaseWithoutDeletedAndExpiredOnes(t *testing.T) {
	socket := redis(t)
	theirs := dial(t, socket)
	_, address := serve(t, Options{Backend: newMemory()})
	ours := dial(t, address)
	ours.do("SET", "expired", "1", "PXAT", "1") // Redis counts it until it happens to find it
	for _, args := range lines(`
SET a 1
SET b 1
SET c 1 EX 1000
SET gone 1
DEL gone
SELECT 3
SET a 1
SET b 1 EX 100
SELECT 5
SET short 1 EX 1000
PERSIST short
SELECT 9
SET k v
FLUSHDB
SELECT 3
`) {
		theirs.do(args...)
		ours.do(args...)
		if a, b := theirs.dbSize(), ours.dbSize(); a != b {
			t.Errorf("after %q: DBSIZE %d, in Redis %d", args, b, a)
		}
		a, b := theirs.infoFields("keyspace"), ours.infoFields("keyspace")
		for n := range databases {
			name := fmt.Sprint("db", n)
			x, _, _ := strings.Cut(a[name], ",avg_ttl")
			y, _, _ := strings.Cut(b[name], ",avg_ttl")
			if x != y {
				t.Errorf("after %q: %s:%s, in Redis %s", args, name, b[name], a[name])
			}
		}
	}
	ours.expect("+OK\r\n", "FLUSHALL")
	if n := len(ours.infoFields("keyspace")); n != 0 || ours.dbSize() != 0 {
		t.Errorf("%d databases after FLUSHALL", n)
	}
}

func TestManyKeysAreCountedByASampleInBoundedWork(t *testing.T) {
	m := newMemory()
	for i := range 60_000 {
		v := causal.Value{Data: []byte("v")}
		if i%3 == 0 {
			v.ExpireAtMs = 1
		}
		m.values[storageKey(i%2, fmt.Sprint("k", i))] = v
	}
	reads := 0
	m.before = func(operation, _ string) {
		if operation == "get" {
			reads++
		}
	}
	_, address := serve(t, Options{Backend: m})
	p := dial(t, address)
	if n := p.dbSize(); n < 19_000 || n > 21_000 || reads > maxSampled {
		t.Errorf("%d keys, of 20,000, after %d reads", n, reads)
	}
	p.expect("+OK\r\n", "FLUSHALL")
	if n := p.dbSize(); n != 0 {
		t.Errorf("%d keys after FLUSHALL", n)
	}
}

// A client of each connection of a pool may ask for INFO.
func TestACountIsSharedUnlessThisSidecarHasWritten(t *testing.T) {
	m, now := newMemory(), time.Now()
	m.values["k"] = causal.Value{Data: []byte("v")}
	reads := 0
	m.before = func(operation, _ string) {
		if operation == "get" {
			reads++
		}
	}
	_, address := serve(t, Options{Backend: m, Clock: func() time.Time { return now }})
	p, q := dial(t, address), dial(t, address)
	p.do("INFO")
	q.do("INFO")
	if q.dbSize(); reads != 1 {
		t.Errorf("%d reads", reads)
	}
	q.do("SET", "other", "v")
	if n := p.dbSize(); n != 2 {
		t.Errorf("%d keys after a write", n)
	}
}

// testClock goes on when the test says so.
type testClock struct {
	began time.Time
	since atomic.Int64
}

func newTestClock() *testClock { return &testClock{began: time.Now()} }

func (c *testClock) now() time.Time { return c.began.Add(time.Duration(c.since.Load())) }

func (c *testClock) advance(d time.Duration) { c.since.Add(int64(d)) }

// On a busy machine few keys can take long to count. What this sidecar has written counts anyway.
func TestAnExactCountHasWhatThisSidecarHasWrittenHoweverLongItTakes(t *testing.T) {
	m, clock := newMemory(), newTestClock()
	m.values["k"] = causal.Value{Data: []byte("v")}
	m.before = func(operation, _ string) {
		if operation == "get" || operation == "mget" {
			clock.advance(time.Minute)
		}
	}
	_, address := serve(t, Options{Backend: m, Clock: clock.now})
	p := dial(t, address)
	for i := range 3 {
		if n := p.dbSize(); n != i+1 {
			t.Errorf("%d keys after %d writes", n, i)
		}
		p.do("SET", fmt.Sprint("other", i), "v")
	}
}

// An estimate is dear: it is used for a while, although this sidecar has written since.
func TestAnEstimateThatTookLongIsUsedForAWhile(t *testing.T) {
	m, clock, slow := newMemory(), newTestClock(), true
	for i := range 2 * maxSampled {
		m.values[fmt.Sprint("k", i)] = causal.Value{Data: []byte("v")}
	}
	reads := 0
	m.before = func(operation, _ string) {
		if operation == "get" {
			if reads++; slow {
				slow = false
				clock.advance(2 * cheapCount)
			}
		}
	}
	_, address := serve(t, Options{Backend: m, Clock: clock.now})
	p := dial(t, address)
	p.dbSize()
	was := reads
	p.do("SET", "other", "v")
	clock.advance(countShare * cheapCount)
	if p.dbSize(); reads != was {
		t.Errorf("%d values were read for a count while the last one was in use", reads-was)
	}
	clock.advance(countShare * cheapCount)
	if p.dbSize(); reads == was {
		t.Error("no value was read for a count after the last one was out of use")
	}
}

// The one who counts may wait for the keys that a transaction holds.
func TestATransactionDoesNotWaitForTheCountOfAnother(t *testing.T) {
	server, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.do("SET", "k", "v")
	p.do("MULTI")
	p.do("INCR", "n")
	p.do("DBSIZE")
	server.keyCounts.mu.Lock()
	defer server.keyCounts.mu.Unlock()
	p.expect("*2\r\n:1\r\n:2\r\n", "EXEC")
}
