package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/topology"
)

// Resharding is the progress of a change of the numbers of shards.
type Resharding struct {
	// Changes are the data centers whose slots move, with their numbers of shards.
	Changes []string
	// Requested are the data centers whose numbers are to change after that.
	Requested []string
	// Blockers are the parts that have not finished, one for each.
	Blockers []Decision
	// Start decides whether the requested change starts; it is zero if none is requested, or another change is in
	// progress.
	Start Decision
	// Local says whether slots move between middlemen of this region.
	Local bool
}

// Pending reports whether a change is in progress or requested.
func (r Resharding) Pending() bool { return len(r.Changes)+len(r.Requested) > 0 }

// String describes the change for people. It is empty if none is pending.
func (r Resharding) String() string {
	var texts []string
	if len(r.Changes) > 0 {
		texts = append(texts, "resharding: "+strings.Join(r.Changes, ", "))
		if len(r.Blockers) > 0 {
			texts = append(texts, "waiting for: "+strings.Join(messages(r.Blockers), ", "))
		}
	}
	return strings.Join(append(texts, describeRequested("shards", r.Changes, r.Requested, r.Start)...), "; ")
}

// describe fills in the changes, for people, and whether slots move in this region.
func (r *Resharding) describe(in Observed, f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.ShardsBefore != nil {
			r.Changes = append(r.Changes, fmt.Sprintf("%s from %d to %d", dc.Name, *dc.ShardsBefore, *dc.Shards))
		}
		if n := *findDataCenter(requested, dc.Name).Shards; n != *dc.Shards {
			r.Requested = append(r.Requested, fmt.Sprintf("%s to %d", dc.Name, n))
		}
	}
	local := func(dc topology.FileDataCenter) bool { return in.IsLocal(dc.Name) }
	for i := range f.Rings {
		ring := ringMembers(f, &f.Rings[i])
		r.Local = r.Local || anyResharding(ring) && slices.ContainsFunc(ring, local)
	}
}

// shardsDiffer reports whether the spec asks for other numbers of shards.
func shardsDiffer(f, requested *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return *findDataCenter(requested, dc.Name).Shards != *dc.Shards
	})
}

// startResharding sets the requested numbers of shards, and keeps those from before until finishResharding.
func startResharding(f, requested *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if n := *findDataCenter(requested, dc.Name).Shards; n != *dc.Shards {
			dc.Shards, dc.ShardsBefore = &n, dc.Shards
		}
	}
}

// finishResharding ends the change of each ring that has finished, and returns what blocks the others.
func finishResharding(in Observed, f *topology.File) (blockers []Decision) {
	for i := range f.Rings {
		ring := ringMembers(f, &f.Rings[i])
		if !anyResharding(ring) {
			continue
		}
		if unfinished := reshardingBlockers(in, f, f.Rings[i].Name, ring); len(unfinished) > 0 {
			blockers = append(blockers, unfinished...)
			continue
		}
		for _, dc := range ring {
			findDataCenter(f, dc.Name).ShardsBefore = nil
		}
	}
	return blockers
}

// reshardingBlockers returns the parts of this region that have not finished the change of a ring. If no data center of
// the ring is in this region, its middlemen cannot be asked; but the coordinators here hear from them.
func reshardingBlockers(in Observed, f *topology.File, ring string,
	members []topology.FileDataCenter) (blockers []Decision) {
	local := false
	for _, dc := range members {
		if in.IsLocal(dc.Name) {
			local = true
			blockers = append(blockers, in.unfinishedMiddlemen(&dc)...)
		}
	}
	if local {
		return blockers
	}
	for i := range f.DataCenters {
		if dc := &f.DataCenters[i]; in.IsLocal(dc.Name) {
			blockers = append(blockers, in.unswitchedCoordinators(dc, ring)...)
		}
	}
	return blockers
}

// unfinishedMiddlemen returns the middlemen of a data center that have not finished a change of shards.
func (in *Observed) unfinishedMiddlemen(dc *topology.FileDataCenter) (blockers []Decision) {
	counts := dc.Counts()
	for i := range counts.RunningMiddlemen() {
		want := contract.ReshardingDone
		if i >= *dc.Shards {
			want = contract.ReshardingGone
		}
		pod := in.servingPod(dc.Name, topology.Middleman, i)
		report, current := in.currentReport(pod)
		if !current.Allowed {
			blockers = append(blockers, current)
		} else if report.Shards != want {
			blockers = append(blockers, deny(ReasonResharding, "%s is %s", pod, report.Shards))
		}
	}
	return blockers
}

// unswitchedCoordinators returns the coordinators of a data center that still use the old slot map of a ring.
func (in *Observed) unswitchedCoordinators(dc *topology.FileDataCenter, ring string) (blockers []Decision) {
	for j := range *dc.Coordinators {
		pod := in.servingPod(dc.Name, topology.Coordinator, j)
		report, current := in.currentReport(pod)
		if !current.Allowed {
			blockers = append(blockers, current)
		} else if slices.Contains(report.RingsBefore, ring) {
			blockers = append(blockers, deny(ReasonOldSlotMap, "%s still uses the old slot map of ring %s", pod, ring))
		}
	}
	return blockers
}

// ringMembers returns the data centers of a ring.
func ringMembers(f *topology.File, r *topology.FileRing) (all []topology.FileDataCenter) {
	for _, name := range r.DataCenters {
		if dc := findDataCenter(f, name); dc != nil {
			all = append(all, *dc)
		}
	}
	return all
}

// anyResharding reports whether the number of shards of a data center changes.
func anyResharding(all []topology.FileDataCenter) bool {
	return slices.ContainsFunc(all, func(dc topology.FileDataCenter) bool { return dc.ShardsBefore != nil })
}
