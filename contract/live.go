package contract

import (
	"reflect"
	"slices"

	"github.com/causalstore/causalstore/topology"
)

// AppliesLive reports whether parts that run with the topology old switch to next without a restart. They do if the two
// differ in nothing but the epoch, the places on the map and the numbers of coordinators, their members, shards, caches
// and exclusions, and the tie-breaker: a change of data centers, rings or round-trip times needs a restart.
func AppliesLive(old, next *topology.Topology) bool {
	same := func(x, y topology.DataCenter) bool {
		x.Shards, x.ShardsBefore, x.Caches = y.Shards, y.ShardsBefore, y.Caches
		x.Coordinators, x.CoordinatorsBefore = y.Coordinators, y.CoordinatorsBefore
		x.CoordinatorMembers, x.CoordinatorMembersBefore = y.CoordinatorMembers, y.CoordinatorMembersBefore
		x.ShardMembers, x.ShardMembersBefore = y.ShardMembers, y.ShardMembersBefore
		x.Exclusions, x.KeepsData, x.Returned, x.ForceExclusion = y.Exclusions, y.KeepsData, y.Returned,
			y.ForceExclusion
		x.Place = y.Place // pointers; and for maps only
		return x == y
	}
	return slices.EqualFunc(old.DCs, next.DCs, same) && reflect.DeepEqual(old.Rings, next.Rings) &&
		reflect.DeepEqual(old.RTT, next.RTT)
}
