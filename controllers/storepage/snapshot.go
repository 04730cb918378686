package storepage

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/console"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/partmetrics"
	"github.com/causalstore/causalstore/topology"
)

// observed is all that a snapshot is made of.
type observed struct {
	region          string
	at              time.Time
	store           *v1alpha1.CausalStore
	pods            []corev1.Pod
	sets            []appsv1.StatefulSet
	readings        []reading
	counters        counters
	tooManySidecars bool
	// unread says what could not be read.
	unread []string
}

// snapshot returns what the page shows.
func (o *observed) snapshot() console.Snapshot {
	s := console.Snapshot{AtMs: o.at.UnixMilli(), Epoch: uint64(o.store.Status.Topology.Epoch), Links: o.links()}
	for i := range o.store.Spec.DataCenters {
		spec := &o.store.Spec.DataCenters[i]
		if spec.Region != o.region {
			s.DataCenters = append(s.DataCenters, console.UnknownDataCenter(spec.Name, "It runs in region "+spec.Region+
				", and the operator of "+o.region+
				" does not ask its parts. To see it here, give its context too: kubectl causal console --context ... "+
				"--context ..."))
			continue
		}
		dc := console.DataCenter{Name: spec.Name, RingLagMs: map[string]*int64{}, Parts: o.parts(spec.Name)}
		for _, r := range o.store.Spec.Rings {
			dc.RingLagMs[r.Name] = nil // unknown
		}
		o.addCoordinators(&dc)
		o.addSessions(&dc)
		o.addCaches(&dc)
		s.DataCenters = append(s.DataCenters, dc)
	}
	s.Problems = o.problems(&s)
	return s
}

// partKinds are the parts of pods, by component.
var partKinds = map[string]topology.Part{plan.ComponentCoordinator: topology.Coordinator,
	plan.ComponentShard: topology.Middleman, plan.ComponentCache: topology.Cache}

// member is a pod that should be there, or is.
type member struct {
	component, dataCenter string
	index, number         int
	pod                   *corev1.Pod // nil if there is none
	reading               *reading    // nil if it was not asked
}

// members returns the pods that the StatefulSets of a data center ask for, and those that are left of earlier ones.
func (o *observed) members(dc string) (all []member) {
	seen := map[string]bool{}
	add := func(name string, labels map[string]string, ordinal, number int) {
		m := member{component: labels[plan.LabelComponent], dataCenter: dc, index: ordinal, number: number}
		if shard, err := strconv.Atoi(labels[plan.LabelShard]); err == nil {
			m.index = shard
		}
		if i := slices.IndexFunc(o.pods, func(p corev1.Pod) bool { return p.Name == name }); i >= 0 {
			m.pod = &o.pods[i]
		}
		if i := slices.IndexFunc(o.readings, func(r reading) bool {
			return r.port == plan.PortHTTP && !r.serves && r.pod.Name == name
		}); i >= 0 {
			m.reading = &o.readings[i]
		}
		seen[name] = true
		all = append(all, m)
	}
	of := func(labels map[string]string) bool {
		_, isPart := partKinds[labels[plan.LabelComponent]]
		return isPart && labels[plan.LabelDataCenter] == dc
	}
	for i := range o.sets {
		set := &o.sets[i]
		if !of(set.Labels) || set.Spec.Replicas == nil {
			continue
		}
		for n := range int(*set.Spec.Replicas) {
			add(set.Name+"-"+strconv.Itoa(n), set.Labels, n, plan.Member(set))
		}
	}
	for i := range o.pods {
		if p := &o.pods[i]; of(p.Labels) && !seen[p.Name] {
			add(p.Name, p.Labels, plan.Index(p), plan.Member(p))
		}
	}
	slices.SortStableFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(partKinds[a.component], partKinds[b.component]), cmp.Compare(a.index, b.index),
			cmp.Compare(a.number, b.number))
	})
	return all
}

