package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

var (
	cacheFamily = &family{subsystem: "cache"}

	cacheEntries     = cacheFamily.gauge("entries", "Values held.")
	cacheBytes       = cacheFamily.gauge("bytes", "Memory of the values held, in bytes.")
	cacheHits        = cacheFamily.counter("hits_total", "Reads answered from memory.")
	cacheMisses      = cacheFamily.counter("misses_total", "Reads that had to be read through.")
	cacheJoined      = cacheFamily.counter("joined_total", "Misses that joined a read-through under way.")
	cacheInserted    = cacheFamily.counter("inserted_total", "Values taken in.")
	cacheInvalidated = cacheFamily.counter("invalidated_total", "Invalidations taken.")
	cacheInFlight    = cacheFamily.counter("in_flight_reads_total", "Values passed on and not kept, since they were not in every ring yet.")
	cacheUnavailable = cacheFamily.counter("unavailable_total", "Reads that no shard answered.")
	cacheResets      = cacheFamily.counter("stream_resets_total", "Streams from shards begun anew, which voids what the last one had brought.")
)

// Cache shows a cache.
func Cache(get func() *node.Cache) prometheus.Collector {
	return scrape{cacheFamily, func(show emit) {
		c := get()
		if c == nil {
			return
		}
		var st causal.CacheStats
		var entries, bytes int
		c.Machine(func(m *causal.Cache) {
			st = m.Stats()
			entries, bytes = m.Size()
		})
		show(cacheEntries, float64(entries))
		show(cacheBytes, float64(bytes))
		show(cacheHits, float64(st.Hits))
		show(cacheMisses, float64(st.Misses))
		show(cacheJoined, float64(st.Joined))
		show(cacheInserted, float64(st.Inserted))
		show(cacheInvalidated, float64(st.Invalidated))
		show(cacheInFlight, float64(st.InFlight))
		show(cacheUnavailable, float64(st.Unavailable))
		show(cacheResets, float64(st.Resets))
	}}
}
