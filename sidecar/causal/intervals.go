package causal

import (
	"math"
	"time"
)

// Never is the time of a tick that nothing needs.
const Never int64 = math.MaxInt64

// Intervals that two machines must agree on.
const (
	// SubscriptionTTL is how long a sidecar gets the vectors after a Subscribe.
	SubscriptionTTL = 10 * time.Second
	// SnapshotReadersTTL is how long after a snapshot read a data center counts as having readers of older versions:
	// caches keep these, and middlemen remember which caches may.
	SnapshotReadersTTL = time.Minute
)
