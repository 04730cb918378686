package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// durableFences are the fences in the store: which logs of which origins were given up.
type durableFences struct {
	mu      sync.Mutex
	durable causal.Fences // never changed in place
}

func (f *durableFences) load(ctx context.Context, s storage.Store) error {
	b, _, err := s.Meta(ctx, metaFences)
	if err != nil {
		return fmt.Errorf("read %s from storage: %w", metaFences, err)
	}
	fences, err := causal.ParseFences(b)
	if err != nil {
		return fmt.Errorf("read %s from storage: %w", metaFences, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable = fences
	return nil
}

func (f *durableFences) get() causal.Fences {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.durable
}

// include adds the fences of an origin; generation 0 adds none.
func (f *durableFences) include(ctx context.Context, s storage.Store, t *topology.Topology, o topology.Origin,
	generation uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if generation <= f.durable[o] {
		return nil
	}
	fences := f.durable.With(o, generation)
	if err := s.SetMeta(ctx, metaFences, fences.Encode(t.Origins())); err != nil {
		return fmt.Errorf("write %s to storage: %w", metaFences, err)
	}
	f.durable = fences
	return nil
}
