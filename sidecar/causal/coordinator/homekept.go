package coordinator

import "github.com/causalstore/causalstore/sidecar/causal"

// keptBy says for how many parts of commits of several homes a key is kept. While it is, what clients are shown of it
// from elsewhere waits, as for a commit that goes by it (PROTOCOL HOS-2).
type keptBy struct {
	readers int  // those that have read it, and do not put it: nobody else may write it
	writer  bool // one that puts it: nobody else may read it for a commit, or write it
	hidden  bool // and nobody may read it
}

// isKept reports whether a key may not be written.
func (k *homeKey) isKept() bool { return k != nil && (k.kept.readers > 0 || k.kept.writer) }

// isKeptFrom reports whether a key is kept in a way that another part cannot have it.
func (k *homeKey) isKeptFrom(writer bool) bool {
	return k != nil && (k.kept.writer || writer && k.kept.readers > 0)
}

// keep keeps a key for a part.
func (h *home) keep(key string, writer, hidden bool) {
	k := h.keyOf(key)
	h.noteBefore(k)
	k.readers++
	if !writer {
		k.kept.readers++
		return
	}
	k.kept.writer, k.kept.hidden = true, hidden
}

// letGoOf is the opposite of keep.
func (h *home) letGoOf(key string, writer, hidden bool) {
	k := h.keys[key]
	k.readers--
	if !writer {
		k.kept.readers--
		return
	}
	k.kept.writer, k.kept.hidden = false, k.kept.hidden && !hidden
}

// refusesKept returns why a put of a key is refused that others keep. Who has read the key reads it again, which waits;
// a put that has not is sent again.
func (h *home) refusesKept(p *causal.Put) causal.ErrCode {
	switch {
	case !h.keys[p.Key].isKept():
		return causal.OK
	case p.Conditional:
		return causal.ErrConflict
	}
	return causal.ErrLocked
}

// refusesKeptOf is refusesKept for the keys of a commit of this home alone. One that is only read may be kept by others
// that only read it.
func (h *home) refusesKeptOf(puts, conditions []causal.Put) causal.ErrCode {
	for i := range conditions {
		if h.keys[conditions[i].Key].isKeptFrom(false) {
			return causal.ErrConflict
		}
	}
	for i := range puts {
		if h.keys[puts[i].Key].isKept() {
			if len(conditions) > 0 {
				return causal.ErrConflict
			}
			return causal.ErrLocked
		}
	}
	return causal.OK
}
