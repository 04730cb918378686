package node

import (
	"context"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// readExclusions returns the exclusions of data centers in a store.
func readExclusions(ctx context.Context, s storage.Store) (causal.Exclusions, error) {
	b, _, err := s.Meta(ctx, metaExclusions)
	if err != nil {
		return nil, fmt.Errorf("read %s from storage: %w", metaExclusions, err)
	}
	x, err := causal.ParseExclusions(b)
	if err != nil {
		return nil, fmt.Errorf("read %s from storage: %w", metaExclusions, err)
	}
	return x, nil
}

// includeExclusions adds exclusions to those in a store. Nobody else does so at the same time.
func includeExclusions(ctx context.Context, s storage.Store, x causal.Exclusions) error {
	before, err := readExclusions(ctx, s)
	if err != nil || before.Covers(x) {
		return err
	}
	if err := s.SetMeta(ctx, metaExclusions, before.With(x).Encode()); err != nil {
		return fmt.Errorf("write %s to storage: %w", metaExclusions, err)
	}
	return nil
}
