package causal

// A cache is told of a cut a little before sessions read at it. What it holds and was used goes out of date then, if newer
// versions have come; it fetches those meanwhile, and keeps the old ones for sessions that still read at the cut before.

// maxOutdated bounds the entries that are fetched ahead for a cut; the others are fetched when they are asked for.
const maxOutdated = 1 << 14

// outdate notes that a version came after the copy of a key; 0: nobody may use it any more.
func (c *Cache) outdate(hash uint64, next HLC) {
	e, ok := c.lru.Peek(hash)
	if !ok {
		return
	}
	if next == 0 {
		c.lru.Remove(hash)
		return
	}
	for x := e; x != nil; x = x.prev {
		if x.rec.Version.HLC <= next && (x.next == 0 || next < x.next) {
			x.next = next
		}
	}
	c.toRefresh(hash, e)
}

func (c *Cache) toRefresh(hash uint64, e *entry) {
	if e.next != 0 && e.used && len(c.outdated) < maxOutdated {
		c.outdated = append(c.outdated, hash)
	}
}

// refresh fetches the newest versions at or below a cut of what was used and goes out of date with it.
func (c *Cache) refresh(now Now, cut HLC) {
	if cut <= c.cut {
		return
	}
	c.cut = cut
	for _, hash := range c.pairs { // nobody reads at the cut before the last one any more
		if e, ok := c.lru.Peek(hash); ok && e.prev != nil {
			c.bytes -= e.prev.size()
			e.prev = nil
		}
	}
	hashes := c.outdated
	c.pairs, c.outdated = c.pairs[:0], nil
	for _, hash := range hashes {
		e, ok := c.lru.Peek(hash)
		switch {
		case !ok || e.next == 0 || !e.valid(now):
		case e.next > cut:
			c.outdated = append(c.outdated, hash)
		default:
			c.ahead(now, e.key, cut)
		}
	}
}

// ahead fetches a key for a cut, for nobody yet.
func (c *Cache) ahead(now Now, key string, cut HLC) {
	k := flightKey{key, true}
	if c.flights[k] == nil {
		f := newFlight(k)
		f.cut = cut
		c.depart(now, f)
	}
}
