package process

import (
	"fmt"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/topology"
)

// What operations wait for that take long is logged: their clients see a time-out, and not why.

const (
	// longWait is how long an operation takes that is logged.
	longWait = 3 * time.Second
	// waitLogInterval is how often at most.
	waitLogInterval = 10 * time.Second
)

// logWaits logs what operations wait for that take long, until the part is closed.
func (s *sidecarPart) logWaits() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var saidAt time.Time
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
		}
		if time.Since(saidAt) < waitLogInterval {
			continue
		}
		if w := s.s.Waits(longWait); w.All > 0 {
			saidAt = time.Now()
			s.log.Warn("operations take long", "operations", w.All, "longest", w.Longest.Taken.Round(time.Millisecond),
				"longestIs", kindName(w.Kind), "waitsFor", describeWait(s.topo(), w.Longest))
		}
	}
}

func kindName(k session.OpKind) string {
	return [...]string{session.OpGet: "a read", session.OpMGet: "a read of several keys", session.OpPut: "a write",
		session.OpToken: "an export", session.OpResume: "a resumption", session.OpWait: "a wait",
		session.OpCount: "a count", session.OpScan: "a scan"}[k]
}

// describeWait says what an operation waits for.
func describeWait(t *topology.Topology, w session.Wait) string {
	on := ""
	if w.On.Part != topology.PartNone {
		on = fmt.Sprintf(" (%s %d of %s)", w.On.Part, w.On.Index, t.DCs[w.On.DC].Name)
	}
	switch w.For {
	case session.WaitsForHome:
		return "the home of a key that is read to answer, or to take over what another one had" + on
	case session.WaitsForCoordinator:
		return "the coordinator that has got the write to answer" + on
	case session.WaitsForLeadership:
		return "the coordinator that has got the write, and is away, to serve again" + on
	case session.WaitsForUsable:
		return "a coordinator that takes the write: it cannot be reached, or it refuses" + on
	case session.WaitsForEarlier:
		return "earlier writes of the session"
	case session.WaitsForPast:
		return "what the session has seen to be in a ring that it may use"
	case session.WaitsForQuiet:
		return "keys that are written all the time, while several are read in one step"
	case session.WaitsForForeign:
		return "a write of another data center to be in every ring, before an update"
	}
	return "a cache or a shard to answer" + on
}
