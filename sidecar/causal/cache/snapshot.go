package cache

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
)

// For sessions that read at a cut (PROTOCOL SNAP) a cache keeps versions of a key that are not
// the newest. It is told of a cut when some ring has every write up to there. Then it fetches what was read lately and
// is outdated by the cut, and serves it when it is complete, which is when sessions read at the cut.

// snapshotState is what a cache knows of the cuts that sessions read at.
type snapshotState struct {
	announced    causal.HLC // the newest cut that was announced
	reading      causal.HLC // the newest cut that was read at
	readersUntil int64      // until when sessions count as reading at cuts
	// hashes of entries that were read lately and are not the newest, to be fetched for the next cut
	outdated []uint64
}

// maxVersions bounds the versions of a key: at the last cut, at this one, and at those that were announced.
const maxVersions = 8

// readLately is for how long after a read of a key its newer versions are fetched ahead.
const readLately = int64(5 * time.Second)

// maxOutdated bounds the entries that are fetched ahead for a cut; others are fetched when they are asked for.
const maxOutdated = 1 << 14

func (s *snapshotState) noteReader(now causal.Now, cut causal.HLC) {
	s.readersUntil, s.reading = now.Mono+int64(causal.SnapshotReadersTTL), max(s.reading, cut)
}

// hasReaders reports whether sessions read at cuts: otherwise only the newest version is of use.
func (s *snapshotState) hasReaders(now causal.Now) bool { return now.Mono < s.readersUntil }

// addVersion adds e to the versions of its key, newest first, and returns the first of them.
func (c *Cache) addVersion(now causal.Now, head, e *entry) *entry {
	if !c.snapshot.hasReaders(now) {
		return e
	}
	at := &head
	for *at != nil && keystate.Newer(&(*at).Record, &e.Record) && (*at).isValid(now) {
		at = &(*at).older
	}
	rest := *at
	if rest != nil && (rest.Record.Version == e.Record.Version || !rest.isValid(now)) {
		rest = rest.older
	}
	e.older, *at = rest, e
	c.dropSurplus(head)
	return head
}

// dropSurplus drops the versions above the bound: first those between the newest and the cut that is read at, then the
// oldest.
func (c *Cache) dropSurplus(head *entry) {
	n := 0
	for x := head; x != nil; x = x.older {
		n++
	}
	for x := head; x.older != nil && n > maxVersions && x.older.Record.Version.HLC > c.snapshot.reading; n-- {
		x.older = x.older.older
	}
	for x, n := head, 1; x != nil; x, n = x.older, n+1 {
		if n == maxVersions {
			x.older = nil
		}
	}
}

// supersede notes that the version at next came after the copies of a hash; 0: no copy may be used any more.
func (c *Cache) supersede(now causal.Now, hash uint64, next causal.HLC) {
	e, ok := c.entries.Peek(hash)
	if !ok {
		return
	}
	if next == 0 || !c.snapshot.hasReaders(now) {
		c.entries.Remove(hash)
		return
	}
	for x := e; x != nil; x = x.older {
		if !x.Withdraw(next) {
			c.entries.Remove(hash)
			return
		}
	}
	c.refreshLater(now, hash, e)
}

// refreshLater remembers a key that was read lately and whose newest version here is not the newest any more.
func (c *Cache) refreshLater(now causal.Now, hash uint64, head *entry) {
	if head.Next != 0 && !head.awaitsCut && head.wasReadLately(now) && len(c.snapshot.outdated) < maxOutdated {
		head.awaitsCut = true
		c.snapshot.outdated = append(c.snapshot.outdated, hash)
	}
}

func (e *entry) wasReadLately(now causal.Now) bool {
	return e.readAt != 0 && now.Mono-e.readAt < readLately
}

// prepareCut fetches, for a cut that will soon be read at, the newest versions at or below it of what was used and is
// outdated by it.
func (c *Cache) prepareCut(now causal.Now, cut causal.HLC) {
	if cut <= c.snapshot.announced {
		return
	}
	c.snapshot.announced = cut
	hashes := c.snapshot.outdated
	c.snapshot.outdated = nil
	for _, hash := range hashes {
		e, ok := c.entries.Peek(hash)
		if ok {
			e.awaitsCut = false
		}
		switch {
		case !ok || e.Next == 0 || !e.isValid(now) || !e.wasReadLately(now):
		case e.Next > cut:
			c.refreshLater(now, hash, e)
		default:
			c.fetchAhead(now, e.key, cut)
		}
	}
}

// fetchAhead fetches a key for a cut before anyone asks.
func (c *Cache) fetchAhead(now causal.Now, key string, cut causal.HLC) {
	k := flightKey{key: key, snapshot: true, ahead: cut}
	if c.flights.byKey[k] == nil {
		c.startFlight(now, newFlight(k))
	}
}
