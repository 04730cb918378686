package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

var (
	middlemanFamily = &family{subsystem: "middleman"}

	middlemanInWork        = middlemanFamily.gauge("puts_in_work", "Writes that wait for dependencies, storage or invalidations.")
	middlemanProcessed     = middlemanFamily.gauge("processed_writes", "Processed writes that the vectors do not cover yet.")
	middlemanCachedAt      = middlemanFamily.gauge("cached_at_bytes", "Memory of which data centres hold a copy of which keys, in bytes.")
	middlemanHistory       = middlemanFamily.gauge("history_bytes", "Memory of overwritten versions that a read at a cut may need, in bytes.")
	middlemanGets          = middlemanFamily.counter("gets_total", "Reads by sidecars.")
	middlemanFills         = middlemanFamily.counter("fills_total", "Reads by caches.")
	middlemanPuts          = middlemanFamily.counter("puts_total", "Writes that arrived from coordinators, repeated ones included.")
	middlemanSuperseded    = middlemanFamily.counter("superseded_total", "Writes that had lost to a greater version of their key when they were processed.")
	middlemanInFlight      = middlemanFamily.counter("in_flight_reads_total", "Reads answered with a value that was not in every ring yet.")
	middlemanInvalidations = middlemanFamily.counter("invalidations_total", "Invalidations sent to caches.")
	middlemanDepWaits      = middlemanFamily.counter("dependency_waits_total", "Dependencies that a write had to wait for.")
	middlemanErrors        = middlemanFamily.counter("storage_errors_total", "Requests that the storage failed.")
	middlemanOlderReads    = middlemanFamily.counter("older_reads_total", "Reads that were given an older, complete version instead of an in-flight one.")
	middlemanCutsTooOld    = middlemanFamily.counter("cuts_too_old_total", "Reads at a cut whose versions were gone.")
	middlemanForeign       = middlemanFamily.counter("foreign_values_total", "Values met in storage that something else wrote.")
)

// Middleman shows a middleman.
func Middleman(get func() *node.Middleman) prometheus.Collector {
	return scrape{middlemanFamily, func(show emit) {
		mm := get()
		if mm == nil {
			return
		}
		var st causal.MiddlemanStats
		var puts, processed, cachedAt, history int
		mm.Machine(func(m *causal.Middleman) {
			st = m.Stats()
			puts, processed, cachedAt, history = m.Depth()
		})
		show(middlemanInWork, float64(puts))
		show(middlemanProcessed, float64(processed))
		show(middlemanCachedAt, float64(cachedAt))
		show(middlemanHistory, float64(history))
		show(middlemanGets, float64(st.Gets))
		show(middlemanFills, float64(st.Fills))
		show(middlemanPuts, float64(st.Puts))
		show(middlemanSuperseded, float64(st.Superseded))
		show(middlemanInFlight, float64(st.InFlightReads))
		show(middlemanInvalidations, float64(st.Invalidations))
		show(middlemanDepWaits, float64(st.DepWaits))
		show(middlemanErrors, float64(st.StorageErrors))
		show(middlemanOlderReads, float64(st.OlderReads))
		show(middlemanCutsTooOld, float64(st.CutsTooOld))
		show(middlemanForeign, float64(st.Foreign))
	}}
}
