package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/nearcopy"
	"github.com/causalstore/causalstore/sidecar/causal/session"
	"github.com/causalstore/causalstore/sidecar/node"
)

var (
	sidecarFamily = &family{subsystem: "sidecar"}

	sidecarReads = sidecarFamily.counter("reads_total",
		"Keys read, by the source of the value: own incomplete write, near copy, home of the key in this data center, "+
			"cache of this data center, shard in this data center, shard in another one.", "source")
	sidecarGets  = sidecarFamily.counter("gets_total", "Reads of single keys that were started.")
	sidecarBound = sidecarFamily.counter("bound_gets_total",
		"Reads of single keys by sessions that were bound to some of the rings (dynamic ring restriction).")
	sidecarInFlight = sidecarFamily.counter("in_flight_reads_total",
		"Reads that returned a value that was not in every ring yet.")
	sidecarReread = sidecarFamily.counter("rereads_total",
		"Reads repeated because no ring had both the value and everything the session had seen before, or because an "+
			"earlier read of their pipeline had found something newer.")
	sidecarHomeRereads = sidecarFamily.counter("home_rereads_total",
		"Reads repeated because what was found elsewhere might lack what the home of the key has forgotten.")
	sidecarHomeWaits = sidecarFamily.counter("home_waits_total",
		"Times that a read at the home waited and asked again: until a ring had both what the session had seen and "+
			"what the value depends on (apart), or, of a read for update, until a write of another data center was "+
			"in every ring (in_flight).", "reason")
	sidecarWaiting = sidecarFamily.gauge("waiting_clients", "Clients that wait for elements.")
	sidecarTurns   = sidecarFamily.counter("turns_total",
		"Times that a client that waits has looked for elements: because a home has told it (told), or because a "+
			"while has passed (interval).", "cause")
	sidecarRetried = sidecarFamily.counter("retries_total",
		"Reads retried elsewhere because a cache or shard did not answer in time.")
	sidecarPuts   = sidecarFamily.counter("puts_total", "Writes and deletions that were started.")
	sidecarMGets  = sidecarFamily.counter("mgets_total", "Reads of several keys that were started.")
	sidecarRounds = sidecarFamily.counter("mget_rounds_total",
		"Rounds of requests that reads of several keys took.")
	sidecarSnapshots = sidecarFamily.counter("mget_snapshots_total",
		"Reads of several keys that were answered from a stable cut.")
	sidecarClock = sidecarFamily.counter("clock_refused_total",
		"Replies that were not used because their timestamp is too far ahead of the clock here.")
	sidecarSettled = sidecarFamily.counter("mget_settled_total",
		"Reads of several keys that are causally consistent, but not what was current at one moment.")
	sidecarUnavailable = sidecarFamily.counter("unavailable_total",
		"Operations that failed without effect because no part that may answer did so in time.")
	sidecarUnknown = sidecarFamily.counter("unknown_outcomes_total",
		"Writes with an unknown outcome: they may have been accepted or not.")
	sidecarSessions = sidecarFamily.gauge("sessions", "Open sessions.")
	sidecarBoundNow = sidecarFamily.gauge("bound_sessions",
		"Sessions that have read a value that is not in every ring yet.")
	sidecarNearEntries     = sidecarFamily.gauge("near_copies", "Copies of hot keys.")
	sidecarNearBytes       = sidecarFamily.gauge("near_copies_bytes", "Memory of the copies of hot keys, in bytes.")
	sidecarNearInserted    = sidecarFamily.counter("near_copies_inserted_total", "Copies of hot keys that were made.")
	sidecarNearInvalidated = sidecarFamily.counter("near_copies_invalidated_total",
		"Invalidations of copies of hot keys that the caches have passed on.")
	sidecarNearEnded = sidecarFamily.counter("near_streams_ended_total",
		"Streams of copies that have ended, which discards what they have brought.")
	sidecarWaits = sidecarFamily.gauge("slow_operations",
		"Operations in progress that have taken longer than a second, by what they wait for: the answer of a cache or "+
			"a shard (reader), of the home of a key (home), or of the coordinator that has got a write (coordinator); "+
			"that coordinator to serve again (leadership), or one that takes the write (usable); earlier writes of "+
			"the session (earlier); what the session has seen to be in a ring that it may use (past); several keys "+
			"not to be written for a moment (quiet); a write of another data center to be in every ring, before an "+
			"update (foreign).", "waits_for")
	sidecarIncomplete = sidecarFamily.gauge("incomplete_writes",
		"Own writes of the sessions that are not in every ring yet.")
	sidecarLag = sidecarFamily.gauge("stability_lag_seconds",
		"Age of the newest timestamp at or below which every write is known to be in every ring. Absent until "+
			"stability vectors have arrived.")
)

