package local

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// maxTraces bounds the writes whose way is known; the oldest are forgotten.
const maxTraces = 16

// tracer follows single writes through the deployment. While none is on its way, it costs a load of a variable for each
// batch of messages.
type tracer struct {
	topo   *topology.Topology
	active atomic.Int32 // traces that are not complete

	mu     sync.Mutex
	last   uint64
	traces []*trace // the oldest first
}

// trace is one write. Its version is known only once it is accepted; until then whatever happens to its key is kept by
// version.
type trace struct {
	console.WriteTrace
	hash    uint64
	began   time.Time
	version causal.Version
	seen    map[causal.Version]*progress
	ended   bool
}

// progress is what has happened to one version of the key.
type progress struct {
	received, visible, acknowledged []*float64 // by ring
	complete                        *float64
	caches                          []console.TraceCache
}

// maxSeen bounds the versions of a key that are kept while it is not known which of them is the write.
const maxSeen = 256

func newTracer(t *topology.Topology) *tracer { return &tracer{topo: t} }

// begin starts to follow the next write of a key. The caller makes it at once, and then calls accepted or failed.
func (t *tracer) begin(dc topology.DC, key string) (id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.traces) == maxTraces {
		t.end(t.traces[0])
		t.traces = slices.Delete(t.traces, 0, 1)
	}
	t.last++
	slot := topology.SlotOf(key)
	tr := &trace{hash: topology.Hash(key), began: time.Now(), seen: map[causal.Version]*progress{},
		WriteTrace: console.WriteTrace{ID: t.last, Key: key, Slot: uint16(slot), DataCenter: t.topo.DCs[dc].Name,
			StartedMs: time.Now().UnixMilli(), Caches: []console.TraceCache{}}}
	for r, ring := range t.topo.Rings {
		owner := t.topo.Owner(topology.RingID(r), slot)
		tr.Rings = append(tr.Rings, console.TraceRing{Ring: ring.Name, DataCenter: t.topo.DCs[owner.DC].Name,
			Shard: owner.Index})
	}
	t.traces = append(t.traces, tr)
	t.active.Add(1)
	return tr.ID
}

func (t *tracer) end(tr *trace) {
	if !tr.ended {
		tr.ended = true
		t.active.Add(-1)
	}
}

func (t *tracer) find(id uint64) *trace {
	for _, tr := range t.traces {
		if tr.ID == id {
			return tr
		}
	}
	return nil
}

// accepted says which version the write of a trace has got.
func (t *tracer) accepted(id uint64, v causal.Version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr := t.find(id); tr != nil {
		tr.AcceptedMs, tr.version, tr.Version = tr.sinceStart(), v, versionText(v)
		tr.AcceptedIn = t.topo.DCs[t.topo.CoordinatorOf(v.Origin).DC].Name
		tr.progress(t.topo, v) // so that acknowledgements are kept
		t.endIfComplete(tr)
	}
}

// failed says that the write was not accepted, or that nobody knows.
func (t *tracer) failed(id uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr := t.find(id); tr != nil {
		tr.Error = err.Error()
		t.end(tr)
	}
}

// get returns a trace as it is now.
func (t *tracer) get(id uint64) (w console.WriteTrace, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tr := t.find(id)
	if tr == nil {
		return w, false
	}
	w = tr.WriteTrace
	w.Rings = slices.Clone(w.Rings)
	if p := tr.seen[tr.version]; p != nil && !tr.version.IsZero() {
		for r := range w.Rings {
			w.Rings[r].ReceivedMs, w.Rings[r].VisibleMs, w.Rings[r].AcknowledgedMs = p.received[r], p.visible[r],
				p.acknowledged[r]
		}
		w.Caches, w.CompleteMs = append([]console.TraceCache{}, p.caches...), p.complete
	}
	return w, true
}

// keyOf returns the key of a version that was traced; empty if it was not, or is forgotten.
func (t *tracer) keyOf(v causal.Version) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.traces {
		if tr.version == v {
			return tr.Key
		}
	}
	return ""
}

func (t *tracer) endIfComplete(tr *trace) {
	if p := tr.seen[tr.version]; p != nil && p.complete != nil {
		t.end(tr)
	}
}

func (tr *trace) sinceStart() *float64 {
	return ptr(float64(time.Since(tr.began).Microseconds()) / 1e3)
}

// progress returns what is known of a version of the key; nil if too many versions are.
func (tr *trace) progress(t *topology.Topology, v causal.Version) *progress {
	p := tr.seen[v]
	if p == nil && len(tr.seen) < maxSeen || v == tr.version && p == nil {
		n := len(t.Rings)
		p = &progress{received: make([]*float64, n), visible: make([]*float64, n), acknowledged: make([]*float64, n)}
		tr.seen[v] = p
	}
	return p
}

// note sets a time unless it is set already: messages are repeated.
func (tr *trace) note(at **float64) {
	if *at == nil {
		*at = tr.sinceStart()
	}
}

// forEach calls f for the traces on their way.
func (t *tracer) forEach(f func(tr *trace)) {
	if t.active.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.traces {
		if !tr.ended {
			f(tr)
			t.endIfComplete(tr)
		}
	}
}

func (t *tracer) received(ring topology.RingID, key string, v causal.Version) {
	t.forEach(func(tr *trace) {
		if p := tr.ofKey(t.topo, key, v); p != nil {
			tr.note(&p.received[ring])
		}
	})
}

func (t *tracer) visible(ring topology.RingID, key string, v causal.Version) {
	t.forEach(func(tr *trace) {
		if p := tr.ofKey(t.topo, key, v); p != nil {
			tr.note(&p.visible[ring])
		}
	})
}

func (tr *trace) ofKey(t *topology.Topology, key string, v causal.Version) *progress {
	if tr.Key != key {
		return nil
	}
	return tr.progress(t, v)
}

func (t *tracer) acknowledged(ring topology.RingID, versions []causal.Version) {
	t.forEach(func(tr *trace) {
		for _, v := range versions {
			if p := tr.seen[v]; p != nil { // a ring has received a write before it acknowledges it
				tr.note(&p.acknowledged[ring])
			}
		}
	})
}

func (t *tracer) completed(versions []causal.Version) {
	t.forEach(func(tr *trace) {
		for _, v := range versions {
			if p := tr.seen[v]; p != nil {
				tr.note(&p.complete)
			}
		}
	})
}

// invalidated notes that a cache was told that the keys of a hash have a version with this HLC.
func (t *tracer) invalidated(cache topology.Node, hash uint64, next causal.HLC) {
	t.forEach(func(tr *trace) {
		if tr.hash != hash {
			return
		}
		for v, p := range tr.seen {
			told := slices.ContainsFunc(p.caches, func(c console.TraceCache) bool {
				return c.DataCenter == t.topo.DCs[cache.DC].Name && c.Index == cache.Index
			})
			if !told && (next == 0 || next == v.HLC) {
				p.caches = append(p.caches, console.TraceCache{DataCenter: t.topo.DCs[cache.DC].Name,
					Index: cache.Index, Ms: *tr.sinceStart()})
			}
		}
	})
}

// versionText is a version as CAUSAL LAST shows it.
func versionText(v causal.Version) string { return fmt.Sprintf("%d@%d", uint64(v.HLC), v.Origin) }
