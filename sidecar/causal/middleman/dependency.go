package middleman

import (
	"math"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// Dependencies on single writes (PROTOCOL MM-1): the shard that owns the write's slot is asked for
// that very write, and answers when it is processed and when it is clean.

// dependencies are the writes that puts of this shard wait for, and the writes of this shard that others wait for.
type dependencies struct {
	awaited    map[causal.Version]*dependency
	unresolved []*dependency // in the order in which the checks are repeated; clean ones are removed at the next tick
	watchers   map[causal.Version][]watcher
	watched    []causal.Version // the keys of watchers, in order of arrival; some may be gone
	// What sidecars watch, and what other parts do, has bounds of its own: restrictions of sessions leave room for
	// dependencies of puts.
	ofSidecars, ofParts causal.Quota
	expiredAt           int64
}

const (
	// maxWatches bounds what sidecars watch, to about 10 MiB, and maxWatchesOfOne what those of one identity do, which
	// is what four sessions may have read of in-flight versions.
	maxWatches, maxWatchesOfOne = 1 << 16, 1 << 14
	// maxWatchesOfPart bounds what another part watches. A shard asks for what its staged puts wait for, which are
	// those in flight from coordinators.
	maxWatchesOfPart = 1 << 16
	// maxDepChecks bounds the writes that are asked for again in one step: the others have their turn in the next
	// ticks.
	maxDepChecks = 1024
	// watchTTL is how long a watch lasts that is not renewed. Whoever still wants to know asks every 500 ms.
	watchTTL = 10 * time.Second
	// watchExpiryInterval is how often it is looked for those.
	watchExpiryInterval = time.Second
)

// dependency is a write that puts of this shard wait for.
type dependency struct {
	version   causal.Version
	slot      topology.Slot
	processed bool
	clean     bool
	checkedAt int64  // 0: never, or it is to be asked for again
	puts      []*put // that wait until it is clean; unless it is processed, they also wait for that

	first [1]*put // room for most lists: causal.MissingDepBytes is about what all of this takes
}

// watcher is a node that asked for a write of this shard.
type watcher struct {
	node          topology.Node
	toldProcessed bool
	askedAt       int64
	holder        causal.Holder
}

func newDependencies(ownerOf func(topology.Node) string) dependencies {
	return dependencies{awaited: map[causal.Version]*dependency{}, watchers: map[causal.Version][]watcher{},
		ofSidecars: causal.Quota{Total: maxWatches, Each: maxWatchesOfOne, OwnerOf: ownerOf},
		ofParts:    causal.Quota{Total: math.MaxInt, Each: maxWatchesOfPart}}
}

// awaitWrite makes p wait for a single write. What counts is that very write: that the key holds this version or a
// greater one says nothing about the dependencies of the smaller one (PROTOCOL MM-1).
func (m *Middleman) awaitWrite(now causal.Now, p *put, dep causal.Dep) {
	if m.isClean(dep.Version, dep.Slot) {
		return
	}
	d := m.deps.awaited[dep.Version]
	if d == nil {
		d = &dependency{version: dep.Version, slot: dep.Slot}
		m.deps.awaited[dep.Version] = d
		m.deps.unresolved = append(m.deps.unresolved, d)
		if m.owns(dep.Slot) {
			d.processed = m.writes.isProcessed(dep.Version)
		} else {
			m.sendDepCheck(now, d)
		}
	}
	if !d.processed {
		p.unprocessedDeps++
	}
	if d.puts == nil {
		d.puts = d.first[:0]
	}
	d.puts = append(d.puts, p)
	p.uncleanDeps++
}

func (m *Middleman) sendDepCheck(now causal.Now, d *dependency) {
	d.checkedAt = now.Mono
	m.Send(causal.DepCheck{Version: d.version, Slot: d.slot}.Message(m.cfg.Self, m.cfg.Topology.Owner(m.ring, d.slot)))
	m.exclusion.askOtherRings(d)
}

func (m *Middleman) retryDepChecks(now causal.Now) {
	m.deps.unresolved = slices.DeleteFunc(m.deps.unresolved, func(d *dependency) bool { return d.clean })
	sent := 0
	for _, d := range m.deps.unresolved {
		if !m.owns(d.slot) && (d.checkedAt == 0 || now.Mono-d.checkedAt >= int64(m.cfg.DepRetryInterval)) {
			if sent++; sent > maxDepChecks {
				return
			}
			m.sendDepCheck(now, d)
		}
	}
}

// repeatDepChecks makes what a shard was asked for be asked for again.
func (m *Middleman) repeatDepChecks(now causal.Now, shard topology.Node) {
	for _, d := range m.deps.unresolved {
		if !d.clean && shard == m.cfg.Topology.Owner(m.ring, d.slot) {
			d.checkedAt = 0
		}
	}
	m.retryDepChecks(now)
}

// resolveDep releases the puts that wait for v: it is processed in this ring and, if clean, also acknowledged.
func (m *Middleman) resolveDep(now causal.Now, v causal.Version, clean bool) {
	d := m.deps.awaited[v]
	if d == nil {
		return
	}
	if !d.processed {
		d.processed = true
		for _, p := range d.puts {
			m.depProcessed(now, p)
		}
	}
	if clean && !d.clean {
		d.clean = true
		delete(m.deps.awaited, v)
		for _, p := range d.puts {
			m.depClean(now, p)
		}
		d.puts = nil
	}
}

// resolveDeps resolves every dependency that RV now covers.
func (m *Middleman) resolveDeps(now causal.Now, isProcessed func(causal.Version) bool) {
	for _, d := range m.deps.unresolved {
		if !d.clean && isProcessed(d.version) {
			m.resolveDep(now, d.version, true)
		}
	}
}

// checkDep answers with what is known now; the rest follows when it happens.
func (m *Middleman) checkDep(now causal.Now, from topology.Node, c causal.DepCheck) {
	if !m.owns(c.Slot) {
		return // the sender will learn who owns it
	}
	if m.isClean(c.Version, c.Slot) || m.cfg.Broken.Has(causal.DepByGreater) &&
		m.faults.holdsGreater(c.Slot, c.Version) {
		m.sendDepStatus(from, c.Version, true)
		return
	}
	processed := m.writes.isProcessed(c.Version)
	if processed {
		m.sendDepStatus(from, c.Version, false)
	}
	m.deps.watch(c.Version, watcher{node: from, toldProcessed: processed, askedAt: now.Mono})
}

// watch adds a watcher of v, or replaces the one of the same node. Without room it does nothing: who asks again is told
// what is known then.
func (d *dependencies) watch(v causal.Version, w watcher) {
	ws := d.watchers[v]
	if i := slices.IndexFunc(ws, func(old watcher) bool { return old.node == w.node }); i >= 0 {
		w.holder = ws[i].holder
		ws[i] = w
		return
	}
	var ok bool
	if w.holder, ok = d.quotaOf(w.node).Take(w.node); !ok {
		return
	}
	if ws == nil {
		d.watched = append(d.watched, v)
	}
	d.watchers[v] = append(ws, w)
}

// notifyWatchers answers the nodes that asked for v.
func (m *Middleman) notifyWatchers(v causal.Version, clean bool) {
	ws := m.deps.watchers[v]
	for i := range ws {
		if clean || !ws[i].toldProcessed {
			ws[i].toldProcessed = true
			m.sendDepStatus(ws[i].node, v, clean)
		}
	}
	if clean {
		m.deps.unwatch(v)
	}
}

func (d *dependencies) quotaOf(n topology.Node) *causal.Quota {
	if n.Part == topology.Sidecar {
		return &d.ofSidecars
	}
	return &d.ofParts
}

// unwatch forgets the watchers of v.
func (d *dependencies) unwatch(v causal.Version) {
	for _, w := range d.watchers[v] {
		d.quotaOf(w.node).Release(w.holder, 1)
	}
	delete(d.watchers, v)
}

// expireWatches forgets who has not asked again: a sidecar that has stopped, or one that asks for writes that nobody
// will ever make.
func (d *dependencies) expireWatches(now causal.Now) {
	if now.Mono-d.expiredAt < int64(watchExpiryInterval) {
		return
	}
	d.expiredAt = now.Mono
	d.watched = slices.DeleteFunc(d.watched, func(v causal.Version) bool {
		ws := d.watchers[v]
		if ws == nil {
			return true
		}
		kept := slices.DeleteFunc(ws, func(w watcher) bool {
			late := now.Mono-w.askedAt > int64(watchTTL)
			if late {
				d.quotaOf(w.node).Release(w.holder, 1)
			}
			return late
		})
		if d.watchers[v] = kept; len(kept) == 0 {
			delete(d.watchers, v)
		}
		return len(kept) == 0
	})
}

// notifyWatchersOf answers the nodes that asked for writes that RV now covers.
func (m *Middleman) notifyWatchersOf(isProcessed func(causal.Version) bool) {
	for _, v := range m.deps.watched {
		if isProcessed(v) {
			m.notifyWatchers(v, true)
		}
	}
	m.deps.watched = slices.DeleteFunc(m.deps.watched, func(v causal.Version) bool { return m.deps.watchers[v] == nil })
}

func (m *Middleman) sendDepStatus(to topology.Node, v causal.Version, clean bool) {
	m.Send(causal.DepStatus{Version: v, Ring: m.ring, Clean: clean,
		Complete: m.known.Complete(v) || m.writes.find(v).isMarkedComplete()}.Message(m.cfg.Self, to))
}
