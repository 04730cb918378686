package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/coordinator"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

var (
	coordinatorFamily = &family{subsystem: "coordinator"}

	coordinatorWrites      = coordinatorFamily.gauge("incomplete_writes", "Accepted writes that are not in every ring yet.")
	coordinatorBytes       = coordinatorFamily.gauge("incomplete_bytes", "Size of the accepted writes that are not in every ring yet, keys and values, in bytes.")
	coordinatorLog         = coordinatorFamily.gauge("log_bytes", "Size of the write buffer log, in bytes: on disk, or in memory if there may be several members and it is nearer to its limit there.")
	coordinatorBufferLimit = coordinatorFamily.gauge("write_buffer_limit_bytes", "Size of incomplete_bytes at which writes are refused (BUSY), in bytes.")
	coordinatorLogLimit    = coordinatorFamily.gauge("log_limit_bytes", "Size of log_bytes at which writes are refused (BUSY), in bytes.")
	coordinatorLogErrors   = coordinatorFamily.counter("log_errors_total", "Writes to the log that failed because the disk was full. They are repeated.")
	coordinatorSV          = coordinatorFamily.gauge("stability_lag_seconds", "Age of the newest timestamp at or below which every write of this coordinator is in every ring.")
	coordinatorTrips       = coordinatorFamily.gauge("round_trip_seconds",
		"Round-trip time to a data centre, as measured by the first coordinator of this one, in seconds; +Inf if it does not answer.",
		"to_data_center")
	coordinatorClock  = coordinatorFamily.counter("clock_refused_total", "Puts that were refused because what their session claims to have seen is too far ahead.")
	coordinatorServes = coordinatorFamily.gauge("serves", "1 if this member serves the coordinator, else 0. The other metrics of writes are those of the member that serves.")
	coordinatorEpoch  = coordinatorFamily.gauge("group_epoch", "Epoch of the group that holds the log, as this member knows it. Each change of members or of the primary raises it.")
	coordinatorSize   = coordinatorFamily.gauge("group_members", "Members that the group should have and that have every acknowledged write on their disks, as this member knows it.")
	coordinatorWanted = coordinatorFamily.gauge("group_members_wanted", "Members that the group should have.")
	coordinatorLeaver = coordinatorFamily.gauge("group_members_leaving", "Members that the topology no longer has, and that have not left the group yet, as this member knows it.")
	coordinatorLast   = coordinatorFamily.gauge("group_log_position", "Position of the last record of the log on this member. Behind that of the member that serves, it lacks records.")
	coordinatorFrozen = coordinatorFamily.gauge("group_problem", "1 if something keeps the group from changing, or this member out of it, else 0; the readiness report says what.")
	coordinatorShort  = coordinatorFamily.gauge("group_under_replicated_seconds", "For how long the group has been without a wanted member, as this member knows it, in seconds; 0: it has all.")
	coordinatorFroze  = coordinatorFamily.gauge("group_frozen_seconds", "For how long the register is another one or older than the group, so that the group does not change, in seconds; 0: it is believed.")
	coordinatorLost   = coordinatorFamily.gauge("group_lost_seconds", "For how long the volumes of all members are known to be gone or damaged, in seconds; 0: they are not.")
	coordinatorAway   = coordinatorFamily.gauge("group_register_unreachable_seconds",
		"For how long the register has not answered this member, which is the primary or looks for one, in seconds; 0: it answers.")
	coordinatorRV = coordinatorFamily.gauge("ring_lag_seconds", "Age of the newest timestamp at or below which a ring has acknowledged every write of this coordinator.", "to_ring")
)

// Coordinator collects the metrics of a coordinator of t.
func Coordinator(t *topology.Topology, get func() *node.Coordinator) prometheus.Collector {
	return several{commitLatency{get}, collector{coordinatorFamily, func(emit emitFunc) {
		c := get()
		if c == nil {
			return
		}
		emitGroup(c, emit)
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

// commitDesc describes what commitLatency collects.
var commitDesc = prometheus.NewDesc(prometheus.BuildFQName(namespace, "coordinator", "commit_duration_seconds"),
	"Time from when the coordinator has a record for its log until all members have it on disk, in seconds. Observed by the member that serves.", nil, nil)

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

// emitGroup emits what the group of a coordinator says about itself.
func emitGroup(c *node.Coordinator, emit emitFunc) {
	s, n := c.GroupStatus()
	h := c.Health()
	emit(coordinatorServes, float64(boolIndex(s.Role == group.Serving)))
	emit(coordinatorEpoch, float64(s.Config.Epoch))
	emit(coordinatorSize, float64(n.Present))
	emit(coordinatorWanted, float64(n.Wanted))
	emit(coordinatorLeaver, float64(n.Leaving))
	emit(coordinatorLast, float64(s.Last))
	emit(coordinatorFrozen, float64(boolIndex(s.Problem() != "")))
	emit(coordinatorShort, max(0, h.Short.Seconds()))
	emit(coordinatorFroze, max(0, h.Frozen.Seconds()))
	emit(coordinatorLost, max(0, h.Lost.Seconds()))
	if h.HasRegister {
		emit(coordinatorAway, max(0, h.RegisterAway.Seconds()))
	}
}
