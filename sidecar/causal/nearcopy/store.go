// Package nearcopy is the state machine of a sidecar's near copies: those of hot, stable keys that it keeps so that
// reads need not leave the pod (PROTOCOL NEAR). Caches give and invalidate them. Failure model: see package
// causal.
package nearcopy

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
	"github.com/causalstore/causalstore/topology"
)

// Config configures a Store.
type Config struct {
	Self topology.Node
	// MaxBytes bounds the memory of the copies, in bytes, by an estimate; 0: there are none.
	MaxBytes int
	// HotReads is how many reads of a key make it hot: it is then copied. Reads of the HotWindow before count half as
	// much as those of this one, and so on, and those that a copy has answered count too: so a key that is read often
	// is copied again at the first read after a write.
	HotReads  uint8
	HotWindow time.Duration
	Broken    causal.Mutations
}

const (
	// entryOverhead is what a copy costs beside its key and value, in bytes.
	entryOverhead = 280
	// largestShare is the part of MaxBytes that a single copy may take.
	largestShare = 32
	// maxNearMax bounds a single copy, in bytes.
	maxNearMax = 64 << 10
	// hotCounters is the number of counters of reads; keys whose hashes share one count together.
	hotCounters = 4096
	// touchInterval is how often a hit moves its copy to the front of the LRU list.
	touchInterval = int64(time.Second)
)

// Store is the state machine.
//
// Invariant: a copy is served only while the near stream that brought it lives and its lease, counted from before the
// cache granted it, has not expired.
type Store struct {
	cfg     Config
	out     *causal.Outbox
	entries *simplelru.LRU[uint64, *entry] // by key hash
	bytes   int
	nodes   map[topology.Node]*node
	order   []*stream // those that are open
	lastID  uint64    // of a lease renewal
	stats   Stats

	reads       [hotCounters]uint8
	windowFrom  int64
	endedAt     [endedBuckets]int64 // monotonic: when leases of homes were last withdrawn, by hash of their key
	faultCopies []lateDrop
}

// Stats counts since the start.
type Stats struct {
	// Hits counts reads that a copy has answered, Misses those that went to a cache; Inserted and Invalidated count
	// copies.
	Hits, Misses, Inserted, Invalidated, Evicted uint64
	// StreamsEnded counts near streams that have ended.
	StreamsEnded uint64
}

// node is what is known of a cache.
type node struct {
	streams map[uint64]*stream
	// refusedUpTo is the greatest id of a stream that was opened or refused: others up to there are not opened any
	// more.
	refusedUpTo uint64
}

// entry is a copy of one version of a key.
type entry struct {
	keystate.Copy
	key       string
	from      *stream
	touchedAt int64
	lease     homeLease
}

func (e *entry) size() int { return len(e.key) + e.Record.Value.Size() + entryOverhead }

// lateDrop is an invalidation that is carried out late, for the mutation NearDropLate.
type lateDrop struct {
	invalidate causal.Invalidate
	at         int64
}

// New returns an empty store, which leaves its messages in out.
func New(cfg Config, out *causal.Outbox) *Store {
	s := &Store{cfg: cfg, out: out, nodes: map[topology.Node]*node{}}
	lru, err := simplelru.NewLRU(1<<40, func(_ uint64, e *entry) { s.bytes -= e.size() })
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	s.entries = lru
	return s
}

// isOn reports whether copies are kept.
func (s *Store) isOn() bool { return s.cfg.MaxBytes > 0 }

// Find returns the copy of a key that an unbound session may read at a cut, or with a cut of 0, among the newest
// versions. hash is topology.Hash of the key. The record is valid until the next call of a method, and its value for
// ever; neither may be changed.
func (s *Store) Find(now causal.Now, key []byte, hash uint64, cut causal.HLC) (*causal.Record, bool) {
	if !s.isOn() {
		return nil, false
	}
	e, _ := s.entries.Peek(hash)
	if e == nil || e.key != string(key) {
		return nil, false
	}
	return s.find(now, e, hash, cut)
}

// find returns a copy if it may be read at a cut.
func (s *Store) find(now causal.Now, e *entry, hash uint64, cut causal.HLC) (*causal.Record, bool) {
	if !e.from.isLeased(now) || !s.isCurrent(e, cut) {
		return nil, false
	}
	s.stats.Hits++
	s.count(now, hash)
	e.from.usedAt = now.Mono
	if now.Mono-e.touchedAt >= touchInterval {
		e.touchedAt = now.Mono
		s.entries.Get(hash)
	}
	return &e.Record, true
}

