package resp

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestScriptedCommandsOfListsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for _, args := range lines(listScript) {
					w.compare(args)
				}
			})
		}
	}
}

func TestRandomPipelinesOfListsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for range 300 {
					batch := make([][]string, 1+r.IntN(40))
					for i := range batch {
						if batch[i] = randomListCommand(r); r.IntN(8) == 0 {
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

func randomListCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "b", "c", "l", "l", "m", "\x00\r\n\xff", "") }
	text := func() string {
		return pick(r, "x", "y", "z", "x", "1", "\x00\r\n", "", strings.Repeat("n", 100), strconv.Itoa(r.IntN(1000)))
	}
	index := func() string {
		return pick(r, "0", "1", "-1", "2", "-2", "3", "5", "-5", "100", "-100", "x", "", "9223372036854775807",
			"-9223372036854775808")
	}
	end := func() string { return pick(r, "LEFT", "RIGHT", "left", "Right", "LEFT", "RIGHT", "up") }
	name := pick(r, "LPUSH", "RPUSH", "RPUSH", "LPUSH", "RPUSH", "LPUSHX", "RPUSHX", "LPOP", "RPOP", "LLEN", "LRANGE",
		"LRANGE", "LRANGE", "LINDEX", "LSET", "LSET", "LINSERT", "LINSERT", "LINSERT", "LREM", "LREM", "LTRIM", "LPOS",
		"LPOS", "LMOVE", "LMOVE", "RPOPLPUSH", "LMPOP", "RENAME", "COPY", "DEL", "EXPIRE", "PERSIST", "TTL", "TYPE", "SET", "GET", "SCAN")
	args := []string{name, key()}
	switch name {
	case "LPUSH", "RPUSH", "LPUSHX", "RPUSHX":
		for range 1 + r.IntN(4) {
			args = append(args, text())
		}
	case "LPOP", "RPOP":
		if r.IntN(2) == 0 {
			args = append(args, pick(r, "0", "1", "2", "5", "-1", "x", "9223372036854775807"))
		}
	case "LRANGE":
		if args = append(args, index(), index()); r.IntN(2) == 0 {
			args = []string{name, args[1], "0", "-1"}
		}
	case "LTRIM":
		if args = append(args, index(), index()); r.IntN(2) == 0 {
			args = []string{name, args[1], "1", "-2"}
		}
	case "LINDEX":
		args = append(args, index())
	case "LSET":
		args = append(args, index(), text())
	case "LINSERT":
		args = append(args, pick(r, "BEFORE", "AFTER", "before", "After", "x"), text(), text())
	case "LREM":
		args = append(args, index(), text())
	case "LPOS":
		args = append(args, text())
		for range r.IntN(4) {
			args = append(args, pick(r, "RANK", "COUNT", "MAXLEN", "rank", "x"), pick(r, index(), "0", "1", "2"))
		}
	case "LMOVE":
		args = append(args, key(), end(), end())
	case "RPOPLPUSH", "RENAME":
		args = append(args, key())
	case "LMPOP":
		args = []string{name, pick(r, "1", "2", "2", "3", "0", "-1", "x"), key(), key(), end()}
		for range r.IntN(3) {
			args = append(args, pick(r, "COUNT", "count", "x"), pick(r, "1", "2", "0", "x"))
		}
	case "COPY":
		if args = append(args, key()); r.IntN(2) == 0 {
			args = append(args, "REPLACE")
		}
	case "EXPIRE":
		args = append(args, pick(r, "0", "-1", strconv.Itoa(1e6+r.IntN(1e9))))
	case "SET":
		args = append(args, text())
	case "SCAN":
		args = []string{name, "0", "COUNT", "100", "TYPE", pick(r, "list", "hash", "string")}
	}
	if r.IntN(30) == 0 {
		args = append(args, text())
	}
	if r.IntN(30) == 0 {
		args = args[:len(args)-1]
	}
	return args
}

