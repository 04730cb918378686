package drill

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Side is the availability zone that a pod is in, as the protocol names them.
type Side string

// The sides of a data center.
const (
	Front Side = "AZ-F"
	Back  Side = "AZ-B"
	// Neither is a third zone, such as one that only has a member of the etcd.
	Neither Side = ""
)

// Components of pods that are no parts of a store.
const (
	ComponentApp      = "app"
	ComponentCanary   = "canary"
	ComponentOperator = "operator"
)

// Pod is a pod that an experiment can hit.
type Pod struct {
	Namespace, Name, UID string
	Node, Zone           string
	DataCenter           string
	Component            string
	Side                 Side
	Ready                bool
	// Restarts is the sum over the containers.
	Restarts int32
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name }

// Landscape is what drills choose from: a store, and the pods of it in this cluster, sorted by name.
type Landscape struct {
	Store *v1alpha1.CausalStore
	Parts []Pod
	// Apps are the pods with a sidecar of the store that the user may list.
	Apps []Pod
	// Canaries are the pods with a sidecar that the drill will start: faults of a zone hit those in it, as they hit
	// apps. RunID is the run that they will be of, NoSidecars why there are none.
	Canaries   []Pod
	RunID      string
	NoSidecars string
	// Operators are the pods of the operator.
	Operators []Pod
	// ZonesKnown says that the zones of nodes could be read. Otherwise sides follow from what the pods run.
	ZonesKnown bool
}

// NewPod describes a pod of a store. zone is that of its node, if it is known.
func NewPod(s *v1alpha1.CausalStore, p *corev1.Pod, zone string) Pod {
	out := Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Zone: zone,
		DataCenter: p.Labels[plan.LabelDataCenter],
		Component:  p.Labels[plan.LabelComponent], Ready: plan.Ready(p)}
	for _, c := range p.Status.ContainerStatuses {
		out.Restarts += c.RestartCount
	}
	out.Side = sideOf(s, out)
	return out
}

// sideOf returns the side of a pod: by the zone of its node, or by what it runs if that zone is not known, or is that
// of both sides.
func sideOf(s *v1alpha1.CausalStore, p Pod) Side {
	dc := dataCenter(s, p.DataCenter)
	if dc != nil && p.Zone != "" {
		zones := s.Spec.ZonesOf(dc)
		front, back := slices.Contains(zones.Frontend, p.Zone), slices.Contains(zones.Backend, p.Zone)
		switch {
		case front && !back:
			return Front
		case back && !front:
			return Back
		case len(zones.Frontend) > 0 && !front:
			return Neither
		}
	}
	switch p.Component {
	case plan.ComponentCoordinator, plan.ComponentCache, plan.ComponentEdge, ComponentApp:
		return Front
	case plan.ComponentShard:
		return Back
	}
	return Neither
}

func dataCenter(s *v1alpha1.CausalStore, name string) *v1alpha1.DataCenter {
	i := slices.IndexFunc(s.Spec.DataCenters, func(dc v1alpha1.DataCenter) bool { return dc.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Spec.DataCenters[i]
}

// here are the data centers that have pods in this cluster, in the order of the spec.
func (l *Landscape) here() (names []string) {
	for _, dc := range l.Store.Spec.DataCenters {
		if slices.ContainsFunc(l.Parts, func(p Pod) bool { return p.DataCenter == dc.Name }) {
			names = append(names, dc.Name)
		}
	}
	return names
}

// ringOf returns the ring of a data center.
func (l *Landscape) ringOf(dc string) *v1alpha1.Ring {
	i := slices.IndexFunc(l.Store.Spec.Rings, func(r v1alpha1.Ring) bool { return slices.Contains(r.DataCenters, dc) })
	if i < 0 {
		return nil
	}
	return &l.Store.Spec.Rings[i]
}

func (l *Landscape) ring(name string) *v1alpha1.Ring {
	i := slices.IndexFunc(l.Store.Spec.Rings, func(r v1alpha1.Ring) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &l.Store.Spec.Rings[i]
}

// only are the parts and canaries for which keep returns true.
func (l *Landscape) only(keep func(Pod) bool) (pods []Pod) {
	for _, p := range slices.Concat(l.Parts, l.Canaries) {
		if keep(p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// others are the parts, the canaries, and the apps with a sidecar, that are not among the given pods. Apps in a zone
// that is hit are cut off with it, so they are left out.
func (l *Landscape) others(victims []Pod) (pods []Pod) {
	zones := map[string]bool{}
	for _, v := range victims {
		zones[v.Zone] = v.Zone != ""
	}
	for _, p := range slices.Concat(l.Parts, l.Canaries) {
		if !slices.ContainsFunc(victims, func(v Pod) bool { return v.Namespace == p.Namespace && v.Name == p.Name }) {
			pods = append(pods, p)
		}
	}
	for _, p := range l.Apps {
		if !zones[p.Zone] {
			pods = append(pods, p)
		}
	}
	return pods
}

func sortPods(pods []Pod) []Pod {
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// dataCentersOf are the data centers of pods.
func dataCentersOf(pods []Pod) (names []string) {
	for _, p := range pods {
		if p.DataCenter != "" {
			names = append(names, p.DataCenter)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// describe counts pods by component: "2 coordinator, 1 cache".
func describe(pods []Pod) string {
	var order []string
	n := map[string]int{}
	for _, p := range pods {
		if n[p.Component]++; n[p.Component] == 1 {
			order = append(order, p.Component)
		}
	}
	slices.Sort(order)
	text := ""
	for i, c := range order {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", n[c], c)
	}
	return text
}
