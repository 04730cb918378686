package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/causalstore/causalstore/sidecar/front"
)

var smallLimits = Limits{Limits: front.Limits{MaxKeyBytes: 16, MaxValueBytes: 64}, MaxArgs: 8, MaxCommandBytes: 128,
	MaxInlineBytes: 64}.withDefaults()

// parsed is the result of reading a stream: commands as text, and the error at its end, if any.
type parsed struct {
	commands []string
	err      error
}

// feed passes a stream to a reader in pieces whose sizes size returns.
func feed(stream []byte, lim *Limits, size func() int) (parsed, *reader) {
	r := newReader(lim)
	r.authenticated = true
	var p parsed
	for len(stream) > 0 {
		n := min(len(stream), size())
		n = copy(r.reserve(), stream[:n])
		r.commit(n)
		stream = stream[n:]
		for {
			args, err := r.next()
			if err != nil {
				p.err = err
				return p, r
			}
			if args == nil && r.excess.limit == withinLimits {
				break
			}
			p.commands = append(p.commands, fmt.Sprintf("%q over %v", args, r.excess))
			r.excess = excess{}
		}
	}
	return p, r
}

func whole() int    { return 1 << 30 }
func bytewise() int { return 1 }

func TestReaderParsesCommandsHoweverTheStreamIsSplit(t *testing.T) {
	stream := []byte(
		"PING\r\n*1\r\n$4\r\nPING\r\n\r\n*0\r\n*-1\r\n  SET  k \"a\\x41\\n\" " +
			"\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\na\r\n\x00b\r\nget 'it\\'s'\r\n" +
			"*2\r\n$3\r\nGET\r\n$0\r\n\r\n")
	want := []string{`["PING"]`, `["PING"]`, `["SET" "k" "aA\n"]`, `["SET" "k" "a\r\n\x00b"]`, `["get" "it's"]`,
		`["GET" ""]`}
	r := rand.New(rand.NewPCG(1, 1))
	for name, size := range map[string]func() int{"whole": whole, "bytewise": bytewise, "random": func() int {
		return 1 + r.IntN(9)
	}} {
		got, _ := feed(stream, &smallLimits, size)
		if got.err != nil || len(got.commands) != len(want) {
			t.Fatalf("%s: %v", name, got)
		}
		for i, w := range want {
			if !strings.HasPrefix(got.commands[i], w) {
				t.Errorf("%s: command %d is %s, want %s", name, i, got.commands[i], w)
			}
		}
	}
}

func TestCommandOverALimitIsReadToItsEndAndNotStored(t *testing.T) {
	long := strings.Repeat("x", 100000)
	many := make([]string, 50000)
	for i := range many {
		many[i] = "k"
	}
	for name, c := range map[string]struct {
		command []byte
		limit   excessLimit
	}{
		"value":   {frameOf("SET", "k", long, "more"), overValue},
		"name":    {frameOf(long, "k"), overValue},
		"args":    {frameOf(append([]string{"DEL"}, many...)...), overArgs},
		"command": {frameOf("MSET", "a", long[:60], "b", long[:60], "c", long[:60]), overCommand},
	} {
		stream := append(bytes.Clone(c.command), frameOf("PING")...)
		for pieces, size := range map[string]func() int{"whole": whole, "bytewise": bytewise} {
			got, r := feed(stream, &smallLimits, size)
			if got.err != nil || len(got.commands) != 2 ||
				!strings.HasSuffix(got.commands[0], fmt.Sprintf("over %v", got.excessOf(c.limit))) ||
				!strings.HasPrefix(got.commands[1], `["PING"] over {0`) {
				t.Errorf("%s, %s: got %.300v", name, pieces, got)
			}
			if cap(r.buf) > 2*readBytes {
				t.Errorf("%s, %s: the buffer grew to %d bytes", name, pieces, cap(r.buf))
			}
		}
	}
}

// excessOf returns the excess of the first command, so that the test need not repeat its numbers.
func (p parsed) excessOf(limit excessLimit) string {
	if len(p.commands) == 0 {
		return ""
	}
	_, over, _ := strings.Cut(p.commands[0], " over ")
	if !strings.HasPrefix(over, fmt.Sprintf("{%d ", limit)) {
		return "another limit"
	}
	return over
}

