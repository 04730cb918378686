package resp

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errRangeFloat = genericError("min or max is not a float")
	errRangeText  = genericError("min or max not valid string range item")
	errLimit      = genericError(
		"syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	errScoresByLex = genericError("syntax error, WITHSCORES not supported in combination with BYLEX")
)

// rangeKind is what a range of a sorted set is given by.
type rangeKind uint8

const (
	byRank rangeKind = iota
	byScore
	byLex
)

// memberRange is a range of a sorted set.
type memberRange struct {
	kind          rangeKind
	reverse       bool
	withScores    bool
	offset, count int64 // of what is in the range; count < 0: all

	start, stop       int64 // byRank
	min, max          float64
	minText, maxText  string
	openMin, openMax  bool // the bound is not in the range
	isLeast, isAtMost bool // byLex: minText is below all, maxText above all
	isEmpty           bool // byLex: no name can be in it
}

// parseRangeOptions parses what follows the bounds. Only ZRANGE and ZRANGESTORE have all.
func (r *memberRange) parseRangeOptions(args [][]byte, hasAll, storing bool) error {
	r.count = -1
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case !storing && equalFold(word, "withscores"):
			r.withScores = true
		case equalFold(word, "limit") && i+2 < len(args):
			var ok1, ok2 bool
			r.offset, ok1 = parseInt(args[i+1])
			r.count, ok2 = parseInt(args[i+2])
			if !ok1 || !ok2 {
				return errNotInteger
			}
			i += 2
		case hasAll && equalFold(word, "rev"):
			r.reverse = true
		case hasAll && equalFold(word, "byscore"):
			r.kind = byScore
		case hasAll && equalFold(word, "bylex"):
			r.kind = byLex
		default:
			return errSyntax
		}
	}
	switch {
	case r.count != -1 && r.kind == byRank: // as in Redis, -1 is no limit
		return errLimit
	case r.withScores && r.kind == byLex:
		return errScoresByLex
	}
	return nil
}

// parseBounds parses the bounds, in the order in which they are given: the greater one first, if it is reverse.
func (r *memberRange) parseBounds(first, second []byte) (err error) {
	if r.kind == byRank {
		var ok1, ok2 bool
		r.start, ok1 = parseInt(first)
		r.stop, ok2 = parseInt(second)
		if !ok1 || !ok2 {
			return errNotInteger
		}
		return nil
	}
	if r.reverse {
		first, second = second, first
	}
	if r.kind == byScore {
		var ok1, ok2 bool
		r.min, r.openMin, ok1 = parseScoreBound(first)
		r.max, r.openMax, ok2 = parseScoreBound(second)
		if !ok1 || !ok2 {
			return errRangeFloat
		}
		return nil
	}
	return r.parseTextBounds(first, second)
}

func parseScoreBound(arg []byte) (score float64, isOpen, ok bool) {
	if len(arg) > 0 && arg[0] == '(' {
		arg, isOpen = arg[1:], true
	}
	score, _, ok = parseNumber(string(arg))
	return score, isOpen, ok
}

func (r *memberRange) parseTextBounds(first, second []byte) error {
	for i, bound := range [][]byte{first, second} {
		text, isOpen := "", false
		switch {
		case len(bound) == 1 && (bound[0] == '-' || bound[0] == '+'):
			if isBelow := bound[0] == '-'; i == 0 {
				r.isLeast, r.isEmpty = isBelow, r.isEmpty || !isBelow
			} else {
				r.isAtMost, r.isEmpty = !isBelow, r.isEmpty || isBelow
			}
			continue
		case len(bound) > 0 && (bound[0] == '[' || bound[0] == '('):
			text, isOpen = string(bound[1:]), bound[0] == '('
		default:
			return errRangeText
		}
		if i == 0 {
			r.minText, r.openMin = text, isOpen
		} else {
			r.maxText, r.openMax = text, isOpen
		}
	}
	return nil
}

// of returns the members that are in the range.
func (r *memberRange) of(members []scored) []scored {
	if r.kind == byRank {
		if members = slices.Clone(members); r.reverse {
			slices.Reverse(members)
		}
		return slicedBy(members, r.start, r.stop)
	}
	var in []scored
	for _, m := range members {
		if r.has(m) {
			in = append(in, m)
		}
	}
	if r.reverse {
		slices.Reverse(in)
	}
	if r.offset < 0 || r.offset >= int64(len(in)) {
		return nil
	}
	in = in[r.offset:]
	if r.count >= 0 {
		in = in[:min(r.count, int64(len(in)))]
	}
	return in
}

