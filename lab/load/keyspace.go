package load

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// keyspace numbers the keys: the shared ones first, then those of each connection. Inserts add shared keys up to a
// limit; past it, the newest key replaces the oldest.
type keyspace struct {
	prefix  string
	bytes   int // names are padded with zeros to this length
	shared  int // existing from the start
	limit   int
	private int // per connection
	zipf    *Zipf
	hot     hotSet
	inserts *insertions // nil: no inserts
}

func newKeyspace(c *Config, connections int, clock clock) *keyspace {
	k := &keyspace{prefix: c.KeyPrefix, shared: c.Keys, limit: c.Keys, zipf: NewZipf(c.Keys, c.Theta)}
	k.hot = hotSet{Hot: c.Hot, keys: c.Keys, clock: clock}
	if c.PrivateKeyShare > 0 {
		k.private = max(1, c.Keys/connections)
	}
	if w := c.Workload; w != nil {
		k.bytes = w.Keys.Bytes
		k.zipf = NewZipf(k.shared, w.Keys.Exponent)
		if w.share(Insert) > 0 {
			k.limit = c.MaxKeys
			k.inserts = newInsertions(k.shared)
		}
		if w.Keys.Distribution == Scrambled {
			k.zipf = NewZipf(scrambledItems, w.Keys.Exponent)
		}
	}
	return k
}

func (k *keyspace) name(key int) string { return k.numbered("", key) }

// counter names a companion of a key for INCR, which needs an integer.
func (k *keyspace) counter(key int) string { return k.numbered("c", key) }

func (k *keyspace) numbered(kind string, key int) string {
	digits := strconv.Itoa(key)
	zeros := max(0, k.bytes-len(k.prefix)-len(kind)-len(digits))
	return k.prefix + kind + strings.Repeat("0", zeros) + digits
}

// there is how many keys have been written: the initial ones and those inserted since.
func (k *keyspace) there() int {
	if k.inserts == nil {
		return k.shared
	}
	return k.inserts.finished()
}

// Hot is a set of keys that receives a share of all operations, in addition to what its keys receive anyway.
type Hot struct {
	Keys  int     `json:"keys"`
	Share float64 `json:"share"`
	// Move is how long a set stays hot before the next one replaces it; 0 means forever.
	Move Duration `json:"move"`
}

type hotSet struct {
	Hot
	keys  int
	clock clock
}

// draw returns a hot key, or false if this operation is not for the hot set.
func (h *hotSet) draw(r *rand.Rand) (int, bool) {
	if h.Share == 0 || r.Float64() >= h.Share {
		return 0, false
	}
	moved := 0
	if h.Move > 0 {
		moved = int(h.clock.since() / time.Duration(h.Move))
	}
	return scatter((moved%h.keys*h.Keys+r.IntN(h.Keys))%h.keys, h.keys), true
}

// scatter is a permutation of the numbers below n that separates neighbors.
func scatter(i, n int) int {
	const prime = 2654435761 // above every n, so coprime to it
	return int(uint64(i) * prime % uint64(n))
}

// insertions numbers new keys and tracks up to which number all inserts have finished: only those keys are read. As in
// YCSB, an insert has finished when it was answered. A failed insert counts too, or later keys would never be read.
type insertions struct {
	mu    sync.Mutex
	next  int
	done  int          // all keys below it are finished
	early map[int]bool // finished keys above done; at most as many as operations in flight
}

func newInsertions(from int) *insertions {
	return &insertions{next: from, done: from, early: make(map[int]bool)}
}

func (i *insertions) start() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.next++
	return i.next - 1
}

func (i *insertions) finish(key int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.early[key] = true
	for i.early[i.done] {
		delete(i.early, i.done)
		i.done++
	}
}

func (i *insertions) finished() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.done
}
