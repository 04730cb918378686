package coordinator

import "github.com/causalstore/causalstore/sidecar/causal"

// A commit that the home has accepted goes by what its session has read, also of keys that it does not put. Until it is
// published, nothing newer of these is shown to anybody (PROTOCOL HOS-2): who is shown that, and other keys of the
// commit as they were, has the commit behind that, and it has read what was before that.

// goBy notes what the commit whose last put is w goes by, until w is published.
func (h *home) goBy(w *write, conditions []causal.Put) {
	if h.cfg.Broken.Has(causal.CommitReadsUnheld) {
		return
	}
	for i := range conditions {
		k := h.keyOf(conditions[i].Key)
		h.noteBefore(k)
		k.readers++
		w.reads = append(w.reads, k.key)
	}
}

// letGo notes that a write is published.
func (h *home) letGo(w *write) {
	for _, key := range w.reads {
		h.keys[key].readers--
	}
}

// noteBefore notes what of a key was shown so far, unless something is under way that goes by it already.
func (h *home) noteBefore(k *homeKey) {
	if k.isQuiet() && k.readers == 0 {
		k.before = shownBefore{h.settled, k.shown}
		if k.parts != nil {
			k.parts.isNews = false
		}
	}
}

// sizeOfReads is about what it takes to know what a commit goes by, in bytes.
func sizeOfReads(conditions []causal.Put) (size int) {
	for i := range conditions {
		size += homeKeyBytes + len(conditions[i].Key)
	}
	return size
}
