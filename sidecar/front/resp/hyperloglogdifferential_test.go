package resp

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"

	"github.com/causalstore/causalstore/sidecar/hyperloglog"
)

func TestScriptedCommandsOfHyperLogLogsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for _, args := range lines(hyperLogLogScript) {
					w.compare(args)
				}
			})
		}
	}
}

func TestRandomPipelinesOfHyperLogLogsGetTheRepliesOfRedis(t *testing.T) {
	compareRandomly(t, randomHyperLogLogCommand)
}

// sameRegisters reports whether two replies are the same but for how HyperLogLogs in them are written.
func sameRegisters(theirs, ours string) bool {
	a, b := bulk.Split(theirs, -1), bulk.Split(ours, -1)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, err1 := hyperloglog.Parse([]byte(a[i][:max(0, len(a[i])-2)]))
		y, err2 := hyperloglog.Parse([]byte(b[i][:max(0, len(b[i])-2)]))
		if a[i] != b[i] && (err1 != nil || err2 != nil || *x != *y) {
			return false
		}
	}
	return true
}

var bulk = regexp.MustCompile(`\$-?\d+\r\n`)

// TestEstimatesAreThoseOfRedis counts up to 300,000 elements, and reads the registers now and then.
func TestEstimatesAreThoseOfRedis(t *testing.T) {
	w := newTwinsOf(t, redis(t), "2", true)
	for n := 0; n < 300_000; {
		args := []string{"PFADD", "h"}
		for range min(1+n/2, 20_000) {
			args = append(args, "e"+strconv.Itoa(n))
			n++
		}
		w.compare(args, []string{"STRLEN", "h"}, []string{"GETRANGE", "h", "16", "-1"}, []string{"PFCOUNT", "h"},
			[]string{"PFCOUNT", "h", "none"})
	}
}

// randomHyperLogLogCommand never counts the keys that it reads as strings: Redis keeps the count in the string.
func randomHyperLogLogCommand(r *rand.Rand) []string {
	read := r.IntN(2) == 0
	key := func() string {
		if read {
			return pick(r, "r1", "r1", "r2", "r3", "r4")
		}
		return pick(r, "h1", "h1", "h2", "h3", "h4")
	}
	element := func() string { return fmt.Sprint("e", r.IntN(2000)) }
	text := func() string {
		registers := hyperloglog.Registers{}
		for range r.IntN(4000) * r.IntN(2) {
			registers[r.IntN(hyperloglog.Count)] = byte(1 + r.IntN(8))
		}
		s := registers.Bytes()
		switch r.IntN(8) {
		case 0:
			return pick(r, "", "HYLL", "string", "HYLX"+string(s[4:]))
		}
		return string(s)
	}
	names := []string{"PFADD", "PFADD", "PFADD", "PFADD", "PFMERGE", "PFMERGE", "SET", "DEL", "EXPIRE", "PERSIST", "TTL",
		"TYPE", "EXISTS", "COPY", "RENAME", "SETNX", "SET"}
	if read {
		names = append(names, "GET", "GET", "GET", "GETRANGE", "GETBIT", "MGET", "APPEND", "SETRANGE", "SETBIT", "GETEX",
			"GETDEL", "GETSET", "BITOP", "INCR", "SADD", "HGET", "MGET")
	} else {
		names = append(names, "PFCOUNT", "PFCOUNT", "PFCOUNT", "PFCOUNT", "PFCOUNT")
	}
	name := names[r.IntN(len(names))]
	args := []string{name, key()}
	switch name {
	case "PFADD":
		for range r.IntN(1 + 300*r.IntN(2) + 3) {
			args = append(args, element())
		}
	case "PFMERGE", "PFCOUNT", "MGET", "EXISTS":
		for range r.IntN(4) {
			args = append(args, key())
		}
	case "COPY", "RENAME":
		args = append(args, key())
	case "SET", "SETNX", "GETSET":
		args = append(args, text())
		if name == "SET" && r.IntN(3) == 0 {
			args = append(args, pick(r, "NX", "XX", "KEEPTTL"))
		}
	case "EXPIRE":
		args = append(args, pick(r, "0", strconv.Itoa(1e6+r.IntN(1e9))))
	case "GETEX":
		args = append(args, "EX", strconv.Itoa(1e6+r.IntN(1e9)))
		if r.IntN(2) == 0 {
			args = append(args[:2], "PERSIST")
		}
	case "GETRANGE":
		args = append(args, strconv.Itoa(r.IntN(5)), strconv.Itoa(r.IntN(4)))
	case "GETBIT":
		args = append(args, strconv.Itoa(r.IntN(32)))
	case "SETBIT": // the first byte: of what it makes no HyperLogLog it makes one later
		args = append(args, "7", pick(r, "0", "1"))
	case "APPEND":
		args = append(args, "")
	case "SETRANGE":
		args = append(args, "3", pick(r, "", "X", "L", "L"))
	case "BITOP":
		args = []string{name, "OR", key(), args[1], args[1]}
	case "SADD", "HGET":
		args = append(args, "x")
	}
	if r.IntN(40) == 0 {
		args = args[:len(args)-1]
	}
	return args
}

