package coordinator

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/topology"
)

// home is what makes a data center look like one server to its clients (PROTOCOL HOM): it knows the newest write of
// each key that the coordinator has accepted, until every read of the data center finds it elsewhere. Every read of the
// data center at level Local asks it, and every write that follows from what was read is accepted only while that is
// the newest.
//
// Invariants: a write that was acknowledged is in keys, or at or below from. So is every complete write of another
// origin that was shown to a client of the data center. What is accepted of a key has a greater version than both.
type home struct {
	*shared
	formats *formats
	enabled bool
	keys    map[string]*homeKey
	// from is what reads elsewhere must include: of everything at or below it nothing is kept here.
	from causal.HLC
	// settled is what is complete, and included in all that is accepted with a condition. It is from, unless that is
	// ahead of what is complete.
	settled causal.HLC
	bytes   int // of keys and complete
	// complete are those that may be forgotten when from has passed them, in the order in which they became so.
	complete []homeEntry
	// newest is the greatest HLC of a write that was accepted, published of one that was published.
	newest, published causal.HLC
	// past is the greatest HLC of a write of another origin in the past of any accepted write.
	past causal.HLC
	// carriers are incomplete writes that depend on writes of other origins.
	carriers []*write
	waits    causal.Quota // of reads that wait
	// scanPlaces are where scans continue here.
	scanPlaces causal.ScanPlaces
	change     *homeChange
	leases     homeLeases
	waiters    homeWaits
	stats      HomeStats
	// unpublished are parts of commits that are published a tick later, for the mutation CommitPublishedApart.
	unpublished []*write
}

// homeKey is what the home knows of one key.
type homeKey struct {
	key      string
	accepted causal.Version // of the newest write that was accepted
	// before is what reads elsewhere had to include when the oldest write was accepted that is not published and is of
	// the key, or of a commit that has read it; readers are these commits.
	before  shownBefore
	readers int
	kept    keptBy
	// top is the newest write that was published; its version is zero if none was.
	top  causal.Record
	past causal.HLC // the greatest HLC of a write of another origin in the past of top
	w    *write     // of top, while it is incomplete
	// shown is the greatest complete write of another origin that a client was shown.
	shown   causal.Version
	waiting []homeWait
	// under is the newest write that was accepted, while it is not published.
	under *write
	parts *homeParts // of a top that merges; nil: nothing
	// comparedAt is when what was accepted of the key was last no operation: its session has read elsewhere, too.
	comparedAt int64
}

// homeWait is a read that waits until no write of its key is under way, or an operation that writes nothing and waits
// until what it was executed on is published.
type homeWait struct {
	read   causal.HomeRead
	from   topology.Node
	holder causal.Holder
	since  int64 // monotonic
	on     base  // what an operation was executed on, which the answer has; zero: the read is answered by the top
}

// homeEntry is something of a key that may be forgotten once from has passed it.
type homeEntry struct {
	key   string
	hlc   causal.HLC
	shown bool // from elsewhere
}

const (
	// homeKeyBytes is about what a key takes at the home beside its name and value, in bytes.
	homeKeyBytes = 250
	// homeEntryBytes is about what it takes to remember that something may be forgotten.
	homeEntryBytes = 40
	// homeLag is how far the home stays behind what it knows to be complete, so that sidecars, which hear of it later,
	// mostly read at a cut that includes it.
	homeLag = 500 * time.Millisecond
	// maxHomeShare is the share of Config.MaxBytes that complete writes may take at the home.
	maxHomeShare = 4
	// maxHomeWaits bounds the reads that wait until no write of their key is under way, and a quarter of it those of
	// one identity.
	maxHomeWaits = 1 << 14
)

func newHome(s *shared, log *logState, now causal.Now) home {
	return home{shared: s, enabled: s.cfg.Home, keys: map[string]*homeKey{},
		leases: newHomeLeases(s, log, now), waiters: newHomeWaits(s),
		scanPlaces: causal.ScanPlaces{Start: s.cfg.Incarnation * causal.ScanPlaceSpread},
		waits:      causal.Quota{Total: maxHomeWaits, Each: maxHomeWaits / 4, OwnerOf: s.cfg.OwnerOf}}
}

