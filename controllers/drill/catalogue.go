package drill

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/topology"
)

// Choice is what the user chooses of a drill. Empty fields are chosen for them.
type Choice struct {
	// DataCenter is hit; To is the other one of a partition.
	DataCenter, To string
	Ring           string
}

// Target is what a drill hits.
type Target struct {
	// Text describes it: "data center us-east-1".
	Text string
	// Pods are those that stop or are cut off, HitDataCenters those whose clients may notice.
	Pods           []Pod
	HitDataCenters []string
	Faults         []Fault
}

// stops reports whether faults stop a pod.
func (t Target) stops(p Pod) bool {
	return slices.ContainsFunc(t.Faults, func(f Fault) bool {
		return f.Kind == KindPod && slices.ContainsFunc(f.Victims, func(v Pod) bool {
			return v.Namespace == p.Namespace && v.Name == p.Name
		})
	})
}

// Drill is one rehearsal.
type Drill struct {
	Name, Title string
	// Does is what happens to the pods, Tests the promise, Paper what Karma says of it (Table 1 and claims in §4.4); it
	// is empty if the paper says nothing.
	Does, Tests, Paper string
	// Kinds are the kinds of Chaos Mesh that it needs. Kernel says that they need more of the kernel than network
	// namespaces and iptables.
	Kinds  []string
	Kernel bool
	choose func(*Landscape, Choice) (Target, error)
	expect func(*Landscape, Target) Expectation
}

