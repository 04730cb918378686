package status

import (
	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// addExclusions says of each data center that was ever excluded how far the coordinators of the others in this cluster
// go by that.
func (v *view) addExclusions() {
	for i := range v.dataCenters {
		if n := v.Record.Exclusions(v.dataCenters[i].Name); n > 0 {
			v.dataCenters[i].Exclusion = v.exclusionOf(&v.dataCenters[i], n)
		}
	}
}

func (v *view) exclusionOf(dc *v1alpha1.DataCenterStatus, count int32) *v1alpha1.ExclusionStatus {
	x := &v1alpha1.ExclusionStatus{Count: count}
	// Its own may be dead, which must not look as if they were late. Where there are no others they are asked, for they
	// know whether its shards are back.
	own := len(v.served) == 1 && dc.Here
	for name, served := range v.served {
		if own || name != dc.Name {
			x.Coordinators += served.Desired
		}
	}
	heard, lastCopy := false, false
	for i := range v.Pods {
		p := &v.Pods[i]
		of := p.Labels[plan.LabelDataCenter]
		m, ok := v.Measured[p.Name]
		if !ok || m.Follows || of == dc.Name && !own || p.Labels[plan.LabelComponent] != plan.ComponentCoordinator ||
			int32(plan.Index(p)) >= v.served[of].Desired {
			continue
		}
		heard = true
		its := m.Exclusions[dc.Name] // nothing, if it has not read its configuration yet
		lastCopy = lastCopy || its.LastCopy
		if its.Applied >= count {
			x.Applied++
		}
		x.Without, x.Shards = max(x.Without, its.Without), max(x.Shards, its.Shards)
	}
	switch {
	case !heard:
		x.State = v1alpha1.ExclusionUnknown
	case lastCopy:
		x.State = v1alpha1.ExclusionLastCopy
	case x.Applied < x.Coordinators:
		x.State = v1alpha1.ExclusionPending
	case x.Without > 0:
		x.State = v1alpha1.ExclusionExcluded
	case dc.Here && dc.Shards.Ready < dc.Shards.Desired:
		x.State = v1alpha1.ExclusionBackfilling
	default:
		x.State = v1alpha1.ExclusionBack
	}
	return x
}