func slicedBy(members []scored, start, stop int64) []scored {
	n := int64(len(members))
	if start < 0 {
		start = max(start+n, 0)
	}
	if stop < 0 {
		stop += n
	}
	if stop = min(stop, n-1); start > stop || start >= n {
		return nil
	}
	return members[start : stop+1]
}

// has reports whether a member is in a range by scores or names.
func (r *memberRange) has(m scored) bool {
	if r.kind == byScore {
		return (m.score > r.min || !r.openMin && m.score == r.min) &&
			(m.score < r.max || !r.openMax && m.score == r.max)
	}
	return !r.isEmpty && (r.isLeast || m.name > r.minText || !r.openMin && m.name == r.minText) &&
		(r.isAtMost || m.name < r.maxText || !r.openMax && m.name == r.maxText)
}

// ZRANGE key min max [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
func zrange(c *connection, args [][]byte) error {
	return c.replyRange(args, memberRange{}, true)
}

// ZREVRANGE key start stop [WITHSCORES]
func zrevRange(c *connection, args [][]byte) error {
	return c.replyRange(args, memberRange{reverse: true}, false)
}

// ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
func zrangeByScore(c *connection, args [][]byte) error {
	return c.replyRange(args, memberRange{kind: byScore}, false)
}

// ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
func zrevRangeByScore(c *connection, args [][]byte) error {
	return c.replyRange(args, memberRange{kind: byScore, reverse: true}, false)
}

// ZRANGEBYLEX key min max [LIMIT offset count]
func zrangeByLex(c *connection, args [][]byte) error {
	return c.replyRange(args, memberRange{kind: byLex}, false)
}

// ZREVRANGEBYLEX key max min [LIMIT offset count]
func zrevRangeByLex(c *connection, args [][]byte) error {
	return c.replyRange(args, memberRange{kind: byLex, reverse: true}, false)
}

func (c *connection) replyRange(args [][]byte, r memberRange, hasAll bool) error {
	if err := r.parseRangeOptions(args[4:], hasAll, false); err != nil {
		return err
	}
	if err := r.parseBounds(args[2], args[3]); err != nil {
		return err
	}
	members, err := c.sortedSetAt(args[1])
	if err != nil {
		return err
	}
	c.writeScored(r.of(members), r.withScores, true)
	return nil
}

// ZRANGESTORE destination source min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]
func zrangeStore(c *connection, args [][]byte) error {
	var r memberRange
	if err := r.parseRangeOptions(args[5:], true, true); err != nil {
		return err
	}
	if err := r.parseBounds(args[3], args[4]); err != nil {
		return err
	}
	stored := 0
	err := c.changeKeys(storageKeys(c.database, keyStrings(args[1:3])), func(ds []*draft) error {
		from, err := ds[1].collection(value.SortedSet, c.nowMs())
		if err != nil {
			return err
		}
		in := r.of(inOrder(from.All()))
		stored = len(in)
		return c.storeMembers(ds[0], in)
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(stored))
	return nil
}

// ZCOUNT key min max
func zcount(c *connection, args [][]byte) error {
	return c.countRange(args, memberRange{kind: byScore})
}

// ZLEXCOUNT key min max
func zlexCount(c *connection, args [][]byte) error {
	return c.countRange(args, memberRange{kind: byLex})
}

func (c *connection) countRange(args [][]byte, r memberRange) error {
	r.count = -1
	if err := r.parseBounds(args[2], args[3]); err != nil {
		return err
	}
	members, err := c.sortedSetAt(args[1])
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(len(r.of(members))))
	return nil
}

// ZREMRANGEBYRANK key start stop
func zremRangeByRank(c *connection, args [][]byte) error { return c.removeRange(args, memberRange{}) }

// ZREMRANGEBYSCORE key min max
func zremRangeByScore(c *connection, args [][]byte) error {
	return c.removeRange(args, memberRange{kind: byScore})
}

// ZREMRANGEBYLEX key min max
func zremRangeByLex(c *connection, args [][]byte) error {
	return c.removeRange(args, memberRange{kind: byLex})
}

func (c *connection) removeRange(args [][]byte, r memberRange) error {
	r.count = -1
	if err := r.parseBounds(args[2], args[3]); err != nil {
		return err
	}
	removed := 0
	return c.change(args[1], 0, value.SortedSet, func(ch *value.Change) (bool, error) {
		in := r.of(inOrder(ch.All()))
		for _, m := range in {
			ch.Remove(m.name)
		}
		removed = len(in)
		return removed > 0, nil
	}, func() error {
		c.out.writeInteger(int64(removed))
		return nil
	})
}
