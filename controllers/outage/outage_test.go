package outage_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/causalstore/causalstore/controllers/outage"
)

func dc(name string, members, etcd int) outage.DataCenter {
	return outage.DataCenter{Name: name, Coordinators: 1, CoordinatorMembers: members, Shards: 2, ShardMembers: members,
		Caches: 1, Etcd: etcd}
}

func one(kind outage.Kind, dc string, index, member int) outage.Process {
	return outage.Process{DataCenter: dc, Kind: kind, Index: index, Member: member}
}

func TestWhatClientsNoticeFollowsFromTheLayout(t *testing.T) {
	single := outage.Store{DataCenters: []outage.DataCenter{dc("a", 1, 0)}, Rings: [][]string{{"a"}}, Fronts: true}
	double := outage.Store{DataCenters: []outage.DataCenter{dc("a", 1, 0), dc("b", 1, 0)},
		Rings: [][]string{{"a"}, {"b"}}, Fronts: true}
	static := double
	static.Static = true
	grouped := outage.Store{DataCenters: []outage.DataCenter{dc("a", 2, 3)}, Rings: [][]string{{"a"}}, Fronts: true}
	for _, c := range []struct {
		name  string
		store outage.Store
		away  []outage.Process
		want  outage.Effects
	}{
		{"nothing", single, nil, outage.Effects{}},
		{"a shard of the only ring", single, []outage.Process{one(outage.Shard, "a", 1, 1)},
			outage.Effects{Unreadable: []string{"shard 1 of a"}}},
		{"a shard of one of two rings", double, []outage.Process{one(outage.Shard, "a", 1, 1)},
			outage.Effects{ReadElsewhere: []string{"shard 1 of a"}}},
		{"a shard of each ring", double, []outage.Process{one(outage.Shard, "a", 1, 1), one(outage.Shard, "b", 0, 1)},
			outage.Effects{Unreadable: []string{"shard 1 of a", "shard 0 of b"}}},
		{"a shard of one of two rings, with static binding", static, []outage.Process{one(outage.Shard, "a", 1, 1)},
			outage.Effects{Unreadable: []string{"shard 1 of a"}}},
		{"the only coordinator", single, []outage.Process{one(outage.Coordinator, "a", 0, 1)},
			outage.Effects{Unwritable: true, NoFront: []string{"a"}}},
		{"one of two coordinators", double, []outage.Process{one(outage.Coordinator, "a", 0, 1)},
			outage.Effects{WrittenElsewhere: []string{"coordinator 0 of a"}, NoFront: []string{"a"}}},
		{"a cache", single, []outage.Process{one(outage.Cache, "a", 0, 1)}, outage.Effects{Uncached: []string{"a"}}},
		{"a member of two", grouped, []outage.Process{one(outage.Shard, "a", 0, 1), one(outage.Coordinator, "a", 0, 2)},
			outage.Effects{TakenOver: []string{"coordinator 0 of a", "shard 0 of a"}}},
		{"both members", grouped, []outage.Process{one(outage.Shard, "a", 0, 1), one(outage.Shard, "a", 0, 2)},
			outage.Effects{Unreadable: []string{"shard 0 of a"}}},
		{"a member of etcd", grouped, []outage.Process{one(outage.Etcd, "a", 0, 1)}, outage.Effects{}},
		{"two members of etcd", grouped, []outage.Process{one(outage.Etcd, "a", 0, 1), one(outage.Etcd, "a", 1, 1)},
			outage.Effects{WithoutQuorum: []string{"a"}}},
		{"two members of etcd and one of a shard: nobody may take over", grouped,
			[]outage.Process{one(outage.Etcd, "a", 0, 1), one(outage.Etcd, "a", 1, 1), one(outage.Shard, "a", 0, 2)},
			outage.Effects{WithoutQuorum: []string{"a"}, Unreadable: []string{"shard 0 of a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := outage.Of(c.store, c.away)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			fails := len(c.want.Unreadable) > 0 || c.want.Unwritable || len(c.want.NoFront) > 0
			if got.Fails() != fails || strings.Contains(got.String(), "NO ANSWER") != (len(c.want.Unreadable) > 0) {
				t.Errorf("%t, %s", got.Fails(), &got)
			}
		})
	}
}
