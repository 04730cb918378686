package status

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// view is what was observed, counted.
type view struct {
	Observed
	dataCenters []v1alpha1.DataCenterStatus
	rings       []v1alpha1.RingStatus
	local       int // data centers of this region
	localReady  int
	missing     []shortfall // parts that the spec asks for and that do not serve
	lost        []shortfall // the same, of parts that have served before
	lostParts   int32
	away        []shortfall               // the same, with the members of groups that others stand in for
	dataShards  map[string]v1alpha1.Count // shards of the local data centers that hold data
	served      map[string]v1alpha1.Count // coordinators of the local data centers that have served
	leaving     map[string]bool           // pods of coordinators that leave
	lag         time.Duration
	measured    bool
	behind      []string  // rings that are far behind
	unasked     []string  // coordinators that have served, and whose lag is unknown, with the reason
	problems    []problem // why pods do not serve, by pod
	edges       edgesView
	groups      []group
	etcds       etcdsView
	// edgeProblems are the problems of edges. They explain nothing about parts.
	edgeProblems []problem
	// etcdProblems are those of etcds, which reads and writes do not need.
	etcdProblems []problem
}

func newView(in Observed) *view {
	v := &view{Observed: in, dataShards: map[string]v1alpha1.Count{}, served: map[string]v1alpha1.Count{},
		leaving: in.LeavingPods()}
	for i := range in.Store.Spec.DataCenters {
		v.addDataCenter(&in.Store.Spec.DataCenters[i])
	}
	v.addExclusions()
	v.findProblems()
	for i := range in.Store.Spec.Rings {
		v.addRing(&in.Store.Spec.Rings[i])
	}
	return v
}

func (v *view) addDataCenter(dc *v1alpha1.DataCenter) {
	s := v1alpha1.DataCenterStatus{Name: dc.Name, Region: dc.Region, Here: dc.Region == v.Region}
	if !s.Here {
		v.dataCenters = append(v.dataCenters, s)
		return
	}
	dataShards := cmp.Or(v.Record.DataShards(dc.Name), dc.Shards)
	served := min(cmp.Or(v.Record.ServedCoordinators(dc.Name), dc.Coordinators.Replicas), dc.Coordinators.Replicas)
	members := int32(plan.WantedMembers(&v.Store.Spec, dc, topology.Coordinator))
	shardMembers := int32(plan.WantedMembers(&v.Store.Spec, dc, topology.Middleman))
	s.Coordinators, s.Caches = v1alpha1.Count{Desired: dc.Coordinators.Replicas * members},
		v1alpha1.Count{Desired: dc.Caches.Replicas}
	s.Shards = v1alpha1.Count{Desired: dc.Shards * shardMembers}
	before := s // the parts that have served before
	before.Shards, before.Coordinators = v1alpha1.Count{Desired: dataShards}, v1alpha1.Count{Desired: served}
	ofMembers, ofShards := v1alpha1.Count{Desired: served * members}, v1alpha1.Count{Desired: dataShards * shardMembers}
	missing := served
	// coordinators with a pod, and with one that serves or can take over
	present, serving := map[int32]bool{}, map[int32]bool{}
	servingShards := map[int32]bool{} // shards with the latter
	for i := range v.Pods {
		p := &v.Pods[i]
		if p.Labels[plan.LabelDataCenter] != dc.Name {
			continue
		}
		switch p.Labels[plan.LabelComponent] {
		case plan.ComponentCoordinator:
			n, stays := int32(plan.Index(p)), plan.Member(p) <= int(members)
			v.count(&s.Coordinators, p, n < dc.Coordinators.Replicas && stays)
			v.count(&ofMembers, p, n < served && stays)
			v.addMeasure(&s, p, n < served && stays)
			if n < served && !present[n] {
				present[n] = true
				missing--
			}
			if n < served && !serving[n] && plan.Ready(p) && p.DeletionTimestamp == nil {
				// a group goes on with one of its members
				serving[n] = true
				before.Coordinators.Ready++
			}
		case plan.ComponentCache:
			v.count(&s.Caches, p, true)
			v.count(&before.Caches, p, true)
		case plan.ComponentShard:
			n, stays := shardOf(p), plan.Member(p) <= int(shardMembers)
			v.count(&s.Shards, p, n < dc.Shards && stays)
			v.count(&ofShards, p, n < dataShards && stays)
			if n < dataShards && !servingShards[n] && plan.Ready(p) && p.DeletionTimestamp == nil {
				servingShards[n] = true
				before.Shards.Ready++
			}
		}
		for _, c := range p.Spec.Containers {
			if !slices.Contains(s.Images, c.Image) {
				s.Images = append(s.Images, c.Image)
			}
		}
	}
	if v.asked() && missing > 0 {
		v.unasked = append(v.unasked, fmt.Sprintf("%d of %s (there is no pod)", missing, dc.Name))
	}
	slices.Sort(s.Images)
	s.Edge, s.Etcd, s.Groups = v.addEdge(dc), v.addEtcd(dc), v.addGroups(dc)
	v.local++
	if missing := shortfallOf(s); missing.any() {
		v.missing = append(v.missing, missing)
	} else {
		v.localReady++
	}
	if lost := shortfallOf(before); lost.any() {
		v.lost = append(v.lost, lost)
		v.lostParts += lost.total()
	}
	each := before
	each.Coordinators, each.Shards = ofMembers, ofShards
	if away := shortfallOf(each); away.any() {
		v.away = append(v.away, away)
	}
	v.dataShards[dc.Name], v.served[dc.Name] = before.Shards, before.Coordinators
	v.dataCenters = append(v.dataCenters, s)
}

