package resp

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// redis starts a real Redis server and returns its Unix socket.
func redis(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed; apt-get install redis-server")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no",
		"--dir", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	ready := make(chan struct{})
	go func() {
		log := make([]byte, 0, 8192)
		buf := make([]byte, 1024)
		for isReady := false; ; {
			n, err := out.Read(buf)
			if log = append(log, buf[:n]...); !isReady &&
				strings.Contains(string(log), "ready to accept connections at") {
				isReady = true
				close(ready)
			}
			if err != nil {
				return
			}
		}
	}()
	waitForClose(t, "redis-server to accept connections", ready)
	return socket
}

// twins are a connection to Redis and one to the server under test.
type twins struct {
	t            testing.TB
	theirs, ours *peer
	different    int
	// roundsDistances says that the last digits of a distance in a score may differ: the C library does not round all
	// sines exactly. So may how a HyperLogLog is written: in Redis it has the last estimate, and depends on the order
	// in which registers were raised.
	roundsDistances bool
	// masksTimes says that replies have times, as those about streams do.
	masksTimes bool
}

func newTwins(t testing.TB, socket string, proto string) *twins {
	return newTwinsOf(t, socket, proto, false)
}

// newTwinsOf is newTwins with sessions that are exact, or not.
func newTwinsOf(t testing.TB, socket string, proto string, exact bool) *twins {
	store := newMemory()
	store.exact = exact
	_, address := serve(t, Options{Backend: store})
	w := &twins{t: t, theirs: dial(t, socket), ours: dial(t, address)}
	w.theirs.do("FLUSHALL")
	w.theirs.do("HELLO", proto)
	w.ours.do("HELLO", proto)
	return w
}

// compare sends commands to both in one write and compares the replies.
func (w *twins) compare(commands ...[]string) {
	w.t.Helper()
	var batch []byte
	for _, args := range commands {
		batch = append(batch, frameOf(args...)...)
	}
	w.theirs.send(batch)
	w.ours.send(batch)
	for _, args := range commands {
		theirs, ours := w.theirs.reply(), w.ours.reply()
		if !w.same(args, theirs, ours) {
			w.t.Errorf("%q\nredis: %q\n ours: %q", args, theirs, ours)
			if w.different++; w.different > 20 {
				w.t.Fatal("too many differences")
			}
		}
	}
}

// same compares byte for byte, except that remaining times may differ a little: the servers answer at different
// moments.
func (w *twins) same(args []string, theirs, ours string) bool {
	if name := strings.ToLower(args[0]); theirs == ours || unordered[name] && sortedLines(theirs) == sortedLines(ours) {
		return true
	}
	if w.roundsDistances && (sameDistances(theirs, ours) || sameRegisters(theirs, ours)) {
		return true
	}
	if w.masksTimes && sameStreams(theirs, ours) {
		return true
	}
	slack := map[string]int{"ttl": 1, "expiretime": 1, "pttl": 1500, "pexpiretime": 1500}[strings.ToLower(args[0])]
	a, err1 := strconv.Atoi(strings.Trim(theirs, ":\r\n"))
	b, err2 := strconv.Atoi(strings.Trim(ours, ":\r\n"))
	return slack > 0 && err1 == nil && err2 == nil && a > 0 && b > 0 && a-b <= slack && b-a <= slack
}

func lines(text string) (commands [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		words, spans, err := splitWords([]byte(line), nil, nil)
		if err != nil {
			panic(line)
		}
		var args []string
		for _, s := range spans {
			args = append(args, string(words[s.from:s.to]))
		}
		commands = append(commands, args)
	}
	return commands
}

func TestScriptedCommandsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			w := newTwins(t, socket, proto)
			for _, args := range lines(script) {
				w.compare(args)
			}
		})
	}
}

func TestRandomPipelinesGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			w := newTwins(t, socket, proto)
			for range 400 {
				batch := make([][]string, 1+r.IntN(60))
				for i := range batch {
					batch[i] = randomCommand(r)
				}
				w.compare(batch...)
			}
		})
	}
}

