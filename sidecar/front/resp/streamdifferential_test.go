package resp

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sameStreams compares replies with times, which differ a little, and with how Redis keeps a stream.
func sameStreams(theirs, ours string) bool {
	return maskTimes(theirs) == maskTimes(ours)
}

var (
	timesInInfo = regexp.MustCompile(`(\$(?:4|9)\r\n(?:idle|seen-time)\r\n):\d+`)
	nodesInInfo = regexp.MustCompile(`(radix-tree-(?:keys|nodes)\r\n):\d+`)
	epochs      = regexp.MustCompile(`:\d{13}\r\n`)
	idleTimes   = regexp.MustCompile(`(\*4\r\n\$\d+\r\n\d+-\d+\r\n\$\d+\r\n[^\r]*\r\n):\d+`)
)

func maskTimes(reply string) string {
	reply = timesInInfo.ReplaceAllString(reply, "$1:t")
	reply = nodesInInfo.ReplaceAllString(reply, "$1:n")
	reply = idleTimes.ReplaceAllString(reply, "$1:i")
	return epochs.ReplaceAllString(reply, ":e\r\n")
}

func TestScriptedCommandsOfStreamsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				w.masksTimes = true
				for _, args := range lines(streamScript) {
					w.compare(args)
				}
			})
		}
	}
}

func TestRandomPipelinesOfStreamsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				w.masksTimes = true
				for range 300 {
					batch := make([][]string, 1+r.IntN(40))
					for i := range batch {
						if batch[i] = randomStreamCommand(r); r.IntN(12) == 0 {
							batch[i] = randomCollectionCommand(r)
						}
					}
					if r.IntN(3) == 0 && !slices.ContainsFunc(batch, isRefusedInMulti) {
						batch = slices.Concat([][]string{{"MULTI"}}, batch, [][]string{{"EXEC"}})
					}
					w.compare(batch...)
				}
			})
		}
	}
}

var streamCommandNames = []string{"XADD", "XADD", "XADD", "XADD", "XADD", "XADD", "XLEN", "XRANGE", "XREVRANGE", "XDEL",
	"XDEL", "XTRIM", "XSETID", "XREAD", "XREAD", "XREADGROUP", "XREADGROUP", "XREADGROUP", "XREADGROUP", "XACK", "XACK",
	"XPENDING", "XPENDING", "XCLAIM", "XCLAIM", "XAUTOCLAIM", "XGROUP", "XGROUP", "XGROUP", "XINFO", "XINFO", "RENAME",
	"COPY", "DEL", "EXPIRE", "TYPE", "SET", "SCAN"}

func randomStreamCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "s", "s", "s", "t", "a", "b", "\x00\r\n\xff") }
	group := func() string { return pick(r, "g", "g", "g", "h", "") }
	consumer := func() string { return pick(r, "c", "d", "c", "e", "") }
	id := func() string {
		if r.IntN(3) > 0 {
			return strconv.Itoa(r.IntN(30)) + "-" + strconv.Itoa(r.IntN(4))
		}
		return pick(r, "0", "0-0", "1", "5", "12-1", "29", "-", "+", "$", ">", "x", "1-x", "", "18446744073709551615",
			"18446744073709551616", "3-*", "*", "007-01", "1-2-3", "-1", "1--5", "+4")
	}
	newID := func() string {
		if r.IntN(10) == 0 {
			if id := pick(r, id(), "0-0"); !strings.Contains(id, "*") { // the ids that are made are others than in Redis
				return id
			}
		}
		return strconv.Itoa(r.IntN(30)) + pick(r, "", "-0", "-1", "-2", "-3")
	}
	bound := func() string { return pick(r, "-", "+", id(), id(), "("+id()) }
	count := func() string { return pick(r, "0", "1", "2", "3", "10", "-1", "x") }
	trim := func() []string {
		if r.IntN(2) == 0 {
			return []string{pick(r, "MAXLEN", "maxlen", "MAXLEN"), pick(r, "=", "=", "x"), count()}
		}
		if r.IntN(3) == 0 {
			return []string{pick(r, "MINID", "minid"), id()}
		}
		return []string{pick(r, "MAXLEN", "MINID"), count()}
	}
	name := pick(r, streamCommandNames...)
	args := []string{name, key()}
	switch name {
	case "XADD":
		if r.IntN(4) == 0 {
			args = append(args, trim()...)
		}
		if r.IntN(8) == 0 {
			args = append(args, pick(r, "NOMKSTREAM", "LIMIT", "nomkstream"))
		}
		args = append(args, newID())
		for range 1 + r.IntN(3) {
			args = append(args, pick(r, "f", "g", "\x00\r\n", ""), pick(r, "v", "", "1", strings.Repeat("v", 50)))
		}
	case "XTRIM":
		if args = append(args, trim()...); r.IntN(5) == 0 {
			args = append(args, "LIMIT", count())
		}
	case "XDEL":
		for range 1 + r.IntN(3) {
			args = append(args, id())
		}
	case "XRANGE", "XREVRANGE":
		if args = append(args, bound(), bound()); r.IntN(3) == 0 {
			args = append(args, pick(r, "COUNT", "count", "x"), count())
		}
	case "XSETID":
		args = append(args, pick(r, id(), "29-9", "30-1"))
		for range r.IntN(3) {
			args = append(args, pick(r, "ENTRIESADDED", "MAXDELETEDID", "x"), pick(r, count(), id(), "40"))
		}
	case "XREAD", "XREADGROUP":
		args = args[:1]
		if name == "XREADGROUP" {
			args = append(args, "GROUP", group(), consumer())
		}
		if r.IntN(2) == 0 {
			args = append(args, "COUNT", count())
		}
		if r.IntN(10) == 0 {
			args = append(args, pick(r, "NOACK", "GROUP", "x"))
		}
		args = append(args, pick(r, "STREAMS", "streams"))
		after := func() string { return pick(r, id(), "0", ">", ">", ">") }
		if name == "XREAD" {
			after = func() string { return pick(r, id(), "0", "$") }
		}
		if r.IntN(4) == 0 {
			args = append(args, key(), key(), after(), after())
		} else {
			args = append(args, key(), after())
		}
	case "XACK":
		args = append(args, group(), id(), id())
	case "XPENDING":
		if args = append(args, group()); r.IntN(3) > 0 {
			if r.IntN(4) == 0 {
				args = append(args, "IDLE", pick(r, "0", "100000", "x"))
			}
			if args = append(args, bound(), bound(), count()); r.IntN(2) == 0 {
				args = append(args, consumer())
			}
		}
	case "XCLAIM":
		args = append(args, group(), consumer(), pick(r, "0", "0", "100000", "x", "-1"), id(), id())
		for range r.IntN(3) {
			args = append(args, pick(r, "FORCE", "JUSTID", "IDLE", "TIME", "RETRYCOUNT", "LASTID", "x"))
			if r.IntN(2) == 0 {
				args = append(args, pick(r, "0", "5", "x", "3-1", "100000"))
			}
		}
	case "XAUTOCLAIM":
		args = append(args, group(), consumer(), pick(r, "0", "0", "100000", "x"), bound())
		if r.IntN(3) == 0 {
			args = append(args, "COUNT", pick(r, "1", "2", "0", "x"))
		}
		if r.IntN(3) == 0 {
			args = append(args, pick(r, "JUSTID", "x"))
		}
	case "XGROUP":
		switch pick(r, "CREATE", "CREATE", "SETID", "DESTROY", "CREATECONSUMER", "DELCONSUMER") {
		case "CREATE":
			args = []string{name, "CREATE", key(), group(), pick(r, "0", "$", id())}
			if r.IntN(3) > 0 {
				args = append(args, pick(r, "MKSTREAM", "x", "mkstream", "MKSTREAM"))
			}
			if r.IntN(4) == 0 {
				args = append(args, "ENTRIESREAD", count())
			}
		case "SETID":
			if args = []string{name, "SETID", key(), group(), pick(r, "0", "$", id())}; r.IntN(4) == 0 {
				args = append(args, "ENTRIESREAD", count())
			}
		case "DESTROY":
			if args = []string{name, "DESTROY", key(), group()}; r.IntN(2) == 0 {
				args = []string{"XLEN", key()}
			}
		case "CREATECONSUMER":
			args = []string{name, "CREATECONSUMER", key(), group(), consumer()}
		case "DELCONSUMER":
			args = []string{name, "DELCONSUMER", key(), group(), consumer()}
		}
	case "XINFO":
		switch args = []string{name, pick(r, "STREAM", "STREAM", "GROUPS", "CONSUMERS", "x"), key()}; args[1] {
		case "STREAM":
			if r.IntN(2) == 0 {
				args = append(args, pick(r, "FULL", "full", "x"))
			}
			if r.IntN(3) == 0 {
				args = append(args, pick(r, "COUNT", "x"), count())
			}
		case "CONSUMERS":
			args = append(args, group())
		}
	case "RENAME":
		args = append(args, key())
	case "COPY":
		if args = append(args, key()); r.IntN(2) == 0 {
			args = append(args, "REPLACE")
		}
	case "DEL":
		if r.IntN(2) == 0 {
			args = []string{"XLEN", key()}
		}
	case "EXPIRE":
		args = append(args, pick(r, "0", strconv.Itoa(1e6+r.IntN(1e9))))
	case "SET":
		if args = append(args, "text"); r.IntN(2) == 0 {
			args = []string{"EXISTS", key()}
		}
	case "SCAN":
		args = []string{name, "0", "COUNT", "100", "TYPE", pick(r, "stream", "hash")}
	}
	if r.IntN(40) == 0 {
		args = append(args, id())
	}
	if r.IntN(40) == 0 {
		args = args[:len(args)-1]
	}
	return args
}