// keyOf returns what is known of a key, and makes it known.
func (h *home) keyOf(key string) *homeKey {
	k := h.keys[key]
	if k == nil {
		k = &homeKey{key: key}
		h.keys[key] = k
		h.bytes += homeKeyBytes + len(key)
	}
	return k
}

// least returns what a read of a key elsewhere must include.
func (h *home) least(k *homeKey) causal.HLC {
	if k == nil || h.cfg.Broken.Has(causal.HomeForgetsShown) {
		return h.from
	}
	least := max(h.from, k.shown.HLC)
	if k.parts != nil {
		least = max(least, k.parts.from)
	}
	return least
}

// accept notes a write that was accepted, with the greatest HLC of a write of another origin in its past.
func (h *home) accept(w *write, past causal.HLC) {
	if !h.enabled {
		return
	}
	w.foreignPast = past
	h.past = max(h.past, past)
	h.newest = max(h.newest, w.rec.Version.HLC)
	k := h.keyOf(w.key)
	h.noteBefore(k)
	h.joinAccepted(k, w)
	k.accepted, k.under = w.rec.Version, w
	h.carry(w)
	if h.cfg.Broken.Has(causal.HomePublishesEarly) {
		h.publish(w)
	}
}

// carry notes a write that depends on others by their ids.
func (h *home) carry(w *write) {
	if len(w.deps) > 0 {
		h.carriers = append(h.carriers, w)
	}
}

// carried returns the dependencies on writes of other origins that are not complete, of all writes up to an HLC.
func (h *home) carried(upTo causal.HLC) (deps []causal.Dep) {
	named := map[causal.Dep]struct{}{}
	for _, w := range h.carriers {
		if w.rec.Version.HLC > upTo {
			break
		}
		for _, d := range w.deps {
			if _, has := named[d]; !has && d.Version.Origin != h.origin && !h.known.Complete(d.Version) {
				named[d] = struct{}{}
				deps = append(deps, d)
			}
		}
	}
	return deps
}

// isCrowded reports whether too many writes of other origins are in flight for one that follows all that was accepted
// to name them, beside others.
func (h *home) isCrowded(others int) bool {
	n := others
	for _, w := range h.carriers {
		n += len(w.deps)
	}
	return n > causal.MaxPutDeps && len(h.carried(causal.NoLimit))+others > causal.MaxPutDeps
}

// depsOf returns what a reader of a write must know of its past: the writes of other data centers that are not
// complete, which it must find elsewhere, and of each other home up to where it goes.
func (h *home) depsOf(w *write) []causal.Dep { return h.joinHomes(h.foreignPastOf(w)) }

// foreignPastOf returns the writes of other origins in the past of a write that are not complete.
func (h *home) foreignPastOf(w *write) (deps []causal.Dep) {
	if w == nil {
		return nil
	}
	for _, d := range w.deps {
		switch {
		case d.Version.Origin == h.origin: // it names what it follows by id, and not what that depends on
			return h.carried(w.rec.Version.HLC)
		case !h.known.Complete(d.Version):
			deps = append(deps, d)
		}
	}
	return deps
}

// publish makes a durable write visible in the data center.
func (h *home) publish(w *write) {
	if !h.enabled {
		return
	}
	k := h.keyOf(w.key)
	h.published = max(h.published, w.rec.Version.HLC)
	if k.top.Value.Merges() || w.rec.Value.Merges() {
		h.publishMerging(k, w)
	} else {
		h.bytes += len(w.rec.Value.Data) - len(k.top.Value.Data)
		k.top, k.past, k.w = w.rec, w.foreignPast, w
	}
	if k.accepted.Less(w.rec.Version) {
		k.accepted = w.rec.Version // it was restored
	}
	if k.under == w {
		k.under = nil
	}
	h.letGo(w)
}

// publishRest publishes what the mutation CommitPublishedApart has left.
func (h *home) publishRest() {
	for _, w := range h.unpublished {
		if k := h.keys[w.key]; k == nil || k.top.Version.Less(w.rec.Version) {
			h.publish(w)
		}
	}
	h.unpublished = nil
}

