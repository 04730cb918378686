package node

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/causal/process"
	"github.com/causalstore/causalstore/sidecar/causal/shard"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/sidecar/storage/embedded"
)

func TestAStorageThatHasLostDataIsMarkedForHowItComesBack(t *testing.T) {
	marker := member.Applied{Group: 7, Volume: 8, Position: 9}
	for _, c := range []struct {
		what          string
		before        []storage.Meta
		isMember      bool
		copied, alone bool
	}{
		{what: "of the only member, which gets it from another ring", alone: true},
		{what: "of a member, of which nothing is left", isMember: true},
		{what: "of a member", before: []storage.Meta{markerMeta(marker)}, isMember: true, copied: true},
		{what: "of one that was a member", before: []storage.Meta{markerMeta(marker)}, copied: true},
	} {
		s, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(t.Context(), nil, c.before...); err != nil {
			t.Fatal(err)
		}
		meta, err := LossMeta(t.Context(), s, c.isMember, false, nil)
		if err == nil {
			err = s.Apply(t.Context(), nil, meta...)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		lost, err := readMarks(t.Context(), s, process.MarkLoss)
		if (lost.Loss == shard.LossFound) != c.alone || err != nil {
			t.Errorf("%s: data-lost is %d, %v", c.what, lost.Loss, err)
		}
		found, empty, err := readApplied(t.Context(), s)
		if found.Copying != c.copied || found.Position != 0 || empty == c.alone || err != nil {
			t.Errorf("%s: the marker is %+v, empty %v, %v", c.what, found, empty, err)
		}
		kept := false
		if err := AcceptStorageLoss(t.Context(), s, func() error { kept = true; return nil }); err != nil {
			t.Error(err)
		}
		marks, err := readMarks(t.Context(), s, process.MarkLoss)
		loss := marks.Loss
		if (loss == shard.LossAccepted) != c.alone || kept != c.alone || err != nil {
			t.Errorf("%s: accepted, the loss is %d, %v", c.what, loss, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a storage lacks is what it has lost now, and what it had lost before and has not got back.
func TestALossOfAStorageThatLacksSomethingAddsToIt(t *testing.T) {
	before, found := causal.KeyRanges{causal.OneKey("b")}, causal.KeyRanges{causal.OneKey("f")}
	both := before.With(found[0])
	for _, c := range []struct {
		before, after shard.Loss
		missing       causal.KeyRanges
	}{
		{shard.NoLoss, shard.LossPartial, both},
		{shard.LossPartial, shard.LossPartial, both},
		{shard.LossAccepted, shard.LossAccepted, both},
		{shard.LossFound, shard.LossFound, nil},
		{shard.LossCleared, shard.LossFound, nil},
		{shard.LossKept, shard.LossFound, nil},
	} {
		s, err := embedded.Open("store", embedded.Options{FS: vfs.NewMem()})
		if err == nil {
			err = s.Apply(t.Context(), nil, lossMeta(c.before, before)...)
		}
		lacks := found
		if c.before == shard.NoLoss {
			lacks = both
		}
		var meta []storage.Meta
		if err == nil {
			meta, err = LossMeta(t.Context(), s, false, true, lacks)
		}
		if err == nil {
			err = s.Apply(t.Context(), nil, meta...)
		}
		if err != nil {
			t.Fatal(err)
		}
		marks, err := readMarks(t.Context(), s, process.MarkLoss, process.MarkMissing)
		loss, missing := marks.Loss, marks.Missing
		if loss != c.after || !slices.Equal(missing, c.missing) || err != nil {
			t.Errorf("loss %d before: loss %d of %q, want %d of %q; %v", c.before, loss, missing, c.after,
				c.missing, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