func TestIncrByFloatAddsLikeRedis(t *testing.T) {
	w := newTwins(t, redis(t), "2")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var batch [][]string
		for range 20 {
			batch = append(batch, []string{"SET", "f", randomFloat(r)}, []string{"INCRBYFLOAT", "f", randomFloat(r)},
				[]string{"INCRBYFLOAT", "f", randomFloat(r)}, []string{"GET", "f"})
		}
		w.compare(batch...)
	}
}

func randomFloat(r *rand.Rand) string {
	switch r.IntN(10) {
	case 0:
		return pick(r, "0", "-0", "+1", "1.", ".5", "-.5e-3", "1e400", "-1e4932", "1.18973149535723176502e+4932",
			"1e4933", "1e-4940", "1e-4960",
			"1e-99999999999999999999", "0e99999999999", "inf", "-Infinity", "nan", "0x1p3", "0X.8", "0x1.8p-1", "0x",
			"", " 1", "1 ", "1e", "1e+", "--1", "1_0", "1p3",
			"3.0e3", "5e-324", "0.1", "10.5", "100000000000000000000", "99999999999999999999.99999999", "1x", "e5", ".",
			"infin", "0x1p16383", "0x1p99999")
	case 1:
		return strconv.FormatInt(r.Int64()-r.Int64(), 10)
	case 2:
		return fmt.Sprintf("%de%d", r.IntN(1000)-500, r.IntN(80)-40)
	default:
		return strconv.FormatFloat((r.Float64()-0.5)*float64(int64(1)<<r.IntN(60)), 'f', r.IntN(22), 64)
	}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func randomCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "b", "c", "d", "{t}1", "\x00\r\n\xff", "") }
	number := func() string {
		return pick(r, "0", "1", "-1", "5", "10", "100", "-7", "9223372036854775807", "-9223372036854775808",
			"9223372036854775808",
			"01", "+1", "-0", "", " 1", "1.5", "abc", "4611686018427387904", "9223372036854775", "-9223372036854775",
			"18446744073709551616")
	}
	// No expire time may pass during the test, and no two may be so close that their order depends on when each server
	// executes the command.
	lasting := func() string {
		return pick(r, "0", "-1", strconv.Itoa(1e6+r.IntN(1e9)), strconv.Itoa(1e6+r.IntN(1e9)), "", " 1000000", "1.5",
			"abc", "9223372036854775", "-9223372036854775", "9223372036854775807",
			"-9223372036854775808", "9223372036854775808", "4611686018427387904")
	}
	text := func() string { return pick(r, number(), "hello", "\r\n\x00", "3.25", strings.Repeat("x", r.IntN(300))) }
	at := func() string {
		return pick(r, lasting(), strconv.FormatInt(time.Now().Unix()+1000+int64(r.IntN(1e6)), 10),
			strconv.FormatInt(time.Now().UnixMilli()+1e6+int64(r.IntN(1e9)), 10))
	}
	option := func() string {
		return pick(r, "NX", "XX", "GET", "KEEPTTL", "PERSIST", "GT", "LT", "nx", "Xx", "bogus", "EX", "PX")
	}
	timed := func() []string { return []string{pick(r, "EX", "PX", "EXAT", "PXAT", "ex", "pxat"), at()} }
	name := pick(r, "GET", "SET", "SET", "SET", "SET", "SETNX", "SETEX", "PSETEX", "GETSET", "GETDEL", "GETEX", "GETEX",
		"GETRANGE", "SUBSTR", "STRLEN",
		"APPEND", "MGET", "MSET", "DEL", "UNLINK", "EXISTS", "TYPE", "INCR", "DECR", "INCRBY", "DECRBY", "INCRBYFLOAT",
		"EXPIRE", "PEXPIRE", "EXPIREAT",
		"PEXPIREAT", "TTL", "PTTL", "PERSIST", "EXPIRETIME", "PEXPIRETIME", "PING", "ECHO", "NOSUCH", "SET", "CLIENT")
	args := []string{name}
	if r.IntN(4) == 0 {
		args[0] = strings.ToLower(name)
	}
	switch name {
	case "GET", "GETDEL", "STRLEN", "TYPE", "INCR", "DECR", "TTL", "PTTL", "PERSIST", "EXPIRETIME", "PEXPIRETIME":
		args = append(args, key())
	case "SET":
		args = append(args, key(), text())
		for range r.IntN(3) {
			if r.IntN(2) == 0 {
				args = append(args, timed()...)
			} else {
				args = append(args, option())
			}
		}
	case "GETEX":
		args = append(args, key())
		if r.IntN(3) > 0 {
			args = append(args, timed()...)
		}
		if r.IntN(4) == 0 {
			args = append(args, option())
		}
	case "SETNX", "GETSET", "APPEND":
		args = append(args, key(), text())
	case "SETEX", "PSETEX":
		args = append(args, key(), lasting(), text())
	case "GETRANGE", "SUBSTR":
		args = append(args, key(), number(), number())
	case "MGET", "DEL", "UNLINK", "EXISTS":
		for range r.IntN(4) {
			args = append(args, key())
		}
	case "MSET":
		for range r.IntN(4) {
			args = append(args, key(), text())
		}
	case "INCRBY", "DECRBY":
		args = append(args, key(), number())
	case "INCRBYFLOAT":
		args = append(args, key(), pick(r, number(), randomFloat(r)))
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT":
		args = append(args, key(), at())
		for range r.IntN(3) {
			args = append(args, option())
		}
	case "NOSUCH", "ECHO", "PING":
		for range r.IntN(3) {
			args = append(args, text())
		}
	case "CLIENT":
		args = append(args, pick(r, "GETNAME", "SETNAME", "nosuch", "no-evict"), pick(r, "name", "with space", ""))
	}
	if r.IntN(30) == 0 {
		args = append(args, text())
	}
	if r.IntN(30) == 0 && len(args) > 1 {
		args = args[:len(args)-1]
	}
	return args
}