// shardOf returns the number of the shard that a pod belongs to.
func shardOf(p *corev1.Pod) int32 {
	n, _ := strconv.ParseInt(p.Labels[plan.LabelShard], 10, 32) // the operator writes the label
	return int32(n)
}

// count adds a pod to a count that it belongs to.
func (v *view) count(c *v1alpha1.Count, p *corev1.Pod, belongs bool) {
	if !belongs || p.DeletionTimestamp != nil {
		return
	}
	if plan.Ready(p) {
		c.Ready++
	}
	if plan.UpToDate(v.StatefulSets, p) {
		c.Updated++
	}
}

// asked reports whether coordinators were asked how far the rings are behind.
func (v *view) asked() bool { return v.Measured != nil || v.Unmeasured != nil }

// addMeasure adds what a coordinator has reported. Lags are rounded, so that the status does not change all the time. A
// coordinator that leaves accepts no writes, so its lag says nothing about those that serve.
func (v *view) addMeasure(s *v1alpha1.DataCenterStatus, p *corev1.Pod, hasServed bool) {
	m, ok := v.Measured[p.Name]
	hasServed = hasServed && !v.leaving[p.Name]
	if ok && m.Follows {
		return // the member that serves knows
	}
	if !ok {
		if v.asked() && hasServed {
			v.unasked = append(v.unasked, fmt.Sprintf("%s (%s)", p.Name,
				cmp.Or(v.Unmeasured[p.Name], "it was not asked")))
		}
		return
	}
	incomplete := m.Incomplete
	if s.IncompleteWrites != nil {
		incomplete += *s.IncompleteWrites
	}
	s.IncompleteWrites = &incomplete
	if v.leaving[p.Name] {
		return
	}
	if !m.Published {
		if hasServed {
			v.unasked = append(v.unasked, p.Name+" (it has not published its progress yet)")
		}
		return
	}
	v.measured = true
	v.lag = max(v.lag, m.StabilityLag)
	ms := roundMs(m.StabilityLag)
	if s.StabilityLagMs == nil || *s.StabilityLagMs < ms {
		s.StabilityLagMs = &ms
	}
}

// roundMs rounds to about two digits.
func roundMs(d time.Duration) int64 {
	step := time.Millisecond * 100
	for d > 20*step {
		step *= 10
	}
	return d.Round(step).Milliseconds()
}