const hyperLogLogScript = `
PFADD h a b c
PFADD h a b c
PFADD h
PFADD h d
PFCOUNT h
PFCOUNT none
PFCOUNT
PFADD
PFADD empty
PFADD empty
EXISTS empty
STRLEN empty
GET empty
PFCOUNT empty
PFADD h2 c d e
PFCOUNT h h2 none
PFMERGE m h h2
PFCOUNT m
PFMERGE m
PFMERGE m none
PFMERGE new
PFCOUNT new
EXISTS new
TYPE m
OBJECT ENCODING h
OBJECT REFCOUNT h
EXPIRE h 1000
PFADD h x
TTL h
PFMERGE h h2
TTL h
COPY h k
PFCOUNT k
TTL k
RENAME k k2
PFCOUNT k2
MOVE k2 3
SELECT 3
PFCOUNT k2
SELECT 0
SET s string
PFADD s a
PFADD s
PFCOUNT s
PFCOUNT h s
PFMERGE m s
PFMERGE s m
PFADD s2 a
APPEND s2 \x00
SADD set m
PFADD set a
PFCOUNT set
PFMERGE m set
PFMERGE set m
HSET h2 f 1
SADD h2 m
INCR h2
GET set
PFADD g a b c
GET g
STRLEN g
GETRANGE g 0 3
SUBSTR g 16 -1
MGET g none
SETRANGE g 0 HYLL
PFADD g d
APPEND g x
PFCOUNT g
SET g2 string
PFADD g3 a
GETSET g3 other
GET g3
PFADD g4 a
GETDEL g4
EXISTS g4
PFADD g5 a
GETEX g5 EX 1000
TTL g5
PFADD g5 b
TTL g5
GETEX g5 PERSIST
TTL g5
PFADD g5 c
SET g5 x XX GET
SET "corrupt" "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00"
PFADD corrupt a
PFCOUNT corrupt
PFMERGE m corrupt
SET "nodense" "HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00"
PFADD nodense a
SET "noencoding" "HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x00"
PFCOUNT noencoding
SET "sparse" "HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x7f\xff"
PFADD sparse
PFCOUNT sparse
EXPIRE sparse 1000
PFADD sparse a
TTL sparse
PFCOUNT sparse
GETRANGE sparse 0 5
MULTI
DEL h
PFADD h a
PFCOUNT h
SETRANGE h 0 HYLL
PFADD h b
STRLEN h
PFMERGE h m
PFCOUNT h
DEL m
PFADD m z
EXEC
PFCOUNT h
PFCOUNT m
WATCH m
PFADD m y
MULTI
PFADD m never
EXEC
PFCOUNT m
COMMAND GETKEYS PFMERGE a b c
SCAN 0 TYPE string COUNT 100 MATCH m
DEL m
PFCOUNT m
`
