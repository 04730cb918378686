package resp

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/causalstore/causalstore/sidecar/front"
)

func TestPipelinedUpdatesAreReadAndPutTogether(t *testing.T) {
	replies, calls := pipelined(t, []string{"INCR", "a"}, []string{"INCR", "a"}, []string{"APPEND", "b", "x"},
		[]string{"SETNX", "a", "no"}, []string{"INCR", "a"},
		[]string{"GET", "a"})
	if replies != ":1\r\n:2\r\n:1\r\n:0\r\n:3\r\n$1\r\n3\r\n" {
		t.Errorf("replies %q", replies)
	}
	// The last INCR depends on the APPEND, so it is a put of its own.
	if want := "read a, read b, issue a, issue b, issue a, await a, await b, await a, get a"; calls != want {
		t.Errorf("calls\n %s, want\n %s", calls, want)
	}
	if _, calls := pipelined(t, []string{"INCR", "a"}); calls != "get a, put a" {
		t.Errorf("outside a pipeline: %s", calls)
	}
}

// CAUSAL LAST tells of what the last command has replied with, which is not always what was written last.
func TestTheLastUpdateOfAPipelineIsTheLastThingRead(t *testing.T) {
	replies, calls := pipelined(t, []string{"INCR", "b"}, []string{"INCR", "a"}, []string{"SETNX", "b", "no"})
	if want := "read b, read a, issue b, issue a, await b, await a, get b"; calls != want ||
		replies != ":1\r\n:1\r\n:0\r\n" {
		t.Errorf("replies %q, calls\n %s, want\n %s", replies, calls, want)
	}
}

func TestUpdatesOfOneKeyPutItsLastValueOnly(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	var commands [][]string
	for range 1000 {
		commands = append(commands, []string{"INCR", "n"})
	}
	p.send(batch(commands...))
	for i := range commands {
		if got := p.reply(); got != fmt.Sprintf(":%d\r\n", i+1) {
			t.Fatalf("INCR %d: %q", i+1, got)
		}
	}
	if puts := store.puts["n"]; puts > 100 { // the pipeline arrives in a few parts
		t.Errorf("%d puts", puts)
	}
}

func TestATransactionOfManyUpdatesIsFast(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	commands := [][]string{{"MULTI"}}
	for range 20_000 {
		commands = append(commands, []string{"INCR", "n"})
	}
	p.send(batch(append(commands, []string{"EXEC"})...))
	for range commands {
		p.reply()
	}
	got := p.reply()
	if !strings.HasPrefix(got, "*20000\r\n:1\r\n:2\r\n") || !strings.HasSuffix(got, ":19999\r\n:20000\r\n") {
		t.Errorf("EXEC: %.40q...", got)
	}
	if puts := store.puts["n"]; puts != (20_000+maxPendingUpdates-1)/maxPendingUpdates {
		t.Errorf("%d puts", puts)
	}
}

func TestAPutThatFailsIsTheAnswerOfAllCommandsThatDependOnIt(t *testing.T) {
	busy := "-BUSY the write buffer is full; try again\r\n"
	for _, c := range []struct {
		commands, want string
	}{
		{"SETNX refused x; INCR k; SETNX refused y; GETDEL refused", busy + ":1\r\n" + busy + busy},
		// What was replied by the value before the put is right.
		{"PERSIST refused; INCR refused; INCR refused; INCR k", ":0\r\n" + busy + busy + ":1\r\n"},
	} {
		_, address := serve(t, Options{Backend: newMemory()})
		p := dial(t, address)
		commands := lines(strings.ReplaceAll(c.commands, "; ", "\n"))
		p.send(batch(commands...))
		got := ""
		for range commands {
			got += p.reply()
		}
		if got != c.want {
			t.Errorf("%s\n got %q\nwant %q", c.commands, got, c.want)
		}
		p.expect("$-1\r\n", "GET", "refused")
	}
}

// A command whose put has failed must not say that nothing was written, if a later one has put what it did.
func TestAPutThatFailsBeforeALaterOneOfTheKeyIsUnknown(t *testing.T) {
	store := newMemory()
	failed := false
	store.putError = func(key string) error {
		if key != "n" || failed {
			return nil
		}
		failed = true
		return errPutRefused
	}
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(batch([]string{"INCR", "n"}, []string{"INCR", "k"}, []string{"INCR", "n"}, []string{"GET", "n"}))
	first := p.reply()
	if !strings.HasPrefix(first, "-UNKNOWN the write failed (BUSY the write buffer is full; try again), but ") {
		t.Errorf("the first INCR: %q", first)
	}
	if got := p.reply() + p.reply() + p.reply(); got != ":1\r\n:2\r\n$1\r\n2\r\n" {
		t.Errorf("the others: %q", got)
	}
}

func TestAReadThatFailsIsTheAnswerOfItsCommandsOnly(t *testing.T) {
	store := newMemory()
	store.operationError = front.Errorf(front.Unavailable, "no ring")
	replies := ""
	_, address := serve(t, Options{Backend: store})
	p := dial(t, address)
	p.send(batch([]string{"INCR", "a"}, []string{"APPEND", "b", "x"}, []string{"PING"}))
	for range 3 {
		replies += p.reply()
	}
	if replies != "-UNAVAILABLE no ring\r\n-UNAVAILABLE no ring\r\n+PONG\r\n" || len(store.puts) > 0 {
		t.Errorf("%q, puts %v", replies, store.puts)
	}
}

