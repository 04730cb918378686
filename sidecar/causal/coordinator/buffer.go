package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// write is one accepted put until it is complete.
type write struct {
	rec  causal.Record
	key  string
	slot topology.Slot
	past causal.HLC // the greatest HLC in its past; 0: unknown, after a restart
	// deps are the writes in its past that are not known to be complete, each to be asked for by its id.
	deps []causal.Dep
	// laneDeps says, by lane index, up to which HLC the lane carries writes of this origin that are in its past; 0:
	// none.
	laneDeps  []causal.HLC
	session   uint64
	sidecar   topology.Node // whom to tell; the zero Node after a restart
	putID     uint64
	index     uint64           // in the log
	acked     topology.RingSet // rings that have acknowledged it
	durable   bool
	released  bool // handed to the lanes
	recovered bool // it was recovered from shards, see recoveredwrites.go
	// reads are the keys that the commit goes by of which it is the last put, see homereads.go
	reads []string
	// committedWith says that it is in one record with the write after it, see commit.go
	committedWith bool
	// lock is the one for the part of a commit of several homes of which it is the last put; nil: it is of none
	lock *homeLock
	// foreignPast is the greatest HLC of a write of another origin in its past, for its readers at the home.
	foreignPast causal.HLC
	isOutcome   bool // of an operation: whoever has asked for it is told the value
	// made is what an operation has made of a value that merges; nil: it is of another kind.
	made   *whole
	size   int // bytes that it counts for in the write buffer
	flying int // and while it is on its way to a shard, which keeps more of its dependencies

	// Most lists are short, and are kept here: deps, laneDeps, and the predecessors of this origin in the log record.
	fewDeps  [1]causal.Dep
	fewOwn   [2]causal.Dep
	fewLanes [4]causal.HLC
}

// buffer is the write buffer: every incomplete write of this origin, and what is known of each session's puts.
type buffer struct {
	*shared
	writes     []*write // in HLC order, from the oldest incomplete one on
	incomplete map[causal.HLC]*write
	bytes      int
	cursor     []int      // by ring: writes[:cursor] are acknowledged by it
	newest     causal.HLC // of all accepted writes
	sessions   map[sessionKey]*sessionTail
	quota      causal.Quota // of sessions
	undurable  undurablePuts
	forgotten  causal.HLC // the greatest timestamp of an accepted put that this leadership has forgotten
	expireAt   int64      // when idle sessions were last looked for, plus the interval
}

func newBuffer(s *shared) buffer {
	return buffer{shared: s, incomplete: map[causal.HLC]*write{}, cursor: make([]int, len(s.cfg.Topology.Rings)),
		sessions:  map[sessionKey]*sessionTail{},
		quota:     causal.Quota{Total: maxSessions, Each: maxSessionsOfOne, OwnerOf: s.cfg.OwnerOf},
		undurable: newUndurablePuts(&s.cfg)}
}

func (b *buffer) add(w *write) {
	b.writes = append(b.writes, w)
	b.incomplete[w.rec.Version.HLC] = w
	b.newest = max(b.newest, w.rec.Version.HLC)
	w.size = sizeOf(w.key, w.rec.Value, len(w.deps)) + 8*len(w.laneDeps)
	w.flying = w.size + (causal.MissingDepBytes-depBytes)*len(w.deps)
	b.bytes += w.size
}

// writeOverhead is about what a write takes beside key, value and dependencies, in bytes: here with its places in the
// lanes and in its session, and at a middleman. Of small writes it is most of the memory.
const writeOverhead = 512

// depBytes is what a dependency takes in the buffer, in bytes.
const depBytes = 24

// sizeOf is about what a write with a number of dependencies takes, in bytes.
func sizeOf(key string, v causal.Value, deps int) int {
	return writeOverhead + len(key) + v.Size() + depBytes*deps
}

// firstFrom returns the position in writes of the first one whose log index is at least index.
func (b *buffer) firstFrom(index uint64) int {
	i, _ := slices.BinarySearchFunc(b.writes, index, func(w *write, index uint64) int {
		if w.index < index {
			return -1
		}
		return 1
	})
	return i
}

// sessionKey names a session: each sidecar numbers its own.
type sessionKey struct {
	sidecar topology.Node
	session uint64
}

func (k sessionKey) compare(o sessionKey) int {
	return cmp.Or(cmp.Compare(k.sidecar.DC, o.sidecar.DC), cmp.Compare(k.sidecar.Index, o.sidecar.Index),
		cmp.Compare(k.session, o.session))
}

const (
	// maxSessions bounds the sessions that are remembered, to about 94 MB, and maxSessionsOfOne those of one identity.
	// An identity that opens a connection for every write may do so 4369 times a second with one coordinator.
	maxSessions      = 1 << 19
	maxSessionsOfOne = maxSessions / 2
	// sessionIdle is how long a session is silent before it may be forgotten for others. It is longer than a copy of a
	// put may be on its way: what comes later would be taken for a new put.
	sessionIdle     = time.Minute
	sessionScanWait = time.Second
)

// session returns what is known of a session, or nil if it is a new one and there is no room.
func (b *buffer) session(now causal.Now, key sessionKey) *sessionTail {
	t := b.sessions[key]
	if t == nil {
		holder, ok := b.quota.Take(key.sidecar)
		if !ok {
			b.forgetIdleSessions(now)
			if holder, ok = b.quota.Take(key.sidecar); !ok {
				return nil
			}
		}
		t = &sessionTail{holder: holder}
		b.sessions[key] = t
	}
	t.usedAt = now.Mono
	return t
}

// restoredSession is session for one that the log knows. There is always room: the log is bounded.
func (b *buffer) restoredSession(now causal.Now, key sessionKey) *sessionTail {
	t := b.sessions[key]
	if t == nil {
		t = &sessionTail{holder: b.quota.Must(key.sidecar)}
		b.sessions[key] = t
	}
	t.usedAt = now.Mono
	return t
}

// forgetIdleSessions drops sessions that have been silent for long and have no put whose answer could be asked for.
// None of their messages is still in flight, and a session names its newest put with the next one.
func (b *buffer) forgetIdleSessions(now causal.Now) {
	if now.Mono < b.expireAt {
		return
	}
	b.expireAt = now.Mono + int64(sessionScanWait)
	for key, t := range b.sessions {
		if now.Mono-t.usedAt > int64(sessionIdle) && len(t.accepted) == 0 {
			delete(b.sessions, key)
			b.quota.Release(t.holder, 1)
		}
	}
}

func (b *buffer) isComplete(v causal.Version) bool {
	if v.Origin == b.origin {
		_, pending := b.incomplete[v.HLC]
		return !pending
	}
	return b.known.Complete(v)
}

// isInRing reports whether ring r is known to have acknowledged v.
func (b *buffer) isInRing(r topology.RingID, v causal.Version) bool {
	if v.Origin == b.origin {
		w := b.incomplete[v.HLC]
		return w == nil || w.acked.Has(r)
	}
	return b.known.ProcessedIn(r, v)
}
