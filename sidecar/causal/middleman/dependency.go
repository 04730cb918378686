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

// dependents is told when what a put waits for is there.
type dependents interface {
	// isClean reports whether a write is clean in this ring, or does not matter.
	isClean(v causal.Version, slot topology.Slot) bool
	// depProcessed says that one of the dependencies of p is processed, or received; depClean that one is clean.
	depProcessed(now causal.Now, p *put)
	depClean(now causal.Now, p *put)
}

// dependencies are the writes that puts of this shard wait for, and the writes of this shard that others wait for.
type dependencies struct {
	*shared
	host      dependents
	writes    *writes
	exclusion *exclusion
	mutations *mutationState

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

func newDependencies(s *shared, host dependents, ws *writes, x *exclusion, mutations *mutationState) dependencies {
	ownerOf := s.cfg.OwnerOf
	return dependencies{shared: s, host: host, writes: ws, exclusion: x, mutations: mutations,
		awaited: map[causal.Version]*dependency{}, watchers: map[causal.Version][]watcher{},
		ofSidecars: causal.Quota{Total: maxWatches, Each: maxWatchesOfOne, OwnerOf: ownerOf},
		ofParts:    causal.Quota{Total: math.MaxInt, Each: maxWatchesOfPart}}
}

// await makes p wait for a single write. What counts is that very write: that the key holds this version or a
// greater one says nothing about the dependencies of the smaller one (PROTOCOL MM-1).
func (ds *dependencies) await(now causal.Now, p *put, dep causal.Dep) {
	if ds.host.isClean(dep.Version, dep.Slot) {
		return
	}
	d := ds.awaited[dep.Version]
	if d == nil {
		d = &dependency{version: dep.Version, slot: dep.Slot}
		ds.awaited[dep.Version] = d
		ds.unresolved = append(ds.unresolved, d)
		if ds.owns(dep.Slot) {
			d.processed = ds.writes.isProcessed(dep.Version)
		} else {
			ds.ask(now, d)
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

func (ds *dependencies) ask(now causal.Now, d *dependency) {
	d.checkedAt = now.Mono
	to := ds.cfg.Topology.Owner(ds.ring, d.slot)
	ds.Send(causal.DepCheck{Version: d.version, Slot: d.slot}.Message(ds.cfg.Self, to))
	ds.exclusion.askOtherRings(d)
}

func (ds *dependencies) tick(now causal.Now) {
	ds.unresolved = slices.DeleteFunc(ds.unresolved, func(d *dependency) bool { return d.clean })
	sent := 0
	for _, d := range ds.unresolved {
		if !ds.owns(d.slot) && (d.checkedAt == 0 || now.Mono-d.checkedAt >= int64(ds.cfg.DepRetryInterval)) {
			if sent++; sent > maxDepChecks {
				return
			}
			ds.ask(now, d)
		}
	}
}

// askAgain makes what a shard was asked for be asked for again.
func (ds *dependencies) askAgain(now causal.Now, shard topology.Node) {
	for _, d := range ds.unresolved {
		if !d.clean && shard == ds.cfg.Topology.Owner(ds.ring, d.slot) {
			d.checkedAt = 0
		}
	}
	ds.tick(now)
}

// resolve releases the puts that wait for v: it is processed in this ring and, if clean, also acknowledged.
func (ds *dependencies) resolve(now causal.Now, v causal.Version, clean bool) {
	d := ds.awaited[v]
	if d == nil {
		return
	}
	if !d.processed {
		d.processed = true
		for _, p := range d.puts {
			ds.host.depProcessed(now, p)
		}
	}
	if clean && !d.clean {
		d.clean = true
		delete(ds.awaited, v)
		for _, p := range d.puts {
			ds.host.depClean(now, p)
		}
		d.puts = nil
	}
}

// resolveProcessed resolves every dependency that RV now covers.
func (ds *dependencies) resolveProcessed(now causal.Now, isProcessed func(causal.Version) bool) {
	for _, d := range ds.unresolved {
		if !d.clean && isProcessed(d.version) {
			ds.resolve(now, d.version, true)
		}
	}
}

// answer answers with what is known now; the rest follows when it happens.
func (ds *dependencies) answer(now causal.Now, from topology.Node, c causal.DepCheck) {
	if !ds.owns(c.Slot) {
		return // the sender will learn who owns it
	}
	if ds.host.isClean(c.Version, c.Slot) || ds.cfg.Broken.Has(causal.DepByGreater) &&
		ds.mutations.holdsGreater(c.Slot, c.Version) {
		ds.sendStatus(from, c.Version, true)
		return
	}
	processed := ds.writes.isProcessed(c.Version)
	if processed {
		ds.sendStatus(from, c.Version, false)
	}
	ds.watch(c.Version, watcher{node: from, toldProcessed: processed, askedAt: now.Mono})
}

// watch adds a watcher of v, or replaces the one of the same node. Without room it does nothing: who asks again is told
// what is known then.
func (ds *dependencies) watch(v causal.Version, w watcher) {
	ws := ds.watchers[v]
	if i := slices.IndexFunc(ws, func(old watcher) bool { return old.node == w.node }); i >= 0 {
		w.holder = ws[i].holder
		ws[i] = w
		return
	}
	var ok bool
	if w.holder, ok = ds.quotaOf(w.node).Take(w.node); !ok {
		return
	}
	if ws == nil {
		ds.watched = append(ds.watched, v)
	}
	ds.watchers[v] = append(ws, w)
}

// notifyWatchers answers the nodes that asked for v.
func (ds *dependencies) notifyWatchers(v causal.Version, clean bool) {
	ws := ds.watchers[v]
	for i := range ws {
		if clean || !ws[i].toldProcessed {
			ws[i].toldProcessed = true
			ds.sendStatus(ws[i].node, v, clean)
		}
	}
	if clean {
		ds.unwatch(v)
	}
}

func (ds *dependencies) quotaOf(n topology.Node) *causal.Quota {
	if n.Part == topology.Sidecar {
		return &ds.ofSidecars
	}
	return &ds.ofParts
}

// unwatch forgets the watchers of v.
func (ds *dependencies) unwatch(v causal.Version) {
	for _, w := range ds.watchers[v] {
		ds.quotaOf(w.node).Release(w.holder, 1)
	}
	delete(ds.watchers, v)
}

// expireWatches forgets who has not asked again: a sidecar that has stopped, or one that asks for writes that nobody
// will ever make.
func (ds *dependencies) expireWatches(now causal.Now) {
	if now.Mono-ds.expiredAt < int64(watchExpiryInterval) {
		return
	}
	ds.expiredAt = now.Mono
	ds.watched = slices.DeleteFunc(ds.watched, func(v causal.Version) bool {
		ws := ds.watchers[v]
		if ws == nil {
			return true
		}
		kept := slices.DeleteFunc(ws, func(w watcher) bool {
			late := now.Mono-w.askedAt > int64(watchTTL)
			if late {
				ds.quotaOf(w.node).Release(w.holder, 1)
			}
			return late
		})
		if ds.watchers[v] = kept; len(kept) == 0 {
			delete(ds.watchers, v)
		}
		return len(kept) == 0
	})
}

// notifyWatchersOf answers the nodes that asked for writes that RV now covers.
func (ds *dependencies) notifyWatchersOf(isProcessed func(causal.Version) bool) {
	for _, v := range ds.watched {
		if isProcessed(v) {
			ds.notifyWatchers(v, true)
		}
	}
	ds.watched = slices.DeleteFunc(ds.watched, func(v causal.Version) bool { return ds.watchers[v] == nil })
}

func (ds *dependencies) sendStatus(to topology.Node, v causal.Version, clean bool) {
	ds.Send(causal.DepStatus{Version: v, Ring: ds.ring, Clean: clean,
		Complete: ds.known.Complete(v) || ds.writes.find(v).isMarkedComplete()}.Message(ds.cfg.Self, to))
}

// takeStatus takes a shard's answer to a DepCheck. It counts only from the shard that owns the slot; that of another
// ring only if it was asked for and the write is complete.
func (ds *dependencies) takeStatus(now causal.Now, from topology.Node, s causal.DepStatus) {
	d := ds.awaited[s.Version]
	switch {
	case d == nil, int(s.Ring) >= len(ds.cfg.Topology.Rings), from != ds.cfg.Topology.Owner(s.Ring, d.slot):
	case s.Ring == ds.ring:
		ds.resolve(now, s.Version, s.Clean)
	case s.Complete && ds.exclusion.isExcluded(d.slot):
		ds.resolve(now, s.Version, true)
	}
}
