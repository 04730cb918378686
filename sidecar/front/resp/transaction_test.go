package resp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/front"
)

func TestTransactionsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run(fmt.Sprintf("RESP%s exact %v", proto, exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for _, args := range lines(transactionScript) {
					w.compare(args)
				}
			})
		}
	}
}

func TestRandomTransactionsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run(fmt.Sprintf("RESP%s exact %v", proto, exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for range 200 {
					batch := make([][]string, 1+r.IntN(60))
					for i := range batch {
						batch[i] = randomTransactionCommand(r)
					}
					w.compare(batch...)
				}
			})
		}
	}
}

func randomTransactionCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "b", "c", "{t}1", "\x01", "\x010:a", "") }
	text := func() string { return pick(r, "0", "1", "abc", "\r\n\x00", strings.Repeat("x", r.IntN(100))) }
	switch name := pick(r, "MULTI", "MULTI", "EXEC", "EXEC", "DISCARD", "WATCH", "UNWATCH", "SET", "SET", "GET", "GET",
		"MGET", "INCR", "APPEND", "DEL", "EXISTS",
		"SETNX", "RENAME", "RENAMENX", "COPY", "MSET", "MSETNX", "SETRANGE", "GETDEL", "SELECT", "NOSUCH",
		"PING"); name {
	case "GET", "INCR", "GETDEL":
		if r.IntN(20) == 0 {
			return []string{name}
		}
		return []string{name, key()}
	case "MGET", "DEL", "EXISTS", "WATCH", "RENAME", "RENAMENX":
		return []string{name, key(), key()}
	case "COPY":
		args := []string{name, key(), key()}
		for range r.IntN(3) {
			option := pick(r, "REPLACE", "DB 1", "db 0", "DB 15", "DB 16", "DB x", "DB -1", "DB 9999999999", "DB", "NX")
			args = append(args, strings.Fields(option)...)
		}
		return args
	case "SET", "SETNX", "APPEND":
		return []string{name, key(), text()}
	case "MSET", "MSETNX":
		return []string{name, key(), text(), key(), text()}
	case "SETRANGE":
		return []string{name, key(), pick(r, "0", "1", "7", "-1", "x"), text()}
	case "SELECT":
		return []string{name, pick(r, "0", "0", "0", "1", "15", "16", "x")}
	default:
		if r.IntN(20) == 0 && name != "PING" {
			return []string{name, "extra"}
		}
		return []string{name}
	}
}

func TestAnExecThatIsRefusedEndsTheTransaction(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Limits: Limits{Limits: front.Limits{MaxValueBytes: 100}}})
	p := dial(t, address)
	for _, refused := range [][]string{{"EXEC", "extra"}, {"exec", strings.Repeat("x", 101)}} {
		p.expect("+OK\r\n", "MULTI")
		p.expect("+QUEUED\r\n", "SET", "k", "1")
		if got := p.do(refused...); !strings.HasPrefix(got, "-EXECABORT Transaction discarded because of: ") {
			t.Errorf("%.20q: %q", refused, got)
		}
		p.expect("-ERR EXEC without MULTI\r\n", "EXEC")
	}
	p.expect(":0\r\n", "EXISTS", "k")
}

func TestExecExecutesNothingIfAnotherConnectionChangedAWatchedKey(t *testing.T) {
	for proto, null := range map[string]string{"2": "*-1\r\n", "3": "_\r\n"} {
		_, address := serve(t, Options{Backend: newMemory()})
		watching, other := dial(t, address), dial(t, address)
		watching.do("HELLO", proto)
		for _, change := range [][]string{{"SET", "k", "1"}, {"INCR", "k"}, {"DEL", "k"}, {"PEXPIREAT", "j", "1"}} {
			other.do("SET", "j", "here")
			watching.expect("+OK\r\n", "WATCH", "k", "j", "k")
			other.do(change...)
			watching.expect("+OK\r\n", "MULTI")
			watching.expect("+QUEUED\r\n", "SET", "done", "yes")
			watching.expect(null, "EXEC")
			other.expect(":0\r\n", "EXISTS", "done")
		}
		watching.expect("+OK\r\n", "WATCH", "k", "j")
		other.do("SET", "unrelated", "1")
		watching.do("MULTI")
		watching.do("SET", "done", "yes")
		watching.expect("*1\r\n+OK\r\n", "EXEC")
	}
}