// slowOperation is how long an operation takes that counts as slow.
const slowOperation = time.Second

// Sidecar collects the metrics of a sidecar.
func Sidecar(get func() *node.Sidecar) prometheus.Collector {
	return collector{sidecarFamily, func(emit emitFunc) {
		s := get()
		if s == nil {
			return
		}
		var st session.Stats
		var sessions, bound, incomplete, waiting int
		var sv causal.HLC
		var near nearcopy.Stats
		var nearEntries, nearBytes int
		s.Inspect(func(m *session.Sidecar) {
			st, sv = m.Stats(), m.Stability().MinSV()
			waiting = m.Awaiting()
			near = m.NearCopies().Stats()
			nearEntries, nearBytes = m.NearCopies().Size()
			m.EachSession(func(_ uint64, status session.Status) {
				sessions++
				incomplete += status.IncompleteWrites
				if status.Restrictions > 0 {
					bound++
				}
			})
		})
		emit(sidecarReads, float64(st.OwnReads), session.SourceOwn.String())
		emit(sidecarReads, float64(st.NearHits), session.SourceNear.String())
		emit(sidecarReads, float64(st.HomeReads), session.SourceHome.String())
		emit(sidecarReads, float64(st.CacheHits), session.SourceCache.String())
		emit(sidecarReads, float64(st.LocalReads), session.SourceLocal.String())
		emit(sidecarReads, float64(st.RemoteReads), session.SourceRemote.String())
		emit(sidecarGets, float64(st.Gets))
		emit(sidecarBound, float64(st.BoundGets))
		emit(sidecarInFlight, float64(st.InFlightReads))
		emit(sidecarReread, float64(st.Rereads))
		emit(sidecarHomeRereads, float64(st.HomeRereads))
		emit(sidecarHomeWaits, float64(st.HomeApart), "apart")
		emit(sidecarHomeWaits, float64(st.HomeInFlight), "in_flight")
		emit(sidecarWaiting, float64(waiting))
		emit(sidecarTurns, float64(st.Told), "told")
		emit(sidecarTurns, float64(st.Looked), "interval")
		emit(sidecarRetried, float64(st.Retries))
		emit(sidecarPuts, float64(st.Puts))
		emit(sidecarMGets, float64(st.MGets))
		emit(sidecarRounds, float64(st.MGetRounds))
		emit(sidecarSnapshots, float64(st.SnapshotMGets))
		emit(sidecarClock, float64(st.ClockRefused))
		emit(sidecarSettled, float64(st.SettledMGets))
		emit(sidecarUnavailable, float64(st.UnavailableOps))
		emit(sidecarUnknown, float64(st.UnknownPuts))
		emit(sidecarSessions, float64(sessions))
		emit(sidecarBoundNow, float64(bound))
		emit(sidecarIncomplete, float64(incomplete))
		waits := s.Waits(slowOperation)
		for _, w := range session.AllWaits() {
			emit(sidecarWaits, float64(waits.Number[w]), w.String())
		}
		emit(sidecarNearEntries, float64(nearEntries))
		emit(sidecarNearBytes, float64(nearBytes))
		emit(sidecarNearInserted, float64(near.Inserted))
		emit(sidecarNearInvalidated, float64(near.Invalidated))
		emit(sidecarNearEnded, float64(near.StreamsEnded))
		if sv > 0 {
			emit(sidecarLag, lagSeconds(sv, time.Now()))
		}
	}}
}