// Catalogue returns all drills: first the rows of Karma's Table 1, then its claims, then what the paper does not speak
// of.
func Catalogue() []Drill {
	return []Drill{
		{Name: "backend-server", Title: "A backend server fails", Does: "stops the pod of one shard",
			Tests: "its keys are read elsewhere, and nothing is lost",
			Paper: "available (chain replication)", Kinds: []string{KindPod}, choose: onePod(plan.ComponentShard),
			expect: shardsAway},
		{Name: "cache-server", Title: "A cache server fails", Does: "stops the pod of one cache",
			Tests: "caches hold stable values only, so nothing but latency changes",
			Paper: "available (stable state)", Kinds: []string{KindPod}, choose: onePod(plan.ComponentCache),
			expect: unnoticed},
		{Name: "rack", Title: "A rack fails", Does: "stops all pods of the store on one host with a shard",
			Tests: "members are on different hosts",
			Paper: "available (chain replication)", Kinds: []string{KindPod}, choose: oneHost, expect: shardsAway},
		{Name: "coordinator", Title: "A coordinator fails", Does: "stops the pod of one coordinator, with its front",
			Tests: "another member serves its log, and other fronts its clients",
			Paper: "available (chain replication of CC)", Kinds: []string{KindPod},
			choose: onePod(plan.ComponentCoordinator), expect: coordinatorsAway},
		{Name: "az-f", Title: "The front zone of a data center fails",
			Does:  "stops all pods of AZ-F: coordinators, fronts, caches",
			Tests: "readers of its writes are released, other data centers do not notice",
			Paper: "available (dynamic binding)", Kinds: []string{KindPod}, choose: side(Front, KindPod),
			expect: frontAway},
		{Name: "az-b", Title: "The back zone of a data center fails", Does: "stops all pods of AZ-B: shards",
			Tests: "clients of the data center read in other rings",
			Paper: "available (dynamic binding)", Kinds: []string{KindPod}, choose: side(Back, KindPod),
			expect: shardsAway},
		{Name: "az-b-cut", Title: "The back zone of a data center is cut off",
			Does:  "drops all packets between AZ-B and the other pods of the store",
			Tests: "clients of the data center read in other rings; what they wrote arrives after the heal",
			Paper: "available (dynamic binding)", Kinds: []string{KindNetwork}, choose: side(Back, KindNetwork),
			expect: shardsAway},
		{Name: "az-f-cut", Title: "The front zone of a data center is cut off",
			Does:  "drops all packets between AZ-F and the other pods of the store",
			Tests: "clients in it may be unavailable, all others do not notice",
			Paper: "clients in it are unavailable (limit of partial replication); all others are available",
			Kinds: []string{KindNetwork}, choose: side(Front, KindNetwork), expect: frontAway},
		{Name: "partition-ring", Title: "Two data centers of one ring do not reach each other",
			Does:  "drops all packets between two data centers of one ring",
			Tests: "keys of the other one are read in another ring",
			Paper: "available (claim 2: intra-ring)", Kinds: []string{KindNetwork}, choose: insideRing,
			expect: partitioned},
		{Name: "partition-pair", Title: "A front zone and a back zone of different rings do not reach each other",
			Does:  "drops all packets between AZ-F of one data center and AZ-B of one in another ring",
			Tests: "reads use the other rings; writes arrive after the heal", Paper: "available (claim 2: inter-ring)",
			Kinds: []string{KindNetwork}, choose: betweenRings, expect: partitioned},
		{Name: "ring-az-b", Title: "All back zones of one ring fail",
			Does: "stops all pods of AZ-B of all data centers of a ring", Tests: "the other rings have all of the data",
			Paper: "available (claim 1)", Kinds: []string{KindPod}, choose: ringSide(Back), expect: shardsAway},
		{Name: "ring-az-f", Title: "All front zones of one ring fail",
			Does: "stops all pods of AZ-F of all data centers of a ring", Tests: "clients of other rings do not notice",
			Paper: "available (claim 1)", Kinds: []string{KindPod}, choose: ringSide(Front), expect: frontAway},
		{Name: "data-center", Title: "A data center fails", Does: "stops all pods of a data center",
			Tests: "clients of other data centers do not notice",
			Paper: "not claimed: AZ-F and AZ-B fail together", Kinds: []string{KindPod}, choose: wholeDataCenter,
			expect: frontAway},
		{Name: "edge", Title: "The edge of a data center fails", Does: "stops all pods of the edge",
			Tests: "the region goes on by itself, and catches up", Kinds: []string{KindPod},
			choose: allOf(plan.ComponentEdge, "edge"), expect: edgeAway},
		{Name: "etcd", Title: "The etcd of a data center fails", Does: "stops all pods of the etcd",
			Tests: "reads and writes do not need it", Kinds: []string{KindPod},
			choose: allOf(plan.ComponentEtcd, "etcd"), expect: unnoticed},
		{Name: "operator", Title: "The operator fails", Does: "stops all pods of the operator",
			Tests: "stores do not need it", Kinds: []string{KindPod}, choose: operator, expect: unnoticed},
		{Name: "clock", Title: "The clock of a coordinator is ahead",
			Does:  "moves the clock of one coordinator ahead by 5 s",
			Tests: "clocks order writes, and do not decide whether the store is causal",
			Kinds: []string{KindTime}, Kernel: true, choose: clock, expect: unnoticed},
		{Name: "disk", Title: "The disk of a coordinator is full",
			Does:  "fails writes to the log of one coordinator with ENOSPC",
			Tests: "it refuses writes, loses none, and goes on when there is room",
			Kinds: []string{KindIO}, Kernel: true, choose: disk, expect: coordinatorsAway},
	}
}

// Find returns a drill by name.
func Find(name string) (*Drill, error) {
	for _, d := range Catalogue() {
		if d.Name == name {
			return &d, nil
		}
	}
	return nil, fmt.Errorf("there is no drill %q; kubectl causal drill list shows all", name)
}

// Choose returns what the drill hits, or why it cannot run on this store.
func (d *Drill) Choose(l *Landscape, c Choice) (Target, error) {
	for _, name := range []string{c.DataCenter, c.To} {
		if name != "" && !slices.Contains(l.here(), name) {
			return Target{}, fmt.Errorf("data center %q has no pods in this cluster; it has %v", name, l.here())
		}
	}
	t, err := d.choose(l, c)
	if err != nil {
		return Target{}, err
	}
	if t.HitDataCenters == nil {
		t.HitDataCenters = dataCentersOf(t.Pods)
	}
	sortPods(t.Pods)
	for _, p := range t.Pods {
		if !p.Ready {
			return t, fmt.Errorf("pod %s is not ready: a drill would not show what fails because of it", p)
		}
	}
	return t, nil
}

