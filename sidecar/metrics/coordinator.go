package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

var (
	coordinatorFamily = &family{subsystem: "coordinator"}

	coordinatorWrites      = coordinatorFamily.gauge("incomplete_writes", "Accepted writes that are not in every ring yet.")
	coordinatorBytes       = coordinatorFamily.gauge("incomplete_bytes", "Size of the accepted writes that are not in every ring yet, keys and values, in bytes.")
	coordinatorLog         = coordinatorFamily.gauge("log_bytes", "Size of the write buffer log on disk, in bytes.")
	coordinatorBufferLimit = coordinatorFamily.gauge("write_buffer_limit_bytes", "Size of incomplete_bytes at which writes are refused (BUSY), in bytes.")
	coordinatorLogLimit    = coordinatorFamily.gauge("log_limit_bytes", "Size of log_bytes at which writes are refused (BUSY), in bytes.")
	coordinatorLogErrors   = coordinatorFamily.counter("log_errors_total", "Writes to the log that failed because the disk was full. They are repeated.")
	coordinatorSV          = coordinatorFamily.gauge("stability_lag_seconds", "Age of the newest timestamp at or below which every write of this coordinator is in every ring.")
	coordinatorTrips       = coordinatorFamily.gauge("round_trip_seconds",
		"Round-trip time to a data centre, as measured by the first coordinator of this one, in seconds; +Inf if it does not answer.",
		"to_data_center")
	coordinatorClock = coordinatorFamily.counter("clock_refused_total", "Puts that were refused because what their session claims to have seen is too far ahead.")
	coordinatorGroup = newGroupSeries(coordinatorFamily, "coordinator", "log")
	coordinatorRV    = coordinatorFamily.gauge("ring_lag_seconds", "Age of the newest timestamp at or below which a ring has acknowledged every write of this coordinator.", "to_ring")
)

// Coordinator collects the metrics of a coordinator of t.
func Coordinator(t *topology.Topology, get func() *node.Coordinator) prometheus.Collector {
	return collector{coordinatorFamily, func(emit emitFunc) {
		c := get()
		if c == nil {
			return
		}
		coordinatorGroup.emit(c.Status(), t.MembersOf(c.ID()), emit)
		var writes, bytes int
		var e causal.VectorEntry
		var refused uint64
		trips := map[topology.DC]float64{}
		c.Inspect(func(m *coordinator.Coordinator) {
			writes, bytes = m.Pending()
			refused = m.Stats().ClockRefused
			e = m.Known().Entry(t.OriginOf(c.ID()))
			m.ForEachRoundTrip(func(dc topology.DC, ms float64) { trips[dc] = ms / 1e3 })
		})
		for dc, seconds := range trips {
			if seconds < 0 {
				seconds = math.Inf(1)
			}
			emit(coordinatorTrips, seconds, t.DCs[dc].Name)
		}
		emit(coordinatorWrites, float64(writes))
		emit(coordinatorBytes, float64(bytes))
		emit(coordinatorClock, float64(refused))
		emit(coordinatorLog, float64(c.LogBytes()))
		failures, _ := c.LogState()
		emit(coordinatorLogErrors, float64(failures))
		bufferLimit, logLimit := c.Limits()
		emit(coordinatorBufferLimit, float64(bufferLimit))
		emit(coordinatorLogLimit, float64(logLimit))
		if e.SV == 0 {
			return // it has not published yet
		}
		now := time.Now()
		emit(coordinatorSV, lagSeconds(e.SV, now))
		for r, h := range e.RV {
			emit(coordinatorRV, lagSeconds(h, now), t.Rings[r].Name)
		}
	}}
}
