package resp

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// The keys of each database are counted by a scan, which names what may exist, and by reading a random sample of these
// names, which tells what part of them exists: a storage also holds tombstones and what has expired. With few names all
// are read, and the count is exact. The work is bounded by the names, the time, the sample and the bytes of its values.

const (
	// maxNamesCounted and maxSampled bound the names that a count visits, and those that it reads.
	maxNamesCounted, maxSampled = 1_000_000, 10_000
	// maxCountTime and maxSampledBytes end the scan, and the reads, of a count.
	maxCountTime, maxSampledBytes = 2 * time.Second, 64 << 20
	// An estimate that took longer than cheapCount is used for countShare times as long as it took. Any other count is
	// made again when this sidecar has written.
	cheapCount, countShare = time.Second, 20
	// maxCountAge is how old a count may be if this sidecar has written nothing since, and others of the data center
	// are not to be seen at once.
	maxCountAge = time.Second
)

// keyCount is how many keys each database has.
type keyCount struct {
	keys, expires, ttlMs [databases]float64 // ttlMs: of all that expire, together

	number   uint64 // of counts that have begun
	at       time.Time
	took     time.Duration
	estimate bool
	writes   int64 // that the server had executed
}

// keyCounts holds the last count, and lets one connection count at a time.
type keyCounts struct {
	begun atomic.Uint64
	mu    sync.Mutex
	last  *keyCount
}

// countKeys returns how many keys there are, for this session.
func (c *connection) countKeys() (*keyCount, error) {
	k, s := &c.server.keyCounts, &c.server.stats
	c.flushCounters()
	if c.executing { // it holds keys that the one who counts may wait for
		return c.countNow()
	}
	before := k.begun.Load()
	k.mu.Lock()
	defer k.mu.Unlock()
	now, writes := c.server.options.Clock(), s.writes.Load()
	if last := k.last; last != nil {
		age := now.Sub(last.at)
		if last.number > before || age >= 0 && (age < maxCountAge && writes == last.writes && !c.session.IsExact() ||
			last.estimate && last.took > cheapCount && age < countShare*last.took) {
			return last, nil
		}
	}
	number := k.begun.Add(1)
	n, err := c.countNow()
	if err != nil {
		return nil, err
	}
	n.number, n.at, n.writes, n.took = number, now, writes, c.server.options.Clock().Sub(now)
	k.last = n
	return n, nil
}

// forgetKeyCount makes the next count a new one.
func (s *Server) forgetKeyCount() {
	s.keyCounts.mu.Lock()
	defer s.keyCounts.mu.Unlock()
	s.keyCounts.last = nil
}

// countNow counts the keys.
func (c *connection) countNow() (*keyCount, error) {
	began := time.Now()
	var named [databases]float64
	var sample []string
	visited := 0
	seen := make(map[string]struct{})
	all, err := c.scanWhile(func(names []string) (bool, error) {
		for _, name := range names {
			database, _, ok := keyStoredAs(name)
			if _, again := seen[name]; !ok || again { // two pages may name a key
				continue
			}
			named[database]++
			if visited++; len(sample) < maxSampled {
				sample = append(sample, name)
				seen[name] = struct{}{}
			} else if i := rand.IntN(visited); i < maxSampled {
				sample[i] = name
			}
		}
		return visited < maxNamesCounted && time.Since(began) < maxCountTime, nil
	})
	if err == nil && !all {
		var stored int64
		if stored, err = c.session.CountNames(c.server.context); err == nil && stored > int64(visited) {
			for database := range named {
				named[database] *= float64(stored) / float64(visited)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	n, err := c.readSample(sample, named)
	if err == nil {
		n.estimate = n.estimate || !all || visited > maxSampled
	}
	return n, err
}

// readSample reads a random sample of names, or as many of them as the bounds allow, and returns the count for all
// names that there are in each database.
func (c *connection) readSample(sample []string, named [databases]float64) (*keyCount, error) {
	var n keyCount
	var read [databases]float64
	rand.Shuffle(len(sample), func(i, j int) { sample[i], sample[j] = sample[j], sample[i] })
	bytes, began := 0, time.Now()
	for len(sample) > 0 && bytes < maxSampledBytes && time.Since(began) < maxCountTime {
		some := sample[:min(readTogether, len(sample))]
		values, err := c.readNames(some)
		if err != nil {
			return nil, err
		}
		sample = sample[len(some):]
		for i, v := range values {
			database, _, _ := keyStoredAs(some[i])
			read[database]++
			bytes += len(v.Data)
			if !c.isLive(v) {
				continue
			}
			n.keys[database]++
			if v.ExpireAtMs != 0 {
				n.expires[database]++
				n.ttlMs[database] += float64(v.ExpireAtMs - c.nowMs())
			}
		}
	}
	n.estimate = len(sample) > 0
	for database, all := range named {
		if all > 0 && read[database] > 0 {
			share := all / read[database]
			n.keys[database] *= share
			n.expires[database] *= share
			n.ttlMs[database] *= share
		} else {
			n.keys[database] = all
		}
	}
	return &n, nil
}

// readNames reads what is stored under names.
func (c *connection) readNames(names []string) ([]causal.Value, error) {
	if len(names) == 1 {
		v, err := c.session.Session.Get(c.server.context, names[0])
		return []causal.Value{v}, err
	}
	return c.session.Session.MGet(c.server.context, names)
}
