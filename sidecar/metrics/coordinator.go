package metrics

import (
	"math"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/topology"
)

var (
	coordinatorFamily = &family{subsystem: "coordinator"}

	coordinatorWrites = coordinatorFamily.gauge("incomplete_writes",
		"Accepted writes that are not in every ring yet.")
	coordinatorBytes = coordinatorFamily.gauge("incomplete_bytes",
		"Size of the accepted writes that are not in every ring yet: keys, values, and 512 bytes for each, in bytes.")
	coordinatorLog = coordinatorFamily.gauge("log_bytes",
		"Size of the write buffer log, in bytes: on disk, or in memory if there may be several members and it is "+
			"nearer to its limit there.")
	coordinatorBufferLimit = coordinatorFamily.gauge("write_buffer_limit_bytes",
		"Size of incomplete_bytes at which writes are refused (BUSY), in bytes.")
	coordinatorLogLimit = coordinatorFamily.gauge("log_limit_bytes",
		"Size of log_bytes at which writes are refused (BUSY), in bytes.")
	coordinatorLogErrors = coordinatorFamily.counter("log_errors_total",
		"Writes to the log that failed because the disk was full. They are repeated.")
	coordinatorSV = coordinatorFamily.gauge("stability_lag_seconds",
		"Age of the newest timestamp at or below which every write of this coordinator is in every ring.")
	coordinatorTrips = coordinatorFamily.gauge("round_trip_seconds",
		"Round-trip time to a data center, as measured by the first coordinator of this one, in seconds; +Inf if it "+
			"does not answer.",
		"to_data_center")
	coordinatorAdopted = coordinatorFamily.gauge("adopted_writes",
		"Writes of a silent coordinator that this one has collected from the shards: all, those with their whole "+
			"past here (adoptable), and those that are in every ring (complete).",
		"of_data_center", "of_index", "state")
	coordinatorSalvaging = coordinatorFamily.gauge("salvaging",
		"Whether a lost log of this coordinator is being given up (1), during which it takes no writes, or not (0).")
	coordinatorSalvaged = coordinatorFamily.gauge("salvaged_writes",
		"Writes of a lost log that is being given up: those found in shards so far, and then those of them that are "+
			"not in every ring yet; 0 otherwise.")
	coordinatorSalvageWaits = coordinatorFamily.gauge("salvage_awaited_parts",
		"Shards and coordinators that a coordinator waits for while a lost log of its is being given up; "+
			"0 otherwise. /readyz names them.")
	coordinatorExcluded = coordinatorFamily.gauge("excluded_shards",
		"Shards of a data center that was excluded: those that writes are completed without (without), and all (all).",
		"of_data_center", "state")
	coordinatorExclusions = coordinatorFamily.gauge("exclusions",
		"How often a data center was excluded: as the configuration says (declared), as this coordinator goes by "+
			"(applied), and while it does not begin because nobody else may have the data (last_copy).",
		"of_data_center", "state")
	coordinatorClock = coordinatorFamily.counter("clock_refused_total",
		"Puts that were refused because what their session claims to have seen is too far ahead.")
	coordinatorHomeReads = coordinatorFamily.counter("home_reads_total",
		"Keys that readers of the data center have asked their home for, by outcome: answered with a write, not kept "+
			"here and found elsewhere, refused because the home does not serve or has not what the reader has seen, "+
			"busy because too many wait. Absent unless sessions have the scope DataCenter.", "outcome")
	coordinatorHomeWaits = coordinatorFamily.counter("home_waits_total",
		"Reads for update that waited until no write of their key was under way.")
	coordinatorHomeWaiting = coordinatorFamily.gauge("home_waiting_reads",
		"Reads for update that wait until no write of their key is under way.")
	coordinatorHomeClients = coordinatorFamily.gauge("home_waiting_clients",
		"Clients that wait for elements of keys of this home; one that waits for several keys counts for each.")
	coordinatorHomeTurns = coordinatorFamily.counter("home_turns_total",
		"Times that a client that waits for elements was told that it is its turn.")
	coordinatorHomeShown = coordinatorFamily.counter("home_shown_total",
		"Times that the home heard that a client is shown a new write of another data center.")
	coordinatorHomeConflicts = coordinatorFamily.counter("home_conflicts_total",
		"Writes of read-modify-writes that were refused because the key had been written since it was read; the "+
			"sidecar starts them again.")
	coordinatorHomeLeases = coordinatorFamily.gauge("home_leases",
		"Leases that let sidecars answer reads from near copies without asking the home.")
	coordinatorHomeLeaseBytes  = coordinatorFamily.gauge("home_lease_bytes", "About what the leases take.")
	coordinatorHomeLeaseEvents = coordinatorFamily.counter("home_lease_events_total",
		"Leases that were given (granted), that there was no room for (denied), that were withdrawn because their key "+
			"was written (withdrawn), and of these, that ended before the sidecar had confirmed it (silent).", "event")
	coordinatorHomeHeld = coordinatorFamily.counter("home_held_seconds_total",
		"For how long writes that the log held waited until no lease on their key ran.")
	coordinatorHomeOperations = coordinatorFamily.counter("home_operations_total",
		"Read-modify-writes that sidecars have sent to the home, by outcome: executed, with something written, or "+
			"refused; the sidecar then reads and writes itself.", "outcome")
	coordinatorHomeKeys  = coordinatorFamily.gauge("home_keys", "Keys that the home has something of.")
	coordinatorHomeBytes = coordinatorFamily.gauge("home_bytes",
		"Memory that the home takes beside the write buffer, in bytes.")
	coordinatorHomeAhead = coordinatorFamily.gauge("home_ahead_seconds",
		"How far what reads elsewhere must include is above the stable cut, in seconds: negative while it is below. "+
			"Above it, reads that are answered elsewhere may bind their sessions.")
	coordinatorGroup = newGroupSeries(coordinatorFamily, "coordinator", "log")
	coordinatorRV    = coordinatorFamily.gauge("ring_lag_seconds",
		"Age of the newest timestamp at or below which a ring has acknowledged every write of this coordinator.",
		"to_ring")
)

