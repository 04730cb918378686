package resp

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/value"
)

var (
	errStreamID    = genericError("Invalid stream ID specified as stream command argument")
	errStartID     = genericError("invalid start ID for the interval")
	errEndID       = genericError("invalid end ID for the interval")
	errTwoTrims    = genericError("syntax error, MAXLEN and MINID options at the same time are not compatible")
	errTrimMaxLen  = genericError("The MAXLEN argument must be >= 0.")
	errTrimLimit   = genericError("The LIMIT argument must be >= 0.")
	errLimitNoTrim = genericError("syntax error, LIMIT cannot be used without specifying a trimming strategy")
	errTrimNothing = genericError("syntax error, XTRIM must be called with a trimming strategy")
	errExactLimit  = genericError("syntax error, LIMIT cannot be used without the special ~ option")
)

const maxIDBytes = 127

// parseUnsigned parses a number as strtoull does: whatever fits, with spaces and a sign before it.
func parseUnsigned(s string) (uint64, bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	digits := strings.TrimPrefix(s, "-")
	isNegative := len(digits) < len(s)
	if !isNegative {
		digits = strings.TrimPrefix(s, "+")
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if errors.Is(err, strconv.ErrRange) || err != nil {
		return 0, false
	}
	if isNegative {
		if strconv.FormatUint(n, 10) == digits && n > 0 && n <= 1<<63 { // Redis tries signed numbers first
			return 0, false
		}
		n = -n
	}
	return n, true
}

// parseStreamID parses an id; seq is its number if it has none. anySeq: the number may be *, and is then any.
func parseStreamID(arg []byte, seq uint64, anySeq bool) (id value.StreamID, isAny bool, err error) {
	if len(arg) > maxIDBytes {
		return id, false, errStreamID
	}
	ms, number, hasNumber := strings.Cut(cString(arg, maxIDBytes), "-")
	ok := true
	if id.Seq = seq; hasNumber {
		if isAny = anySeq && number == "*"; isAny {
			id.Seq = 0
		} else {
			id.Seq, ok = parseUnsigned(number)
		}
	}
	isNumber := false
	if id.Ms, isNumber = parseUnsigned(ms); !isNumber || !ok {
		return id, false, errStreamID
	}
	return id, isAny, nil
}

// parseStrictID parses an id that is no end of the stream.
func parseStrictID(arg []byte) (value.StreamID, error) {
	id, _, err := parseStreamID(arg, 0, false)
	return id, err
}

// parseAnyID parses an id, or one of the ends.
func parseAnyID(arg []byte, seq uint64) (value.StreamID, error) {
	switch cString(arg, maxIDBytes) {
	case "-":
		return value.StreamID{}, nil
	case "+":
		return value.MaxStreamID, nil
	}
	id, _, err := parseStreamID(arg, seq, false)
	return id, err
}

func parseStrictIDs(args [][]byte) (ids []value.StreamID, err error) {
	for _, arg := range args {
		id, err := parseStrictID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// parseBoundID parses an end of an interval; with "(", it is the id next to it.
func parseBoundID(arg []byte, seq uint64, beside func(value.StreamID) (value.StreamID, bool), last error) (
	value.StreamID, error) {
	if len(arg) < 2 || arg[0] != '(' {
		return parseAnyID(arg, seq)
	}
	id, _, err := parseStreamID(arg[1:], seq, false)
	if err != nil {
		return id, err
	}
	id, ok := beside(id)
	if !ok {
		return id, last
	}
	return id, nil
}

func parseFromID(arg []byte) (value.StreamID, error) {
	return parseBoundID(arg, 0, value.StreamID.Next, errStartID)
}

func parseToID(arg []byte) (value.StreamID, error) {
	return parseBoundID(arg, math.MaxUint64, value.StreamID.Previous, errEndID)
}

// trimming says which entries XADD and XTRIM remove.
type trimming struct {
	byLength, byID bool
	maxLen         int64
	minID          value.StreamID
	isAbout        bool
	limit          int64 // 0: none
}

// count returns how many entries are removed, if so many are added.
func (t *trimming) count(s *value.StreamLog, added int) (n int) {
	switch {
	case t.byLength:
		n = int(max(int64(len(s.Entries)+added)-t.maxLen, 0))
	case t.byID:
		if n, _ = s.Find(t.minID); n == len(s.Entries) && added > 0 {
			n += added // unless the new one remains, which the caller knows
		}
	}
	if t.limit > 0 && t.isAbout {
		n = int(min(int64(n), t.limit))
	}
	return n
}

// entryOptions are the options of XADD, and those of XTRIM.
type entryOptions struct {
	trimming
	noMake bool
	id     value.StreamID
	hasID  bool
	anySeq bool // the id has no number
}

// parseEntryOptions parses the options from the second argument on, for XADD up to the id. It returns where that is.
func parseEntryOptions(args [][]byte, isAdd bool) (o entryOptions, at int, err error) {
	hasLimit, isAbout := false, false
	i := 2
options:
	for ; i < len(args); i++ {
		more := len(args) - 1 - i
		switch word := args[i]; {
		case isAdd && string(word) == "*":
			break options
		case equalFold(word, "maxlen") && more > 0, equalFold(word, "minid") && more > 0:
			if i, err = o.parseStrategy(args, i); err != nil {
				return o, i, err
			}
			isAbout = o.isAbout
		case equalFold(word, "limit") && more > 0:
			i++
			limit, ok := parseInt(args[i])
			switch {
			case !ok:
				return o, i, errNotInteger
			case limit < 0:
				return o, i, errTrimLimit
			}
			o.limit, hasLimit = limit, true
		case isAdd && equalFold(word, "nomkstream"):
			o.noMake = true
		case isAdd:
			o.id, o.anySeq, err = parseStreamID(word, 0, true)
			if o.hasID = true; err != nil {
				return o, i, err
			}
			break options
		default:
			return o, i, errSyntax
		}
	}
	isTrimming := o.byLength || o.byID
	switch {
	case o.limit != 0 && !isTrimming:
		return o, i, errLimitNoTrim
	case !isAdd && !isTrimming:
		return o, i, errTrimNothing
	case hasLimit && !isAbout:
		return o, i, errExactLimit
	}
	return o, i, nil
}

// parseStrategy parses MAXLEN or MINID, which is the i-th argument. It returns which one is its last argument.
func (o *entryOptions) parseStrategy(args [][]byte, i int) (last int, err error) {
	if o.byLength || o.byID {
		return i, errTwoTrims
	}
	isLength := equalFold(args[i], "maxlen")
	o.isAbout = false
	if sign := string(args[i+1]); i+2 < len(args) && (sign == "~" || sign == "=") {
		o.isAbout = sign == "~"
		i++
	}
	i++
	if !isLength {
		o.byID = true
		o.minID, err = parseStrictID(args[i])
		return i, err
	}
	o.byLength = true
	n, ok := parseInt(args[i])
	switch {
	case !ok:
		return i, errNotInteger
	case n < 0:
		return i, errTrimMaxLen
	}
	o.maxLen = n
	return i, nil
}