func TestAWatchedKeyThatExpiresHasChanged(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	_, address := serve(t, Options{Backend: newMemory(), Clock: clock})
	p := dial(t, address)
	p.expect("+OK\r\n", "SET", "k", "v", "EX", "10")
	p.expect("+OK\r\n", "WATCH", "k")
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	for _, want := range []string{"*-1\r\n", "*0\r\n"} { // the second time it had expired before
		p.expect("+OK\r\n", "MULTI")
		p.expect(want, "EXEC")
		p.expect("+OK\r\n", "WATCH", "k")
	}
}

func TestCommandsThatMustNotBeInATransactionAreRefused(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Users: withPassword("default", "secret")})
	p := dial(t, address)
	p.do("AUTH", "secret")
	for _, args := range [][]string{{"CAUSAL", "WAIT", "all", "1"}, {"CAUSAL", "STATUS"}, {"CAUSAL", "RESUME", "x"},
		{"AUTH", "secret"}, {"HELLO", "3"}} {
		p.expect("+OK\r\n", "MULTI")
		p.expect("+QUEUED\r\n", "SET", "k", "v")
		if got := p.do(args...); !strings.HasPrefix(got, "-ERR '"+strings.ToLower(args[0])) ||
			!strings.Contains(got, "is not allowed inside MULTI") {
			t.Errorf("%q in a transaction: %q", args, got)
		}
		p.expect("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
		p.expect("$-1\r\n", "GET", "k")
	}
}

func TestATransactionOverTheLimitIsNotExecuted(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Limits: Limits{MaxCommandBytes: 10_000}})
	p := dial(t, address)
	p.do("MULTI")
	for range 4 {
		p.expect("+QUEUED\r\n", "SET", "k", strings.Repeat("x", 2000))
	}
	p.expect("-ERR the transaction is longer than the limit of 10000 bytes; split it\r\n", "SET", "k",
		strings.Repeat("x", 2000))
	p.expect("-EXECABORT Transaction discarded because of previous errors.\r\n", "EXEC")
	p.expect("$-1\r\n", "GET", "k")
	var keys []string
	for i := range maxWatchedKeys + 1 {
		keys = append(keys, fmt.Sprint(i))
	}
	if got := p.do(append([]string{"WATCH"}, keys[:1000]...)...); got != "+OK\r\n" {
		t.Errorf("WATCH: %q", got)
	}
	_, address = serve(t, Options{Backend: newMemory()})
	if got := dial(t, address).do(append([]string{"WATCH"}, keys...)...); !strings.HasPrefix(got,
		"-ERR a connection can watch at most 4096 keys") {
		t.Errorf("WATCH of too many keys: %q", got)
	}
}

func TestRepliesOfATransactionThatTakeTooMuchMemoryEndIt(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory(), Limits: Limits{MaxCommandBytes: 100_000}})
	p := dial(t, address)
	p.do("SET", "k", strings.Repeat("x", 60_000))
	p.do("MULTI")
	for range 3 {
		p.do("GET", "k")
	}
	p.do("SET", "late", "1")
	if got := p.do("EXEC"); strings.Count(got, "$60000\r\n") != 2 ||
		strings.Count(got, "-ERR the replies of the transaction take too much memory") != 2 {
		t.Errorf("got %.100q", got)
	}
	p.expect(":0\r\n", "EXISTS", "late")
}