// Coordinator collects the metrics of a coordinator of t.
func Coordinator(t *topology.Topology, get func() *node.Coordinator) prometheus.Collector {
	return several{commitLatency{get}, collector{coordinatorFamily, func(emit emitFunc) {
		c := get()
		if c == nil {
			return
		}
		coordinatorGroup.emit(c, emit)
		var writes, bytes int
		var e causal.VectorEntry
		var refused uint64
		var home coordinator.HomeStats
		var isHome bool
		trips := map[topology.DC]float64{}
		var exclusions []coordinator.Exclusion
		adoptions := c.Adoptions()
		c.Inspect(func(m *coordinator.Coordinator) {
			writes, bytes = m.Pending()
			refused = m.Stats().ClockRefused
			home, isHome = m.Home()
			exclusions = m.Exclusions()
			e = m.Known().Entry(t.OriginOf(c.ID()))
			m.ForEachRoundTrip(func(dc topology.DC, ms float64) { trips[dc] = ms / 1e3 })
		})
		for _, x := range exclusions {
			name := t.DCs[x.DC].Name
			emit(coordinatorExcluded, float64(x.Without), name, "without")
			emit(coordinatorExcluded, float64(x.Shards), name, "all")
			emit(coordinatorExclusions, float64(x.Declared), name, "declared")
			emit(coordinatorExclusions, float64(x.Applied), name, "applied")
			blocked := uint32(0)
			if x.LastCopy && !x.Active {
				blocked = x.Declared
			}
			emit(coordinatorExclusions, float64(blocked), name, "last_copy")
		}
		for _, a := range adoptions {
			n := t.CoordinatorOf(a.Origin)
			dc, index := t.DCs[n.DC].Name, strconv.FormatUint(n.Index, 10)
			emit(coordinatorAdopted, float64(a.Writes), dc, index, "all")
			emit(coordinatorAdopted, float64(a.Adoptable), dc, index, "adoptable")
			emit(coordinatorAdopted, float64(a.Complete), dc, index, "complete")
		}
		emitSalvage(c, emit)
		for dc, seconds := range trips {
			if seconds < 0 {
				seconds = math.Inf(1)
			}
			emit(coordinatorTrips, seconds, t.DCs[dc].Name)
		}
		if isHome {
			emitHome(&home, emit)
		}
		emit(coordinatorWrites, float64(writes))
		emit(coordinatorBytes, float64(bytes))
		emit(coordinatorClock, float64(refused))
		failures, _ := c.LogState()
		emit(coordinatorLogErrors, float64(failures))
		emit(coordinatorBufferLimit, float64(c.BufferLimit()))
		logBytes, logLimit := c.LogUse()
		emit(coordinatorLog, float64(logBytes))
		emit(coordinatorLogLimit, float64(logLimit))
		if e.SV == 0 {
			return // it has not published yet
		}
		now := time.Now()
		emit(coordinatorSV, lagSeconds(e.SV, now))
		for r, h := range e.RV {
			emit(coordinatorRV, lagSeconds(h, now), t.Rings[r].Name)
		}
	}}}
}