// answerQuiet answers what waits for the key of a write that was published, or for one that its commit has read, and
// need not wait any more. It is called when all that becomes visible in one step is published.
func (h *home) answerQuiet(now causal.Now, w *write) {
	h.answerQuietKey(now, w.key)
	h.waiters.published(now, w.key, w.rec.Version.HLC)
	for _, key := range w.reads {
		h.answerQuietKey(now, key)
	}
	w.reads = nil
}

func (h *home) answerQuietKey(now causal.Now, key string) {
	k := h.keys[key]
	if k == nil {
		return
	}
	if len(k.waiting) > 0 {
		h.answerWaiting(now, k)
	}
	h.dropEmpty(k)
}

// isQuiet reports whether no write of a key is under way.
func (k *homeKey) isQuiet() bool {
	return k.accepted == k.top.Version || k.accepted.IsZero() || k.under == nil && k.top.Value.Merges()
}

// isForgotten reports whether the home keeps no write of a key, and none is under way.
func (k *homeKey) isForgotten() bool { return k.top.Version.IsZero() && k.accepted.IsZero() }

// underWay returns a key of a read of which a write is under way that the read has to wait for, or nil. The read waits
// for one key after the other, and holds none, so no two reads wait for each other.
func (h *home) underWay(r *causal.HomeRead) *homeKey {
	if k := h.keys[r.Key]; h.mustWait(r, k, r.Shown) {
		return k
	}
	for i := range r.More {
		if k := h.keys[r.More[i].Key]; h.mustWait(r, k, r.More[i].Record.Version) {
			return k
		}
	}
	return nil
}

// mustWait reports whether a read has to wait for a write of a key that is under way, or for a commit of several homes
// that keeps the key: if that hides it; if the read is for update; or if it may show something from elsewhere that
// nobody had seen when the write was accepted, or a commit that has read the key. What is to be published goes by what
// was there before.
func (h *home) mustWait(r *causal.HomeRead, k *homeKey, shown causal.Version) bool {
	if k == nil || k.isQuiet() && k.readers == 0 {
		return false
	}
	return k.kept.hidden || r.ForUpdate && (!k.isQuiet() || k.isKept()) || h.hasPartNews(k) ||
		h.isNews(k, shown) && !h.cfg.Broken.Has(causal.HomeShowsUnderWay)
}

// done notes that a write is complete.
func (h *home) done(w *write) {
	if !h.enabled {
		return
	}
	if i := slices.Index(h.carriers, w); i >= 0 {
		h.carriers = slices.Delete(h.carriers, i, i+1)
	}
	k := h.keys[w.key]
	if k == nil || k.w != w {
		return
	}
	k.w = nil
	h.mayForget(homeEntry{w.key, k.top.Version.HLC, false})
	h.forget()
}

// mayForget notes that something of a key may be forgotten once from has passed it.
func (h *home) mayForget(e homeEntry) {
	h.complete = append(h.complete, e)
	h.bytes += homeEntryBytes
}

// show notes that a client is about to be shown a complete write of another origin.
// Nothing is kept of a key of which that is settled: many keys are read again and again.
func (h *home) show(key string, v causal.Version) {
	if v = h.comparable(v); v.HLC <= h.settled {
		return
	}
	k := h.keyOf(key)
	if !k.shown.Less(v) {
		return
	}
	h.clock.Raise(v.HLC)
	k.shown = v
	h.mayForget(homeEntry{k.key, v.HLC, true})
	if k.top.Value.Merges() {
		h.overwriteTop(k, v)
	}
}

// showAll notes what a reader is about to show of the keys that it names.
func (h *home) showAll(r *causal.HomeRead) {
	if r.Shown.HLC != 0 {
		h.show(r.Key, r.Shown)
	}
	for i := range r.More {
		switch shown := &r.More[i].Record; {
		case shown.Version.HLC == 0:
		case shown.Value.Merges():
			h.showPart(h.keyOf(r.More[i].Key), *shown)
		default:
			h.show(r.More[i].Key, shown.Version)
		}
	}
}

