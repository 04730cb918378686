package kubectl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// isHere reports whether the operator of the region runs a data center.
func (r *regionStore) isHere(dc string) bool {
	return slices.ContainsFunc(r.store.Status.DataCenters, func(d v1alpha1.DataCenterStatus) bool {
		return d.Name == dc && d.Here
	})
}

// regionNames names the regions whose data centers the cluster runs: usually one.
func (r *regionStore) regionNames() string {
	var all []string
	for _, d := range r.store.Status.DataCenters {
		if d.Here && !slices.Contains(all, d.Region) {
			all = append(all, d.Region)
		}
	}
	return orDash(strings.Join(all, " "))
}

// isReady reports whether an operator keeps condition Ready true.
func (r *regionStore) isReady(now time.Time) bool {
	return meta.IsStatusConditionTrue(r.store.Status.Conditions, v1alpha1.ConditionReady) &&
		describeStaleness(r.store, now) == ""
}

// describe renders the state of the store in the cluster, or why it is not known.
func (v *storeRegions) describe(r *regionStore, now time.Time) string {
	switch {
	case r.sameAs != "":
		return "the same cluster as context " + r.sameAs
	case r.store == nil && r.err != nil:
		return "CANNOT BE READ: " + describeContextError(r.err)
	case r.store == nil:
		return fmt.Sprintf("namespace %s has no CausalStore %s", v.namespace, v.name)
	}
	return describeReady(r.store, now)
}

// contextTable has a line for each context.
func (v *storeRegions) contextTable(now time.Time) table {
	all := table{{}, {"CONTEXT", "REGION", "STATE"}}
	for _, r := range v.all {
		region := "-"
		if r.store != nil && r.sameAs == "" {
			region = r.regionNames()
		}
		all.row(r.context, region, v.describe(r, now))
	}
	return all
}

// title says how many regions are well.
func (v *storeRegions) title(now time.Time) string {
	ready := 0
	for _, r := range v.known() {
		if r.isReady(now) {
			ready++
		}
	}
	text := fmt.Sprintf("%s/%s: ready in %d of %d contexts", v.namespace, v.name, ready, len(v.all))
	switch away, unknown := v.unconnected(now); {
	case len(away) > 0:
		text += "; NOT CONNECTED, by the status of " + strings.Join(away, ", ") + ": writes do not complete"
	case len(unknown) > 0:
		text += "; whether rings are connected is not known in " + strings.Join(unknown, ", ")
	}
	if len(v.faults()) > 0 {
		text += "; THE MANIFESTS DIFFER"
	}
	return text
}

// unconnected returns the contexts whose operators report that a ring does not acknowledge writes, and those that do
// not know. Parts that serve are ready also while a cut keeps regions apart.
func (v *storeRegions) unconnected(now time.Time) (away, unknown []string) {
	for _, r := range v.known() {
		c := meta.FindStatusCondition(r.store.Status.Conditions, v1alpha1.ConditionPeersConnected)
		switch is := conditionStatus(c); {
		case is == metav1.ConditionUnknown || describeStaleness(r.store, now) != "":
			unknown = append(unknown, r.context)
		case is == metav1.ConditionFalse:
			away = append(away, r.context)
		}
	}
	return away, unknown
}

// dataCenters returns all data centers in the order of the first manifest; those that only others have follow.
func (v *storeRegions) dataCenters() (all []v1alpha1.DataCenter) {
	for _, r := range v.known() {
		for _, dc := range r.store.Spec.DataCenters {
			if !slices.ContainsFunc(all, func(d v1alpha1.DataCenter) bool { return d.Name == dc.Name }) {
				all = append(all, dc)
			}
		}
	}
	return all
}

func (v *storeRegions) dataCenterNames() []string { return namesOf(v.dataCenters()) }

// rings returns all rings in the order of the first manifest; those that only others have follow.
func (v *storeRegions) rings() (all []v1alpha1.Ring) {
	for _, r := range v.known() {
		for _, ring := range r.store.Spec.Rings {
			if !slices.ContainsFunc(all, func(o v1alpha1.Ring) bool { return o.Name == ring.Name }) {
				all = append(all, ring)
			}
		}
	}
	return all
}

