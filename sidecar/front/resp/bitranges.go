package resp

import "math/bits"

var errBitOf = genericError("The bit argument must be 1 or 0.")

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
