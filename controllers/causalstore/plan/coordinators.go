package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Regroup says how far a change of the number of coordinators is.
type Regroup struct {
	// Changes are the data centres here that coordinators leave, Wanted those whose number is to change after that.
	Changes, Wanted []string
	// Lacking are the coordinators that may not go yet, Coming those that have not served yet, and what they do.
	Lacking, Coming []string
	// Waiting is why what is wanted does not begin, though nothing changes.
	Waiting string
}

// moreOrFewer says whether the spec asks for other numbers of coordinators.
func moreOrFewer(f, asked *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return *findDataCenter(asked, dc.Name).Coordinators != *dc.Coordinators
	})
}

// regroup begins what the spec asks for. New coordinators let themselves in, so there is nothing to bring to an end; if there are to
// be fewer, the layout says how many there were until those that leave have left.
func regroup(f, asked *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		n, before := *findDataCenter(asked, dc.Name).Coordinators, int(coordinators(dc))
		if n == *dc.Coordinators {
			continue
		}
		if dc.Coordinators, dc.CoordinatorsBefore = &n, nil; before > n {
			dc.CoordinatorsBefore = &before
		}
	}
}

// parting says whether coordinators leave data centres of this region. What the layout says of others stays until the spec has another
// number for them: nobody here can ask, and all that it does is that one which has not left there yet is answered here.
func parting(in Observed, f *topology.File) bool {
	return slices.ContainsFunc(f.DataCenters, func(dc topology.FileDataCenter) bool {
		return dc.CoordinatorsBefore != nil && runs(in, dc.Name)
	})
}

// part ends the changes of data centres here whose coordinators may all go that leave, and returns who may not.
func part(in Observed, f *topology.File) (lacking []string) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.CoordinatorsBefore == nil || !runs(in, dc.Name) {
			continue
		}
		var lacks []string
		for j := *dc.Coordinators; j < *dc.CoordinatorsBefore; j++ {
			if why := in.keeps(dc.Name, j); why != "" {
				lacks = append(lacks, why)
			}
		}
		if lacking = append(lacking, lacks...); len(lacks) == 0 {
			dc.CoordinatorsBefore = nil
		}
	}
	return lacking
}

// keeps says why a coordinator may not go yet, and nothing if it may. Only the first coordinator of the data centre decides that, since
// it remembers durably who is in use: who is not, and is beyond the number that the first one runs, has nothing that is not in every
// ring, and cannot come into use again. So one that can never be asked goes too. What it says itself is for people.
func (in *Observed) keeps(dc string, j int) string {
	first, pod := coordinatorName(in.Store.Name, dc, 0), coordinatorName(in.Store.Name, dc, j)
	why := in.behind(first, func(m Move) string {
		switch {
		case len(m.InUse) == 0: // it counts itself, so it does not run yet, or is of a version that does not know this
			return strings.TrimSuffix("does not say who is in use: "+m.Reason, ": ")
		case slices.Contains(m.InUse, j):
			return "has it in use"
		}
		return ""
	})
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s %s (%s %s)", pod, in.behind(pod, departure), first, why)
}

// departure is how far a coordinator that leaves is, by its own word.
func departure(m Move) string {
	switch m.Member {
	case "":
		return strings.TrimSuffix("does not say whether it leaves: "+m.Reason, ": ")
	case "left":
		return "has left"
	}
	return "is " + m.Member
}

// describe says what has come of it.
func (r *Regroup) describe(in Observed, f, asked *topology.File) {
	for i := range f.DataCenters {
		dc := &f.DataCenters[i]
		if dc.CoordinatorsBefore != nil && runs(in, dc.Name) {
			r.Changes = append(r.Changes, fmt.Sprintf("%s from %d to %d", dc.Name, *dc.CoordinatorsBefore, *dc.Coordinators))
		}
		if n := *findDataCenter(asked, dc.Name).Coordinators; n != *dc.Coordinators {
			r.Wanted = append(r.Wanted, fmt.Sprintf("%s to %d", dc.Name, n))
		}
		served := int(in.Record.Serving(dc.Name))
		for j := served; served > 0 && j < *dc.Coordinators && runs(in, dc.Name); j++ {
			pod := coordinatorName(in.Store.Name, dc.Name, j)
			if what := in.coming(pod); what != "" {
				r.Coming = append(r.Coming, pod+" "+what)
			}
		}
	}
}

