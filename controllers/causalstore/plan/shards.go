package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Move is what a part says about a change of numbers.
type Move struct {
	// Epoch of the topology that it runs.
	Epoch int64
	// State of a middleman: none, copying, moving, cleaning, done or gone.
	State string
	// Before are rings that a coordinator still uses as before the change.
	Before []string
	// Member is what a coordinator does: joining, serving, leaving or left.
	Member string
	// InUse are, by index, the coordinators that the first one of a data centre has let in, itself among them, and that have not left.
	InUse []int
	// Reason is why it is not ready.
	Reason string
	// Problem is why it does not take its configuration as it stands.
	Problem string
	// Failed is why it could not be asked.
	Failed string
}

// What middlemen say when they have nothing to do for a change any more: those that stay, and those that have left.
const (
	moveDone = "done"
	moveGone = "gone"
)

// Reshape says how far a change of shards is.
type Reshape struct {
	// Changes are the data centres whose slots move, Wanted those whose shards are to change after that.
	Changes, Wanted []string
	// Lacking are the parts that are not through, and what they do.
	Lacking []string
	// Waiting is why what is wanted does not begin, though nothing moves.
	Waiting string
	// Here says that slots move between middlemen of this region.
	Here bool
}

// describe says what has come of it.
func (r *Reshape) describe(in Observed, f, asked *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.ShardsBefore != nil {
			r.Changes = append(r.Changes, fmt.Sprintf("%s from %d to %d", dc.Name, *dc.ShardsBefore, *dc.Shards))
		}
		if n := *findDataCenter(asked, dc.Name).Shards; n != *dc.Shards {
			r.Wanted = append(r.Wanted, fmt.Sprintf("%s to %d", dc.Name, n))
		}
	}
	for i := range f.Rings {
		ring := members(f, &f.Rings[i])
		r.Here = r.Here || changing(ring) && slices.ContainsFunc(ring, func(dc topology.FileDataCenter) bool { return runs(in, dc.Name) })
	}
}

// wanted says whether the spec asks for other numbers of shards.
func wanted(f, asked *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return *findDataCenter(asked, dc.Name).Shards != *dc.Shards
	})
}

// begin lets data move to what the spec asks for.
func begin(f, asked *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if n := *findDataCenter(asked, dc.Name).Shards; n != *dc.Shards {
			dc.Shards, dc.ShardsBefore = &n, dc.Shards
		}
	}
}

// settle ends the changes of rings that are through, and returns what the others lack.
func settle(in Observed, f *topology.File) (lacking []string) {
	for i := range f.Rings {
		ring := members(f, &f.Rings[i])
		if !changing(ring) {
			continue
		}
		if lacks := unmoved(in, f, f.Rings[i].Name, ring); len(lacks) > 0 {
			lacking = append(lacking, lacks...)
			continue
		}
		for _, dc := range ring {
			findDataCenter(f, dc.Name).ShardsBefore = nil
		}
	}
	return lacking
}

// unmoved says which parts here are not through with the change of a ring. Of a ring that is elsewhere only the coordinators
// know something: they hear it from its middlemen.
func unmoved(in Observed, f *topology.File, ring string, dcs []topology.FileDataCenter) (lacking []string) {
	note := func(pod, what string) {
		if what != "" {
			lacking = append(lacking, pod+" "+what)
		}
	}
	here := false
	for _, dc := range dcs {
		if !runs(in, dc.Name) {
			continue
		}
		here = true
		for i := range middlemen(&dc) {
			want := moveDone
			if int(i) >= *dc.Shards {
				want = moveGone
			}
			pod := shardName(in.Store.Name, dc.Name, i) + "-0"
			note(pod, in.behind(pod, func(m Move) string {
				if m.State != want {
					return "is " + m.State
				}
				return ""
			}))
		}
	}
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		for j := range *dc.Coordinators {
			if here || !runs(in, dc.Name) {
				continue
			}
			pod := coordinatorName(in.Store.Name, dc.Name, j)
			note(pod, in.behind(pod, func(m Move) string {
				if slices.Contains(m.Before, ring) {
					return "has not heard from ring " + ring
				}
				return ""
			}))
		}
	}
	return lacking
}

// tell returns the pods that are to hear of a change of numbers: not before it has been written down, or they would be brought
// what was there before.
func (b *builder) tell() (pods []string) {
	if b.in.Record == nil || b.in.Record.Epoch != b.record.Epoch || b.record.Epoch == b.record.Since {
		return nil
	}
	for i := range b.in.Pods {
		p := &b.in.Pods[i]
		if p.Annotations[AnnotationEpoch] != strconv.FormatInt(b.record.Epoch, 10) && p.DeletionTimestamp == nil {
			pods = append(pods, p.Name)
		}
	}
	return pods
}

// members are the data centres of a ring.
func members(f *topology.File, r *topology.FileRing) (all []topology.FileDataCenter) {
	for _, name := range r.DataCenters {
		if dc := findDataCenter(f, name); dc != nil {
			all = append(all, *dc)
		}
	}
	return all
}

func changing(all []topology.FileDataCenter) bool {
	return slices.ContainsFunc(all, func(dc topology.FileDataCenter) bool { return dc.ShardsBefore != nil })
}

// middlemen is how many there are in a data centre: while its shards change, those that leave and those that come.
func middlemen(dc *topology.FileDataCenter) int32 {
	n := *dc.Shards
	if dc.ShardsBefore != nil {
		n = max(n, *dc.ShardsBefore)
	}
	return int32(n)
}

// String says for people how far it is; nothing, if no shards change.
func (r Reshape) String() string {
	var said []string
	if len(r.Changes) > 0 {
		said = append(said, "slots move, since shards change: "+strings.Join(r.Changes, ", "))
		if len(r.Lacking) > 0 {
			said = append(said, "not through: "+strings.Join(r.Lacking, ", "))
		}
	}
	return strings.Join(append(said, notBegun("shards", r.Changes, r.Wanted, r.Waiting)...), "; ")
}