// runs returns the regions that run a data center. More than one is a mistake.
func (v *storeRegions) runs(dc string) (all []*regionStore) {
	for _, r := range v.known() {
		if r.isHere(dc) {
			all = append(all, r)
		}
	}
	return all
}

// whereElse says of a data center that no region runs why nothing is known of it.
func (v *storeRegions) whereElse() string {
	if slices.ContainsFunc(v.all, func(r *regionStore) bool {
		return r.store == nil && r.err != nil || r.store != nil && len(r.store.Status.Conditions) == 0
	}) {
		return "not known"
	}
	return "elsewhere"
}

// ringView is a ring over all of its data centers.
type ringView struct {
	availability v1alpha1.Availability
	lagMs        *int64
	switching    string
	// notes say what is missing, and what is not known.
	notes []string
}

// ring combines what each region reports of a ring for its own data centers. Without the report of one, the ring is
// Unknown, unless it is Unavailable without it.
func (v *storeRegions) ring(of v1alpha1.Ring, now time.Time) ringView {
	out := ringView{availability: v1alpha1.RingUnknown, switching: "-"}
	unknown := slices.Clone(of.DataCenters)
	var on, off []string
	for _, r := range v.known() {
		i := slices.IndexFunc(r.store.Status.Rings, func(s v1alpha1.RingStatus) bool { return s.Name == of.Name })
		if i < 0 || describeStaleness(r.store, now) != "" {
			continue
		}
		s := &r.store.Status.Rings[i]
		if s.LagMs != nil && (out.lagMs == nil || *s.LagMs > *out.lagMs) {
			out.lagMs = s.LagMs
		}
		if s.DynamicSwitching.Enabled {
			on = append(on, r.context)
		} else {
			off = append(off, r.context)
		}
		before := len(unknown)
		unknown = slices.DeleteFunc(unknown, r.isHere)
		if len(unknown) == before {
			continue
		}
		if status.Worse(s.Availability, out.availability) {
			out.availability = s.Availability
		}
		if s.Message != "" {
			out.notes = append(out.notes, r.context+": "+s.Message)
		}
	}
	if len(unknown) > 0 {
		out.notes = append(out.notes, describeUnknown(unknown, out.availability))
		if out.availability != v1alpha1.RingUnavailable {
			out.availability = v1alpha1.RingUnknown
		}
	}
	switch {
	case len(on) > 0 && len(off) > 0:
		out.switching = "off in " + strings.Join(off, " ")
	case len(on) > 0:
		out.switching = "on"
	case len(off) > 0:
		out.switching = "off"
	}
	return out
}

func describeUnknown(dcs []string, rest v1alpha1.Availability) string {
	text := "not known: " + strings.Join(dcs, " ")
	if rest != v1alpha1.RingUnknown {
		text += "; the rest is " + string(rest)
	}
	return text
}

// notes say what no table shows: where a status is not what is there, and what could not be read.
func (v *storeRegions) notes() (all []string) {
	for _, r := range v.known() {
		if s := r.store; meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady) != nil &&
			s.Status.ObservedGeneration != s.Generation {
			all = append(all,
				fmt.Sprintf("%s: the operator has not processed generation %d yet; this is the state of generation %d",
					r.context,
					s.Generation, s.Status.ObservedGeneration))
		}
		if r.err != nil {
			all = append(all, fmt.Sprintf("%s: not all is known: %s", r.context, describeContextError(r.err)))
		}
	}
	for _, dc := range v.dataCenterNames() {
		if at := v.runs(dc); len(at) > 1 {
			all = append(all,
				fmt.Sprintf(
					"%s runs in the clusters of contexts %s: their operators have the same region; uninstall "+
						"all but one", dc,
					strings.Join(contextsOf(at), ", ")))
		}
	}
	return all
}

func contextsOf(regions []*regionStore) (all []string) {
	for _, r := range regions {
		all = append(all, r.context)
	}
	return all
}
