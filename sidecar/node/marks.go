package node

import (
	"context"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// readMarks reads what a storage says about itself: the marks with some names.
func readMarks(ctx context.Context, s storage.Store, names ...string) (m process.Marks, err error) {
	for _, name := range names {
		value, found, err := s.Meta(ctx, name)
		if err != nil {
			return m, fmt.Errorf("read %s from storage: %w", name, err)
		}
		if !found {
			continue
		}
		if err := m.Set(name, value); err != nil {
			return m, err
		}
	}
	return m, nil
}

// metaOf returns marks in the form of a storage.
func metaOf(marks []member.Meta) []storage.Meta {
	meta := make([]storage.Meta, len(marks))
	for i, m := range marks {
		meta[i] = storage.Meta{Name: m.Name, Value: m.Value}
	}
	return meta
}
