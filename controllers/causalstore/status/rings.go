package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

// maxConnectedLag is how far a ring may be behind and still count as connected.
const maxConnectedLag = 10 * time.Second

// addRing judges a ring by its data centers in this region.
func (v *view) addRing(r *v1alpha1.Ring) {
	s := v1alpha1.RingStatus{Name: r.Name, Availability: v1alpha1.RingUnknown, DynamicSwitching: v.dynamicSwitching()}
	var missing []shortfall
	for _, dc := range v.dataCenters {
		if !dc.Here || !slices.Contains(r.DataCenters, dc.Name) {
			continue
		}
		if s.Availability == v1alpha1.RingUnknown {
			s.Availability = v1alpha1.RingComplete
		}
		dc.Shards, dc.Coordinators = v.dataShards[dc.Name], v.served[dc.Name]
		m := shortfallOf(dc)
		if !m.any() {
			continue
		}
		missing = append(missing, m)
		if dc.Shards.Ready < dc.Shards.Desired {
			s.Availability = v1alpha1.RingUnavailable
		} else if s.Availability == v1alpha1.RingComplete {
			s.Availability = v1alpha1.RingDegraded
		}
	}
	switch {
	case len(missing) > 0:
		s.Message = describe(missing)
	case s.Availability == v1alpha1.RingUnknown:
		s.Message = "none of its data centers are in this region"
	}
	v.addRingLag(&s)
	v.rings = append(v.rings, s)
}

// addRingLag sets how far a ring is behind the coordinators of this region: the worst counts. One that leaves counts
// while it has writes that some ring lacks.
func (v *view) addRingLag(s *v1alpha1.RingStatus) {
	for pod, m := range v.Measured {
		if lag, ok := m.RingLag[s.Name]; ok && m.Published && (m.Incomplete > 0 || !v.leaving[pod]) {
			if ms := roundMs(lag); s.LagMs == nil || *s.LagMs < ms {
				s.LagMs = &ms
			}
		}
	}
	if s.LagMs != nil && time.Duration(*s.LagMs)*time.Millisecond > maxConnectedLag {
		v.behind = append(v.behind, fmt.Sprintf("%s (%s)", s.Name, time.Duration(*s.LagMs)*time.Millisecond))
	}
}

func (v *view) dynamicSwitching() v1alpha1.DynamicSwitching {
	switch {
	case v.Store.Spec.Binding == v1alpha1.BindingStatic:
		return v1alpha1.DynamicSwitching{
			Reason: "spec.binding is Static: sessions stay with the ring of their data center",
		}
	case len(v.Store.Spec.Rings) == 1:
		return v1alpha1.DynamicSwitching{Reason: "there is only one ring"}
	}
	return v1alpha1.DynamicSwitching{Enabled: true, Reason: "spec.binding is Dynamic"}
}

func (v *view) summary() v1alpha1.Summary {
	s := v1alpha1.Summary{Rings: countRings(v.rings), DataCenters: fmt.Sprintf("%d/%d", v.localReady, v.local)}
	if v.measured {
		s.VisibilityLag = (time.Duration(roundMs(v.lag)) * time.Millisecond).String()
		if v.lag < 50*time.Millisecond {
			s.VisibilityLag = "<100ms"
		}
		if n := len(v.unasked); n > 0 {
			s.VisibilityLag += fmt.Sprintf(", %d unknown", n)
		}
	}
	return s
}

// countRings counts the complete rings, of those that are known.
func countRings(all []v1alpha1.RingStatus) string {
	complete, known := 0, 0
	for _, r := range all {
		if r.Availability != v1alpha1.RingUnknown {
			known++
		}
		if r.Availability == v1alpha1.RingComplete {
			complete++
		}
	}
	return fmt.Sprintf("%d/%d", complete, known)
}
