package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal/cache"
	"github.com/causalstore/causalstore/sidecar/node"
)

var (
	cacheFamily = &family{subsystem: "cache"}

	cacheEntries     = cacheFamily.gauge("entries", "Cached values.")
	cacheBytes       = cacheFamily.gauge("bytes", "Memory of the cached values, in bytes.")
	cacheHits        = cacheFamily.counter("hits_total", "Reads answered from memory.")
	cacheMisses      = cacheFamily.counter("misses_total", "Reads that were not in memory and went to a shard.")
	cacheJoined      = cacheFamily.counter("joined_total", "Misses that shared a pending read of the same key.")
	cacheInserted    = cacheFamily.counter("inserted_total", "Values inserted.")
	cacheInvalidated = cacheFamily.counter("invalidated_total", "Invalidations received from shards.")
	cacheInFlight    = cacheFamily.counter("in_flight_reads_total",
		"Values passed to sidecars but not cached, because they were not in every ring yet.")
	cacheUnavailable     = cacheFamily.counter("unavailable_total", "Reads that failed because no shard answered.")
	cacheNear            = cacheFamily.counter("near_copies_total", "Copies that sidecars were given.")
	cacheNearInvalidated = cacheFamily.counter("near_copies_invalidated_total",
		"Invalidations that were passed on to sidecars with copies.")
	cacheClock = cacheFamily.counter("clock_refused_total",
		"Answers of shards that were not used because their timestamp is too far ahead of the clock here.")
	cacheCuts = cacheFamily.counter("cuts_refused_total",
		"Reads at a cut that this cache does not know to be complete.")
	cacheResets = cacheFamily.counter("stream_resets_total",
		"Streams from shards that restarted, which discards the values that the previous stream delivered.")
)

// Cache collects the metrics of a cache.
func Cache(get func() *node.Cache) prometheus.Collector {
	return collector{cacheFamily, func(emit emitFunc) {
		c := get()
		if c == nil {
			return
		}
		var st cache.Stats
		var entries, bytes int
		c.Inspect(func(m *cache.Cache) {
			st = m.Stats()
			entries, bytes = m.Size()
		})
		emit(cacheEntries, float64(entries))
		emit(cacheNear, float64(st.NearCopies))
		emit(cacheNearInvalidated, float64(st.NearInvalidated))
		emit(cacheBytes, float64(bytes))
		emit(cacheHits, float64(st.Hits))
		emit(cacheMisses, float64(st.Misses))
		emit(cacheJoined, float64(st.Joined))
		emit(cacheInserted, float64(st.Inserted))
		emit(cacheInvalidated, float64(st.Invalidated))
		emit(cacheInFlight, float64(st.InFlight))
		emit(cacheUnavailable, float64(st.Unavailable))
		emit(cacheClock, float64(st.ClockRefused))
		emit(cacheCuts, float64(st.CutsRefused))
		emit(cacheResets, float64(st.Resets))
	}}
}
