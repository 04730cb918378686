package resp

import "github.com/causalstore/causalstore/sidecar/operation"

// Commands of bitmaps, which are strings. Those that write put the whole string, as SETRANGE does.

var (
	errBitOffset = genericError("bit offset is not an integer or out of range")
	errBit       = genericError("bit is not an integer or out of range")
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
// the last bit that it writes, and held about how many bytes its functions hold.
func (c *connection) editText(key []byte, last uint64, held int, text func(old []byte) ([]byte, error),
	reply func()) error {
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
		}}, len(key)+held)
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
	return c.editText(args[1], offset, 0, func(old []byte) ([]byte, error) {
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
