package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

var (
	coordinatorFamily = &family{subsystem: "coordinator"}

	coordinatorWrites = coordinatorFamily.gauge("incomplete_writes", "Accepted writes that are not in every ring yet.")
	coordinatorBytes  = coordinatorFamily.gauge("incomplete_bytes", "Keys and values of accepted writes that are not in every ring yet, in bytes.")
	coordinatorLog    = coordinatorFamily.gauge("log_bytes", "Size of the write buffer log on disk, in bytes.")
	coordinatorSV     = coordinatorFamily.gauge("stability_lag_seconds", "Age of the newest timestamp at or below which every write of this coordinator is in every ring.")
	coordinatorTrips  = coordinatorFamily.gauge("round_trip_seconds",
		"Round trip to a data centre, as this data centre's first coordinator has probed it; +Inf if it does not answer.",
		"to_data_center")
	coordinatorRV = coordinatorFamily.gauge("ring_lag_seconds", "Age of the newest timestamp at or below which a ring has acknowledged every write of this coordinator.", "to_ring")
)

// Coordinator shows a coordinator of t.
func Coordinator(t *topology.Topology, get func() *node.Coordinator) prometheus.Collector {
	return scrape{coordinatorFamily, func(show emit) {
		c := get()
		if c == nil {
			return
		}
		var writes, bytes int
		var e causal.VectorEntry
		trips := map[topology.DC]float64{}
		c.Machine(func(m *causal.Coordinator) {
			writes, bytes = m.Pending()
			e = m.Known().Entry(t.OriginOf(c.ID))
			m.RoundTrips(func(dc topology.DC, ms float64) { trips[dc] = ms / 1e3 })
		})
		for dc, seconds := range trips {
			if seconds < 0 {
				seconds = math.Inf(1)
			}
			show(coordinatorTrips, seconds, t.DCs[dc].Name)
		}
		show(coordinatorWrites, float64(writes))
		show(coordinatorBytes, float64(bytes))
		show(coordinatorLog, float64(c.LogBytes()))
		if e.SV == 0 {
			return // nothing is published yet
		}
		now := time.Now()
		show(coordinatorSV, lagSeconds(e.SV, now))
		for r, h := range e.RV {
			show(coordinatorRV, lagSeconds(h, now), t.Rings[r].Name)
		}
	}}
}