func emitHome(h *coordinator.HomeStats, emit emitFunc) {
	emit(coordinatorHomeReads, float64(h.Answered), "answered")
	emit(coordinatorHomeReads, float64(h.Elsewhere), "elsewhere")
	emit(coordinatorHomeReads, float64(h.Refused), "refused")
	emit(coordinatorHomeReads, float64(h.Busy), "busy")
	emit(coordinatorHomeWaits, float64(h.Waited))
	emit(coordinatorHomeWaiting, float64(h.Waiting))
	emit(coordinatorHomeClients, float64(h.Clients))
	emit(coordinatorHomeTurns, float64(h.Woken))
	emit(coordinatorHomeShown, float64(h.Shown))
	emit(coordinatorHomeConflicts, float64(h.Conflicts))
	emit(coordinatorHomeLeases, float64(h.Leases.Leases))
	emit(coordinatorHomeLeaseBytes, float64(h.Leases.Bytes))
	emit(coordinatorHomeLeaseEvents, float64(h.Leases.Granted), "granted")
	emit(coordinatorHomeLeaseEvents, float64(h.Leases.Denied), "denied")
	emit(coordinatorHomeLeaseEvents, float64(h.Leases.Withdrawn), "withdrawn")
	emit(coordinatorHomeLeaseEvents, float64(h.Leases.Silent), "silent")
	emit(coordinatorHomeHeld, float64(h.Leases.HeldNs)/1e9)
	emit(coordinatorHomeOperations, float64(h.Executed), "executed")
	emit(coordinatorHomeOperations, float64(h.Unexecuted), "refused")
	emit(coordinatorHomeKeys, float64(h.Keys))
	emit(coordinatorHomeBytes, float64(h.Bytes))
	emit(coordinatorHomeAhead, float64(h.AheadMs)/1e3)
}

func emitSalvage(c *node.Coordinator, emit emitFunc) {
	s, active := c.Salvage()
	salvaging := 0.0
	if active {
		salvaging = 1
	}
	emit(coordinatorSalvaging, salvaging)
	emit(coordinatorSalvaged, float64(s.Writes))
	emit(coordinatorSalvageWaits, float64(len(s.Awaited)))
}

// commitDesc describes what commitLatency collects.
var commitDesc = prometheus.NewDesc(prometheus.BuildFQName(namespace, "coordinator", "commit_duration_seconds"),
	"Time from when the coordinator has a record for its log until all members have it on disk, in seconds. Observed "+
		"by the member that serves.", nil, nil)

// commitLatency is a prometheus.Collector of the commits of a coordinator.
type commitLatency struct{ get func() *node.Coordinator }

// Describe implements prometheus.Collector.
func (l commitLatency) Describe(ch chan<- *prometheus.Desc) { ch <- commitDesc }

// Collect implements prometheus.Collector.
func (l commitLatency) Collect(ch chan<- prometheus.Metric) {
	c := l.get()
	if c == nil {
		return
	}
	commits := c.Commits()
	buckets, below := map[float64]uint64{}, uint64(0)
	for i, bound := range member.CommitBounds {
		below += commits.Counts[i]
		buckets[bound.Seconds()] = below
	}
	ch <- prometheus.MustNewConstHistogram(commitDesc, commits.Total(), commits.Sum.Seconds(), buckets)
}
