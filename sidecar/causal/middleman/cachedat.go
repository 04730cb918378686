package middleman

import (
	"math/bits"

	"github.com/causalstore/causalstore/topology"
)

// cachedAt is the set of (key hash, data center) pairs whose cache may hold a copy of the version in storage
// (PROTOCOL MM, CAC). It is a hash table with open addressing: 64-bit key hashes, and a mask of data centers beside
// each. Keys of equal hash share an entry, and invalidations name the hash, so sharing can invalidate too much but
// never too little.
//
// Memory: an entry has 8 bytes of hash and 1, 2, 4 or 8 bytes of mask. Between 9/16 and 3/4 of the entries are in use,
// which makes 12 to 16 bytes per cached object with up to eight data centers.
//
// At most bound hashes are in use. Beyond, those of the data center with most of them have to go: see
// Middleman.makeRoomForCopy.
type cachedAt struct {
	bound int
	held  []int    // by data center: how many hashes
	width int      // bytes per mask
	hash  []uint64 // 0: the entry is free
	mask  []byte
	used  int // entries with a hash, empty masks included
	live  int // entries with a mask that is not empty
}

func newCachedAt(dcs, bound int) *cachedAt {
	width := 8
	switch {
	case dcs <= 8:
		width = 1
	case dcs <= 16:
		width = 2
	case dcs <= 32:
		width = 4
	}
	c := &cachedAt{bound: bound, held: make([]int, dcs), width: width}
	c.resize(64)
	return c
}

func (c *cachedAt) resize(entries int) {
	oldHash, oldMask := c.hash, c.mask
	c.hash, c.mask, c.used, c.live = make([]uint64, entries), make([]byte, entries*c.width), 0, 0
	for i, h := range oldHash {
		m := oldMask[i*c.width : (i+1)*c.width]
		if h != 0 && !allZero(m) {
			e := c.find(h)
			c.hash[e] = h
			copy(c.maskOf(e), m)
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

// maskOf returns the mask of an entry.
func (c *cachedAt) maskOf(entry int) []byte { return c.mask[entry*c.width : (entry+1)*c.width] }

// find returns the entry of h, or the free entry where it belongs.
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

// storedHash maps 0, which marks free entries, to 1: the two share an entry.
func storedHash(h uint64) uint64 { return max(h, 1) }

// add records that dc may hold the keys of hash h.
func (c *cachedAt) add(h uint64, dc topology.DC) {
	h = storedHash(h)
	e := c.find(h)
	if c.hash[e] == 0 {
		if 4*(c.used+1) > 3*len(c.hash) {
			c.resize(c.nextSize())
			e = c.find(h)
		}
		c.hash[e] = h
		c.used++
	}
	m := c.maskOf(e)
	if allZero(m) {
		c.live++
	}
	if bit := byte(1) << (dc % 8); m[dc/8]&bit == 0 {
		m[dc/8] |= bit
		c.held[dc]++
	}
}

// hasRoom reports whether a copy of the keys of hash h may be added.
func (c *cachedAt) hasRoom(h uint64) bool {
	return c.live < c.bound || !allZero(c.maskOf(c.find(storedHash(h))))
}

// fullest returns the data center that may hold the most.
func (c *cachedAt) fullest() topology.DC {
	most := 0
	for dc := range c.held {
		if c.held[dc] > c.held[most] {
			most = dc
		}
	}
	return topology.DC(most)
}

// forget removes a data center from all hashes.
func (c *cachedAt) forget(dc topology.DC) {
	bit := byte(1) << (dc % 8)
	for e := range c.hash {
		m := c.maskOf(e)
		if m[dc/8]&bit == 0 {
			continue
		}
		if m[dc/8] &^= bit; allZero(m) {
			c.live--
		}
	}
	c.held[dc] = 0
}

// nextSize returns the size for a rebuild: larger only if live entries, and not emptied ones, fill the table.
func (c *cachedAt) nextSize() int {
	if 2*c.live < len(c.hash) {
		return len(c.hash)
	}
	return len(c.hash) + len(c.hash)/3
}

// take removes every data center that may hold the keys of hash h, and calls f for each.
func (c *cachedAt) take(h uint64, f func(topology.DC)) {
	e := c.find(storedHash(h))
	if c.hash[e] == 0 {
		return
	}
	m := c.maskOf(e)
	if allZero(m) {
		return
	}
	for i, b := range m {
		for ; b != 0; b &= b - 1 {
			dc := topology.DC(8*i + bits.TrailingZeros8(b))
			c.held[dc]--
			f(dc)
		}
		m[i] = 0
	}
	c.live--
}

// bytes returns the memory of the table.
func (c *cachedAt) bytes() int { return 8*len(c.hash) + len(c.mask) }
