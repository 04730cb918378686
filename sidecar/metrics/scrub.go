package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/storage/scrub"
)

var (
	scrubFamily = &family{subsystem: "storage_scrub"}

	scrubKeys = scrubFamily.counter("keys_total",
		"Records that were read to see whether they are as they were written.")
	scrubBytes = scrubFamily.counter("bytes_total",
		"Bytes of keys and values that were read to see whether they are as they were written.")
	scrubPasses  = scrubFamily.counter("passes_total", "Passes that have read every record of the storage.")
	scrubDamaged = scrubFamily.counter("damaged_total",
		"Passes that have found damage. The storage then counts as lost, and starts over.")
	scrubLastPass = scrubFamily.gauge("last_pass_timestamp_seconds",
		"When a pass since the start has read every record last, in seconds since the epoch; 0: none has yet.")
)

// Scrub collects the metrics of the scrub of a storage.
func Scrub(get func() scrub.Progress) prometheus.Collector {
	return collector{scrubFamily, func(emit emitFunc) {
		p, last := get(), 0.0
		if !p.LastPass.IsZero() {
			last = float64(p.LastPass.UnixMilli()) / 1e3
		}
		emit(scrubKeys, float64(p.Keys))
		emit(scrubBytes, float64(p.Bytes))
		emit(scrubPasses, float64(p.Passes))
		emit(scrubDamaged, float64(p.Damaged))
		emit(scrubLastPass, last)
	}}
}
