package resp

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func TestScriptedSortsGetTheRepliesOfRedis(t *testing.T) {
	socket := redis(t)
	for _, proto := range []string{"2", "3"} {
		for _, exact := range []bool{false, true} {
			t.Run("RESP"+proto+exactName(exact), func(t *testing.T) {
				w := newTwinsOf(t, socket, proto, exact)
				for _, args := range lines(sortScript) {
					w.compare(args)
				}
			})
		}
	}
}

func TestRandomPipelinesOfSortsGetTheRepliesOfRedis(t *testing.T) {
	comparePipelines(t, randomSortCommand) // others have errors of C after which SORT of Redis fails, too
}

// randomSortCommand does not let Redis choose an order: it sorts sets, and no two elements by the same text.
func randomSortCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "l1", "l1", "l2", "l3", "s1", "z1", "z2") }
	number := func() string { return strconv.Itoa(r.IntN(20) - 5) }
	name := pick(r, "SORT", "SORT", "SORT", "SORT", "SORT", "SORT_RO", "RPUSH", "RPUSH", "SADD", "ZADD", "SET", "HSET",
		"DEL", "DEL", "LRANGE", "LRANGE", "TYPE", "APPEND")
	args := []string{name, key()}
	switch name {
	case "SORT", "SORT_RO":
		for range r.IntN(5) {
			option := randomSortOption(r)
			if len(option) > 0 && option[0] == "GET" && slices.Contains(args, "STORE") {
				continue // lists would grow
			}
			args = append(args, option...)
		}
		if slices.Contains(args, "GET") && slices.Contains(args, "STORE") {
			args = append(args, "LIMIT", "0", "9")
		}
		if r.IntN(40) == 0 {
			args = args[:len(args)-1]
		}
	case "RPUSH":
		args[1] = pick(r, "l1", "l2", "l3")
		for range 1 + r.IntN(4) {
			args = append(args, pick(r, number(), number(), number(), number(), "1.5", pick(r, "a", "x\x00y", "", " 3", "0x10",
				"-inf", "nan", "3 ")))
		}
	case "SADD":
		args[1] = "s1"
		args = append(args, number(), number())
	case "ZADD":
		args[1] = pick(r, "z1", "z2")
		args = append(args, number(), number(), number(), number())
	case "SET", "APPEND":
		args = []string{name, pick(r, "w", "v") + number(), number()}
	case "HSET":
		args = []string{name, "h" + number(), pick(r, "f", "g"), number()}
	case "DEL":
		args = append(args, "w"+number(), "v"+number())
	case "LRANGE":
		args = append(args[:1], pick(r, "l1", "l2", "l3"), "0", "-1")
	}
	return args
}

func randomSortOption(r *rand.Rand) []string {
	number := func() string { return strconv.Itoa(r.IntN(12) - 2) }
	switch r.IntN(14) {
	case 0:
		return []string{"ASC"}
	case 1, 2:
		return []string{"DESC"}
	case 3, 4:
		return []string{"LIMIT", number(), number()}
	case 5:
		return []string{"STORE", pick(r, "l1", "l2", "l3", "w3", "h3")}
	case 6, 7:
		return []string{"BY", pick(r, "w*", "w*", "v*", "h*->f", "h*->g", "h*->none", "w*->", "*")}
	case 8, 9, 10:
		return []string{"GET", pick(r, "w*", "v*", "h*->f", "h*->g", "#", "#", "nosuch", "*", "z*", "w*->f", "h*->")}
	case 11:
		return []string{pick(r, "asc", "Desc", "LIMIT 1", "STORE", "x", "GET")}
	case 12:
		return []string{"LIMIT", pick(r, "x", "1", "9223372036854775807", "-9223372036854775808"), pick(r, "x", "1",
			"9223372036854775807", "-9223372036854775808")}
	}
	return nil
}

const sortScript = `
RPUSH l 3 1 10 2 -5 1.5
SORT l
SORT l DESC
SORT l ALPHA
SORT l ALPHA DESC
SORT l LIMIT 1 2
SORT l LIMIT 1 -1
SORT l LIMIT 9 2
SORT l LIMIT -3 2
SORT l LIMIT 0 0
SORT l LIMIT x 2
SORT l LIMIT 1
SORT l BY nosort
SORT l BY nosort DESC
SORT l BY nosort DESC LIMIT 1 2
SORT l BY nosort LIMIT 4 9
SORT none
SORT none STORE dst
EXISTS dst
SORT
SORT l NOSUCH
SORT_RO l
SORT_RO l STORE dst
SORT_RO l GET #
MSET w3 1 w1 9 w10 5 w2 7
SORT l BY w*
SORT l BY w* DESC
SORT l BY w* GET #
SORT l BY w* GET w* GET #
SORT l BY w* GET none* LIMIT 0 2
SORT l BY w* ALPHA
SORT l BY w* STORE dst
LRANGE dst 0 -1
SORT l BY w* GET w* STORE dst
LRANGE dst 0 -1
TYPE dst
EXPIRE dst 1000
SORT l STORE dst
TTL dst
HSET h3 f 1 g x
HSET h1 f 7
HSET h10 f 3
HSET h2 f 2
SORT l BY h*->f
SORT l BY h*->f GET h*->f GET h*->g
SORT l BY h*->nosuch
SORT l GET h*
SORT l GET h*->
SORT l GET fixed
SORT l BY h*->g ALPHA GET #
SORT h3
SET s string
SORT s
SORT s BY nosort
SORT l STORE s
TYPE s
RPUSH t a b 1
SORT t
SORT t ALPHA
SORT t BY w*
SORT t BY t* ALPHA LIMIT 0 1
SET wa x
SORT t BY w*
SADD set 3 1 2
SORT set
SORT set DESC
SORT set BY nosort STORE dst
LRANGE dst 0 -1
SORT set BY nosort DESC STORE dst
LRANGE dst 0 -1
SADD set a
SORT set
SORT set ALPHA DESC
ZADD z 3 1 2 2 1 3
SORT z
SORT z BY nosort
SORT z BY nosort DESC
SORT z BY nosort DESC LIMIT 0 1
SORT z BY nosort LIMIT 1 5 GET # GET w*
SORT z DESC
SORT z BY nosort STORE z
LRANGE z 0 -1
SORT l STORE l
LRANGE l 0 -1
SORT l DESC STORE l STORE l2
LRANGE l2 0 -1
COMMAND GETKEYS SORT l BY w* GET store STORE a STORE b
COMMAND GETKEYS SORT l GET x LIMIT 1 2 DESC
COMMAND GETKEYS SORT_RO l GET x
RPUSH sp "" " 7" "0x10" "5"
SORT sp
RPUSH sp "7 "
SORT sp
RPUSH inf inf -inf 3
SORT inf
DEL inf
RPUSH inf nan
SORT inf
MULTI
RPUSH m 3 1 2
SORT m
SORT m STORE m2
SET w1 0
SORT m BY w* GET w*
SORT m BY w* STORE m3
LRANGE m3 0 -1
EXEC
LRANGE m2 0 -1
LRANGE m3 0 -1
PFADD hll3 a
SORT l GET hll*
SORT none BY w* GET h*->f
`
