package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// view is what was observed, counted.
type view struct {
	Observed
	dataCenters []v1alpha1.DataCenterStatus
	rings       []v1alpha1.RingStatus
	here        int // data centres that are run here
	hereReady   int
	missing     []string // parts that the spec asks for and that do not serve, for people
	lost        []string // the same of parts that were there
	lostParts   int32
	holding     map[string]v1alpha1.Count // shards of the data centres here that hold data
	serving     map[string]v1alpha1.Count // coordinators of the data centres here that have served
	leaving     map[string]bool           // pods of coordinators that leave
	lag         time.Duration
	measured    bool
	behind      []string // rings that are far behind
}

// peersBehind is how far a ring may be behind before it counts as not connected.
const peersBehind = 10 * time.Second

func look(in Observed) *view {
	v := &view{Observed: in, holding: map[string]v1alpha1.Count{}, serving: map[string]v1alpha1.Count{}, leaving: in.Leaving()}
	for i := range in.Store.Spec.DataCenters {
		v.dataCenter(&in.Store.Spec.DataCenters[i])
	}
	for i := range in.Store.Spec.Rings {
		v.ring(&in.Store.Spec.Rings[i])
	}
	return v
}

func (v *view) dataCenter(dc *v1alpha1.DataCenter) {
	s := v1alpha1.DataCenterStatus{Name: dc.Name, Region: dc.Region, Here: dc.Region == v.Region}
	if !s.Here {
		v.dataCenters = append(v.dataCenters, s)
		return
	}
	s.Coordinators = v1alpha1.Count{Desired: dc.Coordinators.Replicas}
	s.Caches = v1alpha1.Count{Desired: dc.Caches.Replicas}
	replicas := v.Store.Spec.Storage.Replicas
	s.Shards = v1alpha1.Count{Desired: dc.Shards * replicas}
	holds := cmp.Or(v.Record.Holding(dc.Name), dc.Shards)
	holding := v1alpha1.Count{Desired: holds * replicas}
	serving := v1alpha1.Count{Desired: min(cmp.Or(v.Record.Serving(dc.Name), dc.Coordinators.Replicas), dc.Coordinators.Replicas)}
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Labels[plan.LabelDataCenter] != dc.Name {
			continue
		}
		switch p.Labels[plan.LabelComponent] {
		case plan.ComponentCoordinator:
			if n := int32(plan.Index(p)); n < dc.Coordinators.Replicas {
				v.count(&s.Coordinators, p)
				if n < serving.Desired {
					v.count(&serving, p)
				}
			}
			v.measure(&s, p)
		case plan.ComponentCache:
			v.count(&s.Caches, p)
		case plan.ComponentShard:
			if n := shardOf(p); n < dc.Shards {
				v.count(&s.Shards, p)
			}
			if n := shardOf(p); n < holds {
				v.count(&holding, p)
			}
		}
		for _, c := range p.Spec.Containers {
			if !slices.Contains(s.Images, c.Image) {
				s.Images = append(s.Images, c.Image)
			}
		}
	}
	slices.Sort(s.Images)
	v.here++
	if m := missing(s); m == "" {
		v.hereReady++
	} else {
		v.missing = append(v.missing, dc.Name+": "+m)
	}
	v.holding[dc.Name], v.serving[dc.Name] = holding, serving
	had := s
	if had.Shards, had.Coordinators = holding, serving; missing(had) != "" {
		v.lost = append(v.lost, dc.Name+": "+missing(had))
	}
	for _, c := range []v1alpha1.Count{had.Coordinators, had.Caches, had.Shards} {
		v.lostParts += max(0, c.Desired-c.Ready)
	}
	v.dataCenters = append(v.dataCenters, s)
}

// shardOf is the number of the shard that a pod is of.
func shardOf(p *corev1.Pod) int32 {
	n, _ := strconv.ParseInt(p.Labels[plan.LabelShard], 10, 32) // the label is the operator's own
	return int32(n)
}

func (v *view) count(c *v1alpha1.Count, p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		return
	}
	if plan.Ready(p) {
		c.Ready++
	}
	if plan.UpToDate(v.StatefulSets, p) {
		c.Updated++
	}
}