// The test does not compare tips, notes and the two commands that are newer than Redis 7.0.
func TestCommandTableMatchesRedis(t *testing.T) {
	socket := redis(t)
	tips := regexp.MustCompile(`(\$\d+\r\n(non|req|res)[a-z_]+(:[a-z_]+)?\r\n)+`)
	notes := regexp.MustCompile(`\$5\r\nnotes\r\n\$\d+\r\n[^\r]*\r\n`)
	count := regexp.MustCompile(`\*\d+\r\n`)
	// The order of sets and of subcommands has no meaning, and the tips change the lengths, so compare the words.
	words := func(reply string) string {
		reply = tips.ReplaceAllString(notes.ReplaceAllString(reply, ""), "")
		fields := strings.Split(count.ReplaceAllString(reply, ""), "\r\n")
		sort.Strings(fields)
		return strings.Join(fields, " ")
	}
	theirs := dial(t, socket)
	_, address := serve(t, Options{Backend: newMemory()})
	ours := dial(t, address)
	for _, cmd := range sortedCommands() {
		names := []string{cmd.name}
		if len(cmd.subs) > 0 {
			names = nil
			for _, sub := range cmd.subs {
				names = append(names, sub.name)
			}
		}
		for _, name := range names {
			switch name {
			case "client|setinfo", "client|no-touch", "causal|status", "causal|token", "causal|resume", "causal|wait",
				"causal|last", "causal|level", "causal|help":
				continue
			}
			if a, b := words(theirs.do("COMMAND", "INFO", name)), words(ours.do("COMMAND", "INFO", name)); a != b {
				t.Errorf("%s\nredis: %q\n ours: %q", name, a, b)
			}
		}
	}
}

// differentialRounds is how many pipelines a differential test compares in each way.
func differentialRounds(t testing.TB) int {
	t.Helper()
	if text := os.Getenv("CAUSALSTORE_DIFFERENTIAL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 150
}