// A buffer that ends with an argument is not doubled for the last bytes of it: clients with large values would be
// closed for memory that they do not need.
func TestABufferDoesNotGrowBeyondTheArgumentWhereverItsPiecesEnd(t *testing.T) {
	const value = 1 << 20
	stream := frameOf("SET", "k", strings.Repeat("v", value))
	lim := Limits{}.withDefaults()
	for _, missing := range []int{1, 2, 3, 100, readBytes/4 - 1, readBytes / 4, readBytes} {
		r := newReader(&lim)
		r.authenticated = true
		largest := 0
		for at := 0; at < len(stream); {
			free := r.reserve()
			largest = max(largest, cap(r.buf))
			end := len(stream)
			if at < end-missing {
				end -= missing
			}
			n := copy(free, stream[at:end])
			r.commit(n)
			at += n
			args, err := r.next()
			if err != nil || (args != nil) != (at == len(stream)) {
				t.Fatalf("%d bytes are missing: %d arguments after %d bytes, %v", missing, len(args), at, err)
			}
		}
		if largest > len(stream)+readBytes {
			t.Errorf("%d bytes are missing: the buffer had %d bytes for a command of %d", missing, largest, len(stream))
		}
	}
}

func TestLargeReadBufferIsReleasedWhenTheClientPauses(t *testing.T) {
	lim := Limits{}.withDefaults()
	_, r := feed(frameOf("SET", "k", strings.Repeat("x", 4<<20)), &lim, func() int { return 64 << 10 })
	if r.reserve(); cap(r.buf) > retainBytes {
		t.Errorf("%d bytes kept", cap(r.buf))
	}
}

func TestArgumentsStayValidWhileABlockedWriteReceivesMore(t *testing.T) {
	lim := Limits{}.withDefaults()
	r := newReader(&lim)
	r.authenticated = true
	r.commit(copy(r.reserve(), frameOf("ECHO", "hello")))
	args, err := r.next()
	if err != nil || len(args) != 2 {
		t.Fatal(args, err)
	}
	for range 100 {
		r.commit(copy(r.reserveKeepingArgs(), bytes.Repeat([]byte("PING\r\n"), 1000)))
	}
	if string(args[1]) != "hello" {
		t.Errorf("the argument became %q", args[1])
	}
	n := 0
	for ; ; n++ {
		if args, err := r.next(); err != nil {
			t.Fatal(err)
		} else if args == nil {
			break
		}
	}
	if n < 1000 {
		t.Errorf("%d commands came out", n)
	}
}

func TestPeekGetKeysStopsAtTheFirstOtherCommand(t *testing.T) {
	lim := Limits{}.withDefaults()
	r := newReader(&lim)
	r.authenticated = true
	var stream []byte
	for _, args := range [][]string{{"GET", "a"}, {"get", "b"}, {"Get", "c"}, {"SET", "d", "1"}, {"GET", "e"}} {
		stream = append(stream, frameOf(args...)...)
	}
	r.commit(copy(r.reserve(), stream))
	_, _ = r.next()
	var keys []string
	r.peekGetKeys(10, func(key []byte) { keys = append(keys, string(key)) })
	if fmt.Sprint(keys) != "[b c]" {
		t.Errorf("got %v", keys)
	}
	if args, err := r.next(); err != nil || string(args[1]) != "b" {
		t.Errorf("looking ahead moved the reader: %q, %v", args, err)
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"PING\r\n", "*1\r\n$4\r\nPING\r\n", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\n\r\n",
		"*2\r\n$3\r\nGET\r\n$-1\r\n", "*-1\r\n*0\r\n\r\n\n",
		"SET \"a\\x0g\" 'b\\'' c\n", "\"a\"b\n", "*1\r\n$100\r\n" + strings.Repeat("x", 102), "*9\r\n$1\r\na\r\n",
		"*1\r\n\r\n", "*\r\n", "$1\r\n", "*1\r\n$536870913\r\n",
		"*2147483647\r\n$1\r\na\r\n", "*2147483648\r\n", "*1\r\n$4\rXPINGXX*1\rX$1\rXaYY",
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		a, _ := feed(stream, &smallLimits, whole)
		b, _ := feed(stream, &smallLimits, bytewise)
		r := rand.New(rand.NewPCG(seed, 0))
		c, _ := feed(stream, &smallLimits, func() int { return 1 + r.IntN(20) })
		for _, other := range []parsed{b, c} {
			if fmt.Sprint(a.commands) != fmt.Sprint(other.commands) || (a.err == nil) != (other.err == nil) {
				t.Fatalf("%q: whole: %v, in pieces: %v", stream, a, other)
			}
		}
		var known *Error
		if a.err != nil && !errors.As(a.err, &known) {
			t.Fatalf("error without a code: %v", a.err)
		}
	})
}

func FuzzFrameRoundTrip(f *testing.F) {
	f.Add("SET", "k", "v\r\n\x00")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		lim := Limits{}.withDefaults()
		got, _ := feed(frameOf(a, b, c), &lim, whole)
		if want := fmt.Sprintf("%q over %v", []string{a, b, c}, excess{}); got.err != nil || len(got.commands) != 1 ||
			got.commands[0] != want {
			t.Fatalf("got %v, want %s", got, want)
		}
	})
}