// issued records the operations on the store.
func issued(store *memory) func() []string {
	var mu sync.Mutex
	var all []string
	store.before = func(operation, key string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, operation+" "+key)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestPlainWritesOfATransactionAreIssuedTogether(t *testing.T) {
	store := newMemory()
	operations := issued(store)
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	for _, args := range lines("MULTI\nSET a 1\nSET b 2\nGET a\nSET c 3\nSET a 4 XX\n") {
		p.do(args...)
	}
	p.expect("*5\r\n+OK\r\n+OK\r\n$1\r\n1\r\n+OK\r\n+OK\r\n", "EXEC")
	if got, want := fmt.Sprint(operations()),
		"[issue a issue b await a await b get a issue c await c get a put a]"; got != want {
		t.Errorf("operations:\n got %s\nwant %s", got, want)
	}
}

// A client that does not read the replies of its transaction must not block others.
func TestATransactionHoldsNoLockWhileItsRepliesAreSent(t *testing.T) {
	store := newMemory()
	ready := make(chan struct{}, 1)
	store.before = func(operation, key string) {
		if operation == "get" && key == "last" {
			ready <- struct{}{}
		}
	}
	_, address := serve(t, Options{Backend: store})
	silent, other := dial(t, address), dial(t, address)
	other.expect("+OK\r\n", "SET", "k", strings.Repeat("x", 8<<20))
	silent.send(frameOf("MULTI"))
	for range 5 {
		silent.send(frameOf("GET", "k"))
	}
	silent.send(frameOf("GET", "last"))
	silent.send(frameOf("EXEC"))
	waitForClose(t, "the transaction to be executed", ready)
	other.SetDeadline(time.Now().Add(bound))
	other.expect(":8388609\r\n", "APPEND", "k", "y")
}

func TestAPanicInATransactionReleasesItsKeys(t *testing.T) {
	store := newMemory()
	store.before = func(operation, key string) {
		if operation == "get" && key == "cursed" {
			panic("cursed")
		}
	}
	_, address := serve(t, Options{Backend: store})
	p, other := dial(t, address), dial(t, address)
	for _, args := range lines("MULTI\nINCR k\nGET cursed") {
		p.do(args...)
	}
	p.send(frameOf("EXEC"))
	p.expectClosed()
	other.expect(":2\r\n", "INCR", "k")
}

func TestClientInfoShowsDatabaseAndTransaction(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.do("SELECT", "3")
	if got := p.do("CLIENT", "INFO"); !strings.Contains(got, " flags=N db=3 sub=0 psub=0 ssub=0 multi=-1 ") {
		t.Errorf("got %q", got)
	}
	p.do("MULTI")
	p.do("GET", "k")
	p.do("CLIENT", "INFO")
	p.do("RESET")
	if got := p.do("CLIENT", "INFO"); !strings.Contains(got, " flags=N db=0 ") {
		t.Errorf("after RESET: %q", got)
	}
	p.expect("*2\r\n$9\r\ndatabases\r\n$2\r\n16\r\n", "CONFIG", "GET", "databases")
}

func TestATransactionLocksTheKeysOfTheDatabasesThatItSelects(t *testing.T) {
	queued := func(words ...string) queuedCommand {
		q := queuedCommand{cmd: byName[words[0]]}
		for _, w := range words {
			q.args = append(q.args, []byte(w))
		}
		return q
	}
	q := transaction{queue: []queuedCommand{queued("incr", "a"), queued("select", "2"), queued("mget", "b", "c"),
		queued("select", "no"), queued("incr", "d")}}
	if got, want := q.keys(1), []string{storageKey(1, "a"), storageKey(2, "b"), storageKey(2, "c"),
		storageKey(2, "d")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// In an exact session a transaction is written as a whole, or nothing of it.
func TestATransactionOfAnExactSessionThatTakesTooMuchWritesNothing(t *testing.T) {
	store := newMemory()
	store.exact = true
	_, address := serve(t, Options{Backend: store, Limits: Limits{MaxCommandBytes: 100_000}})
	p := dial(t, address)
	p.do("SET", "k", strings.Repeat("x", 60_000))
	p.do("MULTI")
	p.do("SET", "early", "1")
	for range 3 {
		p.do("GET", "k")
	}
	p.do("SET", "late", "1")
	if got := p.do("EXEC"); !strings.HasPrefix(got,
		"-EXECABORT Transaction discarded because of: the replies of the transaction take too much memory") {
		t.Errorf("replies: got %.100q", got)
	}
	p.expect(":0\r\n", "EXISTS", "early", "late")

	_, address = serve(t, Options{Backend: store})
	p = dial(t, address)
	half := strings.Repeat("x", causal.MaxCommitBytes/2)
	p.do("MULTI")
	p.do("SET", "early", half)
	p.do("MSET", "late", half)
	p.do("INCR", "n")
	if got := p.do("EXEC"); !strings.HasPrefix(got, fmt.Sprintf(
		"-EXECABORT Transaction discarded because of: the transaction writes more than %d bytes",
		causal.MaxCommitBytes)) {
		t.Errorf("writes: got %.100q", got)
	}
	p.expect(":0\r\n", "EXISTS", "early", "late", "n")
}
