package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/storage"
)

const (
	// storePingInterval is how often the storage beside a member is pinged, and unresponsiveAfter is how long it may
	// fail, or take for a change, before the others go on without it.
	storePingInterval = 200 * time.Millisecond
	unresponsiveAfter = time.Second
	// goneAfter is how long it may refuse connections: nothing listens there, so it does not merely take long.
	goneAfter = 300 * time.Millisecond
)

// storeHealth knows whether the storage beside a member responds. A full storage does: it is full on all members, or
// changes pile up at this one, which the machine bounds.
type storeHealth struct {
	disk *diskHealth

	mu       sync.Mutex
	applying time.Time // when the change began that is being made; zero: none is
	failing  time.Time // since when changes fail
	deaf     time.Time // since when pings fail
	gone     time.Time // since when it refuses connections
	full     bool      // as the last ping says
	refused  bool      // the last change failed because it is full
	told     bool      // that it does not respond
}

func (h *storeHealth) init(logger *slog.Logger) {
	h.disk = newDiskHealth(logger, "the storage of this member failed; what failed is repeated until it succeeds")
}

// beginTask notes that a task begins. Those that do not apply changes may take long.
func (h *storeHealth) beginTask(applies bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if applies {
		h.applying = time.Now()
	}
}

func (h *storeHealth) endTask(err error) {
	h.disk.noteWrite(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.applying, h.refused = time.Time{}, errors.Is(err, storage.ErrFull)
	noteOutcome(&h.failing, err)
	h.noteRefusal(err)
}

// notePing takes the outcome of a ping that has begun at a time.
func (h *storeHealth) notePing(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.full = errors.Is(err, storage.ErrFull)
	if errors.Is(err, storage.ErrRestarted) { // the server answers again
		err = nil
	}
	noteOutcome(&h.deaf, err)
	h.noteRefusal(err)
}

// noteRefusal keeps since when the storage refuses connections. Called with the lock held.
func (h *storeHealth) noteRefusal(err error) {
	switch {
	case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT):
		// the latter: its socket is not there
		h.gone = time.Time{}
	case h.gone.IsZero():
		h.gone = time.Now()
	}
}

// noteOutcome keeps since when something fails.
func noteOutcome(since *time.Time, err error) {
	switch {
	case err == nil || errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrCursor):
		*since = time.Time{}
	case since.IsZero():
		*since = time.Now()
	}
}

// update reports whether the storage responds, and whether that has changed.
func (h *storeHealth) update() (responds, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stuck := h.isStuck()
	changed = stuck != h.told
	h.told = stuck
	return !stuck, changed
}

// hasChanged reports whether update would report a change.
func (h *storeHealth) hasChanged() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isStuck() != h.told
}

// isStuck reports whether the storage does not respond. Called with the lock held.
func (h *storeHealth) isStuck() bool {
	now := time.Now()
	over := func(since time.Time, limit time.Duration) bool { return !since.IsZero() && now.Sub(since) >= limit }
	return over(h.applying, unresponsiveAfter) && !h.full || over(h.failing, unresponsiveAfter) ||
		over(h.deaf, unresponsiveAfter) || over(h.gone, goneAfter)
}

// isFull reports whether the storage has no room.
func (h *storeHealth) isFull() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.full || h.refused
}

// updateHealth tells the machine whether the storage responds, if that has changed, and whether it is full. Two
// goroutines do: what one has found is told in the same step in which it is looked at, so that the machine is not left
// with what has changed since.
func (sm *ShardMember) updateHealth() {
	if !sm.health.isFull() && !sm.health.hasChanged() {
		return
	}
	var responds, changed bool
	sm.step(func(now causal.Now, m *member.Storage) {
		if sm.health.isFull() {
			m.NoteStorageFull(now)
		}
		if responds, changed = sm.health.update(); changed {
			m.SetStorageResponds(now, responds)
		}
	})
	switch {
	case changed && responds:
		sm.logger.Info("the storage responds again")
	case changed:
		sm.logger.Warn("the storage does not respond; the other members go on without this one until it does")
	}
}

// watchStore pings the storage until the member ends. A ping that hangs does not delay it.
func (sm *ShardMember) watchStore() {
	tick := time.NewTicker(storePingInterval)
	defer tick.Stop()
	outcomes, pinging := make(chan error, 1), false
	defer func() {
		if pinging {
			<-outcomes //nolint:errcheck // nobody is told any more
		}
	}()
	for {
		select {
		case <-sm.ctx.Done():
			return
		case err := <-outcomes:
			pinging = false
			sm.health.notePing(err)
			if errors.Is(err, storage.ErrFenced) {
				sm.fail(err)
			}
		case <-tick.C:
			if !pinging {
				pinging = true
				go func() {
					ctx, cancel := context.WithTimeout(sm.ctx, unresponsiveAfter)
					defer cancel()
					outcomes <- sm.noteLoss(sm.local.Ping(ctx))
				}()
			}
		}
		sm.updateHealth()
	}
}
