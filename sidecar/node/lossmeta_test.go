package node

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/causalstore/causalstore/sidecar/causal/member"
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
		meta, err := LossMeta(t.Context(), s, c.isMember)
		if err == nil {
			err = s.Apply(t.Context(), nil, meta...)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		lost, err := metaUint(t.Context(), s, metaDataLost)
		if (lost == uint64(shard.LossFound)) != c.alone || err != nil {
			t.Errorf("%s: data-lost is %d, %v", c.what, lost, err)
		}
		found, empty, err := readApplied(t.Context(), s)
		if found.Copying != c.copied || found.Position != 0 || empty == c.alone || err != nil {
			t.Errorf("%s: the marker is %+v, empty %v, %v", c.what, found, empty, err)
		}
		if err := AcceptStorageLoss(t.Context(), s); err != nil {
			t.Error(err)
		}
		if lost, err := metaUint(t.Context(), s, metaDataLost); lost != 0 || err != nil {
			t.Errorf("%s: accepted, data-lost is %d, %v", c.what, lost, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
