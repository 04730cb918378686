package cache

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// entryOverhead is what an entry costs beside its key and value, in bytes.
const entryOverhead = 190

// entry is one cached version of a key. Only stable versions are cached.
type entry struct {
	keystate.Copy
	key       string
	from      *stream
	epoch     uint64           // of the stream that brought it
	past      causal.HLC       // the greatest HLC in the past of the version; 0: unknown
	older     *entry           // the version before, which sessions may read at a cut
	awaitsCut bool             // its key is to be fetched for the next cut
	inFlight  bool             // it is not to be served before the vectors say that it is complete
	unstable  []causal.Version // of a merging value that is inFlight, what has to be complete
	readAt    int64            // when the key was last asked for; 0: not since it is here
	touchedAt int64            // when it was last moved to the front of the LRU list
}

func (e *entry) size() int {
	n := len(e.key) + e.Record.Value.Size() + entryOverhead
	if e.older != nil {
		n += e.older.size()
	}
	return n
}

// awaitsCompletion reports whether an entry is not known to be complete.
func (c *Cache) awaitsCompletion(e *entry) bool {
	return e.inFlight && !keystate.IsStable(&e.Record, e.unstable, c.known.Complete)
}

// isValid reports whether the stream that brought the entry lives and its lease runs.
func (e *entry) isValid(now causal.Now) bool {
	return e.epoch == e.from.epoch && now.Mono < e.from.leaseUntil
}

// Copies returns the versions of a key that the cache would serve now, the newest first.
func (c *Cache) Copies(now causal.Now, key string) (versions []causal.Version) {
	for e, _ := c.entries.Peek(topology.Hash(key)); e != nil; e = e.older {
		if e.key == key && e.isValid(now) && !e.inFlight {
			versions = append(versions, e.Record.Version)
		}
	}
	return versions
}

// AnswersWithout returns a version that the cache would give to a reader of a key whose cut has the write v, although
// it is older than that; false: there is none. The simulator asks.
func (c *Cache) AnswersWithout(now causal.Now, key string, v causal.Version) (causal.Version, bool) {
	for e, _ := c.entries.Peek(topology.Hash(key)); e != nil; e = e.older {
		if e.key == key && e.isValid(now) && !c.awaitsCompletion(e) && e.Lacks(v) {
			return e.Record.Version, true
		}
	}
	return causal.Version{}, false
}

// find returns the entry that answers a get, or nil.
func (c *Cache) find(now causal.Now, hash uint64, g *causal.Get) *entry {
	e, _ := c.entries.Peek(hash)
	if e != nil && now.Mono-e.touchedAt >= touchInterval {
		e.touchedAt = now.Mono
		c.entries.Get(hash)
	}
	if e != nil && e.key == g.Key && g.Snapshot {
		e.readAt = now.Mono
		c.refreshLater(now, hash, e)
	}
	for ; e != nil; e = e.older {
		if e.key == g.Key && e.isValid(now) && c.answers(e, g) {
			return e
		}
	}
	return nil
}

// answers reports whether the version of a valid entry is the one that a get asks for.
func (c *Cache) answers(e *entry, g *causal.Get) bool {
	switch {
	case c.awaitsCompletion(e) && !c.cfg.Broken.Has(causal.ServeAhead):
		return false
	case g.Snapshot && c.cfg.Broken.Has(causal.OlderUnchecked):
		return true
	case g.Snapshot:
		return e.Answers(g.From(), g.UpTo())
	case g.Cut != 0:
		return e.IsAt(g.Cut)
	}
	return e.IsNewest()
}

// insert keeps the answer to a fill, and evicts what no longer fits.
func (c *Cache) insert(now causal.Now, key string, r *causal.FillReply, s *stream, readAt int64) *entry {
	e := &entry{Copy: keystate.Copy{Record: r.Record, Next: r.Next}, key: key, from: s, epoch: s.epoch, past: r.Past,
		inFlight: r.Registered,
		unstable: r.Unstable, readAt: readAt, touchedAt: now.Mono}
	hash := topology.Hash(key)
	head, _ := c.entries.Peek(hash)
	if head != nil {
		c.bytes -= head.size()
		if head.key != key {
			head = nil
		} else {
			e.readAt, e.awaitsCut = max(e.readAt, head.readAt), head.awaitsCut
		}
	}
	head = c.addVersion(now, head, e)
	c.entries.Add(hash, head)
	c.bytes += head.size()
	c.refreshLater(now, hash, head)
	c.stats.Inserted++
	for c.bytes > c.cfg.MaxBytes && c.entries.Len() > 0 {
		c.entries.RemoveOldest()
	}
	return e
}