const streamScript = `
XADD s 1-1 a 1
XADD s 1-1 a 1
XADD s 1-0 a 1
XADD s 0-0 a 1
XADD s 2 a 1 b 2
XADD s 3-0 a 1
XADD s 2-* a 1
XADD s 1
XADD s 4-1 a
XADD s 4-1 a b c
XADD none NOMKSTREAM 1-1 a 1
XADD s x a 1
XADD s MAXLEN 2 MINID 3 5-1 a 1
XADD s MAXLEN -1 5-1 a 1
XADD s MAXLEN x 5-1 a 1
XADD s MAXLEN = 3 LIMIT 5 5-1 a 1
XADD s LIMIT 5 5-1 a 1
XADD s LIMIT 0 5-1 a 1
XADD s MAXLEN ~ 100 LIMIT 5 5-2 a 1
XADD s MAXLEN ~ 100 LIMIT -5 5-3 a 1
XADD s MAXLEN ~ 100 5-3 a 1
XADD s MAXLEN 3 6-1 a 1
XADD s MINID 3 6-2 a 1
XADD s MINID 6-9 6-3 a 1
XLEN s
XADD s MAXLEN 0 6-4 a 1
XLEN s
EXISTS s
TYPE s
XRANGE s - +
XADD s 6-5 a 1
XTRIM s MAXLEN 0
XTRIM s MAXLEN 0 LIMIT 5
XTRIM s MAXLEN ~ 0 LIMIT 0
XTRIM s LIMIT 0
XTRIM s LIMIT 5
XTRIM s NOSUCH 0
XTRIM none MAXLEN 0
XTRIM s MINID x
XTRIM s MAXLEN
XTRIM s MAXLEN =
XINFO STREAM s
XADD s 7-0 a 1
XADD s 7-1 a 2
XADD s 7-2 a 3
XADD s 8-0 a 4 b 5
XADD s 8-1 a 5
OBJECT ENCODING s
XRANGE s - + COUNT 2
XRANGE s - + COUNT 0
XRANGE s - + COUNT -5
XRANGE s - + COUNT x
XRANGE s - + COUNT
XRANGE s - + NOSUCH 1
XRANGE s 7 7
XRANGE s (7-0 (8-0
XRANGE s ( +
XRANGE s (18446744073709551615-18446744073709551615 +
XRANGE s - (0-0
XRANGE s + -
XRANGE s 7-1 8-0 COUNT 1 COUNT 2
XREVRANGE s + -
XREVRANGE s 8 7 COUNT 2
XREVRANGE s (8-0 (7-0
XRANGE none - +
XREVRANGE none + - COUNT 0
XREAD STREAMS s 0
XREAD COUNT 2 STREAMS s 7-0
XREAD STREAMS s none 0 0
XREAD STREAMS s s 0 8-0
XREAD STREAMS s $
XREAD STREAMS none $
XREAD STREAMS s +
XREAD STREAMS s >
XREAD STREAMS s
XREAD STREAMS
XREAD STREAMS s t 0
XREAD COUNT x STREAMS s 0
XREAD COUNT -1 STREAMS s 7-2
XREAD BLOCK x STREAMS s 0
XREAD BLOCK -1 STREAMS s 0
XREAD GROUP g c STREAMS s 0
XREAD NOACK STREAMS s 0
XREAD COUNT 1 s 0
XDEL s 7-1 7-1 9-9
XDEL s x
XDEL none x
XDEL s 8-1
XREAD STREAMS s 8-0
XREAD STREAMS s 8-1
XINFO STREAM s
XINFO STREAM s FULL
XINFO STREAM s FULL COUNT 1
XINFO STREAM s FULL COUNT 0
XINFO STREAM s FULL COUNT -1
XINFO STREAM s FULL COUNT x
XINFO STREAM s FULL COUNT
XINFO STREAM s HALF
XINFO STREAM none
XINFO GROUPS none
XINFO CONSUMERS none g
XINFO NOSUCH s
XINFO STREAM
XINFO HELP
XGROUP HELP
XSETID s 9-0
XSETID s 7-0
XGROUP CREATE u g 0 MKSTREAM
XADD u 5-0 a 1
XDEL u 5-0
XSETID u 4-0
XADD u 4-1 a 1
XINFO STREAM u
XSETID s 9-0 ENTRIESADDED 1
XSETID s 9-0 ENTRIESADDED -1
XSETID s 9-0 ENTRIESADDED 20 MAXDELETEDID 7-1
XSETID s 9-0 MAXDELETEDID 10-0
XSETID s 9-0 NOSUCH 10-0
XSETID s 9-0 ENTRIESADDED
XSETID none 9-0
XSETID s x
XINFO STREAM s
XGROUP CREATE none g 0
XGROUP CREATE s g 0
XGROUP CREATE s g 0
XGROUP CREATE s g x
XGROUP CREATE s g - 
XGROUP CREATE s h $ ENTRIESREAD 3
XGROUP CREATE s i $ ENTRIESREAD -2
XGROUP CREATE s i $ ENTRIESREAD x
XGROUP CREATE s i $ NOSUCH
XGROUP CREATE m g $ MKSTREAM
EXISTS m
XLEN m
TYPE m
XINFO STREAM m
XINFO GROUPS m
XREADGROUP GROUP g c STREAMS m >
XADD m 1-1 a 1
XINFO GROUPS m
XREADGROUP GROUP g c STREAMS m >
XINFO GROUPS m
XINFO GROUPS s
XREADGROUP GROUP g c COUNT 2 STREAMS s >
XREADGROUP GROUP g c STREAMS s 0
XREADGROUP GROUP g c STREAMS s 7-0
XREADGROUP GROUP g d STREAMS s 0
XREADGROUP GROUP g d STREAMS s >
XREADGROUP GROUP g d STREAMS s >
XREADGROUP GROUP g d NOACK STREAMS s >
XREADGROUP GROUP g d STREAMS s m > >
XREADGROUP GROUP nosuch d STREAMS s >
XREADGROUP GROUP g d STREAMS none >
XREADGROUP GROUP g d STREAMS s $
XREADGROUP GROUP g d STREAMS s x
XREADGROUP STREAMS s > a b c
XREADGROUP NOACK COUNT 1 STREAMS s >
XREADGROUP GROUP g d STREAMS s
XREADGROUP GROUP g d STREAMS s t >
XINFO GROUPS s
XINFO CONSUMERS s g
XINFO CONSUMERS s nosuch
XINFO STREAM s FULL
XPENDING s g
XPENDING s h
XPENDING s nosuch
XPENDING none g
XPENDING s g - + 10
XPENDING s g - + 1
XPENDING s g - + -1
XPENDING s g - + 0
XPENDING s g (7-0 + 10
XPENDING s g - + 10 c
XPENDING s g - + 10 nosuch
XPENDING s g IDLE 100000 - + 10
XPENDING s g IDLE 0 - + 10 c
XPENDING s g IDLE x - + 10
XPENDING s g IDLE 10 - +
XPENDING s g - +
XPENDING s g - + x
XPENDING s g x + 10
XACK s g 7-0 7-0 9-9
XACK s g x
XACK s nosuch x
XACK none g x
XPENDING s g
XADD s 10-0 a 6
XADD s 10-1 a 7
XREADGROUP GROUP g d STREAMS s >
XDEL s 10-0
XREADGROUP GROUP g d STREAMS s 0
XCLAIM s g e 0 10-1 10-0 99-9
XCLAIM s g e 100000 10-1
XCLAIM s g e 0 8-0 7-0 FORCE
XCLAIM s g e 0 8-0 JUSTID
XCLAIM s g e 0 8-0 RETRYCOUNT 7 TIME 5
XCLAIM s g e 0 8-0 IDLE 100 JUSTID
XCLAIM s g e 0 8-0 IDLE x
XCLAIM s g e 0 8-0 TIME x
XCLAIM s g e 0 8-0 RETRYCOUNT x
XCLAIM s g e 0 8-0 LASTID x
XCLAIM s g e 0 8-0 LASTID 10-9
XCLAIM s g e 0 8-0 NOSUCH
XCLAIM s g e x 8-0
XCLAIM s nosuch e x 8-0
XCLAIM none g e x 8-0
XPENDING s g - + 10
XINFO GROUPS s
XREADGROUP GROUP g c STREAMS s >
XAUTOCLAIM s g f 0 -
XAUTOCLAIM s g f 0 0 COUNT 1
XAUTOCLAIM s g f 0 (7-0 COUNT 1 JUSTID
XAUTOCLAIM s g f 100000 0
XAUTOCLAIM s g f x 0
XAUTOCLAIM s g f 0 x
XAUTOCLAIM s g f 0 0 COUNT 0
XAUTOCLAIM s g f 0 0 COUNT x
XAUTOCLAIM s g f 0 0 NOSUCH
XAUTOCLAIM s nosuch f 0 0
XAUTOCLAIM none g f 0 0
XDEL s 8-0 10-1
XAUTOCLAIM s g f 0 0
XPENDING s g
XINFO STREAM s FULL
XGROUP SETID s g 0
XGROUP SETID s g x
XGROUP SETID s g $ ENTRIESREAD 5
XGROUP SETID s g - 
XGROUP SETID s nosuch 0
XGROUP SETID none g 0
XGROUP SETID s g 0 MKSTREAM
XREADGROUP GROUP g c STREAMS s >
XREADGROUP GROUP g d STREAMS s >
XGROUP SETID s g 0
XREADGROUP GROUP g d STREAMS s >
XPENDING s g - + 10
XGROUP CREATECONSUMER s g new
XGROUP CREATECONSUMER s g new
XGROUP CREATECONSUMER s nosuch new
XGROUP DELCONSUMER s g new
XGROUP DELCONSUMER s g d
XGROUP DELCONSUMER s g nosuch
XGROUP DELCONSUMER s nosuch nosuch
XGROUP DELCONSUMER s g
XINFO CONSUMERS s g
XGROUP DESTROY s g
XGROUP DESTROY s g
XGROUP DESTROY none g
XGROUP NOSUCH s g
XGROUP CREATE s g 0
XINFO GROUPS s
XPENDING s g
XADD s 18446744073709551615-18446744073709551614 a 1
XADD s 18446744073709551615-18446744073709551615 a 1
XADD s 18446744073709551615-* a 1
XADD s * a 1
XREAD STREAMS s 18446744073709551615-18446744073709551615
COPY s s2
XINFO STREAM s2 FULL
RENAME s2 s3
XREADGROUP GROUP g c COUNT 1 STREAMS s3 >
XINFO STREAM s3
XADD s3 1-1 a 1
EXPIRE s3 1000
XTRIM s3 MAXLEN 1
TTL s3
EXPIRE s3 0
EXISTS s3
SET str x
XADD str 1-1 a 1
XLEN str
XREAD STREAMS str 0
XREADGROUP GROUP g c STREAMS str >
XRANGE str - +
XGROUP CREATE str g 0 MKSTREAM
XGROUP DESTROY str g
XINFO STREAM str
XACK str g 1
XPENDING str g
XCLAIM str g c 0 1
XAUTOCLAIM str g c 0 1
XSETID str 1-1
XTRIM str MAXLEN 1
XDEL str 1
GET s
INCR s
HSET s f v
LPUSH s x
SADD s x
MGET s str
SCAN 0 TYPE stream COUNT 100
DEL s
XADD s 1-1 a 1
COMMAND GETKEYS XREAD COUNT 1 STREAMS a b 0 0
COMMAND GETKEYS XREADGROUP GROUP streams streams STREAMS a b 0 0
COMMAND GETKEYS XGROUP CREATE a b 0
COMMAND GETKEYS XADD a * f v
MULTI
XADD s 2-1 a 2
XADD s 3-1 a 3
XGROUP CREATE s g 0
XREADGROUP GROUP g c COUNT 2 BLOCK 0 STREAMS s >
XACK s g 1-1
XREAD BLOCK 0 STREAMS s 3-1
XREAD BLOCK 100 STREAMS s 0
XDEL s 1-1
XLEN s
XPENDING s g
XTRIM s MAXLEN 1
XRANGE s - +
DEL s
XADD s 1-1 again yes
EXEC
XRANGE s - +
WATCH s
XADD s 2-1 a 1
MULTI
XADD s 3-1 a 1
EXEC
XLEN s
FLUSHALL
XLEN s
`
