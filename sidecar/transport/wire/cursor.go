package wire

import (
	"errors"
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor iterates over the fields of one protobuf message. The first error ends the iteration and is kept.
type cursor struct {
	what string // what is being read, for errors
	b    []byte
	num  protowire.Number
	typ  protowire.Type
	err  error
	// listRoom is what lists of elements may take yet, in bytes, if they are bounded. A pointer to what is left for a
	// frame would be allocated for each.
	listRoom int
	bounded  bool
}

// takeRoom takes room for n elements of a list, or fails.
func takeRoom[T any](c *cursor, n int) bool {
	var element T
	return c.takeBytes(n * int(unsafe.Sizeof(element)))
}

// takeBytes takes room for elements that take n bytes, or fails.
func (c *cursor) takeBytes(n int) bool {
	if !c.bounded {
		return true
	}
	if c.listRoom -= n; c.listRoom < 0 {
		c.fail(errors.New("lists of more elements than a frame of its size may have"))
		return false
	}
	return true
}

// next moves to the next field. Exactly one of the methods below must then consume its value.
func (c *cursor) next() bool {
	if c.err != nil || len(c.b) == 0 {
		return false
	}
	num, typ, n := protowire.ConsumeTag(c.b)
	if n < 0 {
		c.fail(protowire.ParseError(n))
		return false
	}
	c.num, c.typ, c.b = num, typ, c.b[n:]
	return true
}

func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = fmt.Errorf("%s, field %d: %w", c.what, c.num, err)
	}
	c.b = nil
}

// hasType fails and returns false if the field does not have the given wire type.
func (c *cursor) hasType(typ protowire.Type) bool {
	if c.typ != typ {
		c.fail(fmt.Errorf("wire type is %d, want %d", c.typ, typ))
		return false
	}
	return true
}

// advance moves past a value of n bytes. It fails and returns false if n is a protowire error.
func (c *cursor) advance(n int) bool {
	if n < 0 {
		c.fail(protowire.ParseError(n))
		return false
	}
	c.b = c.b[n:]
	return true
}

// uint consumes a varint of at most limit.
func (c *cursor) uint(limit uint64) uint64 {
	if !c.hasType(protowire.VarintType) {
		return 0
	}
	v, n := protowire.ConsumeVarint(c.b)
	if !c.advance(n) {
		return 0
	}
	if v > limit {
		c.fail(fmt.Errorf("%d exceeds the limit of %d", v, limit))
		return 0
	}
	return v
}

func (c *cursor) fixed() uint64 {
	if !c.hasType(protowire.Fixed64Type) {
		return 0
	}
	v, n := protowire.ConsumeFixed64(c.b)
	if !c.advance(n) {
		return 0
	}
	return v
}

// bytes consumes a byte string. The result aliases the input.
func (c *cursor) bytes() []byte {
	if !c.hasType(protowire.BytesType) {
		return nil
	}
	v, n := protowire.ConsumeBytes(c.b)
	if !c.advance(n) {
		return nil
	}
	return v
}

// fixedList consumes a packed list of at most limit 8-byte elements.
func (c *cursor) fixedList(limit int) []byte {
	b := c.bytes()
	if len(b)%8 != 0 {
		c.fail(fmt.Errorf("a packed list of %d bytes; want a multiple of 8", len(b)))
		return nil
	}
	if len(b)/8 > limit {
		c.fail(fmt.Errorf("%d elements; the limit is %d", len(b)/8, limit))
		return nil
	}
	return b
}

func (c *cursor) skip() {
	c.advance(protowire.ConsumeFieldValue(c.num, c.typ, c.b))
}

// countRun counts the consecutive elements of a repeated field from here on, so that they can be allocated at once. It
// reads only their lengths. The count is at most half the number of the remaining bytes.
func (c *cursor) countRun() int {
	count := 0
	for b := c.b; ; count++ {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 || v > uint64(len(b)-n) {
			return count
		}
		b = b[n+int(v):]
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 || num != c.num || typ != c.typ {
			return count + 1
		}
		b = b[n:]
	}
}

// grow allocates room for the elements of a repeated field, and fails if there are more than limit.
func grow[T any](c *cursor, list []T, limit int) []T {
	more := c.more(len(list), cap(list), limit)
	if more == 0 || !takeRoom[T](c, more) {
		return list
	}
	return append(make([]T, 0, len(list)+more), list...)
}

// more returns for how many more elements a list needs room, and fails if there are more than limit. Parts send all
// elements of a field one behind the other, so that there is room for all. A list that others interrupt gets twice the
// room each time, which counts though it may stay empty.
func (c *cursor) more(has, room, limit int) int {
	if has >= limit {
		c.fail(fmt.Errorf("more than %d elements", limit))
		return 0
	}
	if has < room {
		return 0
	}
	return min(max(has+c.countRun(), 2*has), limit) - has
}
