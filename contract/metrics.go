package contract

// Metrics of coordinators that the operator reads.
const (
	// MetricIncompleteWrites is the number of accepted writes that are not in every ring yet.
	MetricIncompleteWrites = "causalstore_coordinator_incomplete_writes"
	// MetricStabilityLag is how long writes take to be in every ring, in seconds. It is absent until it is known.
	MetricStabilityLag = "causalstore_coordinator_stability_lag_seconds"
	// MetricRingLag is how far a ring, given by the label LabelToRing, is behind a coordinator, in seconds.
	MetricRingLag = "causalstore_coordinator_ring_lag_seconds"
	LabelToRing   = "to_ring"
	// MetricRoundTrip is the round trip from the first coordinator of a data center to a middleman of each data center, given
	// by the label LabelToDataCenter, in seconds; +Inf if that one does not answer. It is absent until the first answer, or
	// until it is known that there is none.
	MetricRoundTrip   = "causalstore_coordinator_round_trip_seconds"
	LabelToDataCenter = "to_data_center"
	// MetricServes is 1 if a member of a coordinator's group serves it, else 0.
	MetricServes = "causalstore_coordinator_serves"
	// MetricGroupMembers is how many of the members that the group should have, MetricGroupMembersWanted, are in it, and
	// MetricGroupMembersLeaving how many others are, as the member knows it.
	MetricGroupMembers        = "causalstore_coordinator_group_members"
	MetricGroupMembersWanted  = "causalstore_coordinator_group_members_wanted"
	MetricGroupMembersLeaving = "causalstore_coordinator_group_members_leaving"
	// MetricPeerState is 1 for the PeerState, given by the label LabelState, of another data center, and 0 for the others.
	MetricPeerState = "causalstore_peer_state"
	LabelState      = "state"
)
