package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/node"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// groupSeries are what the members of the groups of a part say about them.
type groupSeries struct{ serves, epoch, size, wanted, last, problem series }

// newGroupSeries adds the series of groups to the family of a part, whose members hold something that it has acknowledged.
func newGroupSeries(f *family, part, holds string) groupSeries {
	return groupSeries{
		serves: f.gauge("serves", fmt.Sprintf("1 if this member serves the %s, else 0. The other metrics of writes are those of the member that serves.", part)),
		epoch:  f.gauge("group_epoch", fmt.Sprintf("Epoch of the group that holds the %s, as this member knows it. Each change of members or of the primary raises it.", holds)),
		size:   f.gauge("group_members", "Members that have every acknowledged write on their disks, as this member knows it."),
		wanted: f.gauge("group_members_wanted", "Members that the group should have."),
		last:   f.gauge("group_log_position", "Position of the last record of the log on this member. Behind that of the member that serves, it lacks records."),
		problem: f.gauge("group_problem",
			"1 if something keeps the group from changing, or this member out of it, else 0; the readiness report says what."),
	}
}

func (g *groupSeries) emit(s group.Status, wanted []topology.Node, emit emitFunc) {
	emit(g.serves, float64(boolIndex(s.Role == group.Serving)))
	emit(g.epoch, float64(s.Config.Epoch))
	emit(g.size, float64(len(s.Config.Members)))
	emit(g.wanted, float64(len(wanted)))
	emit(g.last, float64(s.Last))
	emit(g.problem, float64(boolIndex(s.Problem() != "")))
}

var (
	shardGroupFamily = &family{subsystem: "middleman"}
	shardGroup       = newGroupSeries(shardGroupFamily, "shard", "storage")
	shardLog         = shardGroupFamily.gauge("log_bytes", "Size of the log of the shard on disk, in bytes.")
	shardLogErrors   = shardGroupFamily.counter("log_errors_total", "Writes to the log that failed because the disk was full. They are repeated.")
)

// ShardGroup collects the metrics of a member of a shard's group.
func ShardGroup(t *topology.Topology, get func() *node.ShardMember) prometheus.Collector {
	return collector{shardGroupFamily, func(emit emitFunc) {
		s := get()
		if s == nil {
			return
		}
		shardGroup.emit(s.Status(), t.MembersOf(s.ID()), emit)
		emit(shardLog, float64(s.LogBytes()))
		failures, _ := s.LogState()
		emit(shardLogErrors, float64(failures))
	}}
}