// measure takes over what a coordinator has said. Lags are rounded, so that status does not change all the time. One that leaves takes
// no writes, so what it lags behind says nothing of those that serve.
func (v *view) measure(s *v1alpha1.DataCenterStatus, p *corev1.Pod) {
	m, ok := v.Measured[p.Name]
	if !ok {
		return
	}
	incomplete := m.Incomplete
	if s.IncompleteWrites != nil {
		incomplete += *s.IncompleteWrites
	}
	s.IncompleteWrites = &incomplete
	if !m.Published || v.leaving[p.Name] {
		return
	}
	v.measured = true
	v.lag = max(v.lag, m.StabilityLag)
	ms := roundMs(m.StabilityLag)
	if s.StabilityLagMs == nil || *s.StabilityLagMs < ms {
		s.StabilityLagMs = &ms
	}
}

// roundMs keeps two digits or so.
func roundMs(d time.Duration) int64 {
	step := time.Millisecond * 100
	for d > 20*step {
		step *= 10
	}
	return d.Round(step).Milliseconds()
}

// missing says which parts of a data centre do not serve, or nothing.
func missing(s v1alpha1.DataCenterStatus) string {
	var parts []string
	for _, c := range []struct {
		name  string
		count v1alpha1.Count
	}{{"coordinators", s.Coordinators}, {"caches", s.Caches}, {"shards", s.Shards}} {
		if c.count.Ready < c.count.Desired {
			parts = append(parts, fmt.Sprintf("%d of %d %s", c.count.Ready, c.count.Desired, c.name))
		}
	}
	return strings.Join(parts, ", ")
}

// ring judges by the data centres that are here.
func (v *view) ring(r *v1alpha1.Ring) {
	s := v1alpha1.RingStatus{Name: r.Name, Availability: v1alpha1.RingUnknown, DynamicSwitching: v.switching()}
	var lacking []string
	for _, dc := range v.dataCenters {
		if !dc.Here || !slices.Contains(r.DataCenters, dc.Name) {
			continue
		}
		if s.Availability == v1alpha1.RingUnknown {
			s.Availability = v1alpha1.RingComplete
		}
		dc.Shards, dc.Coordinators = v.holding[dc.Name], v.serving[dc.Name]
		m := missing(dc)
		if m == "" {
			continue
		}
		lacking = append(lacking, dc.Name+": "+m)
		if dc.Shards.Ready < dc.Shards.Desired {
			s.Availability = v1alpha1.RingUnavailable
		} else if s.Availability == v1alpha1.RingComplete {
			s.Availability = v1alpha1.RingDegraded
		}
	}
	if s.Message = strings.Join(lacking, "; "); s.Message != "" {
		s.Message = "ready are " + s.Message
	}
	if s.Availability == v1alpha1.RingUnknown {
		s.Message = "none of its data centres are here"
	}
	for pod, m := range v.Measured {
		if lag, ok := m.RingLag[r.Name]; ok && m.Published && !v.leaving[pod] {
			if ms := roundMs(lag); s.LagMs == nil || *s.LagMs < ms {
				s.LagMs = &ms
			}
		}
	}
	if s.LagMs != nil && time.Duration(*s.LagMs)*time.Millisecond > peersBehind {
		v.behind = append(v.behind, fmt.Sprintf("%s (%s)", r.Name, time.Duration(*s.LagMs)*time.Millisecond))
	}
	v.rings = append(v.rings, s)
}

func (v *view) switching() v1alpha1.DynamicSwitching {
	switch {
	case v.Store.Spec.Binding == v1alpha1.BindingStatic:
		return v1alpha1.DynamicSwitching{Reason: "spec.binding is Static: sessions stay with their data centre's ring"}
	case len(v.Store.Spec.Rings) == 1:
		return v1alpha1.DynamicSwitching{Reason: "there is no other ring"}
	}
	return v1alpha1.DynamicSwitching{Enabled: true, Reason: "spec.binding is Dynamic"}
}

func (v *view) summary() v1alpha1.Summary {
	complete, known := 0, 0
	for _, r := range v.rings {
		if r.Availability != v1alpha1.RingUnknown {
			known++
		}
		if r.Availability == v1alpha1.RingComplete {
			complete++
		}
	}
	s := v1alpha1.Summary{Rings: fmt.Sprintf("%d/%d", complete, known), DataCenters: fmt.Sprintf("%d/%d", v.hereReady, v.here)}
	if v.measured {
		s.VisibilityLag = (time.Duration(roundMs(v.lag)) * time.Millisecond).String()
		if v.lag < 50*time.Millisecond {
			s.VisibilityLag = "<100ms"
		}
	}
	return s
}
