package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
)

// What a storage says of what it has lost. One that is damaged is told from outside what is left of it (LossMeta),
// before it is used again.

func lossMeta(l shard.Loss, missing causal.KeyRanges) []storage.Meta {
	marks := process.Marks{Loss: l, Missing: missing}
	return metaOf(marks.Metas(process.MarkLoss, process.MarkMissing))
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
	before, err := readMarks(ctx, s, process.MarkLoss, process.MarkMissing)
	if err != nil {
		return nil, err
	}
	switch before.Loss {
	case shard.NoLoss:
		if len(missing) == 0 { // what could not be read can be read now, or was of no use
			return nil, nil
		}
		return lossMeta(shard.LossPartial, missing), nil
	case shard.LossPartial, shard.LossAccepted:
		earlier := before.Missing
		for _, r := range missing {
			earlier = earlier.With(r)
		}
		return lossMeta(before.Loss, earlier), nil
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
	marks, err := readMarks(ctx, s, process.MarkLoss, process.MarkMissing)
	if err != nil {
		return err
	}
	missing := causal.AllKeys()
	switch marks.Loss {
	case shard.LossPartial:
		missing = marks.Missing
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

// AcceptOldCopy makes the history of a storage start over: what coordinators remember of it until now counts no more,
// because a person has accepted what is missing.
func AcceptOldCopy(ctx context.Context, s storage.Store) error {
	if err := s.Apply(ctx, nil, newLineageMeta()); err != nil {
		return fmt.Errorf("write %s to storage: %w", process.MarkLineage, err)
	}
	return nil
}

func newLineageMeta() storage.Meta {
	return metaOf((&process.Marks{}).Metas(process.MarkLineage))[0]
}
