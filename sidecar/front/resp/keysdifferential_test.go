package resp

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestRandomPipelinesOfOtherCommandsGetTheRepliesOfRedis(t *testing.T) {
	compareRandomly(t, randomOtherCommand)
}

// randomOtherCommand returns commands of which there are few of a kind.
func randomOtherCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "p", "p", "q", "q", "s", "t", "z", "z") }
	name := pick(r, "LCS", "LCS", "LCS", "ZMPOP", "ZMPOP", "ZMPOP", "MOVE", "MOVE", "TOUCH", "OBJECT", "SCAN", "HSCAN",
		"ZSCAN", "HSET",
		"SET", "SET", "SET", "ZADD", "ZADD", "DEL", "SELECT", "EXPIRE")
	args := []string{name, key()}
	switch name {
	case "LCS":
		args = append(args, key())
		for range r.IntN(4) {
			if r.IntN(3) == 0 {
				args = append(args, "MINMATCHLEN", pick(r, "0", "1", "2", "3", "-1", "x"))
			} else {
				args = append(args, pick(r, "IDX", "idx", "LEN", "WITHMATCHLEN", "MINMATCHLEN"))
			}
		}
	case "ZMPOP":
		args[1] = pick(r, "1", "2", "2", "3", "0", "-1", "x", "9223372036854775807")
		args = append(args, key(), key())
		if args[1] == "1" {
			args = args[:3]
		}
		if r.IntN(12) > 0 {
			args = append(args, pick(r, "MIN", "MAX", "max", "MIN", "MAX", "x"))
		}
		for r.IntN(3) == 0 {
			args = append(args, pick(r, "COUNT", "COUNT", "COUNT", "x"), pick(r, "1", "2", "3", "0", "-1", "x"))
		}
	case "MOVE", "SELECT":
		if name == "SELECT" {
			args = args[:1]
		}
		args = append(args, pick(r, "0", "0", "1", "1", "2", "x", "-1", "99999999999"))
	case "TOUCH", "DEL":
		args = append(args, key())
	case "OBJECT": // of what is as it was written
		args = []string{name, pick(r, "FREQ", "freq", "nosuch"), key()}
	case "SCAN", "HSCAN", "ZSCAN":
		if name == "SCAN" {
			args[1] = "x"
		} else {
			args = append(args, "x")
		}
		args[len(args)-1] = pick(r, "x", "1x", " 0", "-", "+", "18446744073709551616", "-18446744073709551616", "\t0",
			"--0")
		if name != "SCAN" && r.IntN(4) > 0 {
			args[1] = strings.ToLower(name[:1])
			args[2] = pick(r, "", "0", "-0", "+0", "00", "\x00x", "0\x00x", "-1", "+7", "18446744073709551615",
				"-18446744073709551615")
		}
	case "SET":
		text := make([]byte, r.IntN(40))
		for i := range text {
			text[i] = "abc"[r.IntN(3)]
		}
		args = append(args, string(text))
	case "ZADD":
		for range 1 + r.IntN(3) {
			args = append(args, strconv.Itoa(r.IntN(10)), pick(r, "m", "n", "o", "x", "y"))
		}
	case "HSET":
		args = []string{name, "h", pick(r, "f", "g", "h"), "1"}
	case "EXPIRE":
		args = append(args, "1000000")
	}
	if r.IntN(30) == 0 {
		args = args[:len(args)-1]
	}
	return args
}

// What is written in one piece has the encoding of Redis.
func TestNewValuesHaveTheEncodingsOfRedis(t *testing.T) {
	w := newTwins(t, redis(t), "2")
	n := 0
	check := func(args ...string) {
		key := "k" + strconv.Itoa(n)
		n++
		w.compare(append([]string{args[0], key}, args[1:]...), []string{"OBJECT", "ENCODING", key},
			[]string{"OBJECT", "REFCOUNT", key}, []string{"OBJECT", "FREQ", key},
			[]string{"OBJECT", "ENCODING", key, "x"})
	}
	for _, text := range []string{"", "1", "-1", "01", "9999", "10000", "9223372036854775807", "9223372036854775808", "1.5",
		strings.Repeat("x", 44), strings.Repeat("x", 45)} {
		check("SET", text)
		check("HSET", "f", text)
		check("SADD", text)
		check("SADD", "1", text)
		check("ZADD", "1", text)
	}
	for _, length := range []int{64, 65} {
		text := strings.Repeat("x", length)
		check("HSET", text, "1")
		check("HSET", "f", text)
		check("ZADD", "1", text)
	}
	for _, count := range []int{128, 129, 512, 513} {
		var fields, members, numbers []string
		for i := range count {
			name := strconv.Itoa(i)
			fields, members, numbers = append(fields, name, "v"), append(members, "1", name), append(numbers, name)
		}
		check(append([]string{"HSET"}, fields...)...)
		check(append([]string{"ZADD"}, members...)...)
		check(append([]string{"SADD"}, numbers...)...)
	}
	for _, args := range lines(`
OBJECT
OBJECT ENCODING
OBJECT ENCODING none
OBJECT FREQ none
OBJECT REFCOUNT none
OBJECT nosuch k0
TOUCH k0 k0 none
TOUCH
`) {
		w.compare(args)
	}
}