// Pipelines of commands that read and write few keys, in all ways in which they may be executed together or apart.
func TestRandomPipelinesOfUpdatesGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for name, configure := range map[string]func(m *memory){
		"together": func(*memory) {}, "two keys at a time": func(m *memory) {
			m.together = 2
		}, "one by one": func(m *memory) { m.together = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			store := newMemory()
			configure(store)
			_, address := serve(t, Options{Backend: store, Limits: Limits{MaxPipelineBytes: 2000}})
			w := &twins{t: t, theirs: dial(t, socket), ours: dial(t, address)}
			w.theirs.do("FLUSHALL")
			for range 150 {
				var commands [][]string
				inMulti := false
				for range 1 + r.IntN(120) {
					args := randomUpdate(r)
					if name := args[0]; name == "MULTI" && inMulti || name == "EXEC" && !inMulti {
						continue
					} else if name == "MULTI" || name == "EXEC" {
						inMulti = !inMulti
					}
					commands = append(commands, args)
				}
				if inMulti {
					commands = append(commands, []string{"EXEC"})
				}
				w.compare(append(commands, []string{"MGET", "a", "b", "c"}, []string{"SELECT", "0"},
					[]string{"MGET", "a", "b", "c"})...)
			}
		})
	}
}

func randomUpdate(r *rand.Rand) []string {
	key := pick(r, "a", "a", "a", "b", "c")
	text := pick(r, "1", "5", "abc", strings.Repeat("x", r.IntN(200)))
	at := func() string { return strconv.FormatInt(time.Now().Unix()+1_000_000+int64(r.IntN(1e6)), 10) }
	switch r.IntN(24) {
	case 0, 1, 2, 3, 4:
		return []string{"INCR", key}
	case 5:
		return []string{"DECRBY", key, pick(r, "1", "7", "x")}
	case 6:
		return []string{"INCRBYFLOAT", key, pick(r, "0.5", "3", "x")}
	case 7, 8:
		return []string{"APPEND", key, text}
	case 9:
		return []string{"SETRANGE", key, pick(r, "0", "3", "9"), text}
	case 10:
		return []string{"SETNX", key, text}
	case 11:
		return []string{"SET", key, text, pick(r, "NX", "XX", "GET", "KEEPTTL")}
	case 12:
		return []string{"SET", key, text, "EXAT", at(), pick(r, "NX", "XX", "GET", "GET")}
	case 13:
		return []string{"GETSET", key, text}
	case 14:
		return []string{"GETDEL", key}
	case 15:
		return []string{"DEL", key}
	case 16:
		return []string{"EXPIREAT", key, pick(r, "1", at(), at()), pick(r, "NX", "XX", "GT", "LT")}
	case 17:
		return []string{"PERSIST", key}
	case 18:
		return []string{"GETEX", key, "EXAT", at()}
	case 19:
		return []string{pick(r, "GET", "EXPIRETIME", "GETEX", "STRLEN"), key}
	case 20:
		return []string{"SET", key, text}
	case 21:
		return []string{"MSET", key, text, "b", "3"}
	case 22:
		return []string{"SELECT", pick(r, "0", "1")}
	default:
		return []string{pick(r, "MULTI", "EXEC")}
	}
}

func TestConcurrentPipelinesOfUpdatesLoseNothing(t *testing.T) {
	store := newMemory()
	_, address := serve(t, Options{Backend: store})
	const connections, pipelines, length = 8, 20, 30
	var all sync.WaitGroup
	for i := range connections {
		p := dial(t, address)
		r := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for range pipelines {
				var commands [][]string
				for range length {
					commands = append(commands, []string{"INCR", pick(r, "a", "b", "c")})
				}
				p.send(batch(commands...))
				for range commands {
					p.reply()
				}
			}
		})
	}
	all.Wait()
	sum := 0
	for _, key := range []string{"a", "b", "c"} {
		n, _ := strconv.Atoi(string(store.get(key).Data))
		sum += n
	}
	if sum != connections*pipelines*length {
		t.Errorf("%d of %d increments were counted", sum, connections*pipelines*length)
	}
}

func TestUpdatesKeepTheirPlaceAmongOtherCommands(t *testing.T) {
	_, address := serve(t, Options{Backend: newMemory()})
	p := dial(t, address)
	p.send(batch([]string{"SET", "a", "1"}, []string{"INCR", "a"}, []string{"SET", "a", "7"},
		[]string{"INCR", "a", "x"}, []string{"INCR", "a"},
		[]string{"CLIENT", "REPLY", "SKIP"}, []string{"INCR", "a"}, []string{"INCR", "a"}, []string{"ECHO", "end"}))
	got := ""
	for range 7 { // two of the commands have no reply
		got += p.reply()
	}
	if want := "+OK\r\n:2\r\n+OK\r\n-ERR wrong number of arguments for 'incr' " +
		"command\r\n:8\r\n:10\r\n$3\r\nend\r\n"; got != want {
		t.Errorf("replies\n %q, want\n %q", got, want)
	}
}
