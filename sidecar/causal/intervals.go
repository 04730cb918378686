package causal

import "time"

// Intervals that two machines must agree on.
const (
	// SubscriptionTTL is how long a sidecar gets the vectors after a Subscribe.
	SubscriptionTTL = 10 * time.Second
	// SnapshotReadersTTL is how long after a snapshot read a data center counts as having readers of older versions: caches keep
	// these, and middlemen remember which caches may.
	SnapshotReadersTTL = time.Minute
)
