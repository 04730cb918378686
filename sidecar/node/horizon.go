package node

import (
	"context"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// durableHorizon is the tombstone horizon in the store. It never decreases; the serving middleman and the mover raise
// it.
type durableHorizon struct {
	mu      sync.Mutex
	durable causal.HLC
}

func (h *durableHorizon) load(ctx context.Context, s storage.Store) error {
	n, err := metaUint(ctx, s, metaHorizon)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.durable = max(h.durable, causal.HLC(n))
	return err
}

func (h *durableHorizon) get() causal.HLC {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.durable
}

func (h *durableHorizon) raise(ctx context.Context, s storage.Store, to causal.HLC) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if to <= h.durable {
		return nil
	}
	if err := setMetaUint(ctx, s, metaHorizon, uint64(to)); err != nil {
		return err
	}
	h.durable = to
	return nil
}