func (o *observed) parts(dc string) []console.Part {
	all := o.members(dc)
	out := make([]console.Part, 0, len(all))
	for i, m := range all {
		kind := partKinds[m.component].String()
		p := console.Part{Name: kind + " " + strconv.Itoa(m.index), Kind: kind, Index: uint64(m.index),
			State: m.state()}
		same := func(n member) bool { return n.component == m.component && n.index == m.index && n.number != m.number }
		if slices.ContainsFunc(all[max(i-1, 0):min(i+2, len(all))], same) {
			p.Member = uint8(m.number)
			p.Name += " member " + strconv.Itoa(m.number)
		}
		if m.reading != nil {
			for _, series := range m.reading.metrics[metricBuild].GetMetric() {
				p.Version = partmetrics.Label(series, "version")
			}
		}
		out = append(out, p)
	}
	return out
}

// state returns what a part is doing, as its pod and the part itself say.
func (m *member) state() console.PartState {
	switch {
	case m.pod == nil || m.pod.Status.Phase != corev1.PodRunning:
		return console.PartDown
	case m.reading == nil || m.reading.err != nil:
		if plan.Ready(m.pod) {
			return console.PartHung
		}
		return console.PartDown
	case m.follows():
		return console.PartFollowing
	case plan.Ready(m.pod):
		return console.PartServing
	}
	return console.PartIdle
}

// follows reports whether another member of its group serves.
func (m *member) follows() bool {
	series := m.reading.metrics[contract.MetricServes(partKinds[m.component])].GetMetric()
	return len(series) > 0 && partmetrics.Value(series[0]) == 0
}

// coordinators returns the answers of the members that serve, and false if a coordinator has none.
func (o *observed) coordinators(dc string) (map[int]*reading, bool) {
	all, want := map[int]*reading{}, map[int]bool{}
	for _, m := range o.members(dc) {
		if m.component != plan.ComponentCoordinator {
			continue
		}
		want[m.index] = true
		if m.reading != nil && m.reading.err == nil && !m.follows() {
			all[m.index] = m.reading
		}
	}
	return all, len(want) > 0 && len(all) == len(want)
}

func ptr[T any](v T) *T { return &v }

// toMs returns a time in seconds in ms; nil if it is not finite.
func toMs(seconds float64) *int64 {
	if math.IsInf(seconds, 0) || math.IsNaN(seconds) {
		return nil
	}
	return ptr(int64(math.Round(max(seconds, 0) * 1e3)))
}

// addCoordinators adds what the coordinators of a data center report. If one of them does not answer, their sum is
// unknown.
func (o *observed) addCoordinators(dc *console.DataCenter) {
	all, complete := o.coordinators(dc.Name)
	if !complete {
		return
	}
	var writes int
	var used, limit int64
	published := 0
	lag, rings := 0.0, map[string]float64{}
	for _, r := range all {
		writes += int(r.metrics.Sum(contract.MetricIncompleteWrites, nil))
		used += int64(r.metrics.Sum(metricBuffer, nil))
		limit += int64(r.metrics.Sum(metricBufferLimit, nil))
		for _, series := range r.metrics[contract.MetricStabilityLag].GetMetric() {
			published++
			lag = max(lag, partmetrics.Value(series))
		}
		for _, series := range r.metrics[contract.MetricRingLag].GetMetric() {
			ring := partmetrics.Label(series, contract.LabelToRing)
			rings[ring] = max(rings[ring], partmetrics.Value(series))
		}
	}
	dc.InFlight, dc.BufferBytes, dc.BufferLimitBytes, dc.Homes = &writes, &used, &limit, homesOf(all)
	if published < len(all) {
		return // one has not published how far it is
	}
	dc.SVLagMs = toMs(lag)
	for ring, seconds := range rings {
		dc.RingLagMs[ring] = toMs(seconds)
	}
}

