package causal

// A cache keeps versions of a key that are not the newest, for sessions that read at a cut. It is told of a cut a little
// before sessions read at it. What it holds and was used goes out of date then, if newer versions have come; it fetches
// those meanwhile.

// maxVersions bounds the versions of a key: at the cut before, at the cut now, and the newest.
const maxVersions = 3

// maxOutdated bounds the entries that are fetched ahead for a cut; the others are fetched when they are asked for.
const maxOutdated = 1 << 14

// place puts a version among those that are kept of its key, newest first, and returns the first.
func (c *Cache) place(now Now, head, e *entry) *entry {
	if now.Mono >= c.olderUntil { // nobody reads at a cut: only the newest is of use
		return e
	}
	at := &head
	for *at != nil && e.rec.Version.Less((*at).rec.Version) && (*at).valid(now) {
		at = &(*at).prev
	}
	rest := *at
	if rest != nil && (rest.rec.Version == e.rec.Version || !rest.valid(now)) {
		e.used = rest.used && rest.rec.Version == e.rec.Version
		rest = rest.prev
	}
	e.prev, *at = rest, e
	c.thin(head)
	return head
}

// thin drops what is above the bound: first versions between the newest and the cut that is read at, then the oldest.
func (c *Cache) thin(head *entry) {
	n := 0
	for x := head; x != nil; x = x.prev {
		n++
	}
	for x := head; x.prev != nil && n > maxVersions && x.prev.rec.Version.HLC > c.reading; n-- {
		x.prev = x.prev.prev
	}
	for x, n := head, 1; x != nil; x, n = x.prev, n+1 {
		if n == maxVersions {
			x.prev = nil
		}
	}
}

// outdate notes that a version came after the copy of a key; 0: nobody may use it any more.
func (c *Cache) outdate(now Now, hash uint64, next HLC) {
	e, ok := c.lru.Peek(hash)
	if !ok {
		return
	}
	if next == 0 || now.Mono >= c.olderUntil {
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
	hashes := c.outdated
	c.outdated = nil
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
