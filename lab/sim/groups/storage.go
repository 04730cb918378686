package groups

import (
	"hash/fnv"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
)

// storage is what the user of a member keeps beside its log, if the group has Options.External. It is durable at once,
// on the volume of the log.
type storage struct {
	foundation uint64 // the group that it belongs to; 0: it is incomplete, or empty
	of         uint64 // the group of which it is, or was to be, a copy
	position   uint64
	sum        uint64 // of all records that were applied to it
}

// copying is a copy of another member's storage that is on its way.
type copying struct {
	group uint64
	storage
	index uint64 // of the entry with which the log begins behind it; 0: it was not fetched yet
}

// isEmpty reports whether nothing is lost with the storage.
func (s *storage) isEmpty() bool { return s.position == 0 && s.of == s.foundation }

// mayReplace reports whether a storage may be replaced in favor of that of the group.
func (h *host) mayReplace() bool {
	s := &h.disk.storage
	return s.isEmpty() || s.of == h.g.Group() || s.foundation == h.g.Group() || h.g.Replaces(s.of) ||
		h.g.Replaces(s.foundation)
}

// useStorage does what a user does with its storage.
func (h *host) useStorage() {
	if !h.w.external || h.g == nil {
		return
	}
	g, s, own := h.g, &h.disk.storage, h.disk.volume
	switch {
	case g.IsDamaged():
	case g.GivesUp():
		if h.copy = nil; s.foundation != own && h.mayReplace() {
			h.empty()
		}
	case h.copy != nil:
		h.finishCopy()
	case *s == storage{} && g.Last() == 0 && g.Group() == 0 && h.w.desiredNames().Names[0] == h.name:
		*s = storage{foundation: own, of: own}
		g.SetFoundation(h.clock(), own)
	default:
		h.applyCommitted()
	}
}

// empty makes the storage of a member that of one that begins a group. If it has a log, that is emptied before.
func (h *host) empty() {
	g, s, own := h.g, &h.disk.storage, h.disk.volume
	if s.position > 0 || s.foundation != 0 {
		*s = storage{of: g.Group()}
	}
	if g.Last() > 0 || g.Base() > 1 {
		h.emptied, _ = g.Restore(h.clock(), 0, group.Stamp{})
	}
	if g.IsDurable(h.emptied) {
		*s = storage{foundation: own, of: own}
		g.SetFoundation(h.clock(), own)
	}
}

// applyCommitted applies some of what is committed.
func (h *host) applyCommitted() {
	g, s := h.g, &h.disk.storage
	if g.IsFounded() && s.position+1 < g.Base() {
		h.w.violate("%s: the log begins at %d, and the storage has it up to %d", h.id(), g.Base(), s.position)
		return
	}
	for n := h.w.rng.IntN(6); n > 0 && g.IsFounded() && s.position < g.Commit() && len(h.w.Violations) == 0; n-- {
		data := ""
		if r := g.At(s.position + 1); !r.Start {
			data = string(r.Data)
		}
		s.apply(data)
		if problem := h.checker().noteApplied(s, data); problem != "" {
			h.w.violate("the storage of %s: %s", h.id(), problem)
		}
	}
	g.SetApplied(s.position)
}

func (s *storage) apply(data string) {
	f := fnv.New64a()
	_, _ = f.Write([]byte(data))
	s.position, s.sum = s.position+1, s.sum*31+f.Sum64()
}

// beginCopy begins to copy the storage of a primary.
func (h *host) beginCopy(from group.ID) {
	if h.copy != nil || !h.mayReplace() {
		return
	}
	h.copy = &copying{group: h.g.Group()}
	h.disk.storage = storage{of: h.copy.group}
	h.g.SetFoundation(h.clock(), 0)
	h.fetchCopy(h.copy, from)
}

// fetchCopy fetches the storage of a primary, when that can be reached.
func (h *host) fetchCopy(c *copying, from group.ID) {
	w, instance := h.w, h.instance
	w.after(w.upTo(300*time.Millisecond), func() {
		if h.instance != instance || h.copy != c {
			return
		}
		source := w.hostNamed(from.Name)
		if source.g == nil || !source.serving || source.id() != from ||
			w.now < w.link(pair{h.name, from.Name}).cutTill {
			h.copy = nil // it is told again whose storage to copy
			return
		}
		c.storage = source.disk.storage
		stamp, known := source.g.StampAt(c.position)
		h.with(func(g *group.Group, now causal.Now) {
			var ok bool
			if c.index, ok = g.Restore(now, c.position, stamp); !known || !ok {
				h.copy = nil
			}
		})
	})
}

// finishCopy makes a copy the storage of a member, once its log begins behind it.
func (h *host) finishCopy() {
	c := h.copy
	if c.index == 0 || !h.g.IsDurable(c.index) {
		return
	}
	h.copy = nil
	if h.g.Group() == c.group {
		h.disk.storage = storage{foundation: c.group, of: c.group, position: c.position, sum: c.sum}
		h.g.SetApplied(c.position)
		h.g.SetFoundation(h.clock(), c.group)
	}
}

// giveUp is a person who gives up what the volumes of a group held, at one member.
func (h *host) giveUp() (given bool) {
	h.with(func(g *group.Group, now causal.Now) {
		h.isAsked = true // its own volume may be emptied first
		given = g.AcceptLoss(now) == nil
	})
	h.isAsked = false
	return given
}
