package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// OfRegion returns what the operator of a region has written of a status. If several operators of a cluster run data
// centers of a store, each writes an entry of its own, and the rest of the status combines the entries.
func OfRegion(published *v1alpha1.CausalStoreStatus, region string) v1alpha1.CausalStoreStatus {
	for _, e := range published.Regions {
		if e.Region == region {
			return v1alpha1.CausalStoreStatus{ObservedGeneration: e.ObservedGeneration,
				Conditions:    slices.Clone(e.Conditions),
				HeartbeatTime: e.HeartbeatTime, Summary: e.Summary, Topology: e.Topology, Endpoint: published.Endpoint,
				DataCenters: dataCentersOf(published.DataCenters, region), Rings: e.Rings, Problems: e.Problems}
		}
	}
	if len(published.Regions) > 0 || writtenElsewhere(published, region) {
		return v1alpha1.CausalStoreStatus{}
	}
	return *published.DeepCopy()
}

// dataCentersOf returns the data centers as the operator of a region reports them: of those elsewhere, only that they
// exist.
func dataCentersOf(published []v1alpha1.DataCenterStatus, region string) (all []v1alpha1.DataCenterStatus) {
	for _, dc := range published {
		if dc.Region != region {
			dc = v1alpha1.DataCenterStatus{Name: dc.Name, Region: dc.Region}
		}
		all = append(all, dc)
	}
	return all
}

// writtenElsewhere reports whether a status without entries is by the operator of another region: one that runs data
// centers here, or one that runs none and says so.
func writtenElsewhere(published *v1alpha1.CausalStoreStatus, region string) bool {
	return len(published.DataCenters) > 0 && !slices.ContainsFunc(published.DataCenters,
		func(dc v1alpha1.DataCenterStatus) bool {
			return dc.Here && dc.Region == region
		})
}

// Combine returns the status to publish, given what is published now and the status of one region. In a cluster with
// one operator it is the latter.
func Combine(published, own v1alpha1.CausalStoreStatus, region string) v1alpha1.CausalStoreStatus {
	entries := slices.Clone(published.Regions)
	if len(entries) == 0 && writtenElsewhere(&published, region) {
		for _, dc := range published.DataCenters {
			if dc.Here {
				entries = append(entries, entryOf(published, dc.Region))
				break
			}
		}
	}
	entries = slices.DeleteFunc(entries, func(e v1alpha1.RegionStatus) bool {
		return e.Region == region || !slices.ContainsFunc(own.DataCenters, func(dc v1alpha1.DataCenterStatus) bool {
			return dc.Region == e.Region
		})
	})
	if len(entries) == 0 {
		own.Regions = nil
		return own
	}
	entries = append(entries, entryOf(own, region))
	slices.SortFunc(entries, func(a, b v1alpha1.RegionStatus) int { return cmp.Compare(a.Region, b.Region) })
	out := own
	out.Regions, out.Conditions, out.Rings, out.Problems = entries, slices.Clone(published.Conditions), nil, nil
	out.DataCenters = combineDataCenters(published.DataCenters, own.DataCenters)
	for _, e := range entries {
		out.ObservedGeneration = min(out.ObservedGeneration, e.ObservedGeneration)
		out.Topology.Epoch = max(out.Topology.Epoch, e.Topology.Epoch)
		out.Rings = combineRings(out.Rings, e.Rings)
		out.Problems = append(out.Problems, e.Problems...)
		if e.HeartbeatTime.Before(out.HeartbeatTime) {
			out.HeartbeatTime = e.HeartbeatTime
		}
	}
	slices.SortFunc(out.Problems, func(a, b v1alpha1.PodProblem) int { return cmp.Compare(a.Pod, b.Pod) })
	out.Problems = out.Problems[:min(len(out.Problems), maxProblems)]
	for _, c := range own.Conditions {
		if c.Type == v1alpha1.ConditionDrillPassed {
			continue // it is of the store, and no operator's
		}
		meta.SetStatusCondition(&out.Conditions, combineCondition(c.Type, entries, out.ObservedGeneration))
	}
	out.Summary = combineSummaries(entries, out.Rings)
	return out
}

