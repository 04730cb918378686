package contract

import "github.com/causalstore/causalstore/topology"

// Metrics of coordinators that the operator reads.
const (
	// MetricIncompleteWrites is the number of accepted writes that are not in every ring yet.
	MetricIncompleteWrites = "causalstore_coordinator_incomplete_writes"
	// MetricStabilityLag is how long writes take to be in every ring, in seconds. It is absent until it is known.
	MetricStabilityLag = "causalstore_coordinator_stability_lag_seconds"
	// MetricRingLag is how far a ring, given by the label LabelToRing, is behind a coordinator, in seconds.
	MetricRingLag = "causalstore_coordinator_ring_lag_seconds"
	LabelToRing   = "to_ring"
	// MetricExclusions is how often a data center, given by the label LabelOfDataCenter, was excluded, and
	// MetricExcludedShards how many of its shards; both by LabelState.
	MetricExclusions     = "causalstore_coordinator_exclusions"
	MetricExcludedShards = "causalstore_coordinator_excluded_shards"
	LabelOfDataCenter    = "of_data_center"
	// The values of LabelState: of MetricExclusions, the number by which the coordinator goes, and the one that it does
	// not begin with because nobody else may have the data; of MetricExcludedShards, those that writes are completed
	// without, and all.
	ExclusionApplied  = "applied"
	ExclusionLastCopy = "last_copy"
	ExcludedWithout   = "without"
	ExcludedAll       = "all"
	// MetricRoundTrip is the round trip from the first coordinator of a data center to a middleman of each data center,
	// given by the label LabelToDataCenter, in seconds; +Inf if that one does not answer. It is absent until the first
	// answer, or until it is known that there is none.
	MetricRoundTrip   = "causalstore_coordinator_round_trip_seconds"
	LabelToDataCenter = "to_data_center"
	// MetricPeerState is 1 for the PeerState, given by the label LabelState, of another data center, and 0 for the
	// others.
	MetricPeerState = "causalstore_peer_state"
	LabelState      = "state"
)

// MetricServes is 1 if a member of the group of a part, topology.Coordinator or topology.Middleman, serves it, else 0.
func MetricServes(p topology.Part) string { return metricOfGroup(p, "serves") }

// MetricGroupMembers is how many of the members that the group should have, MetricGroupMembersWanted, are in it, and
// MetricGroupMembersLeaving how many others are, as the member knows it.
func MetricGroupMembers(p topology.Part) string { return metricOfGroup(p, "group_members") }
func MetricGroupMembersWanted(p topology.Part) string {
	return metricOfGroup(p, "group_members_wanted")
}
func MetricGroupMembersLeaving(p topology.Part) string {
	return metricOfGroup(p, "group_members_leaving")
}

func metricOfGroup(p topology.Part, name string) string {
	return "causalstore_" + p.String() + "_" + name
}