// AnswersWithout is that of a cache, for near copies.
func (s *Store) AnswersWithout(now causal.Now, key string, v causal.Version) (causal.Version, bool) {
	e, _ := s.entries.Peek(topology.Hash(key))
	if e == nil || e.key != key || !e.from.isLeased(now) || !e.Lacks(v) {
		return causal.Version{}, false
	}
	return e.Record.Version, true
}

// isCurrent reports whether a copy is the newest version at or below a cut; with a cut of 0, the newest of all.
func (s *Store) isCurrent(e *entry, cut causal.HLC) bool {
	switch {
	case s.cfg.Broken.Has(causal.NearNextUnchecked):
		return true
	case cut == 0:
		return e.IsNewest()
	}
	return e.IsAt(cut)
}

// Wanted counts a read of a key that goes to a cache, since no copy answers it. It returns how large a copy may be, in
// bytes, if the key is hot, and else 0.
func (s *Store) Wanted(now causal.Now, key string) uint64 {
	if !s.isOn() {
		return 0
	}
	s.stats.Misses++
	if s.count(now, topology.Hash(key)) < s.cfg.HotReads {
		return 0
	}
	return uint64(min(s.cfg.MaxBytes/largestShare, maxNearMax))
}

// count counts a read of a key, and returns how many there were of late.
func (s *Store) count(now causal.Now, hash uint64) uint8 {
	s.decay(now)
	n := &s.reads[hash%hotCounters]
	if *n < 255 {
		*n++
	}
	return *n
}

// decay makes reads of earlier windows count less.
func (s *Store) decay(now causal.Now) {
	if windows := (now.Mono - s.windowFrom) / int64(s.cfg.HotWindow); windows > 0 {
		s.windowFrom += windows * int64(s.cfg.HotWindow)
		for i := range s.reads {
			s.reads[i] >>= min(windows, 8)
		}
	}
}

// Step takes a message of a cache, and reports whether it was for the store only. A GetReply is, beside, the answer to
// a get.
func (s *Store) Step(now causal.Now, m *causal.Message, limit causal.HLC) bool {
	if m.From.Part != topology.Cache {
		return false
	}
	switch m.Kind {
	case causal.KindGetReply:
		if m.StreamPosition().Epoch != 0 {
			s.handleStreamMessage(now, m, limit)
		}
		return false
	case causal.KindInvalidate, causal.KindLeaseGrant:
		s.handleStreamMessage(now, m, limit)
	case causal.KindStreamReset:
		s.handleReset(m.From, m.StreamReset().MaxEpoch)
	default:
		return false
	}
	return true
}

// keep keeps the value of a reply.
func (s *Store) keep(now causal.Now, st *stream, r causal.GetReply, limit causal.HLC) {
	if r.Err != causal.OK || !s.isOn() || r.Record.Version.HLC > limit {
		return
	}
	e := &entry{Copy: keystate.Copy{Record: r.Record, Next: r.Next}, key: r.Key, from: st, touchedAt: now.Mono}
	if e.size() > s.cfg.MaxBytes {
		return
	}
	hash := topology.Hash(r.Key)
	if old, _ := s.entries.Peek(hash); old != nil {
		if old.key == r.Key && old.from.isLeased(now) && !e.Follow(&old.Copy) {
			return // from another stream, or for a reader at an older cut
		}
		if old.key == r.Key {
			e.lease = old.lease
		}
		s.bytes -= old.size()
	}
	s.entries.Add(hash, e)
	s.bytes += e.size()
	s.stats.Inserted++
	for s.bytes > s.cfg.MaxBytes {
		s.entries.RemoveOldest()
		s.stats.Evicted++
	}
}

// invalidate withdraws a copy from everyone who may have seen the new version.
func (s *Store) invalidate(i causal.Invalidate) {
	e, ok := s.entries.Peek(i.KeyHash)
	switch {
	case !ok:
	case i.Next == 0 || !e.Withdraw(i.Next):
		s.entries.Remove(i.KeyHash)
	}
	s.stats.Invalidated++
}

// Stats returns the counters.
func (s *Store) Stats() Stats { return s.stats }

// Size returns the number of copies and their estimated memory, in bytes.
func (s *Store) Size() (entries, bytes int) { return s.entries.Len(), s.bytes }
