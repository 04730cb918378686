package resp

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestRandomPipelinesOfBitmapCommandsGetTheRepliesOfRedis(t *testing.T) {
	compareRandomly(t, randomBitmapCommand)
}

func randomBitmapCommand(r *rand.Rand) []string {
	key := func() string { return pick(r, "a", "p", "p", "p", "q", "q", "s") }
	number := func() string {
		switch r.IntN(12) {
		case 0:
			return pick(r, "x", "", " 1", "1.5", "9223372036854775808", "-9223372036854775808", "9223372036854775807", "-0", "01")
		case 1:
			return strconv.FormatInt(r.Int64()-r.Int64(), 10)
		}
		return strconv.Itoa(r.IntN(400) - 200)
	}
	index := func() string {
		if r.IntN(12) == 0 {
			return number()
		}
		return strconv.Itoa(r.IntN(60) - 30)
	}
	bit := func() string {
		if r.IntN(15) == 0 {
			return pick(r, "2", "-1", "x", "", "4294967297")
		}
		return pick(r, "0", "1")
	}
	offset := func() string {
		if r.IntN(20) == 0 {
			return pick(r, "-1", "x", "", "#1", "4294967296", "9223372036854775807", "#9223372036854775807", "#")
		}
		return strconv.Itoa(r.IntN(300))
	}
	unit := func() string {
		if r.IntN(15) == 0 {
			return pick(r, "x", "", "bits")
		}
		return pick(r, "BYTE", "BIT", "bit")
	}
	field := func() string {
		if r.IntN(20) == 0 {
			return pick(r, "u64", "i65", "i0", "x8", "u", "", "i 8", "u-1", "i8\x00x", "i08")
		}
		return pick(r, "i", "u") + strconv.Itoa(1+r.IntN(63))
	}
	name := pick(r, "SETBIT", "SETBIT", "SETBIT", "GETBIT", "BITCOUNT", "BITCOUNT", "BITPOS", "BITPOS", "BITOP", "BITFIELD",
		"BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO", "GET", "SET", "DEL", "EXPIRE", "STRLEN")
	args := []string{name, key()}
	switch name {
	case "SETBIT":
		args = append(args, offset(), bit())
	case "GETBIT":
		args = append(args, offset())
	case "BITPOS", "BITCOUNT":
		if name == "BITPOS" {
			args = append(args, bit())
		}
		switch r.IntN(4) {
		case 0:
			args = append(args, index())
		case 1:
			args = append(args, index(), index())
		case 2:
			args = append(args, index(), index(), unit())
		}
	case "BITOP":
		args[1] = pick(r, "AND", "or", "XOR", "NOT", "NOT", "x")
		for range 2 + r.IntN(3) {
			args = append(args, key())
		}
		if args[1] == "NOT" && r.IntN(4) > 0 {
			args = args[:4]
		}
	case "BITFIELD", "BITFIELD_RO":
		for range r.IntN(5) {
			at := pick(r, "", "", "#") + strconv.Itoa(r.IntN(40))
			if r.IntN(15) == 0 {
				at = offset()
			}
			do := pick(r, "GET", "SET", "INCRBY", "INCRBY")
			if name == "BITFIELD_RO" && r.IntN(10) > 0 {
				do = "GET"
			}
			if r.IntN(3) == 0 {
				args = append(args, "OVERFLOW", pick(r, "WRAP", "SAT", "FAIL", "FAIL", "sat", "wrap", "WRAP", "SAT"))
			}
			if args = append(args, do, field(), at); do != "GET" {
				args = append(args, number())
			}
			if r.IntN(40) == 0 {
				args = append(args, pick(r, "x", "OVERFLOW", "OVERFLOW x"))
			}
		}
	case "SET":
		args = append(args, pick(r, "", "\xff\xff\xff", "\x00\x00\x00", "foobar", "\xff\xf0\x00", strings.Repeat("\xff", r.IntN(40))))
	case "EXPIRE":
		args = append(args, "1000000")
	}
	if r.IntN(30) == 0 {
		args = args[:len(args)-1]
	}
	return args
}
