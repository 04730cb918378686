package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/topology"
)

// Restart is a pod to delete. A new pod of that name is kept.
type Restart struct {
	Pod string
	UID types.UID
}

// Rollout is the progress of a change that needs pods to restart.
type Rollout struct {
	// Outdated is how many pods have to restart.
	Outdated int
	// Next decides whether the next of them restarts now; it is zero if there is none.
	Next Decision
	// LateLogs describe the logs that restarts no longer wait for.
	LateLogs []string
}

// rolloutPods are the pods that matter to a rollout.
type rolloutPods struct {
	outdated, unready []*corev1.Pod
	terminating       bool
}

// planRestarts returns the pods to restart now: one, of one data center, once all others of the store serve and the
// logs of the coordinators have drained. A member of a coordinator or shard restarts only while all groups of its part
// have all of their members, and those that usually follow come first: each group then moves twice at most. Pods
// restart zone by zone, shards before the front, so that a bad image breaks one pod in one zone. An outdated pod that
// does not serve restarts first, because nothing is lost by it: this is how a bad image is replaced. While slots move
// in this region only such a pod restarts, because the copies that a middleman has handed out would have to start
// again. Nothing waits for a coordinator that leaves, because it does not serve; it restarts only if it is unreachable,
// which another image may repair.
func planRestarts(in Observed, f *topology.File, resharding bool) ([]Restart, Rollout) {
	pods, observed := classifyPods(in, f)
	if !observed.Allowed {
		return nil, Rollout{Next: observed}
	}
	r := Rollout{Outdated: len(pods.outdated)}
	if len(pods.outdated) == 0 {
		return nil, r
	}
	order := rolloutOrder(in)
	next := slices.MinFunc(pods.outdated, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(readiness(a), readiness(b)), cmp.Compare(order(a), order(b)),
			cmp.Compare(a.Name, b.Name))
	})
	drained, late := checkLogs(in)
	if part, ok := groupPart(next); ok {
		if whole := checkGroups(in, f, part); !whole.Allowed {
			drained = whole
		}
	}
	r.Next, r.LateLogs = decideRestart(in, next, pods, drained, resharding), late
	if !r.Next.Allowed {
		return nil, r
	}
	return []Restart{{next.Name, next.UID}}, r
}

// classifyPods sorts the pods for a rollout. It denies if the StatefulSet controller has not seen a change yet: which
// pods are outdated is unknown until then.
func classifyPods(in Observed, f *topology.File) (pods rolloutPods, observed Decision) {
	for i := range in.Pods {
		p := &in.Pods[i]
		s := owningStatefulSet(in.StatefulSets, p)
		if s == nil || p.DeletionTimestamp != nil {
			pods.terminating = pods.terminating || s != nil
			continue
		}
		if s.Status.ObservedGeneration != s.Generation || s.Status.UpdateRevision == "" {
			return pods, deny(ReasonStatefulSetNotObserved,
				"the controller of StatefulSet %s has not observed its last change yet", s.Name)
		}
		if !Ready(p) && !isSurplus(in, f, p) {
			pods.unready = append(pods.unready, p)
		}
		if outdated(s, p) && (!isLeaving(f, p) || in.Reports[p.Name].Err != nil) {
			pods.outdated = append(pods.outdated, p)
		}
	}
	return pods, allow()
}

// decideRestart decides whether a pod restarts now.
func decideRestart(in Observed, next *corev1.Pod, pods rolloutPods, drained Decision, resharding bool) Decision {
	present, kept := checkPodCounts(in), checkClaimsOf(in, next)
	switch {
	case !kept.Allowed:
		return kept
	case Ready(next) && resharding:
		return deny(ReasonResharding, "resharding is in progress")
	case Ready(next) && len(pods.unready) > 0:
		return deny(ReasonPodNotReady, "pod %s is not ready", pods.unready[0].Name)
	case !present.Allowed:
		return present
	case pods.terminating:
		return deny(ReasonPodTerminating, "a pod is terminating")
	case Ready(next):
		return drained
	}
	return allow()
}

func readiness(p *corev1.Pod) int {
	if Ready(p) {
		return 1
	}
	return 0
}

// rolloutOrder numbers pods by data center, component and zone. A pod that has no node yet counts to the first zone of
// its component.
func rolloutOrder(in Observed) func(*corev1.Pod) int {
	return func(p *corev1.Pod) int {
		for i, dc := range in.Store.Spec.DataCenters {
			if dc.Name != p.Labels[LabelDataCenter] {
				continue
			}
			zone, zones := in.ZoneOf[p.Spec.NodeName], in.Store.Spec.ZonesOf(&dc)
			const most = 8 // zones of a side
			at := max(0, slices.Index(zones.Backend, zone))
			if p.Labels[LabelComponent] != ComponentShard {
				at = topology.MaxMembers*most + max(0, slices.Index(zones.Frontend, zone))
			}
			if part, ok := groupPart(p); ok {
				at += max(0, WantedMembers(&in.Store.Spec, &dc, part)-Member(p)) * most
			}
			return i*100 + at
		}
		return 0
	}
}
