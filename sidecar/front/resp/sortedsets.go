package resp

import (
	"cmp"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errNXAndXX      = genericError("XX and NX options at the same time are not compatible")
	errGTLTAndNX    = genericError("GT, LT, and/or NX options at the same time are not compatible")
	errIncrElements = genericError("INCR option supports a single increment-element pair")
	errScoreNaN     = genericError("resulting score is not a number (NaN)")
	errNotPositive  = genericError("value is out of range, must be positive")
)

// scored is a member of a sorted set.
type scored struct {
	name  string
	score float64
}

// inOrder returns members in the order of their scores, those of one score in that of their names.
func inOrder(all iter.Seq2[string, string]) (members []scored) {
	for name, payload := range all {
		members = append(members, scored{name, value.Score(payload)})
	}
	return sortMembers(members)
}

func sortMembers(members []scored) []scored {
	slices.SortFunc(members, func(a, b scored) int {
		if c := cmp.Compare(a.score, b.score); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return members
}

// sortedSetAt reads a sorted set; a missing key is an empty one.
func (c *connection) sortedSetAt(key []byte) ([]scored, error) {
	h, err := c.collectionAt(key, value.SortedSet)
	if err != nil {
		return nil, err
	}
	return inOrder(h.All()), nil
}

// formatScore writes a score as Redis does.
func formatScore(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'g', 17, 64)
}

// parseScore parses a score as strictly as Redis.
func parseScore(arg []byte) (float64, bool) {
	score, isFinite, ok := parseNumber(string(arg))
	return score, ok && isFinite && len(arg) > 0 && !isSpace(arg[0])
}

// parseNumber parses a number as C does: the empty text is 0, and what is too large is infinite, which isFinite tells
// from an infinity that was meant.
func parseNumber(text string) (n float64, isFinite, ok bool) {
	if text = strings.TrimLeft(text, " \t\n\v\f\r"); text == "" {
		return 0, true, true
	}
	if strings.Contains(text, "_") {
		return 0, false, false
	}
	if strings.ContainsAny(text, "xX") && !strings.ContainsAny(text, "pP") {
		text += "p0"
	}
	n, err := strconv.ParseFloat(text, 64)
	if errors.Is(err, strconv.ErrRange) {
		return n, false, true
	}
	return n, true, err == nil && !math.IsNaN(n)
}

// addOptions are the options of ZADD.
type addOptions struct {
	nx, xx, gt, lt, ch, incr bool
}

// parseAddOptions parses the options of ZADD and returns what follows them.
func parseAddOptions(args [][]byte) (o addOptions, pairs [][]byte, err error) {
	for ; len(args) > 0; args = args[1:] {
		switch word := args[0]; {
		case equalFold(word, "nx"):
			o.nx = true
		case equalFold(word, "xx"):
			o.xx = true
		case equalFold(word, "gt"):
			o.gt = true
		case equalFold(word, "lt"):
			o.lt = true
		case equalFold(word, "ch"):
			o.ch = true
		case equalFold(word, "incr"):
			o.incr = true
		default:
			return o, args, o.check(len(args))
		}
	}
	return o, nil, o.check(0)
}

func (o *addOptions) check(left int) error {
	switch {
	case left == 0 || left%2 != 0:
		return errSyntax
	case o.nx && o.xx:
		return errNXAndXX
	case o.gt && o.nx, o.lt && o.nx, o.gt && o.lt:
		return errGTLTAndNX
	case o.incr && left > 2:
		return errIncrElements
	}
	return nil
}

// ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]
func zadd(c *connection, args [][]byte) error {
	o, pairs, err := parseAddOptions(args[2:])
	if err != nil {
		return err
	}
	return c.addScores(args[1], o, pairs)
}

// ZINCRBY key increment member
func zincrBy(c *connection, args [][]byte) error {
	return c.addScores(args[1], addOptions{incr: true}, args[2:])
}

// added is what a command has added to a sorted set.
type added struct {
	new, updated int
	processed    bool // it was not kept from adding the last member
	score        float64
}

func (c *connection) addScores(key []byte, o addOptions, pairs [][]byte) error {
	members, size := make([]scored, 0, len(pairs)/2), 0
	line := c.line()
	for i := 0; i < len(pairs); i += 2 {
		score, ok := parseScore(pairs[i])
		if !ok {
			return errNotFloat
		}
		members = append(members, scored{string(pairs[i+1]), score})
		size += len(pairs[i+1]) + value.ScoreBytes + elementBytes
	}
	var did added
	return c.change(key, size, value.SortedSet, func(ch *value.Change) (writes bool, err error) {
		did = added{}
		for _, m := range members {
			if err := did.add(ch, &o, m, line); err != nil { // with INCR, which has one member only
				return false, err
			}
			writes = writes || did.processed
		}
		return writes, nil
	}, func() error {
		switch {
		case o.incr && !did.processed:
			c.out.writeNull()
		case o.incr:
			c.out.writeDouble(did.score)
		case o.ch:
			c.out.writeInteger(int64(did.new + did.updated))
		default:
			c.out.writeInteger(int64(did.new))
		}
		return nil
	})
}

// add adds a member, or changes its score, if the options permit it. line is that of the client.
func (a *added) add(ch *value.Change, o *addOptions, m scored, line value.Line) error {
	payload, has := ch.Get(m.name)
	old := value.Score(payload)
	if a.score = m.score; has && o.incr {
		if a.score = old + m.score; math.IsNaN(a.score) {
			return errScoreNaN
		}
	}
	a.processed = !(has && (o.nx || o.gt && a.score <= old || o.lt && a.score >= old) || !has && o.xx)
	if !a.processed {
		return nil
	}
	if o.incr {
		ch.Increment(value.SortedSet, m.name, value.ScorePayload(a.score), line)
	} else {
		ch.Add(value.SortedSet, m.name, value.ScorePayload(a.score))
	}
	if !has {
		a.new++
	} else if a.score != old {
		a.updated++
	}
	return nil
}

// ZREM key member [member ...]
func zrem(c *connection, args [][]byte) error { return c.removeElements(args, value.SortedSet) }

// ZCARD key
func zcard(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.SortedSet)
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(h.Len()))
	return nil
}

