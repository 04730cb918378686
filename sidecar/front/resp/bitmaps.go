package resp

import (
	"math/bits"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/operation"
)

// Commands of bitmaps, which are strings. Those that write put the whole string, as SETRANGE does.

var (
	errBitOffset = genericError("bit offset is not an integer or out of range")
	errBit       = genericError("bit is not an integer or out of range")
	errBitOf     = genericError("The bit argument must be 1 or 0.")
	errBitNot    = genericError("BITOP NOT must be called with a single source key.")
)

// maxBits bounds the offset of a bit as Redis does, whose strings have at most 512 MB.
const maxBits = 8 * 512 << 20

// parseBitOffset parses the offset of a bit. In front of one that is counted in fields of some bits is #.
func parseBitOffset(arg []byte, field int64) (uint64, error) {
	each := int64(1)
	if len(arg) > 0 && arg[0] == '#' && field > 0 {
		arg, each = arg[1:], field
	}
	n, ok := parseInt(arg)
	if n *= each; !ok || n < 0 || n >= maxBits { // as in Redis, a product may overflow
		return 0, errBitOffset
	}
	return uint64(n), nil
}

// editText executes a command that makes a string of the one that there is, as update does; nil is to leave it. last is
// the last bit that it writes.
func (c *connection) editText(key []byte, last uint64, text func(old []byte) ([]byte, error), reply func()) error {
	limit := c.server.options.Limits.MaxValueBytes
	e := &edit{text: func(old []byte) ([]byte, error) {
		if last/8 >= uint64(limit) {
			return nil, errEndsBeyond(last/8+1, limit)
		}
		return text(old)
	}}
	return c.updateBy(update{name: storageKey(c.database, string(key)), edit: e,
		reply: func(*operation.Outcome) error {
			reply()
			return nil
		}}, len(key))
}

func errEndsBeyond(end uint64, limit int) *Error {
	return Errorf("ERR", "the resulting value would end at byte %d, after the limit of %d bytes", end, limit)
}

// padded returns a copy of a string that has a bit, filled with zeros.
func padded(old []byte, bit uint64) []byte {
	next := make([]byte, max(uint64(len(old)), bit/8+1))
	copy(next, old)
	return next
}

// bitAt returns a bit of a string; what is behind its end is 0.
func bitAt(s []byte, bit uint64) byte {
	if bit/8 >= uint64(len(s)) {
		return 0
	}
	return s[bit/8] >> (7 - bit%8) & 1
}

// SETBIT key offset value
func setBit(c *connection, args [][]byte) error {
	offset, err := parseBitOffset(args[2], 0)
	if err != nil {
		return err
	}
	n, ok := parseInt(args[3])
	if !ok || n&^1 != 0 {
		return errBit
	}
	bit, before := byte(n), byte(0)
	return c.editText(args[1], offset, func(old []byte) ([]byte, error) {
		if before = bitAt(old, offset); before == bit && offset/8 < uint64(len(old)) {
			return nil, nil
		}
		next := padded(old, offset)
		next[offset/8] = next[offset/8]&^(1<<(7-offset%8)) | bit<<(7-offset%8)
		return next, nil
	}, func() { c.out.writeInteger(int64(before)) })
}

// GETBIT key offset
func getBit(c *connection, args [][]byte) error {
	offset, err := parseBitOffset(args[2], 0)
	if err != nil {
		return err
	}
	v, exists, err := c.getString(string(args[1]))
	if err != nil {
		return err
	}
	if !exists {
		v.Data = nil
	}
	c.out.writeInteger(int64(bitAt(v.Data, offset)))
	return nil
}

// bitRange is a range of bits of a string.
type bitRange struct{ from, to int64 } // to is in it

// parseBitRange parses what follows the fixed arguments of BITCOUNT and BITPOS: nothing, or a start and an end, in
// bytes or bits. The end may be missing if it is optional.
func parseBitRange(args [][]byte, length int, isEndOptional bool) (r bitRange, err error) {
	if len(args) == 0 {
		return bitRange{0, int64(length)*8 - 1}, nil
	}
	if len(args) == 1 && !isEndOptional || len(args) > 3 {
		return r, errSyntax
	}
	ofBits := len(args) == 3 && equalFold(args[2], "bit")
	isUnit := len(args) < 3 || ofBits || equalFold(args[2], "byte")
	total := int64(length)
	start, ok1 := parseInt(args[0])
	end, ok2 := total-1, true
	if len(args) > 1 {
		end, ok2 = parseInt(args[1])
	}
	switch {
	case !ok1:
		return r, errNotInteger
	case isEndOptional && !isUnit: // BITPOS looks at the unit before the end
		return r, errSyntax
	case !ok2:
		return r, errNotInteger
	case !isEndOptional && start < 0 && end < 0 && start > end: // BITCOUNT looks at these before the unit
		return bitRange{0, -1}, nil
	case !isUnit:
		return r, errSyntax
	}
	if ofBits {
		total *= 8
	}
	if start < 0 {
		start = max(start+total, 0)
	}
	if end < 0 {
		end = max(end+total, 0)
	}
	if end = min(end, total-1); ofBits || start > end {
		return bitRange{start, end}, nil
	}
	return bitRange{start * 8, end*8 + 7}, nil
}

