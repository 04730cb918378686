package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// follow lets a layout follow the spec: it gives next, which is the layout of the spec, the numbers of coordinators and shards that
// the parts are to be told now. One change comes after the other. While one is under way the layout says what there was before, and
// nothing else begins; coordinators come first.
func follow(in Observed, was, next *topology.File) (Regroup, Reshape) {
	asked := topology.File{DataCenters: slices.Clone(next.DataCenters)}
	for i := range next.DataCenters {
		dc := &next.DataCenters[i]
		if before := findDataCenter(was, dc.Name); before != nil {
			dc.Coordinators, dc.CoordinatorsBefore = before.Coordinators, before.CoordinatorsBefore
			dc.Shards, dc.ShardsBefore = before.Shards, before.ShardsBefore
		}
	}
	var r Regroup
	var s Reshape
	switch {
	case parting(in, next) || changing(next.DataCenters):
		r.Lacking, s.Lacking = part(in, next), settle(in, next)
	case moreOrFewer(next, &asked):
		if r.Waiting = unsettled(in, next); r.Waiting == "" {
			regroup(next, &asked)
		}
	case wanted(next, &asked):
		if s.Waiting = unsettled(in, next); s.Waiting == "" {
			begin(next, &asked)
		}
	}
	r.describe(in, next, &asked)
	s.describe(in, next, &asked)
	return r, s
}

// unsettled says why no change may begin: everything that is here is to run, nothing is to restart, and what has left is to be gone.
// Coordinators that the spec does not ask for any more are not waited for.
func unsettled(in Observed, f *topology.File) string {
	if _, rollout := restarts(in, f, false); rollout.Waiting != "" {
		return rollout.Waiting
	} else if rollout.Outdated > 0 {
		return fmt.Sprintf("%d pods are to be restarted first", rollout.Outdated)
	}
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if !runs(in, dc.Name) {
			continue
		}
		name := coordinatorsName(in.Store.Name, dc.Name)
		if s := find(in.StatefulSets, name); s == nil || s.Spec.Replicas == nil || *s.Spec.Replicas != coordinators(dc) {
			return fmt.Sprintf("StatefulSet %s does not have %d replicas yet", name, coordinators(dc))
		}
		for j := range middlemen(dc) {
			if name := shardName(in.Store.Name, dc.Name, j); find(in.StatefulSets, name) == nil {
				return fmt.Sprintf("StatefulSet %s is not there", name)
			}
		}
	}
	for i := range in.Pods {
		p := &in.Pods[i]
		switch {
		case leaves(f, p):
			return fmt.Sprintf("pod %s has left, and is not gone yet", p.Name)
		case !unwanted(in, f, p) && (!Ready(p) || p.DeletionTimestamp != nil):
			return fmt.Sprintf("pod %s is not ready", p.Name)
		}
	}
	for i := range in.Claims {
		if c := &in.Claims[i]; c.DeletionTimestamp != nil {
			return fmt.Sprintf("claim %s is being deleted", c.Name)
		}
	}
	return missingPods(in)
}

// Involved are the pods that have something to say about a change that the record has: of shards, all but caches; of coordinators,
// those that leave, the first one of their data centre, and those that come.
func (in *Observed) Involved() map[string]bool {
	all := map[string]bool{}
	f, err := in.Record.File()
	if err != nil || f == nil {
		return all
	}
	moving := changing(f.DataCenters)
	for i := range in.Pods {
		p := &in.Pods[i]
		switch p.Labels[LabelComponent] {
		case ComponentCoordinator:
			all[p.Name] = moving || leaves(f, p) || decides(f, p) || comes(in.Record, f, p)
		case ComponentShard:
			all[p.Name] = moving
		}
	}
	return all
}

// notBegun says for people what is to change that has not begun, and why.
func notBegun(parts string, changes, wanted []string, waiting string) (said []string) {
	switch {
	case len(wanted) > 0 && len(changes) > 0:
		said = append(said, "the spec asks for something else by now, which comes after that: "+strings.Join(wanted, ", "))
	case len(wanted) > 0:
		said = append(said, parts+" are to change: "+strings.Join(wanted, ", "))
	}
	if waiting != "" {
		said = append(said, "waiting, since "+waiting)
	}
	return said
}

// behind says what a part lacks that must run the recorded epoch, and more.
func (in *Observed) behind(pod string, more func(Move) string) string {
	m, ok := in.Moves[pod]
	switch {
	case !ok:
		return "is not there"
	case m.Failed != "":
		return "cannot be asked: " + m.Failed
	case m.Epoch < in.Record.Epoch && m.Problem != "":
		return fmt.Sprintf("runs epoch %d, and refuses its configuration: %s", m.Epoch, m.Problem)
	case m.Epoch < in.Record.Epoch:
		return fmt.Sprintf("runs epoch %d, and has not heard of epoch %d", m.Epoch, in.Record.Epoch)
	}
	return more(m)
}

// runs says whether a data centre is one of this region.
func runs(in Observed, name string) bool {
	return slices.ContainsFunc(in.Store.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool {
		return dc.Name == name && dc.Region == in.Region
	})
}

func findDataCenter(f *topology.File, name string) *topology.FileDataCenter {
	i := slices.IndexFunc(f.DataCenters, func(dc topology.FileDataCenter) bool { return dc.Name == name })
	if i < 0 {
		return nil
	}
	return &f.DataCenters[i]
}
