package coordinator

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

// lockFence is what is known of the commits of a session that have ended here, so that what comes late does nothing.
type lockFence struct {
	least  uint64                // those below have ended
	ended  map[uint64]causal.Dep // and these, with the newest put of the part if it was put
	usedAt int64
	// locks is how many parts of the session have not ended. While there are some, it is kept.
	locks int
}

const (
	// fenceKept is how long after its last use a fence is kept: longer than a message is on its way.
	fenceKept = time.Minute
	maxFences = 1 << 16
)

// fenceOf returns the fence of the session of a commit, or nil if there is no room.
func (h *homeLocks) fenceOf(now causal.Now, n causal.LockName) *lockFence {
	if h.fences[sessionOf(n)] == nil && len(h.fences) >= maxFences {
		return nil
	}
	return h.loggedFenceOf(now, n)
}

// loggedFenceOf returns the fence of the session of a commit of which the log has something, whatever room there is.
func (h *homeLocks) loggedFenceOf(now causal.Now, n causal.LockName) *lockFence {
	f := h.fences[sessionOf(n)]
	if f == nil {
		f = &lockFence{ended: map[uint64]causal.Dep{}}
		h.fences[sessionOf(n)] = f
	}
	f.usedAt = now.Mono
	return f
}

func sessionOf(n causal.LockName) sessionKey { return sessionKey{n.Sidecar, n.Session} }

// putOf returns the newest put of a part that was put here; the zero Dep: none is known.
func (h *homeLocks) putOf(now causal.Now, n causal.LockName) causal.Dep {
	if f := h.fences[sessionOf(n)]; f != nil {
		f.usedAt = now.Mono
		return f.ended[n.Number]
	}
	return causal.Dep{}
}

// keepFrom drops what is known of commits below a number: the session sends nothing of these any more.
func (f *lockFence) keepFrom(least uint64) {
	if least <= f.least {
		return
	}
	f.least = least
	for n := range f.ended {
		if n < least {
			delete(f.ended, n)
		}
	}
}

func (f *lockFence) end(n uint64, last causal.Dep) {
	if n >= f.least && !f.ended[n].Version.Written() {
		f.ended[n] = last
	}
}

func (f *lockFence) isEnded(n uint64) bool {
	_, ended := f.ended[n]
	return ended || n < f.least
}

func (h *homeLocks) dropFences(now causal.Now) {
	if now.Mono < h.scanAt {
		return
	}
	h.scanAt = now.Mono + int64(time.Second)
	for key, f := range h.fences {
		if f.locks > 0 {
			f.usedAt = now.Mono
		}
		if now.Mono-f.usedAt > int64(fenceKept) {
			delete(h.fences, key)
		}
	}
}