const listScript = `
RPUSH l a b c
OBJECT ENCODING l
OBJECT REFCOUNT l
MOVE l 3
MOVE l 3
RPUSH l a b c
LPUSH l z y
LPUSH l
LRANGE l 0 -1
LRANGE l 1 2
LRANGE l 5 1
LRANGE l x 1
LRANGE none 0 -1
LLEN l
LLEN none
LINDEX l 0
LINDEX l -1
LINDEX l 9
LINDEX l x
LINDEX none x
LPUSHX none a
RPUSHX none a
RPUSHX l d e
LPUSHX l x
LINSERT l BEFORE a before
LINSERT l AFTER a after
LINSERT l BEFORE nosuch t
LINSERT none BEFORE a t
LINSERT l BESIDE a t
LRANGE l 0 -1
LSET l 0 X
LSET l -1 E
LSET l 99 E
LSET l x E
LSET none 0 E
LSET none x E
LPOS l a
LPOS l nosuch
LPOS l nosuch COUNT 1
LPOS none a
LPOS none a COUNT 0
RPUSH p a b a b a
LPOS p a RANK 2
LPOS p a RANK -1
LPOS p a RANK -2 COUNT 2
LPOS p a COUNT 0
LPOS p a COUNT 0 MAXLEN 2
LPOS p a COUNT 0 MAXLEN 2 RANK -1
LPOS p a RANK 0
LPOS p a RANK -9223372036854775808
LPOS p a COUNT -1
LPOS p a MAXLEN -1
LPOS p a MAXLEN
LPOS p a NOSUCH 1
LPOS p a RANK x
LREM p 1 a
LREM p -1 a
LREM p 0 b
LREM p 0 nosuch
LREM p x a
LREM none 0 a
LRANGE p 0 -1
LTRIM l 1 -2
LRANGE l 0 -1
LTRIM l x 1
LTRIM none 0 1
LTRIM p 5 9
EXISTS p
LPOP l
RPOP l
LPOP l 2
RPOP l 2
LPOP l 0
LPOP none
LPOP none 0
LPOP none 2
RPOP l -1
RPOP l x
RPOP l 1 2
LPOP l 99
EXISTS l
RPUSH q 1 2 3
LMOVE q r LEFT RIGHT
LMOVE q r RIGHT LEFT
LMOVE q q LEFT RIGHT
RPOPLPUSH q r
EXISTS q
LRANGE r 0 -1
LMOVE none r LEFT LEFT
LMOVE r none2 UP LEFT
LMOVE r none2 LEFT UP
EXPIRE r 1000
LMOVE r r LEFT LEFT
LMOVE r r RIGHT RIGHT
LMOVE r r RIGHT LEFT
LRANGE r 0 -1
TTL r
DEL one
RPUSH one 1
EXPIRE one 1000
RPOPLPUSH one one
TTL one
LPOP one
RPUSH one 1
TTL one
LMPOP 2 none r LEFT
LMPOP 2 none r RIGHT COUNT 9
LMPOP 2 none r LEFT
LMPOP 0 none LEFT
LMPOP x none LEFT
LMPOP 3 none r LEFT
LMPOP 2 none r UP
LMPOP 1 r LEFT COUNT 0
LMPOP 1 r LEFT COUNT x
LMPOP 1 r LEFT COUNT 1 COUNT 1
LMPOP 1 r LEFT COUNT
COMMAND GETKEYS LMPOP 2 a b LEFT
COMMAND GETKEYS LMOVE a b LEFT LEFT
SET s string
SADD set m
LPUSH s a
LRANGE s 0 -1
LPOP s
LPOP set 0
LMOVE one s LEFT LEFT
LMOVE s one LEFT LEFT
LMOVE none s LEFT LEFT
LMPOP 2 none s LEFT
LINSERT s BEFORE a b
LSET s x y
LLEN set
RPUSH l a b a
TYPE l
GET l
INCR l
SADD l x
HSET l f 1
MGET l s
COPY l l2
RENAME l2 l3
LRANGE l3 0 -1
LPOP l3
LRANGE l 0 -1
EXPIRE l3 0
EXISTS l3
SET l now
GET l
RPUSH l x
DEL l
RPUSH l x
LRANGE l 0 -1
MULTI
RPUSH l y z
LPUSH l w
LINSERT l AFTER y v
LSET l 0 W
LREM l 1 x
LRANGE l 0 -1
LPOP l
RPOPLPUSH l m
LMOVE m l RIGHT LEFT
RENAME l k
COPY k l
LRANGE k 0 -1
LRANGE l 0 -1
LTRIM l 0 0
LPOS l v
DEL l
RPUSH l again
EXEC
LRANGE k 0 -1
LRANGE l 0 -1
WATCH l
RPUSH l other
MULTI
RPUSH l never
EXEC
LRANGE l 0 -1
SCAN 0 TYPE list COUNT 100
SCAN 0 TYPE hash COUNT 100
LPOS p a
FLUSHALL
LLEN l
RPUSH l after
LRANGE l 0 -1
`
