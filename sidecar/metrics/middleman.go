package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal/middleman"
)

var (
	middlemanFamily = &family{subsystem: "middleman"}

	middlemanInWork = middlemanFamily.gauge("puts_in_work",
		"Writes that wait for dependencies, storage or invalidations of caches.")
	middlemanProcessed = middlemanFamily.gauge("processed_writes",
		"Processed writes that the stability vectors do not cover yet.")
	middlemanCachedAt = middlemanFamily.gauge("cached_at_bytes",
		"Memory for tracking which data centers have which keys in their caches, in bytes.")
	middlemanHistory = middlemanFamily.gauge("history_bytes",
		"Memory of overwritten versions that reads at a cut may need, in bytes.")
	middlemanGets  = middlemanFamily.counter("gets_total", "Reads by sidecars.")
	middlemanFills = middlemanFamily.counter("fills_total", "Reads by caches.")
	middlemanPuts  = middlemanFamily.counter("puts_total",
		"Writes received from coordinators, including repeated ones.")
	middlemanSuperseded = middlemanFamily.counter("superseded_total",
		"Writes that were processed after a greater version of their key.")
	middlemanInFlight = middlemanFamily.counter("in_flight_reads_total",
		"Reads that returned a value that was not in every ring yet.")
	middlemanInvalidations = middlemanFamily.counter("invalidations_total", "Invalidations sent to caches.")
	middlemanDepWaits      = middlemanFamily.counter("dependency_waits_total",
		"Dependencies that writes had to wait for.")
	middlemanErrors = middlemanFamily.counter("storage_errors_total",
		"Failed requests to the storage, pings included.")
	middlemanClock = middlemanFamily.counter("clock_refused_total",
		"Writes that were refused because their timestamp is too far ahead of the clock here. Their coordinators "+
			"send them again.")
	middlemanOlderReads = middlemanFamily.counter("older_reads_total",
		"Reads that returned an older, complete version instead of an in-flight one.")
	middlemanCutsTooOld = middlemanFamily.counter("cuts_too_old_total",
		"Reads at a cut whose versions were no longer stored.")
	middlemanRefusedReads = middlemanFamily.counter("refused_reads_total",
		"Reads that were refused because there was no room for their replies. Who still wants the value asks again.")
	middlemanBackfillKeys = middlemanFamily.gauge("backfill_keys",
		"Keys that were looked up in another ring, while lost data come back; 0 otherwise.")
	middlemanBackfillAll = middlemanFamily.gauge("backfill_expected_keys",
		"About how many keys are to be looked up in other rings, as far as they were counted.")
	middlemanBackfillBytes = middlemanFamily.gauge("backfill_bytes",
		"Bytes of values that were copied from other rings, while lost data come back.")
	middlemanExpired = middlemanFamily.counter("expired_total",
		"Values that were removed from storage since they had expired.")
	middlemanExpiring = middlemanFamily.gauge("expiring_keys",
		"Keys with an expire time that are noted to be removed; with very many, those that expire next.")
	middlemanForeign = middlemanFamily.counter("foreign_values_total",
		"Values found in storage that CausalStore did not write.")
)

// Shard is a middleman, or a member of a shard's group.
type Shard interface {
	Inspect(f func(*middleman.Middleman))
	StorageState() (failures uint64, problem error)
}

// Middleman collects the metrics of a middleman.
func Middleman(get func() Shard) prometheus.Collector {
	return collector{middlemanFamily, func(emit emitFunc) {
		mm := get()
		if mm == nil {
			return
		}
		var st middleman.Stats
		var backfill middleman.BackfillProgress
		var expiring int
		var puts, processed, cachedAt, history int
		mm.Inspect(func(m *middleman.Middleman) {
			st = m.Stats()
			puts, processed, cachedAt, history = m.Depth()
			expiring = m.Expiring()
			backfill, _ = m.Backfill()
		})
		emit(middlemanInWork, float64(puts))
		emit(middlemanProcessed, float64(processed))
		emit(middlemanCachedAt, float64(cachedAt))
		emit(middlemanHistory, float64(history))
		emit(middlemanGets, float64(st.Gets))
		emit(middlemanFills, float64(st.Fills))
		emit(middlemanPuts, float64(st.Puts))
		emit(middlemanSuperseded, float64(st.Superseded))
		emit(middlemanInFlight, float64(st.InFlightReads))
		emit(middlemanInvalidations, float64(st.Invalidations))
		emit(middlemanDepWaits, float64(st.DepWaits))
		failures, _ := mm.StorageState()
		emit(middlemanErrors, float64(failures))
		emit(middlemanClock, float64(st.ClockRefused))
		emit(middlemanOlderReads, float64(st.OlderReads))
		emit(middlemanCutsTooOld, float64(st.CutsTooOld))
		emit(middlemanRefusedReads, float64(st.RefusedReads))
		emit(middlemanBackfillKeys, float64(backfill.Keys))
		emit(middlemanBackfillAll, float64(backfill.Expected))
		emit(middlemanBackfillBytes, float64(backfill.Bytes))
		emit(middlemanExpired, float64(st.Expired))
		emit(middlemanExpiring, float64(expiring))
		emit(middlemanForeign, float64(st.Foreign))
	}}
}