// stop is the fault that stops pods.
func stop(pods []Pod) []Fault { return []Fault{{Kind: KindPod, What: "stop", Victims: pods}} }

// cut is the fault that drops packets between pods.
func cut(from, to []Pod) []Fault {
	return []Fault{{Kind: KindNetwork, What: "cut", Victims: from, Targets: to}}
}

// first returns the chosen data center, or the first one in this cluster that has what is looked for.
func first(l *Landscape, chosen string, has func(dc string) bool, what string) (string, error) {
	for _, dc := range l.here() {
		if (chosen == "" || chosen == dc) && has(dc) {
			return dc, nil
		}
	}
	return "", fmt.Errorf("no data center of this cluster has %s", cmp.Or(what, "what the drill hits"))
}

func onePod(component string) func(*Landscape, Choice) (Target, error) {
	return func(l *Landscape, c Choice) (Target, error) {
		of := func(dc string) []Pod {
			return l.only(func(p Pod) bool { return p.DataCenter == dc && p.Component == component })
		}
		dc, err := first(l, c.DataCenter, func(dc string) bool { return len(of(dc)) > 0 }, "a pod of a "+component)
		if err != nil {
			return Target{}, err
		}
		victims := of(dc)[:1]
		return Target{Text: fmt.Sprintf("%s %s of %s", component, victims[0].Name, dc), Pods: victims,
			Faults: stop(victims)}, nil
	}
}

func allOf(component, name string) func(*Landscape, Choice) (Target, error) {
	return func(l *Landscape, c Choice) (Target, error) {
		of := func(dc string) []Pod {
			return l.only(func(p Pod) bool { return p.DataCenter == dc && p.Component == component })
		}
		dc, err := first(l, c.DataCenter, func(dc string) bool { return len(of(dc)) > 0 }, "pods of an "+name)
		if err != nil {
			return Target{}, err
		}
		return Target{Text: fmt.Sprintf("%s of %s", name, dc), Pods: of(dc), Faults: stop(of(dc))}, nil
	}
}

// oneHost hits the host with a shard that has the fewest pods of other components, so that it is a rack of servers and
// no zone.
func oneHost(l *Landscape, c Choice) (Target, error) {
	shards := l.only(func(p Pod) bool {
		return p.Component == plan.ComponentShard && p.Node != "" &&
			(c.DataCenter == "" || p.DataCenter == c.DataCenter)
	})
	if len(shards) == 0 {
		return Target{}, errors.New("no shard of this cluster runs on a host that is known")
	}
	node := shards[0].Node
	victims := l.only(func(p Pod) bool { return p.Node == node })
	return Target{Text: "host " + node, Pods: victims, Faults: stop(victims)}, nil
}

func side(s Side, kind string) func(*Landscape, Choice) (Target, error) {
	return func(l *Landscape, c Choice) (Target, error) {
		of := func(dc string) []Pod {
			return l.only(func(p Pod) bool { return p.DataCenter == dc && p.Side == s })
		}
		dc, err := first(l, c.DataCenter, func(dc string) bool { return len(of(dc)) > 0 }, "pods in "+string(s))
		if err != nil {
			return Target{}, err
		}
		t := Target{Text: fmt.Sprintf("%s of %s", s, dc), Pods: of(dc)}
		if kind == KindPod {
			t.Faults = stop(t.Pods)
			return t, nil
		}
		others := l.others(t.Pods)
		if len(others) == 0 {
			return Target{}, errors.New("there is no other pod to cut it off from")
		}
		t.Faults = cut(t.Pods, others)
		return t, nil
	}
}

