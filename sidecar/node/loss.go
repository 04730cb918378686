package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/middleman"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// What a storage says of what it has lost. One that is damaged is told from outside what is left of it (LossMeta),
// before it is used again.

// readMissing returns the keys that a storage has lost, as it says itself.
func readMissing(ctx context.Context, s storage.Store) (causal.KeyRanges, error) {
	b, _, err := s.Meta(ctx, metaMissing)
	if err != nil {
		return nil, fmt.Errorf("read %s from storage: %w", metaMissing, err)
	}
	missing, err := causal.ParseKeyRanges(b)
	if err != nil {
		return nil, fmt.Errorf("read %s from storage: %w", metaMissing, err)
	}
	return missing, nil
}

// readLoss returns which loss a storage tells of.
func readLoss(ctx context.Context, s storage.Store) (shard.Loss, error) {
	n, err := metaUint(ctx, s, metaDataLost)
	if err == nil && n >= uint64(shard.NumLosses) {
		err = fmt.Errorf("read %s from storage: %d is not known; a later version has written it", metaDataLost, n)
	}
	return shard.Loss(n), err
}

func lossMeta(l shard.Loss, missing causal.KeyRanges) []storage.Meta {
	return []storage.Meta{{Name: metaDataLost, Value: binary.AppendUvarint(nil, uint64(l))},
		{Name: metaMissing, Value: missing.Encode()}}
}

// LossMeta returns what is to be noted in a storage that has lost data, so that nothing of that is used: with which it
// is copied from another member if it is, or was, that of a member, and refilled from another ring otherwise. If rest
// says so, the storage has everything but the missing keys.
func LossMeta(ctx context.Context, s storage.Store, isMember, rest bool,
	missing causal.KeyRanges) ([]storage.Meta, error) {
	b, found, err := s.Meta(ctx, metaApplied)
	if err != nil {
		return nil, fmt.Errorf("read %s from storage: %w", metaApplied, err)
	}
	switch {
	case found:
		marker, err := member.ParseApplied(b)
		if err != nil {
			return nil, err
		}
		return []storage.Meta{markerMeta(member.Applied{Group: marker.Group, Volume: marker.Volume, Copying: true})},
			nil
	case isMember:
		return nil, nil // its log says that there was more
	case !rest:
		return lossMeta(shard.LossFound, nil), nil
	}
	before, err := readLoss(ctx, s)
	if err != nil {
		return nil, err
	}
	switch before {
	case shard.NoLoss:
		if len(missing) == 0 { // what could not be read can be read now, or was of no use
			return nil, nil
		}
		return lossMeta(shard.LossPartial, missing), nil
	case shard.LossPartial, shard.LossAccepted:
		earlier, err := readMissing(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, r := range missing {
			earlier = earlier.With(r)
		}
		return lossMeta(before, earlier), nil
	}
	return lossMeta(shard.LossFound, nil), nil
}

// ErrNoLoss says that a storage tells of no loss that a person could accept.
var ErrNoLoss = errors.New("the storage has lost nothing that could be given up")

// AcceptStorageLoss makes a shard go on with what its storage has, because a person has accepted what is missing. What
// other rings have of it comes from them. If any key may be missing, or older than it was, keep is called first, which
// makes the storage have what is left of it. One that tells of no loss may be an older copy, and counts as what the
// shard had from then on.
func AcceptStorageLoss(ctx context.Context, s storage.Store, keep func() error) error {
	loss, err := readLoss(ctx, s)
	if err != nil {
		return err
	}
	missing := causal.AllKeys()
	switch loss {
	case shard.LossPartial:
		missing, err = readMissing(ctx, s)
	case shard.LossFound, shard.LossCleared:
		err = keep()
	case shard.NoLoss:
		return AcceptOldCopy(ctx, s)
	default:
		err = ErrNoLoss
	}
	if err != nil {
		return err
	}
	return s.Apply(ctx, nil, append(lossMeta(shard.LossAccepted, missing), newLineageMeta())...)
}

// AcceptOldCopy makes the history of a storage begin anew: what coordinators remember of it until now counts no more,
// because a person has accepted what is missing.
func AcceptOldCopy(ctx context.Context, s storage.Store) error {
	if err := s.Apply(ctx, nil, newLineageMeta()); err != nil {
		return fmt.Errorf("write %s to storage: %w", metaLineage, err)
	}
	return nil
}

func newLineageMeta() storage.Meta {
	return storage.Meta{Name: metaLineage, Value: causal.Lineage{}.Encode()}
}

// readLineage reads the lineage of a storage. That of an earlier version has none, and begins with its last start.
func readLineage(ctx context.Context, s storage.Store, starts uint64) (causal.Lineage, error) {
	b, found, err := s.Meta(ctx, metaLineage)
	if err != nil {
		return causal.Lineage{}, fmt.Errorf("read %s from storage: %w", metaLineage, err)
	}
	if !found {
		return causal.Lineage{}.With(starts, s.Position()), nil
	}
	l, err := causal.ParseLineage(b)
	if err != nil {
		return l, fmt.Errorf("read %s from storage: %w", metaLineage, err)
	}
	return l, nil
}

// saveStart makes durable that a middleman starts, with the lineage that has it.
func (mm *Middleman) saveStart(ctx context.Context, c middleman.Config) error {
	err := mm.store.Apply(ctx, nil, storage.Meta{Name: metaIncarnation,
		Value: binary.AppendUvarint(nil, c.Incarnation)},
		storage.Meta{Name: metaLineage, Value: c.Lineage.Encode()})
	if err != nil {
		return fmt.Errorf("write %s to storage: %w", metaIncarnation, err)
	}
	return nil
}
