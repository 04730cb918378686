package embedded

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// The first byte of a Pebble key is its kind.
const (
	prefixCount    byte = 0 // the number of data keys; nothing follows
	prefixMeta     byte = 1 // followed by the name of a piece of metadata
	prefixData     byte = 2 // followed by a key of the middleman
	prefixSequence byte = 3 // the number of the last batch; nothing follows. Older stores have none, and no watermark
)

var (
	countKey    = []byte{prefixCount}
	sequenceKey = []byte{prefixSequence}
)

// keyBuffers has buffers for Pebble keys, which Pebble does not retain.
var keyBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 128); return &b }}

// maxPooledKey is the capacity above which a buffer is not reused, so that a few huge keys do not pin memory.
const maxPooledKey = 4 << 10

// borrowKey returns a Pebble key in a buffer that must be passed to returnKey.
func borrowKey(prefix byte, s string) *[]byte {
	b := keyBuffers.Get().(*[]byte)
	*b = append(append((*b)[:0], prefix), s...)
	return b
}

func returnKey(b *[]byte) {
	if cap(*b) <= maxPooledKey {
		keyBuffers.Put(b)
	}
}

func decodeNumber(b []byte) (uint64, error) {
	n, size := binary.Uvarint(b)
	if size != len(b) || int64(n) < 0 {
		return 0, fmt.Errorf("the number %x is malformed; the store was written by another program", b)
	}
	return n, nil
}