// ZSCORE key member
func zscore(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.SortedSet)
	if err != nil {
		return err
	}
	c.writeScoreOf(&h, args[2])
	return nil
}

func (c *connection) writeScoreOf(h *value.Collection, member []byte) {
	if payload, ok := h.Get(string(member)); ok {
		c.out.writeDouble(value.Score(payload))
	} else {
		c.out.writeNull()
	}
}

// ZMSCORE key member [member ...]
func zmscore(c *connection, args [][]byte) error {
	h, err := c.collectionAt(args[1], value.SortedSet)
	if err != nil {
		return err
	}
	c.out.writeArrayHeader(len(args) - 2)
	for _, m := range args[2:] {
		c.writeScoreOf(&h, m)
	}
	return nil
}

// ZRANK key member
func zrank(c *connection, args [][]byte) error { return c.replyRank(args, false) }

// ZREVRANK key member
func zrevRank(c *connection, args [][]byte) error { return c.replyRank(args, true) }

func (c *connection) replyRank(args [][]byte, reverse bool) error {
	members, err := c.sortedSetAt(args[1])
	if err != nil {
		return err
	}
	i := slices.IndexFunc(members, func(m scored) bool { return m.name == string(args[2]) })
	switch {
	case i < 0:
		c.out.writeNull()
	case reverse:
		c.out.writeInteger(int64(len(members) - 1 - i))
	default:
		c.out.writeInteger(int64(i))
	}
	return nil
}

// ZPOPMIN key [count]
func zpopMin(c *connection, args [][]byte) error { return c.popScored(args, false) }

// ZPOPMAX key [count]
func zpopMax(c *connection, args [][]byte) error { return c.popScored(args, true) }

func (c *connection) popScored(args [][]byte, greatest bool) error {
	if len(args) > 3 {
		return errSyntax
	}
	count := int64(1)
	if len(args) == 3 {
		var ok bool
		if count, ok = parseInt(args[2]); !ok || count < 0 {
			return errNotPositive
		}
	}
	var popped []scored
	return c.change(args[1], 0, value.SortedSet, func(ch *value.Change) (bool, error) {
		if popped = inOrder(ch.All()); greatest {
			slices.Reverse(popped)
		}
		popped = popped[:min(count, int64(len(popped)))]
		for _, m := range popped {
			ch.Remove(m.name)
		}
		return len(popped) > 0, nil
	}, func() error {
		c.writeScored(popped, true, len(args) == 3)
		return nil
	})
}

// writeScored writes members, with their scores if wanted: in RESP3 as pairs, if there may be several.
func (c *connection) writeScored(members []scored, withScores, several bool) {
	pairs := withScores && several && c.out.proto == 3
	if withScores && !pairs {
		c.out.writeArrayHeader(2 * len(members))
	} else {
		c.out.writeArrayHeader(len(members))
	}
	for _, m := range members {
		if pairs {
			c.out.writeArrayHeader(2)
		}
		c.out.writeBulkString(m.name)
		if withScores {
			c.out.writeDouble(m.score)
		}
		c.out.flushIfFull()
	}
}

// ZSCAN key cursor [MATCH pattern] [COUNT count]
func zscan(c *connection, args [][]byte) error {
	return c.scanElements(args, value.SortedSet, func(member, payload string) {
		c.out.writeBulkString(member)
		c.out.writeBulkString(formatScore(value.Score(payload)))
	}, 2)
}

// ZRANDMEMBER key [count [WITHSCORES]]
func zrandMember(c *connection, args [][]byte) error {
	withScores := len(args) == 4 && equalFold(args[3], "withscores")
	if len(args) > 4 || len(args) == 4 && !withScores {
		return errSyntax
	}
	count, err := randomCount(args, withScores)
	if err != nil {
		return err
	}
	h, err := c.collectionAt(args[1], value.SortedSet)
	if err != nil {
		return err
	}
	picked := pickElements(&h, count)
	if len(args) == 2 {
		c.writeFirst(picked)
		return nil
	}
	members := make([]scored, 0, len(picked))
	for _, e := range picked {
		members = append(members, scored{e.name, value.Score(e.payload)})
	}
	c.writeScored(members, withScores, true)
	return nil
}
