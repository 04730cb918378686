package middleman

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Values that have expired are dropped once nobody takes them for alive any more (PROTOCOL VAL-16).

// expiring are the values in storage that have a deadline.
type expiring struct {
	// atMs is when a key may be dropped: it was written, and its value has expired, in milliseconds since the epoch.
	atMs map[string]int64
	// order has the keys by that, also those for which an earlier time was noted since.
	order expiringKeys
	// leftOutMs: later keys are not noted, since there are too many. They are found by another scan of the storage.
	leftOutMs int64
	max       int
	past      []pastCut
	settled   causal.HLC // the newest of those that count
	dropping  int        // tasks that are under way
}

// pastCut says that what is at or below a cut was complete in all rings before an HLC.
type pastCut struct{ at, before causal.HLC }

type expiringKey struct {
	atMs int64
	key  string
}

const (
	// maxExpiring bounds the keys with deadlines that are noted: about 100 bytes and the name for each.
	maxExpiring = 1 << 18
	// pastCutMs is how far the past cuts that are kept are apart, and maxPastCuts how many are.
	pastCutMs, maxPastCuts = 1000, 256
)

func newExpiring() expiring {
	return expiring{atMs: map[string]int64{}, leftOutMs: math.MaxInt64, max: maxExpiring}
}

// droppedFromMs returns the time that a cut has to be above for a value to be dropped: it is above the write, and above
// the deadline. ok is false if it has no deadline.
func droppedFromMs(rec *causal.Record) (atMs int64, ok bool) {
	if rec.Value.ExpireAtMs == 0 || rec.Value.Tombstone {
		return 0, false
	}
	return max(rec.Value.ExpireAtMs, rec.Version.HLC.WallMs()), true
}

// note notes a key that may be dropped from a time on. A later time than the one that is noted is found then.
func (e *expiring) note(key string, atMs int64) {
	if noted, is := e.atMs[key]; is && noted <= atMs || atMs >= e.leftOutMs {
		return
	}
	if len(e.order) >= e.max {
		e.leaveOut()
		e.note(key, atMs)
		return
	}
	e.atMs[key] = atMs
	heap.Push(&e.order, expiringKey{atMs, key})
}

// leaveOut forgets the later half.
func (e *expiring) leaveOut() {
	slices.SortFunc(e.order, func(a, b expiringKey) int { return cmp.Compare(a.atMs, b.atMs) }) // which is a heap
	half := len(e.order) / 2
	e.leftOutMs = e.order[half].atMs
	for _, k := range e.order[half:] {
		if e.atMs[k.key] == k.atMs {
			delete(e.atMs, k.key)
		}
	}
	e.order = slices.Clone(e.order[:half])
}

// first returns the earliest time that is noted, or from which keys are left out.
func (e *expiring) first() int64 {
	if len(e.order) > 0 {
		return e.order[0].atMs
	}
	return e.leftOutMs
}

// take returns the next key that may be dropped at a cut.
func (e *expiring) take(cut causal.HLC) (key string, ok bool) {
	for len(e.order) > 0 && e.order[0].atMs < cut.WallMs() {
		next := heap.Pop(&e.order).(expiringKey)
		if e.atMs[next.key] == next.atMs {
			delete(e.atMs, next.key)
			return next.key, true
		}
	}
	return "", false
}

// notePast notes what is complete in all rings now.
func (e *expiring) notePast(cut causal.HLC, now causal.Now) {
	p := pastCut{at: cut, before: max(cut, causal.HLCAt(now.WallMs))}
	if last := len(e.past) - 1; last >= 0 {
		if len(e.past) >= maxPastCuts || p.at <= e.past[last].at || p.before < e.past[last].before+
			causal.HLCAt(pastCutMs) {
			return
		}
	}
	e.past = append(e.past, p)
}

// settledBelow returns the newest past cut that was complete some time before a horizon.
func (e *expiring) settledBelow(horizon causal.HLC, waitMs int64) (settled causal.HLC, n int) {
	settled = e.settled
	for n < len(e.past) && e.past[n].before+causal.HLCAt(waitMs) <= horizon {
		settled = e.past[n].at
		n++
	}
	return settled, n
}

// noteExpiring notes what is in storage if it has a deadline.
func (m *Middleman) noteExpiring(key string, rec *causal.Record) {
	if atMs, ok := droppedFromMs(rec); ok {
		m.expiring.note(key, atMs)
	}
}

// dropExpired drops values that have expired. Everything at or below keepFrom is complete in all rings; it is made
// durable as the horizon before.
func (m *Middleman) dropExpired(now causal.Now, keepFrom causal.HLC) {
	e := &m.expiring
	if m.dropsByClock(now) || e.first() >= keepFrom.WallMs() {
		return
	}
	e.notePast(keepFrom, now)
	if settled, n := e.settledBelow(keepFrom, m.cfg.ExpiredMs); n > 0 && e.first() < settled.WallMs() {
		m.raiseHorizon(keepFrom)
	}
	settled, n := e.settledBelow(min(keepFrom, m.tombstones.horizon), m.cfg.ExpiredMs)
	e.settled, e.past = settled, slices.Delete(e.past, 0, n)
	m.startDrops(settled)
}

// startDrops starts to drop what has expired at a settled cut, some keys at a time.
func (m *Middleman) startDrops(settled causal.HLC) {
	for e := &m.expiring; e.dropping < maxCollected; e.dropping++ {
		key, ok := e.take(settled)
		if !ok {
			return
		}
		m.tasks.submit(&task{kind: taskDropExpired, key: key, horizon: settled})
	}
}

// continueExpired takes the result of the task's last storage request.
func (m *Middleman) continueExpired(t *task, r *StorageResult) {
	atMs, expires := droppedFromMs(&r.Record)
	switch {
	case r.Failed:
		m.expiring.note(t.key, t.horizon.WallMs()-1)
	case t.stored:
		m.stats.Expired++
	case r.Found && !r.Foreign && expires && atMs < t.horizon.WallMs():
		m.drop(t, true)
		return
	case r.Found && !r.Foreign:
		m.noteExpiring(t.key, &r.Record)
	}
	m.expiring.dropping--
	m.tasks.release(t)
}

// WantsScan reports whether the storage is to be scanned again for what NoteTombstone takes, since there was more than
// is noted.
func (m *Middleman) WantsScan() bool {
	e := &m.expiring
	if e.leftOutMs >= e.settled.WallMs() || len(e.order) > e.max/4 {
		return false
	}
	e.leftOutMs = math.MaxInt64
	return true
}

// Expiring returns how many keys with deadlines are noted.
func (m *Middleman) Expiring() int { return len(m.expiring.atMs) }

// expiringKeys is a heap of the keys by their times.
type expiringKeys []expiringKey

func (ks expiringKeys) Len() int           { return len(ks) }
func (ks expiringKeys) Less(i, j int) bool { return ks[i].atMs < ks[j].atMs }
func (ks expiringKeys) Swap(i, j int)      { ks[i], ks[j] = ks[j], ks[i] }

// Push and Pop are for package heap.
func (ks *expiringKeys) Push(k any) { *ks = append(*ks, k.(expiringKey)) }

func (ks *expiringKeys) Pop() any {
	last := len(*ks) - 1
	k := (*ks)[last]
	(*ks)[last] = expiringKey{}
	*ks = (*ks)[:last]
	return k
}