// forget forgets what reads find elsewhere.
func (h *home) forget() {
	if !h.cfg.Broken.Has(causal.HomeForgetsEarly) {
		h.settle()
	}
	limit := h.cfg.MaxBytes / maxHomeShare
	n := 0
	for n < len(h.complete) {
		e := &h.complete[n]
		if !h.isPassed(e) && !h.isOutdated(e) {
			if h.bytes <= limit && !h.cfg.Broken.Has(causal.HomeForgetsEarly) {
				break
			}
			if !h.cfg.Broken.Has(causal.HomeForgetsEarly) {
				h.raiseFrom(e.hlc) // what is read elsewhere may bind its readers until the cut has passed it
			}
		}
		h.forgetEntry(e)
		n++
	}
	h.complete = slices.Delete(h.complete, 0, n)
	h.bytes -= n * homeEntryBytes
}

// isOutdated reports whether the home knows something newer of the key than an entry stands for.
func (h *home) isOutdated(e *homeEntry) bool {
	k := h.keys[e.key]
	return k == nil || k.top.Version.HLC > e.hlc && k.shown.HLC != e.hlc
}

func (h *home) forgetEntry(e *homeEntry) {
	k := h.keys[e.key]
	if k == nil {
		return
	}
	if k.shown.HLC <= e.hlc && (e.shown || k.shown.HLC <= h.settled || k.shown.Less(k.top.Version)) {
		k.shown = causal.Version{}
	}
	if k.top.Version.HLC <= e.hlc && k.w == nil {
		h.bytes -= len(k.top.Value.Data)
		if k.isQuiet() {
			k.accepted = causal.Version{}
		}
		k.top, k.past = causal.Record{}, 0
		h.forgetParts(k)
	}
	h.dropEmpty(k)
}

// isEmpty reports whether nothing is known of a key, and nobody needs it.
func (k *homeKey) isEmpty() bool {
	return k.shown.IsZero() && k.isForgotten() && len(k.waiting) == 0 && k.readers == 0
}

// dropEmpty drops a key of which nothing is known, and that nobody needs.
func (h *home) dropEmpty(k *homeKey) {
	if k.isEmpty() {
		delete(h.keys, k.key)
		h.bytes -= homeKeyBytes + len(k.key)
	}
}

// isNewest reports whether what a session has read of a key is the newest: nothing was accepted or shown since, and it
// includes what was forgotten here. A write of this origin must also be known here: one that was lost with an earlier
// life of the coordinator is nothing to go on from.
func (h *home) isNewest(p *causal.Put) bool {
	if h.cfg.Broken.Has(causal.HomeUnconditional) {
		return true
	}
	k, read := h.keys[p.Key], p.If
	isAccepted := k != nil && k.accepted == read && read.Written()
	switch {
	case k != nil && (read.Less(k.accepted) || h.lacksShown(k, p)):
		return false
	case read.Origin == h.origin && read.Written() && read.HLC > h.from && !isAccepted:
		return false
	case p.Value.Merges() || k != nil && k.top.Value.Merges():
		return h.includesParts(k, p)
	}
	return p.From >= h.from || read.Written() && read.HLC > h.from
}

// completeMark returns up to where all that was accepted is complete, for a checkpoint. Published vectors say less, for
// a moment: the log must hold what is above the mark, and is to hold little.
func (h *home) completeMark(sv causal.HLC, incomplete []*write) causal.HLC {
	switch {
	case !h.enabled:
		return sv
	case len(incomplete) > 0: // the oldest one comes first
		return max(sv, incomplete[0].rec.Version.HLC-1)
	}
	return max(sv, h.newest)
}

// restore notes what the log knows: the writes that are incomplete are published, and all others are to be read
// elsewhere. So is all that clients were shown from there, of which the log only knows that it is not above the
// ceiling.
func (h *home) restore(complete, ceiling causal.HLC) {
	if h.cfg.Broken.Has(causal.HomeForgetsMark) {
		return
	}
	h.published = max(h.published, complete)
	h.noteForgotten(complete)
	if !h.cfg.Broken.Has(causal.HomeForgetsCeiling) {
		h.noteForgotten(ceiling)
	}
}

// noteForgotten notes that what was accepted or shown up to an HLC may not be known here any more.
func (h *home) noteForgotten(hlc causal.HLC) { h.from = max(h.from, hlc) }
