package resp

import (
	"bytes"
	"math"
)

var (
	errBitFieldType = genericError(
		"Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
	errBitFieldOverflow = genericError("Invalid OVERFLOW type specified")
	errBitFieldReadOnly = genericError("BITFIELD_RO only supports the GET subcommand")
)

// overflow is what becomes of a number that does not fit into its field.
type overflow uint8

const (
	overflowWrap overflow = iota
	overflowSaturate
	overflowFail
)

// bitField is a field of a bitmap, and what a command does with it.
type bitField struct {
	isSigned bool
	width    uint
	offset   uint64
	sets     bool // set it to number
	adds     bool // add number to it
	number   int64
	overflow overflow
}

// fieldBytes is about how many bytes a field takes, with its reply.
const fieldBytes = 72

// BITFIELD key [GET type offset] [SET type offset value] [INCRBY type offset increment] [OVERFLOW WRAP|SAT|FAIL] ...
func bitFields(c *connection, args [][]byte) error {
	fields, last, err := parseBitFields(args[2:])
	if err != nil {
		return err
	}
	if last < 0 {
		c.awaitWrites()
		return c.readBitFields(args[1], fields)
	}
	var replies Array
	return c.editText(args[1], uint64(last), fieldBytes*len(fields), func(old []byte) ([]byte, error) {
		next := padded(old, uint64(last))
		replies = replies[:0]
		for i := range fields {
			replies = append(replies, fields[i].execute(next))
		}
		if bytes.Equal(next, old) {
			return nil, nil
		}
		return next, nil
	}, func() { c.out.writeReply(replies) })
}

// BITFIELD_RO key [GET type offset] ...
func bitFieldRO(c *connection, args [][]byte) error {
	fields, last, err := parseBitFields(args[2:])
	switch {
	case err != nil:
		return err
	case last >= 0:
		return errBitFieldReadOnly
	}
	return c.readBitFields(args[1], fields)
}

func (c *connection) readBitFields(key []byte, fields []bitField) error {
	v, exists, err := c.getString(string(key))
	if err != nil {
		return err
	}
	if !exists {
		v.Data = nil
	}
	c.out.writeArrayHeader(len(fields))
	for i := range fields {
		c.out.writeInteger(fields[i].read(v.Data))
	}
	return nil
}

// parseBitFields parses the arguments after the key. last is the last bit that is written, or -1.
func parseBitFields(args [][]byte) (fields []bitField, last int64, err error) {
	last = -1
	var o overflow
	for len(args) > 0 {
		f, left := bitField{overflow: o}, len(args)-1
		n := 4
		switch word := args[0]; {
		case equalFold(word, "get") && left >= 2:
			n = 3
		case equalFold(word, "set") && left >= 3:
			f.sets = true
		case equalFold(word, "incrby") && left >= 3:
			f.adds = true
		case equalFold(word, "overflow") && left >= 1:
			if o, err = parseOverflow(args[1]); err != nil {
				return nil, last, err
			}
			args = args[2:]
			continue
		default:
			return nil, last, errSyntax
		}
		if err := f.parse(args[1:n]); err != nil {
			return nil, last, err
		}
		if n == 4 {
			last = max(last, int64(f.offset)+int64(f.width)-1)
		}
		fields, args = append(fields, f), args[n:]
	}
	return fields, last, nil
}

func parseOverflow(arg []byte) (overflow, error) {
	switch {
	case equalFold(arg, "wrap"):
		return overflowWrap, nil
	case equalFold(arg, "sat"):
		return overflowSaturate, nil
	case equalFold(arg, "fail"):
		return overflowFail, nil
	}
	return overflowWrap, errBitFieldOverflow
}

// parse parses a type, an offset and, if it is written, a number.
func (f *bitField) parse(args [][]byte) (err error) {
	kind := cString(args[0], len(args[0]))
	if kind == "" || kind[0] != 'i' && kind[0] != 'u' {
		return errBitFieldType
	}
	f.isSigned = kind[0] == 'i'
	width, ok := parseInt([]byte(kind[1:]))
	if !ok || width < 1 || width > 64 || width > 63 && !f.isSigned {
		return errBitFieldType
	}
	f.width = uint(width)
	if f.offset, err = parseBitOffset(args[1], width); err != nil || len(args) < 3 {
		return err
	}
	if f.number, ok = parseInt(args[2]); !ok {
		return errNotInteger
	}
	return nil
}

// read returns the number in a field; what is behind the end of the string is 0.
func (f *bitField) read(s []byte) int64 {
	n := uint64(0)
	for i := range uint64(f.width) {
		n = n<<1 | uint64(bitAt(s, f.offset+i))
	}
	if f.isSigned {
		return signed(n, f.width)
	}
	return int64(n)
}

// signed returns a number of some bits, of which the first one is its sign.
func signed(n uint64, width uint) int64 { return int64(n<<(64-width)) >> (64 - width) }

func (f *bitField) write(s []byte, n int64) {
	for i := range uint64(f.width) {
		bit, at := byte(n>>(uint64(f.width)-1-i)&1), f.offset+i
		s[at/8] = s[at/8]&^(1<<(7-at%8)) | bit<<(7-at%8)
	}
}

// execute executes the command on a string that has the field, and returns its reply.
func (f *bitField) execute(s []byte) Reply {
	old := f.read(s)
	if !f.sets && !f.adds {
		return old
	}
	n, increment := f.number, int64(0)
	if f.adds {
		n, increment = old, f.number
	}
	next, isOver := f.sum(n, increment)
	if isOver && f.overflow == overflowFail {
		return nil
	}
	f.write(s, next)
	if f.adds {
		return next
	}
	return old
}

// sum returns n + increment as the field can have it, and whether that is something else. Which side of its range is
// exceeded is found out as in Redis, which may take the wrong one if n is not in the range.
func (f *bitField) sum(n, increment int64) (sum int64, isOver bool) {
	if f.isSigned {
		return f.signedSum(n, increment)
	}
	most := uint64(1)<<f.width - 1
	switch above, below := int64(most-uint64(n)), -n; {
	case uint64(n) > most || increment > 0 && increment > above:
		if f.overflow == overflowSaturate {
			return int64(most), true
		}
	case increment < 0 && increment < below:
		if f.overflow == overflowSaturate {
			return 0, true
		}
	default:
		return n + increment, false
	}
	return int64(uint64(n+increment) & most), true
}

func (f *bitField) signedSum(n, increment int64) (sum int64, isOver bool) {
	most := int64(math.MaxInt64) >> (64 - f.width)
	least, isWide := -most-1, f.width == 64
	switch above, below := most-n, least-n; {
	case n > most || !isWide && increment > above || n >= 0 && increment > 0 && increment > above:
		if f.overflow == overflowSaturate {
			return most, true
		}
	case n < least || !isWide && increment < below || n < 0 && increment < 0 && increment < below:
		if f.overflow == overflowSaturate {
			return least, true
		}
	default:
		return n + increment, false
	}
	return signed(uint64(n+increment), f.width), true
}