// coming says what a coordinator does that has not served yet, and why; nothing, if it serves.
func (in *Observed) coming(pod string) string {
	i := slices.IndexFunc(in.Pods, func(p corev1.Pod) bool { return p.Name == pod })
	if i >= 0 && Ready(&in.Pods[i]) {
		return ""
	}
	return in.behind(pod, func(m Move) string {
		return strings.TrimSuffix(fmt.Sprintf("is %s: %s", cmp.Or(m.Member, "not ready"), m.Reason), ": ")
	})
}

// serving is how many coordinators of each data centre here have been let in and have served, from the first on. It tells a
// coordinator that comes from one that has been lost.
func serving(in Observed, was, next *topology.File) map[string]int {
	all := map[string]int{}
	for i := range next.DataCenters {
		dc := &next.DataCenters[i]
		if !runs(in, dc.Name) {
			continue
		}
		n := 0
		if was != nil {
			n = int(in.Record.Serving(dc.Name))
		}
		for n = min(n, *dc.Coordinators); n < *dc.Coordinators; n++ {
			pod := coordinatorName(in.Store.Name, dc.Name, n)
			if !slices.ContainsFunc(in.Pods, func(p corev1.Pod) bool { return p.Name == pod && Ready(&p) }) {
				break
			}
		}
		all[dc.Name] = n
	}
	return all
}

// Leaving are the pods of the coordinators that leave. They do not serve any more.
func (in *Observed) Leaving() map[string]bool {
	all := map[string]bool{}
	if f, err := in.Record.File(); err == nil && f != nil {
		for i := range in.Pods {
			all[in.Pods[i].Name] = leaves(f, &in.Pods[i])
		}
	}
	return all
}

func leaves(f *topology.File, p *corev1.Pod) bool {
	dc := findDataCenter(f, p.Labels[LabelDataCenter])
	return p.Labels[LabelComponent] == ComponentCoordinator && dc != nil && Index(p) >= *dc.Coordinators
}

// decides says whether a pod is the first coordinator of a data centre that others leave.
func decides(f *topology.File, p *corev1.Pod) bool {
	dc := findDataCenter(f, p.Labels[LabelDataCenter])
	return p.Labels[LabelComponent] == ComponentCoordinator && dc != nil && dc.CoordinatorsBefore != nil && Index(p) == 0
}

// comes says whether a pod is a coordinator that has not served yet, where others do.
func comes(r *Record, f *topology.File, p *corev1.Pod) bool {
	served := int(r.Serving(p.Labels[LabelDataCenter]))
	return p.Labels[LabelComponent] == ComponentCoordinator && served > 0 && Index(p) >= served && !leaves(f, p)
}

// unwanted says whether a pod is a coordinator that leaves, or that the spec does not ask for any more.
func unwanted(in Observed, f *topology.File, p *corev1.Pod) bool {
	if leaves(f, p) {
		return true
	}
	for i := range in.Store.Spec.DataCenters {
		if dc := &in.Store.Spec.DataCenters[i]; dc.Name == p.Labels[LabelDataCenter] {
			return p.Labels[LabelComponent] == ComponentCoordinator && Index(p) >= int(dc.Coordinators.Replicas)
		}
	}
	return false
}

// Index is the number of a pod in its StatefulSet.
func Index(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Labels[appsv1.PodIndexLabel]) // the label is Kubernetes' own
	return n
}

// coordinators is how many there are in a data centre: while some leave, these and those that stay.
func coordinators(dc *topology.FileDataCenter) int32 {
	if dc.CoordinatorsBefore != nil {
		return int32(*dc.CoordinatorsBefore)
	}
	return int32(*dc.Coordinators)
}

func coordinatorName(store, dc string, i int) string {
	return fmt.Sprintf("%s-%d", coordinatorsName(store, dc), i)
}

// String says for people how far it is; nothing, if the numbers stay.
func (r Regroup) String() string {
	var said []string
	if len(r.Changes) > 0 {
		said = append(said, "coordinators leave: "+strings.Join(r.Changes, ", "))
	}
	if len(r.Lacking) > 0 {
		said = append(said, "not through: "+strings.Join(r.Lacking, ", "))
	}
	if len(r.Coming) > 0 {
		said = append(said, "coordinators come: "+strings.Join(r.Coming, ", "))
	}
	return strings.Join(append(said, notBegun("coordinators", r.Changes, r.Wanted, r.Waiting)...), "; ")
}
