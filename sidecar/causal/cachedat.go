package causal

import (
	"math/bits"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// cachedAt is the set of (key hash, DC) pairs that a middleman gave fillable values to: open addressing over 64-bit
// hashes, with a mask of DCs beside each. Keys of equal hash share an entry, and invalidations name the hash, so that
// sharing can only invalidate too much, never too little.
//
// Memory: 8 bytes of hash and 1, 2, 4 or 8 bytes of mask per slot, filled to between 9/16 and 3/4: 12 to 16 bytes per
// cached object with up to eight DCs.
type cachedAt struct {
	width int // bytes per mask
	hash  []uint64
	mask  []byte
	used  int // slots with a hash, empty masks included
	live  int // slots with a non-empty mask
}

func newCachedAt(dcs int) *cachedAt {
	width := 8
	switch {
	case dcs <= 8:
		width = 1
	case dcs <= 16:
		width = 2
	case dcs <= 32:
		width = 4
	}
	c := &cachedAt{width: width}
	c.resize(64)
	return c
}

func (c *cachedAt) resize(slots int) {
	oldHash, oldMask := c.hash, c.mask
	c.hash, c.mask, c.used, c.live = make([]uint64, slots), make([]byte, slots*c.width), 0, 0
	for i, h := range oldHash {
		m := oldMask[i*c.width : (i+1)*c.width]
		if h != 0 && !allZero(m) {
			at := c.find(h)
			c.hash[at] = h
			copy(c.mask[at*c.width:], m)
			c.used++
			c.live++
		}
	}
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// find returns the slot of h, or the free slot where it belongs. A hash of 0 stands for "free", so 0 itself is kept as 1:
// the two then share an entry.
func (c *cachedAt) find(h uint64) int {
	n := uint64(len(c.hash))
	i, _ := bits.Mul64(h*0x9e3779b97f4a7c15, n)
	for c.hash[i] != h && c.hash[i] != 0 {
		if i++; i == n {
			i = 0
		}
	}
	return int(i)
}

func storedHash(h uint64) uint64 { return max(h, 1) }

// add notes that dc may hold the keys of hash h.
func (c *cachedAt) add(h uint64, dc topology.DC) {
	h = storedHash(h)
	at := c.find(h)
	if c.hash[at] == 0 {
		if 4*(c.used+1) > 3*len(c.hash) {
			c.resize(c.grown())
			at = c.find(h)
		}
		c.hash[at] = h
		c.used++
	}
	m := c.mask[at*c.width : (at+1)*c.width]
	if allZero(m) {
		c.live++
	}
	m[dc/8] |= 1 << (dc % 8)
}

// grown returns the size to rebuild at: larger only if live entries, and not forgotten ones, fill the table.
func (c *cachedAt) grown() int {
	if 2*c.live < len(c.hash) {
		return len(c.hash)
	}
	return len(c.hash) + len(c.hash)/3
}

// take calls f for every DC that may hold the keys of hash h, and forgets them.
func (c *cachedAt) take(h uint64, f func(topology.DC)) {
	at := c.find(storedHash(h))
	if c.hash[at] == 0 {
		return
	}
	m := c.mask[at*c.width : (at+1)*c.width]
	if allZero(m) {
		return
	}
	for i, b := range m {
		for ; b != 0; b &= b - 1 {
			f(topology.DC(8*i + bits.TrailingZeros8(b)))
		}
		m[i] = 0
	}
	c.live--
}

// bytes returns the memory of the table.
func (c *cachedAt) bytes() int { return 8*len(c.hash) + len(c.mask) }
