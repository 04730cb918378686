package coordinator

import (
	"slices"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// Values that merge at the home of their key (PROTOCOL HOV). What the home keeps of one is all of its writes that it
// keeps, joined: those that it has published, and those of other data centers that clients were shown.

// homeParts is what the home knows of a key of which the top merges, beside that.
type homeParts struct {
	// from is what a condition has to include: it is raised with each write that is shown for the first time.
	from causal.HLC
	// isNews says that a write was shown while others of the key were under way.
	isNews bool
	// whole is up to which HLC the top has everything of the key. All that was accepted or shown is in it anyway, but
	// for registers, which are told by their versions: lacks is that of the newest one.
	whole, lacks causal.HLC
}

// whole is a value that merges with everything of its key up to an HLC.
type whole struct {
	rec  causal.Record
	upTo causal.HLC
}

// partsOf returns what is known of the merging value of a key, and makes it known.
func (k *homeKey) partsOf() *homeParts {
	if k.parts == nil {
		k.parts = &homeParts{}
	}
	return k.parts
}

// takesMerging reports whether values that merge are accepted, or will be in a moment: no part is known not to read
// them.
func (h *home) takesMerging() bool {
	return h.formats.refusesFormat(h.cfg.Types.Reads()) != causal.ErrFormat
}

// wholeUpTo returns up to which HLC the top of a key has everything of it, if it merges.
func (k *homeKey) wholeUpTo() causal.HLC {
	if k.parts == nil {
		return 0
	}
	return k.parts.whole
}

// joinAccepted joins a write of a value that merges with what was accepted of its key before, if operations may be
// executed on that: they need not wait until it is published. It is no more whole than that was.
func (h *home) joinAccepted(k *homeKey, w *write) {
	if !w.rec.Value.Merges() || !h.cfg.Types.IsExecutable(&w.rec.Value) || k.isPartial() ||
		h.cfg.Broken.Has(causal.HomeKeepsLastPart) {
		return
	}
	b, ok := h.acceptedBase(k)
	switch {
	case !ok:
		w.made = &whole{rec: w.rec}
	case h.cfg.Types.IsExecutable(&b.rec.Value):
		w.made = &whole{h.cfg.Types.Join(b.rec, w.rec), b.upTo}
	}
}

// isPartial reports whether nobody has joined what was accepted of a key.
func (k *homeKey) isPartial() bool {
	return k.under != nil && k.under.made == nil && k.under.rec.Value.Merges()
}

// merges reports whether a value that merges has a part in a key: it is kept, or accepted.
func (k *homeKey) merges() bool {
	return k.top.Value.Merges() || k.under != nil && k.under.rec.Value.Merges()
}

// precedeMerging makes a put of a value that merges follow the newest write of its key, if that is not complete. So
// they become complete in order, and what the newest one depends on is what all do (PROTOCOL HOV-6).
func (h *home) precedeMerging(p *causal.Put) {
	k := h.keys[p.Key]
	if k == nil || h.cfg.Broken.Has(causal.HomePartsUnordered) {
		return
	}
	before := k.w
	if k.under != nil {
		before = k.under
	}
	if before == nil {
		return
	}
	d := causal.Dep{Version: before.rec.Version, Slot: before.slot}
	if !slices.Contains(p.Deps, d) {
		p.Deps = append(slices.Clip(p.Deps), d)
	}
	p.Foreign = max(p.Foreign, before.foreignPast)
}

// publishMerging makes a durable write visible that becomes one with what the home has of its key, or that overwrites
// some of that.
func (h *home) publishMerging(k *homeKey, w *write) {
	top, past := w.rec, w.foreignPast
	if w.made != nil {
		top = w.made.rec
	}
	if !k.top.Version.IsZero() && !h.cfg.Broken.Has(causal.HomeKeepsLastPart) {
		top = h.cfg.Types.Join(k.top, top)
	}
	if top.Value.Merges() {
		past = max(past, k.past)
	}
	h.setTop(k, top, past)
	if w.made != nil && top.Value.Merges() {
		p := k.partsOf()
		p.whole = max(p.whole, w.made.upTo)
	}
	k.w, w.made = w, nil
}

// setTop makes a value what the home has of a key.
func (h *home) setTop(k *homeKey, top causal.Record, past causal.HLC) {
	h.bytes += len(top.Value.Data) - len(k.top.Value.Data)
	k.top, k.past = top, past
	if !top.Value.Merges() {
		k.parts = nil
		return
	}
	p := k.partsOf()
	p.lacks = max(p.lacks, k.shown.HLC)
}

// showPart notes that a client is about to be shown complete writes of other origins that become one with others, or,
// of a key whose value merges, one that overwrites some. The home keeps them with its own: who reads the key later has
// to see them, also if they are older than what it has (PROTOCOL HOV-2).
func (h *home) showPart(k *homeKey, part causal.Record) {
	top := part
	if !k.top.Version.IsZero() {
		top = h.cfg.Types.Join(k.top, part)
	}
	if sameRecord(&top, &k.top) {
		return
	}
	h.clock.Raise(part.Version.HLC)
	before := h.least(k)
	if !top.Value.Merges() { // the register has overwritten all that is kept: it is found elsewhere
		top = causal.Record{}
	}
	h.setTop(k, top, max(k.past, part.Version.HLC))
	if k.top.Version.IsZero() {
		k.past, k.w = 0, nil
		if k.under == nil {
			k.accepted = causal.Version{}
		}
		return
	}
	p := k.partsOf()
	if !part.Value.Merges() {
		p.lacks = max(p.lacks, part.Version.HLC)
	}
	p.isNews = p.isNews || !k.isQuiet() || k.readers > 0
	if !h.cfg.Broken.Has(causal.HomePartsUnmarked) {
		p.from = max(before+1, part.Version.HLC)
		h.clock.Raise(p.from)
	}
	h.mayForget(homeEntry{k.key, k.top.Version.HLC, true})
}

func sameRecord(a, b *causal.Record) bool {
	return a.Version == b.Version && a.Value.Type == b.Value.Type && string(a.Value.Data) == string(b.Value.Data)
}

// overwriteTop notes that a client is about to be shown a register that overwrites some of a value that merges.
func (h *home) overwriteTop(k *homeKey, v causal.Version) {
	h.showPart(k, causal.Record{Version: v, Value: causal.Value{Tombstone: true}})
}

// hasPartNews reports whether a read of a key whose value merges may show what nobody had seen when the oldest write
// was accepted that is under way: what was told since, or need not be told any more.
func (h *home) hasPartNews(k *homeKey) bool {
	if !k.merges() || h.cfg.Broken.Has(causal.HomePartsUnderWay) {
		return false
	}
	return k.parts != nil && k.parts.isNews || h.settled > k.before.settled
}

// includesParts reports whether what a session has read of a key whose value merges includes every write that was
// forgotten, or shown. Its greatest version does not say that.
func (h *home) includesParts(k *homeKey, p *causal.Put) bool {
	switch {
	case p.Value.Merges() && p.From < h.from:
		return false
	case k == nil || !k.top.Value.Merges():
		return true
	}
	return p.From >= h.from && (k.parts == nil || p.From >= k.parts.from)
}

// forgetParts forgets what is known beside a top that is forgotten. What conditions had to include they have to
// include on.
func (h *home) forgetParts(k *homeKey) {
	if p := k.parts; p != nil && max(p.from, p.lacks) > h.from {
		h.raiseFrom(max(p.from, p.lacks))
	}
	k.parts = nil
}
