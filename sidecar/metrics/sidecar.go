package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/node"
)

var (
	sidecarFamily = &family{subsystem: "sidecar"}

	sidecarReads = sidecarFamily.counter("reads_total",
		"Keys read, by where the value came from: own incomplete write, data centre cache, shard in this data centre, shard in another one.", "source")
	sidecarGets        = sidecarFamily.counter("gets_total", "Reads of single keys that were begun.")
	sidecarBound       = sidecarFamily.counter("bound_gets_total", "Reads of single keys by sessions that were bound to a part of the rings (dynamic ring restriction).")
	sidecarInFlight    = sidecarFamily.counter("in_flight_reads_total", "Reads that returned a value which was not in every ring yet.")
	sidecarReread      = sidecarFamily.counter("rereads_total", "Answers thrown away and read again, because no ring had them and what the session had seen before.")
	sidecarRetried     = sidecarFamily.counter("retries_total", "Reads sent elsewhere, because a cache or shard did not answer in time.")
	sidecarPuts        = sidecarFamily.counter("puts_total", "Writes and deletions that were begun.")
	sidecarMGets       = sidecarFamily.counter("mgets_total", "Reads of several keys that were begun.")
	sidecarRounds      = sidecarFamily.counter("mget_rounds_total", "Rounds of requests that reads of several keys took.")
	sidecarSnapshots   = sidecarFamily.counter("mget_snapshots_total", "Reads of several keys that were answered from a stable cut.")
	sidecarUnavailable = sidecarFamily.counter("unavailable_total", "Operations that failed because nothing that may answer did so in time. Nothing was done.")
	sidecarUnknown     = sidecarFamily.counter("unknown_outcomes_total", "Writes of which it is not known whether they were accepted.")
	sidecarSessions    = sidecarFamily.gauge("sessions", "Open sessions.")
	sidecarBoundNow    = sidecarFamily.gauge("bound_sessions", "Sessions that have read something which is not in every ring yet.")
	sidecarIncomplete  = sidecarFamily.gauge("incomplete_writes", "Own writes of the sessions that are not in every ring yet.")
	sidecarLag         = sidecarFamily.gauge("stability_lag_seconds", "Age of the newest timestamp at or below which every write is known to be in every ring. Absent until the vectors were heard.")
)

// Sidecar shows a sidecar.
func Sidecar(get func() *node.Sidecar) prometheus.Collector {
	return scrape{sidecarFamily, func(show emit) {
		s := get()
		if s == nil {
			return
		}
		var st causal.SidecarStats
		var sessions, bound, incomplete int
		var sv causal.HLC
		s.Machine(func(m *causal.Sidecar) {
			st, sv = m.Stats(), m.Known().MinSV()
			m.Sessions(func(_ uint64, status causal.SessionStatus) {
				sessions++
				incomplete += status.Incomplete
				if status.Bound > 0 {
					bound++
				}
			})
		})
		show(sidecarReads, float64(st.Own), causal.SourceOwn.String())
		show(sidecarReads, float64(st.CacheHits), causal.SourceCache.String())
		show(sidecarReads, float64(st.Local), causal.SourceLocal.String())
		show(sidecarReads, float64(st.Remote), causal.SourceRemote.String())
		show(sidecarGets, float64(st.Gets))
		show(sidecarBound, float64(st.Bound))
		show(sidecarInFlight, float64(st.InFlight))
		show(sidecarReread, float64(st.Reread))
		show(sidecarRetried, float64(st.Retried))
		show(sidecarPuts, float64(st.Puts))
		show(sidecarMGets, float64(st.MGets))
		show(sidecarRounds, float64(st.MGetRounds))
		show(sidecarSnapshots, float64(st.Snapshots))
		show(sidecarUnavailable, float64(st.Unavailable))
		show(sidecarUnknown, float64(st.Unknown))
		show(sidecarSessions, float64(sessions))
		show(sidecarBoundNow, float64(bound))
		show(sidecarIncomplete, float64(incomplete))
		if sv > 0 {
			show(sidecarLag, lagSeconds(sv, time.Now()))
		}
	}}
}
