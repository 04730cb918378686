package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Measure is what a coordinator reports of its write buffer.
type Measure struct {
	// StabilityLag is how long its writes take to be in every ring.
	StabilityLag time.Duration
	// RingLag is how far each ring is behind it.
	RingLag map[string]time.Duration
	// Incomplete is how many writes are not in every ring yet.
	Incomplete int64
	// Published says whether the lags are known yet.
	Published bool
	// Answering says of each data center that a first coordinator has probed whether its middlemen answer. Other
	// coordinators probe none. A coordinator without incomplete writes has no lag, so this alone tells that a ring can
	// be reached.
	Answering map[string]bool
	// Follows says that the coordinator is one member of a group, and does not serve it.
	Follows bool
	// Exclusions is what it does about data centers that were excluded, by their names.
	Exclusions map[string]Exclusion
	// Members is how many of the MembersWanted that the group should have are in it, and MembersLeaving how many others
	// are.
	Members, MembersWanted, MembersLeaving int
}

const (
	// maxInFlightAge is the age up to which incomplete writes count as in flight. Under load some always are; a
	// coordinator that shuts down has much longer to complete them.
	maxInFlightAge = 5 * time.Second
	// maxDrainWait is how long restarts wait for a log. A ring that cannot be reached must not keep a store from being
	// repaired: a coordinator replays its log when it is back.
	maxDrainWait = 5 * time.Minute
)

// Exclusion is what a coordinator does about an excluded data center: it goes by the exclusion with the number Applied,
// and completes writes without some of its shards. LastCopy: it does not go by the newest one, because nobody else may
// have the data.
type Exclusion struct {
	Applied, Without, Shards int32
	LastCopy                 bool
}

// Drained reports whether all writes that a coordinator has accepted are in every ring, or in flight.
func (m Measure) Drained() bool {
	return m.Incomplete == 0 || m.Published && m.StabilityLag <= maxInFlightAge
}

// checkLogs denies a restart while the log of a coordinator has not drained, and describes the logs that are no longer
// waited for. A ring that lacks writes because a pod was away gets them before the next pod restarts.
func checkLogs(in Observed) (decision Decision, late []string) {
	decision = allow()
	for i := range in.Pods {
		p := &in.Pods[i]
		since, undrained := in.UndrainedSince[p.Name]
		if !undrained || !isCoordinator(p) {
			continue
		}
		text := p.Name + " has not reported how many writes are not in every ring"
		if m, ok := in.Measured[p.Name]; ok {
			text = fmt.Sprintf("%s has %d writes that are not in every ring%s", p.Name, m.Incomplete, m.laggingRings())
		}
		if in.Now.Sub(since) >= maxDrainWait {
			late = append(late, text)
		} else if decision.Allowed {
			decision = deny(ReasonLogNotDrained, "%s", text)
		}
	}
	return decision, late
}

// laggingRings names, in parentheses, the rings that a coordinator waits for.
func (m Measure) laggingRings() string {
	var rings []string
	for ring, lag := range m.RingLag {
		if lag > maxInFlightAge {
			rings = append(rings, ring)
		}
	}
	if len(rings) == 0 {
		return ""
	}
	slices.Sort(rings)
	return " (" + strings.Join(rings, ", ") + ")"
}