func entryOf(s v1alpha1.CausalStoreStatus, region string) v1alpha1.RegionStatus {
	return v1alpha1.RegionStatus{Region: region, ObservedGeneration: s.ObservedGeneration, Conditions: s.Conditions,
		HeartbeatTime: s.HeartbeatTime, Summary: s.Summary, Topology: s.Topology, Rings: s.Rings, Problems: s.Problems}
}

// combineDataCenters takes each data center from the operator that runs it.
func combineDataCenters(published, own []v1alpha1.DataCenterStatus) []v1alpha1.DataCenterStatus {
	all := slices.Clone(own)
	for i := range all {
		j := slices.IndexFunc(published, func(dc v1alpha1.DataCenterStatus) bool { return dc.Name == all[i].Name })
		if !all[i].Here && j >= 0 {
			all[i] = published[j]
		}
	}
	return all
}

// severity orders the availability of rings; a region that knows nothing of a ring does not count.
var severity = map[v1alpha1.Availability]int{v1alpha1.RingUnknown: 0, v1alpha1.RingComplete: 1,
	v1alpha1.RingDegraded: 2, v1alpha1.RingUnavailable: 3}

// Worse reports whether an availability is worse than another one. Unknown is worse than no other one.
func Worse(a, b v1alpha1.Availability) bool { return severity[a] > severity[b] }

// combineRings adds the rings as one region sees them: a ring is what the worst of the regions reports.
func combineRings(all, more []v1alpha1.RingStatus) []v1alpha1.RingStatus {
	for _, r := range more {
		i := slices.IndexFunc(all, func(s v1alpha1.RingStatus) bool { return s.Name == r.Name })
		if i < 0 {
			all = append(all, r)
			continue
		}
		s := &all[i]
		if Worse(r.Availability, s.Availability) {
			s.Availability, s.Message = r.Availability, r.Message
		}
		if r.LagMs != nil && (s.LagMs == nil || *s.LagMs < *r.LagMs) {
			s.LagMs = r.LagMs
		}
	}
	return all
}

// combineCondition returns a condition of the whole cluster: that of the regions which need attention, or else of all.
func combineCondition(name string, entries []v1alpha1.RegionStatus, generation int64) metav1.Condition {
	order := []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue}
	if v1alpha1.HealthyStatus(name) == metav1.ConditionFalse {
		slices.Reverse(order) // True is what is to be seen
	}
	for _, is := range order {
		out := metav1.Condition{Type: name, Status: is, ObservedGeneration: generation}
		var texts []string
		for _, e := range entries {
			if c := meta.FindStatusCondition(e.Conditions, name); c != nil && c.Status == is {
				out.Reason = cmp.Or(out.Reason, c.Reason)
				texts = append(texts, e.Region+": "+c.Message)
				if c.LastTransitionTime.After(out.LastTransitionTime.Time) {
					out.LastTransitionTime = c.LastTransitionTime
				}
			}
		}
		if len(texts) > 0 {
			out.Message = strings.Join(texts, "; ")
			return out
		}
	}
	panic("no region has condition " + name) // unreachable: the region that combines has it
}

// combineSummaries returns the printed columns.
func combineSummaries(entries []v1alpha1.RegionStatus, rings []v1alpha1.RingStatus) v1alpha1.Summary {
	var ready, local int
	var s v1alpha1.Summary
	greatest := time.Duration(-1)
	for _, e := range entries {
		var a, b int
		if n, _ := fmt.Sscanf(e.Summary.DataCenters, "%d/%d", &a, &b); n == 2 {
			ready, local = ready+a, local+b
		}
		number, _, _ := strings.Cut(e.Summary.VisibilityLag, ",") // what follows is a remark
		lag, err := time.ParseDuration(strings.TrimPrefix(number, "<"))
		if err == nil && lag > greatest {
			greatest, s.VisibilityLag = lag, e.Summary.VisibilityLag
		}
	}
	s.Rings, s.DataCenters = countRings(rings), fmt.Sprintf("%d/%d", ready, local)
	return s
}
