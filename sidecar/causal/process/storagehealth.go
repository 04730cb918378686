package process

import (
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
)

const (
	// pingInterval is how often the storage beside a member is pinged.
	pingInterval = 200 * time.Millisecond
	// PingTimeout is how long an answer to a ping may take.
	PingTimeout = unresponsiveAfter
	// unresponsiveAfter is how long the storage may fail, or take for a change, before the others go on without it.
	unresponsiveAfter = time.Second
	// goneAfter is how long it may refuse connections: nothing listens there, so it does not merely take long.
	goneAfter = 300 * time.Millisecond
)

// storageHealth knows whether the storage beside a member responds. A full storage does: it is full on all members, or
// changes pile up at this one, which the member.Storage bounds. Times are monotonic, and 0 for none.
type storageHealth struct {
	applying int64 // when the change began that is being made
	failing  int64 // since when changes fail
	deaf     int64 // since when pings fail
	gone     int64 // since when it refuses connections
	full     bool  // as the last ping says
	refused  bool  // the last change failed because it is full
	silent   bool  // the Storage was told that it does not respond
	pingAt   int64
}

// beginTask notes that a task begins. Those that do not apply changes may take long.
func (h *storageHealth) beginTask(now causal.Now, applies bool) {
	if applies {
		h.applying = now.Mono
	}
}

func (h *storageHealth) endTask(now causal.Now, r *EffectResult) {
	h.applying, h.refused = 0, r.Problem == IsFull
	noteOutcome(now, &h.failing, r)
	h.noteRefusal(now, r)
}

// notePing takes the outcome of a ping.
func (h *storageHealth) notePing(now causal.Now, r *EffectResult) {
	h.full = r.Problem == IsFull
	noteOutcome(now, &h.deaf, r)
	h.noteRefusal(now, r)
}

// noteRefusal keeps since when the storage refuses connections.
func (h *storageHealth) noteRefusal(now causal.Now, r *EffectResult) {
	switch {
	case r.Problem != IsGone:
		h.gone = 0
	case h.gone == 0:
		h.gone = now.Mono
	}
}

// noteOutcome keeps since when something fails.
func noteOutcome(now causal.Now, since *int64, r *EffectResult) {
	switch {
	case r.Err == nil || r.Problem == IsFull:
		*since = 0
	case *since == 0:
		*since = now.Mono
	}
}

// isStuck reports whether the storage does not respond.
func (h *storageHealth) isStuck(now causal.Now) bool {
	over := func(since int64, limit time.Duration) bool { return since != 0 && now.Mono-since >= int64(limit) }
	return over(h.applying, unresponsiveAfter) && !h.full || over(h.failing, unresponsiveAfter) ||
		over(h.deaf, unresponsiveAfter) || over(h.gone, goneAfter)
}

// isFull reports whether the storage has no room.
func (h *storageHealth) isFull() bool { return h.full || h.refused }

// ping asks whether the storage responds, when that is due.
func (m *Member) ping(now causal.Now) {
	if m.pinging != 0 || now.Mono < m.health.pingAt || m.ended {
		return
	}
	m.health.pingAt = now.Mono + int64(pingInterval)
	m.pinging = m.do(Effect{Kind: EffectPing})
}

// noteHealth tells the Storage whether its storage responds, if that has changed, and whether it is full.
func (m *Member) noteHealth(now causal.Now) {
	if m.health.isFull() {
		m.NoteStorageFull(now)
	}
	if silent := m.health.isStuck(now); silent != m.health.silent {
		m.health.silent = silent
		m.SetStorageResponds(now, !silent)
	}
}

// StorageResponds reports whether the storage responds, as far as the group is told.
func (m *Member) StorageResponds() bool { return !m.health.silent }