// homesOf returns what the homes of keys of a data center keep; nil if its coordinators are none.
func homesOf(coordinators map[int]*reading) (homes *console.Homes) {
	for _, r := range coordinators {
		if len(r.metrics[metricHomeKeys].GetMetric()) == 0 {
			continue
		}
		if homes == nil {
			homes = &console.Homes{}
		}
		homes.Keys += int(r.metrics.Sum(metricHomeKeys, nil))
		homes.Bytes += int64(r.metrics.Sum(metricHomeBytes, nil))
		homes.Waiting += int(r.metrics.Sum(metricHomeWaiting, nil))
	}
	return homes
}

// addSessions adds the operations and sessions of the fronts and sidecars of a data center that answered. A problem
// says how many did not.
func (o *observed) addSessions(dc *console.DataCenter) {
	if o.tooManySidecars {
		return
	}
	var connections, sessions, bound, answers int
	for _, r := range o.readings {
		if !r.serves || r.dataCenter != dc.Name || r.err != nil {
			continue
		}
		answers++
		connections += int(r.metrics.Sum(metricConnections, nil))
		sessions += int(r.metrics.Sum(metricSessions, nil))
		bound += int(r.metrics.Sum(metricBound, nil))
		for _, series := range r.metrics[metricCutAge].GetMetric() {
			if age := toMs(partmetrics.Value(series)); age != nil && (dc.CutAgeMs == nil || *age > *dc.CutAgeMs) {
				dc.CutAgeMs = age
			}
		}
	}
	if answers == 0 {
		return
	}
	dc.Connections, dc.Sessions, dc.Bound = &connections, &sessions, &bound
	if n, ok := o.counters.operations[dc.Name]; ok {
		dc.Counters = &n
	}
}

// addCaches adds the size of the caches of a data center. If one of them does not answer, it is unknown.
func (o *observed) addCaches(dc *console.DataCenter) {
	var entries int
	var used int64
	for _, m := range o.members(dc.Name) {
		if m.component != plan.ComponentCache {
			continue
		}
		if m.reading == nil || m.reading.err != nil {
			return
		}
		entries += int(m.reading.metrics.Sum(metricEntries, nil))
		used += int64(m.reading.metrics.Sum(metricCached, nil))
	}
	dc.CacheEntries, dc.CacheBytes = &entries, &used
}

// links returns the network between the data centers here, and from them to the others, as the first coordinators find
// it.
func (o *observed) links() []console.Link {
	trips := map[[2]string]float64{}
	here := map[string]bool{}
	for _, dc := range o.store.Spec.DataCenters {
		if dc.Region != o.region {
			continue
		}
		here[dc.Name] = true
		all, _ := o.coordinators(dc.Name)
		if first := all[0]; first != nil {
			for _, series := range first.metrics[contract.MetricRoundTrip].GetMetric() {
				trips[[2]string{dc.Name, partmetrics.Label(series,
					contract.LabelToDataCenter)}] = partmetrics.Value(series)
			}
		}
	}
	links := []console.Link{}
	for i, a := range o.store.Spec.DataCenters {
		for _, b := range o.store.Spec.DataCenters[i+1:] {
			if here[a.Name] || here[b.Name] {
				links = append(links, o.link(a.Name, b.Name, trips))
			}
		}
	}
	return links
}

func (o *observed) link(a, b string, trips map[[2]string]float64) console.Link {
	l := console.Link{A: a, B: b}
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		seconds, measured := trips[pair]
		switch {
		case measured && math.IsInf(seconds, 1) && pair[0] == a:
			l.CutAB = true
		case measured && math.IsInf(seconds, 1):
			l.CutBA = true
		case measured && l.RoundTripMs == nil:
			l.RoundTripMs = ptr(math.Round(seconds*1e4) / 10)
		}
		if n, ok := o.counters.bytes[pair]; ok {
			if l.Bytes == nil {
				l.Bytes = ptr(uint64(0))
			}
			*l.Bytes += n
		}
	}
	if l.CutAB || l.CutBA {
		l.RoundTripMs = nil
	}
	return l
}
