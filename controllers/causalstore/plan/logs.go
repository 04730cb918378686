package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Measure is what a coordinator says of itself.
type Measure struct {
	// StabilityLag is how long its writes take to be in every ring.
	StabilityLag time.Duration
	// RingLag is how far each ring is behind it.
	RingLag map[string]time.Duration
	// Incomplete writes are not in every ring yet.
	Incomplete int64
	// Published says whether the lags are known yet.
	Published bool
}

const (
	// underway is how old an incomplete write may be that counts as on its way. While there is load, some always are; a coordinator
	// that ends has much longer to bring them to every ring.
	underway = 5 * time.Second
	// drainPatience is how long restarts wait for a log. A ring that cannot be reached must not keep a store from being mended: what
	// is in a log goes on when its coordinator is back.
	drainPatience = 5 * time.Minute
)

// Drained says whether all that a coordinator has accepted is in every ring, or on its way there.
func (m Measure) Drained() bool {
	return m.Incomplete == 0 || m.Published && m.StabilityLag <= underway
}

// logs says why a restart has to wait for the log of a coordinator, and which logs are waited for no longer. What a ring lacks
// because a pod was away is to be there before the next one goes.
func logs(in Observed) (waiting string, late []string) {
	for i := range in.Pods {
		p := &in.Pods[i]
		since, undrained := in.Undrained[p.Name]
		if !undrained || p.Labels[LabelComponent] != ComponentCoordinator {
			continue
		}
		is := p.Name + " has not said how far its log is"
		if m, ok := in.Measured[p.Name]; ok {
			is = fmt.Sprintf("%s has %d writes that are not in every ring%s", p.Name, m.Incomplete, m.lagging())
		}
		if in.Now.Sub(since) >= drainPatience {
			late = append(late, is)
		} else if waiting == "" {
			waiting = is
		}
	}
	return waiting, late
}

// lagging names the rings that a coordinator waits for.
func (m Measure) lagging() string {
	var rings []string
	for ring, lag := range m.RingLag {
		if lag > underway {
			rings = append(rings, ring)
		}
	}
	if len(rings) == 0 {
		return ""
	}
	slices.Sort(rings)
	return " (" + strings.Join(rings, ", ") + ")"
}