func ringSide(s Side) func(*Landscape, Choice) (Target, error) {
	return func(l *Landscape, c Choice) (Target, error) {
		name := c.Ring
		if name == "" && len(l.here()) > 0 {
			if r := l.ringOf(cmp.Or(c.DataCenter, l.here()[0])); r != nil {
				name = r.Name
			}
		}
		r := l.ring(name)
		if r == nil {
			return Target{}, fmt.Errorf("the store has no ring %q", name)
		}
		for _, dc := range r.DataCenters {
			if !slices.Contains(l.here(), dc) {
				return Target{},
					fmt.Errorf("data center %s of ring %s is in another cluster: this drill hits all of a ring",
						dc, r.Name)
			}
		}
		victims := l.only(func(p Pod) bool { return slices.Contains(r.DataCenters, p.DataCenter) && p.Side == s })
		if len(victims) == 0 {
			return Target{}, fmt.Errorf("ring %s has no pods in %s", r.Name, s)
		}
		return Target{Text: fmt.Sprintf("%s of ring %s", s, r.Name), Pods: victims, Faults: stop(victims)}, nil
	}
}

func wholeDataCenter(l *Landscape, c Choice) (Target, error) {
	dc, err := first(l, c.DataCenter, func(string) bool { return true }, "pods")
	if err != nil {
		return Target{}, err
	}
	victims := l.only(func(p Pod) bool { return p.DataCenter == dc })
	return Target{Text: "data center " + dc, Pods: victims, Faults: stop(victims)}, nil
}

func operator(l *Landscape, _ Choice) (Target, error) {
	if len(l.Operators) == 0 {
		return Target{}, errors.New("no pod of the operator is found: you need the right to list pods in its namespace")
	}
	return Target{Text: "the operator", Pods: slices.Clone(l.Operators), HitDataCenters: []string{},
		Faults: stop(l.Operators)}, nil
}

// pair returns two data centers of this cluster that are in one ring, or in different ones.
func pair(l *Landscape, c Choice, oneRing bool) (a, b string, err error) {
	for _, a := range l.here() {
		for _, b := range l.here() {
			if a == b || c.DataCenter != "" && c.DataCenter != a || c.To != "" && c.To != b {
				continue
			}
			if (l.ringOf(a) == l.ringOf(b)) == oneRing {
				return a, b, nil
			}
		}
	}
	if oneRing {
		return "", "", errors.New("no two data centers of one ring are in this cluster, or not those that were chosen")
	}
	return "", "",
		errors.New("no two data centers of different rings are in this cluster, or not those that were chosen")
}

func insideRing(l *Landscape, c Choice) (Target, error) {
	a, b, err := pair(l, c, true)
	if err != nil {
		return Target{}, err
	}
	from := l.only(func(p Pod) bool { return p.DataCenter == a })
	to := l.only(func(p Pod) bool { return p.DataCenter == b })
	return Target{Text: fmt.Sprintf("%s from %s, of ring %s", a, b, l.ringOf(a).Name), Pods: append(from, to...),
		HitDataCenters: []string{a, b}, Faults: cut(from, to)}, nil
}

func betweenRings(l *Landscape, c Choice) (Target, error) {
	a, b, err := pair(l, c, false)
	if err != nil {
		return Target{}, err
	}
	from := l.only(func(p Pod) bool { return p.DataCenter == a && p.Side == Front })
	to := l.only(func(p Pod) bool { return p.DataCenter == b && p.Side == Back })
	if len(from) == 0 || len(to) == 0 {
		return Target{}, fmt.Errorf("%s has no pods in AZ-F, or %s none in AZ-B", a, b)
	}
	return Target{Text: fmt.Sprintf("AZ-F of %s from AZ-B of %s", a, b), Pods: append(from, to...),
		HitDataCenters: []string{a, b}, Faults: cut(from, to)}, nil
}

// clockOffset is within the 10 s that the protocol allows clocks to differ by.
const clockOffset = 5 * time.Second

func clock(l *Landscape, c Choice) (Target, error) {
	t, err := onePod(plan.ComponentCoordinator)(l, c)
	t.Faults = []Fault{{Kind: KindTime, What: "clock", Victims: t.Pods, Offset: clockOffset,
		Container: topology.Coordinator.String()}}
	return t, err
}

const errnoNoSpace = 28

func disk(l *Landscape, c Choice) (Target, error) {
	t, err := onePod(plan.ComponentCoordinator)(l, c)
	t.Faults = []Fault{{Kind: KindIO, What: "disk", Victims: t.Pods, Container: topology.Coordinator.String(),
		VolumePath: plan.DataDir, Errno: errnoNoSpace}}
	return t, err
}