// BITCOUNT key [start end [BYTE|BIT]]
func bitCount(c *connection, args [][]byte) error {
	v, exists, err := c.getString(string(args[1]))
	if err != nil {
		return err
	}
	if !exists {
		c.out.writeInteger(0)
		return nil
	}
	r, err := parseBitRange(args[2:], len(v.Data), false)
	if err != nil {
		return err
	}
	c.out.writeInteger(countBits(v.Data, r))
	return nil
}

func countBits(s []byte, r bitRange) (n int64) {
	for at := r.from; at <= r.to; {
		if at%8 == 0 && at+7 <= r.to {
			n += int64(bits.OnesCount8(s[at/8]))
			at += 8
			continue
		}
		n += int64(bitAt(s, uint64(at)))
		at++
	}
	return n
}

// BITPOS key bit [start [end [BYTE|BIT]]]
func bitPos(c *connection, args [][]byte) error {
	n, ok := parseInt(args[2])
	switch {
	case !ok:
		return errNotInteger
	case n&^1 != 0:
		return errBitOf
	}
	v, exists, err := c.getString(string(args[1]))
	if err != nil {
		return err
	}
	if !exists {
		c.out.writeInteger(-n)
		return nil
	}
	r, err := parseBitRange(args[3:], len(v.Data), true)
	if err != nil {
		return err
	}
	at := findBit(v.Data, byte(n), r)
	if at < 0 && n == 0 && len(args) < 5 && r.from <= r.to { // without an end, zeros follow
		at = int64(len(v.Data)) * 8
	}
	c.out.writeInteger(at)
	return nil
}

// findBit returns where the first bit is that is 0 or 1, or -1.
func findBit(s []byte, bit byte, r bitRange) int64 {
	for at := r.from; at <= r.to; {
		if skipped := 0xff * (1 - bit); at%8 == 0 && at+7 <= r.to && s[at/8] == skipped {
			at += 8
			continue
		}
		if bitAt(s, uint64(at)) == bit {
			return at
		}
		at++
	}
	return -1
}

// BITOP operation destination key [key ...]
func bitOp(c *connection, args [][]byte) error {
	f, err := parseBitOp(args[1], len(args)-3)
	if err != nil {
		return err
	}
	length := 0
	err = c.changeKeys(storageKeys(c.database, keyStrings(args[2:])), func(ds []*draft) error {
		values := make([][]byte, len(ds)-1)
		length = 0
		for i, d := range ds[1:] {
			v := d.current()
			if !c.isLive(v) {
				continue
			}
			if v.Merges() {
				return errWrongType
			}
			values[i], length = v.Data, max(length, len(v.Data))
		}
		switch {
		case length > 0:
			ds[0].set(causal.Value{Data: combineBits(values, length, f)})
		case ds[0].exists(c.nowMs()):
			ds[0].set(tombstone)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.out.writeInteger(int64(length))
	return nil
}

// bitOperation combines bytes, of which there is one at least.
type bitOperation struct {
	f   func(a, b byte) byte
	not bool
}

func parseBitOp(name []byte, keys int) (o bitOperation, err error) {
	switch {
	case equalFold(name, "and"):
		o.f = func(a, b byte) byte { return a & b }
	case equalFold(name, "or"):
		o.f = func(a, b byte) byte { return a | b }
	case equalFold(name, "xor"):
		o.f = func(a, b byte) byte { return a ^ b }
	case equalFold(name, "not"):
		if o.not = true; keys != 1 {
			return o, errBitNot
		}
	default:
		return o, errSyntax
	}
	return o, nil
}

// combineBits combines strings to one of a length; shorter ones are filled with zeros.
func combineBits(values [][]byte, length int, o bitOperation) []byte {
	result := make([]byte, length)
	copy(result, values[0])
	if o.not {
		for i := range result {
			result[i] = ^result[i]
		}
	}
	for _, v := range values[1:] {
		for i := range result {
			b := byte(0)
			if i < len(v) {
				b = v[i]
			}
			result[i] = o.f(result[i], b)
		}
	}
	return result
}
