package drill

import (
	"slices"
	"time"

	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// Expectation is what must hold while a drill injects its faults, and after it. That no causal rule is broken, that no
// acknowledged write is lost, and that everything heals, is expected of every drill.
type Expectation struct {
	// Elsewhere and There bound the share of operations that fail, of clients in data centers that are not hit, and in
	// those that are. 1: they may all fail.
	Elsewhere, There float64
	// ThereGap bounds the longest time without a success in data centers that are hit; 0: there is no bound.
	ThereGap time.Duration
	// WritesComplete says that the writes of data centers that are not hit go on reaching every ring, with gaps of at
	// most completeGap: a write waits up to 3 s for a silent cache.
	WritesComplete bool
	// Bound bounds how long readers in data centers that are not hit may be bound to some rings; 0: there is no bound.
	Bound time.Duration
	// Complete bounds how long after the end of the faults a write of every data center is in every ring.
	Complete time.Duration
	// Why explains what is not expected.
	Why string
}

// Bounds of what clients may notice. One operation in a hundred may fail: a request can be under way to the part that
// stops.
const (
	fewFail      = 0.01
	someFail     = 0.05 // clients there, while connections fail over
	failoverTime = 5 * time.Second
	boundTime    = 5 * time.Second
	completeTime = 30 * time.Second
	completeGap  = 10 * time.Second
)

func unnoticed(*Landscape, Target) Expectation {
	return Expectation{Elsewhere: fewFail, There: fewFail, ThereGap: failoverTime, WritesComplete: true,
		Bound: boundTime, Complete: completeTime}
}

// shardsAway: shards are stopped or cut off, so writes are not in their ring until they are back. Readers may be bound
// meanwhile, and still read.
func shardsAway(l *Landscape, t Target) Expectation {
	e := Expectation{Elsewhere: fewFail, There: someFail, ThereGap: failoverTime, Complete: completeTime,
		Why: "writes are not in every ring until the shards are back, so readers may be bound to the other rings"}
	if len(l.Store.Spec.Rings) == 1 {
		e.Elsewhere, e.There, e.ThereGap = 1, 1, 0
		e.Why = "the store has one ring: no other one has the data"
	}
	if survives(l, t) {
		e.WritesComplete, e.Bound, e.Why = true, boundTime, ""
	}
	return addFronts(l, t, e)
}

// survives reports whether every shard that is hit has a member that is not.
func survives(l *Landscape, t Target) bool {
	if l.Store.Spec.Storage.Replicas < 2 {
		return false
	}
	for _, dc := range t.HitDataCenters {
		shards := func(p Pod) bool { return p.DataCenter == dc && p.Component == plan.ComponentShard }
		hit := len(slices.DeleteFunc(slices.Clone(t.Pods), func(p Pod) bool { return !shards(p) }))
		if hit > 1 { // two pods may be of one shard
			return false
		}
	}
	return true
}

// coordinatorsAway: with several members another one serves the log.
func coordinatorsAway(l *Landscape, t Target) Expectation {
	e := Expectation{Elsewhere: fewFail, There: someFail, ThereGap: failoverTime, WritesComplete: true,
		Bound: boundTime, Complete: completeTime}
	return addFronts(l, t, e)
}

// stopped reports whether pods are stopped, so that the Services do not lead to them.
func stopped(t Target) bool {
	return !slices.ContainsFunc(t.Faults, func(f Fault) bool { return f.Kind != KindPod })
}

// keepsMembers reports whether every data center that is hit has members of its coordinators that are not.
func keepsMembers(l *Landscape, t Target) bool {
	for _, dc := range t.HitDataCenters {
		of := func(p Pod) bool { return p.DataCenter == dc && p.Component == plan.ComponentCoordinator }
		spared := func(p Pod) bool {
			return of(p) && !slices.ContainsFunc(t.Pods, func(v Pod) bool { return v.Name == p.Name })
		}
		d := dataCenter(l.Store, dc)
		if d.Coordinators.Members < 2 || len(l.only(spared)) == 0 {
			return false
		}
	}
	return true
}

// addFronts allows for what clients notice of coordinators that are hit.
func addFronts(l *Landscape, t Target, e Expectation) Expectation {
	hasCoordinators := slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.Component == plan.ComponentCoordinator })
	if hasCoordinators && !keepsMembers(l, t) {
		e.There, e.ThereGap = 1, 0
		e.Why = "coordinators that are hit have no other member: clients there may be unavailable"
	}
	return e
}

// frontAway: clients of the data centers that are hit have no front.
func frontAway(l *Landscape, t Target) Expectation {
	e := Expectation{Elsewhere: fewFail, There: 1, Bound: boundTime, Complete: completeTime, WritesComplete: true,
		Why: "clients there have no front"}
	if stopped(t) && keepsMembers(l, t) {
		e.There, e.ThereGap, e.Why = someFail, failoverTime, ""
	}
	if slices.ContainsFunc(t.Pods, func(p Pod) bool { return p.Component == plan.ComponentShard }) {
		e.WritesComplete, e.Bound = false, 0
		e.Why = "clients there have no front; writes are not in every ring until the shards are back"
		if len(l.Store.Spec.Rings) == 1 {
			e.Elsewhere, e.Why = 1, "the store has one ring: no other one has the data"
		}
	}
	return e
}

func partitioned(l *Landscape, _ Target) Expectation {
	e := Expectation{Elsewhere: fewFail, There: someFail, ThereGap: failoverTime, Complete: completeTime,
		Why: "writes cross the partition after the heal, so readers may be bound meanwhile"}
	if len(l.Store.Spec.Rings) == 1 {
		e.Elsewhere, e.There, e.ThereGap, e.Why = 1, 1, 0, "the store has one ring: no other one has the data"
	}
	return e
}

// edgeAway: writes do not reach other regions.
func edgeAway(*Landscape, Target) Expectation {
	return Expectation{Elsewhere: fewFail, There: someFail, Complete: completeTime,
		Why: "other regions are not reached: writes are complete after the heal"}
}

// Expect returns what is expected of a drill.
func (d *Drill) Expect(l *Landscape, t Target) Expectation { return d.expect(l, t) }
