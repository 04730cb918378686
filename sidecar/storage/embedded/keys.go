package embedded

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// The first byte of a Pebble key tells what it is.
const (
	prefixCount byte = 0 // alone: the number of data keys
	prefixMeta  byte = 1 // then the name of a piece of metadata
	prefixData  byte = 2 // then a key of the middle man
)

var countKey = []byte{prefixCount}

// keyBuffers lends the bytes of Pebble keys, which Pebble never keeps.
var keyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 128); return &b }}

// maxPooledKey keeps a few huge keys from staying in memory for ever.
const maxPooledKey = 4 << 10

// lendKey returns the Pebble key of s; it must be given back.
func lendKey(prefix byte, s string) *[]byte {
	b := keyBuffers.Get().(*[]byte)
	*b = append(append((*b)[:0], prefix), s...)
	return b
}

func giveBack(b *[]byte) {
	if cap(*b) <= maxPooledKey {
		keyBuffers.Put(b)
	}
}

func decodeCount(b []byte) (int64, error) {
	n, size := binary.Uvarint(b)
	if size != len(b) || int64(n) < 0 {
		return 0, fmt.Errorf("the key count is %x, which is not one; the store was written by something else", b)
	}
	return int64(n), nil
}
