package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/sidecar/causal/session"
)

// waitInterval is how often operations are looked at that take long.
const waitInterval = 250 * time.Millisecond

// watchWaits notes operations that take longer than a limit, in a run without faults, as violations. Those do not count
// that have waited for a write of another data center, before an update: as long as others write the key there, that
// may be.
func (wl *workload) watchWaits(limit time.Duration) {
	w := wl.world
	for _, n := range w.order {
		s, ok := n.m.(*session.Sidecar)
		if !ok {
			continue
		}
		s.EachWait(w.clock(n), waitInterval, func(is session.Wait) {
			isForeign := is.For == session.WaitsForForeign
			if !isForeign && is.Taken <= limit || slices.Contains(wl.explained, is.Op.ID) {
				return
			}
			if wl.explained = append(wl.explained, is.Op.ID); isForeign {
				return
			}
			wl.waits = append(wl.waits, fmt.Sprintf("liveness: at %s, operation %d of %s, of kind %d of key %q, has "+
				"taken %s, though there are no faults, and waits for %s %s", time.Duration(w.now), is.Op.ID, n.id,
				is.Op.Kind, slices.Concat(is.Op.Keys, []string{is.Op.Key}), is.Taken, is.For, is.On))
		})
	}
	w.schedule(int64(waitInterval), func() { wl.watchWaits(limit) })
}
