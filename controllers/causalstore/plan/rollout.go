package plan

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/causalstore/causalstore/sidecar/topology"
)

// Restart is a pod to delete. If another pod has its name by then, that one stays.
type Restart struct {
	Pod string
	UID types.UID
}

// Rollout is how far a change is.
type Rollout struct {
	// Outdated pods are to be restarted.
	Outdated int
	// Waiting says what the next restart waits for.
	Waiting string
	// Late are logs that restarts wait for no longer.
	Late []string
}

// restarts returns the pods to restart now: one, of one data centre, once all others of the store serve and the logs of the
// coordinators have drained. Pods go zone by zone, back before front, so that what a bad image breaks is one pod in one zone. A pod
// that is outdated and does not serve goes first, since nothing is lost by it: that is how a bad image is replaced. While slots
// move here no other goes: the copies that it has handed out would begin anew. A coordinator that leaves does not serve, so nothing
// waits for it; it restarts only if it cannot be asked, which another image may mend.
func restarts(in Observed, f *topology.File, moving bool) ([]Restart, Rollout) {
	var outdated, unready []*corev1.Pod
	settled := true
	for i := range in.Pods {
		p := &in.Pods[i]
		s := setOf(in.StatefulSets, p)
		if s == nil || p.DeletionTimestamp != nil {
			settled = settled && s == nil
			continue
		}
		if s.Status.ObservedGeneration != s.Generation || s.Status.UpdateRevision == "" {
			return nil, Rollout{Waiting: fmt.Sprintf("StatefulSet %s was changed and has not been looked at yet", s.Name)}
		}
		if !Ready(p) && !unwanted(in, f, p) {
			unready = append(unready, p)
		}
		if Outdated(s, p) && (!leaves(f, p) || in.Moves[p.Name].Failed != "") {
			outdated = append(outdated, p)
		}
	}
	r := Rollout{Outdated: len(outdated)}
	if len(outdated) == 0 {
		return nil, r
	}
	order := rolloutOrder(in)
	slices.SortStableFunc(outdated, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(readiness(a), readiness(b)), cmp.Compare(order(a), order(b)), cmp.Compare(a.Name, b.Name))
	})
	next := outdated[0]
	missing := missingPods(in)
	undrained, late := logs(in)
	r.Late = late
	switch {
	case Ready(next) && moving:
		r.Waiting = "slots move"
	case Ready(next) && len(unready) > 0:
		r.Waiting = fmt.Sprintf("pod %s is not ready", unready[0].Name)
	case !settled || missing != "":
		r.Waiting = cmp.Or(missing, "a pod is ending")
	case Ready(next) && undrained != "":
		r.Waiting = undrained
	default:
		return []Restart{{next.Name, next.UID}}, r
	}
	return nil, r
}

// missingPods names a StatefulSet that has not got all of its pods.
func missingPods(in Observed) string {
	for i := range in.StatefulSets {
		s, have := &in.StatefulSets[i], int32(0)
		for j := range in.Pods {
			if setOf(in.StatefulSets, &in.Pods[j]) == s {
				have++
			}
		}
		if s.Spec.Replicas != nil && have < *s.Spec.Replicas {
			return fmt.Sprintf("StatefulSet %s has %d of %d pods", s.Name, have, *s.Spec.Replicas)
		}
	}
	return ""
}

func setOf(all []appsv1.StatefulSet, p *corev1.Pod) *appsv1.StatefulSet {
	for _, o := range p.OwnerReferences {
		if o.Kind == "StatefulSet" && o.Controller != nil && *o.Controller {
			return find(all, o.Name)
		}
	}
	return nil
}

// Outdated says whether a pod was made from another template than its StatefulSet has now.
func Outdated(s *appsv1.StatefulSet, p *corev1.Pod) bool {
	return p.Labels[appsv1.StatefulSetRevisionLabel] != s.Status.UpdateRevision
}

// UpToDate says whether a pod is as its StatefulSet, one of those given, has it now.
func UpToDate(all []appsv1.StatefulSet, p *corev1.Pod) bool {
	s := setOf(all, p)
	return s != nil && !Outdated(s, p)
}

// Ready says whether a pod serves.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func readiness(p *corev1.Pod) int {
	if Ready(p) {
		return 1
	}
	return 0
}

// rolloutOrder numbers pods by data centre, part and zone. A pod that has no node yet counts to the first zone of its part.
func rolloutOrder(in Observed) func(*corev1.Pod) int {
	return func(p *corev1.Pod) int {
		for i, dc := range in.Store.Spec.DataCenters {
			if dc.Name != p.Labels[LabelDataCenter] {
				continue
			}
			zone := in.ZoneOf[p.Spec.NodeName]
			at := max(0, slices.Index(dc.Zones.Backend, zone))
			if p.Labels[LabelComponent] != ComponentShard {
				at = len(dc.Zones.Backend) + max(0, slices.Index(dc.Zones.Frontend, zone))
			}
			return i*100 + at
		}
		return 0
	}
}
