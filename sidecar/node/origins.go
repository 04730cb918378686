package node

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// durableOrigins is the set of origins whose writes the store has ever held, as a bit for each. It is durable before a
// write of a new origin is: a coordinator that comes back with an empty log learns from it that it had one
// (PROTOCOL DISK-6).
type durableOrigins struct {
	mu   sync.Mutex
	bits []byte
}

func (o *durableOrigins) load(ctx context.Context, s storage.Store) error {
	b, _, err := s.Meta(ctx, metaOrigins)
	if err != nil {
		return fmt.Errorf("read %s from storage: %w", metaOrigins, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bits = slices.Clone(b)
	return nil
}

func (o *durableOrigins) has(origin topology.Origin) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return hasBit(o.bits, origin)
}

func hasBit(bits []byte, origin topology.Origin) bool {
	return int(origin/8) < len(bits) && bits[origin/8]&(1<<(origin%8)) != 0
}

// include adds the origins of writes.
func (o *durableOrigins) include(ctx context.Context, s storage.Store, writes []storage.Write) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	bits, changed := o.bits, false
	for i := range writes {
		origin := writes[i].Record.Version.Origin
		if writes[i].Delete || origin == 0 || hasBit(bits, origin) {
			continue
		}
		if !changed {
			bits, changed = slices.Clone(bits), true
		}
		if missing := int(origin/8) + 1 - len(bits); missing > 0 {
			bits = append(bits, make([]byte, missing)...)
		}
		bits[origin/8] |= 1 << (origin % 8)
	}
	if !changed {
		return nil
	}
	if err := s.SetMeta(ctx, metaOrigins, bits); err != nil {
		return fmt.Errorf("write %s to storage: %w", metaOrigins, err)
	}
	o.bits = bits
	return nil
}
