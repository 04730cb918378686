package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// cursor walks over the fields of one protobuf message. The first fault sticks and ends the walk.
type cursor struct {
	what string // what is being read, for errors
	b    []byte
	num  protowire.Number
	typ  protowire.Type
	err  error
}

// next moves to the next field; its value must then be taken by exactly one of the methods below.
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

func (c *cursor) is(typ protowire.Type) bool {
	if c.typ != typ {
		c.fail(fmt.Errorf("wire type %d where %d belongs", c.typ, typ))
		return false
	}
	return true
}

// took accounts for a value of n bytes, and reports whether there was one.
func (c *cursor) took(n int) bool {
	if n < 0 {
		c.fail(protowire.ParseError(n))
		return false
	}
	c.b = c.b[n:]
	return true
}

// uint takes a varint that must not be above limit.
func (c *cursor) uint(limit uint64) uint64 {
	if !c.is(protowire.VarintType) {
		return 0
	}
	v, n := protowire.ConsumeVarint(c.b)
	if !c.took(n) {
		return 0
	}
	if v > limit {
		c.fail(fmt.Errorf("%d is over the limit of %d", v, limit))
		return 0
	}
	return v
}

func (c *cursor) fixed() uint64 {
	if !c.is(protowire.Fixed64Type) {
		return 0
	}
	v, n := protowire.ConsumeFixed64(c.b)
	if !c.took(n) {
		return 0
	}
	return v
}

// bytes takes a byte string, which aliases the input.
func (c *cursor) bytes() []byte {
	if !c.is(protowire.BytesType) {
		return nil
	}
	v, n := protowire.ConsumeBytes(c.b)
	if !c.took(n) {
		return nil
	}
	return v
}

// fixedList takes a packed list of 8-byte elements, at most limit of them.
func (c *cursor) fixedList(limit int) []byte {
	b := c.bytes()
	if len(b)%8 != 0 {
		c.fail(fmt.Errorf("a packed list of %d bytes; its elements have 8", len(b)))
		return nil
	}
	if len(b)/8 > limit {
		c.fail(fmt.Errorf("%d elements; the limit is %d", len(b)/8, limit))
		return nil
	}
	return b
}

func (c *cursor) skip() {
	c.took(protowire.ConsumeFieldValue(c.num, c.typ, c.b))
}

// run counts the elements of a repeated field that come one after another from here on, so that they are allocated at once.
// It looks at lengths only. The count is at most half the remaining bytes.
func (c *cursor) run() int {
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

// grow makes room in a repeated field for the elements that follow, and refuses more than limit.
func grow[T any](c *cursor, list []T, limit int) []T {
	if len(list) >= limit {
		c.fail(fmt.Errorf("more than %d elements", limit))
		return list
	}
	if list == nil {
		return make([]T, 0, min(c.run(), limit))
	}
	return list
}
