package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/causal/member"
	"github.com/causalstore/causalstore/sidecar/node"
)

// groupSeries are what the members of the groups of a part say about them.
type groupSeries struct {
	serves, epoch, size, wanted, leaving, last, problem series
	short, frozen, lost, away                           series
}

// newGroupSeries adds the series of groups to the family of a part, whose members hold something that it has
// acknowledged.
func newGroupSeries(f *family, part, holds string) groupSeries {
	return groupSeries{
		serves: f.gauge("serves",
			fmt.Sprintf(
				"1 if this member serves the %s, else 0. The other metrics of writes are those of the member that "+
					"serves.", part)),
		epoch: f.gauge("group_epoch",
			fmt.Sprintf(
				"Epoch of the group that holds the %s, as this member knows it. Each change of members or of the "+
					"primary raises it.", holds)),
		size: f.gauge("group_members",
			"Members that the group should have and that have every acknowledged write on their disks, as this "+
				"member knows it. The one that serves counts none that it is about to do without."),
		wanted: f.gauge("group_members_wanted", "Members that the group should have."),
		leaving: f.gauge("group_members_leaving",
			"Members that the topology no longer has, and that have not left the group yet, as this member knows it."),
		last: f.gauge("group_log_position",
			"Position of the last record of the log on this member. Behind that of the member that serves, it lacks "+
				"records."),
		problem: f.gauge("group_problem",
			"1 if something keeps the group from changing, or this member out of it, else 0; the readiness report "+
				"says what."),
		short: f.gauge("group_under_replicated_seconds",
			"For how long the group has been without a wanted member, as this member knows it, in seconds; "+
				"0: it has all."),
		frozen: f.gauge("group_frozen_seconds",
			"For how long the register is another one or older than the group, so that the group does not change, in "+
				"seconds; 0: it is believed."),
		lost: f.gauge("group_lost_seconds",
			"For how long the volumes of all members are known to be gone or damaged, in seconds; 0: they are not."),
		away: f.gauge("group_register_unreachable_seconds",
			"For how long the register has not answered this member, which is the primary or looks for one, or has "+
				"not taken a change that it needs, in seconds; 0: it does both."),
	}
}

// groupMember is a member of a group.
type groupMember interface {
	GroupStatus() (group.Status, member.Count)
	Health() group.Health
}

func (g *groupSeries) emit(m groupMember, emit emitFunc) {
	s, n := m.GroupStatus()
	h := m.Health()
	emit(g.serves, float64(boolIndex(s.Role == group.Serving)))
	emit(g.epoch, float64(s.Config.Epoch))
	emit(g.size, float64(n.Present))
	emit(g.wanted, float64(n.Wanted))
	emit(g.leaving, float64(n.Leaving))
	emit(g.last, float64(s.Last))
	emit(g.problem, float64(boolIndex(s.Problem() != "")))
	emit(g.short, max(0, h.Short.Seconds()))
	emit(g.frozen, max(0, h.Frozen.Seconds()))
	emit(g.lost, max(0, h.Lost.Seconds()))
	if h.HasRegister {
		emit(g.away, max(0, h.RegisterAway.Seconds()))
	}
}

var (
	shardGroupFamily = &family{subsystem: "middleman"}
	shardGroup       = newGroupSeries(shardGroupFamily, "shard", "storage")
	shardLog         = shardGroupFamily.gauge("log_bytes",
		"Size of the log of the shard, in bytes: on disk, or in memory if it is nearer to its limit there.")
	shardLogLimit = shardGroupFamily.gauge("log_limit_bytes",
		"Size of log_bytes at which the shard waits until older records can be removed, in bytes.")
	shardLogErrors = shardGroupFamily.counter("log_errors_total",
		"Writes to the log that failed because the disk was full. They are repeated.")
)

// ShardGroup collects the metrics of a member of a shard's group.
func ShardGroup(get func() *node.ShardMember) prometheus.Collector {
	return collector{shardGroupFamily, func(emit emitFunc) {
		s := get()
		if s == nil {
			return
		}
		shardGroup.emit(s, emit)
		bytes, limit := s.LogUse()
		emit(shardLog, float64(bytes))
		emit(shardLogLimit, float64(limit))
		failures, _ := s.LogState()
		emit(shardLogErrors, float64(failures))
	}}
}
