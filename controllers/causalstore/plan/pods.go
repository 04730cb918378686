package plan

import (
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/topology"
)

// Index returns the number of a pod in its StatefulSet.
func Index(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Labels[appsv1.PodIndexLabel]) // Kubernetes writes the label
	return n
}

// Member returns which member of a group a pod is, from 1.
func Member(o client.Object) int {
	if n, err := strconv.Atoi(o.GetLabels()[LabelMember]); err == nil {
		return n
	}
	return 1
}

// Ready reports whether a pod serves.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// UpToDate reports whether a pod was made from the present template of its StatefulSet, which is one of those given.
func UpToDate(all []appsv1.StatefulSet, p *corev1.Pod) bool {
	s := owningStatefulSet(all, p)
	return s != nil && !outdated(s, p)
}

// outdated reports whether a pod was made from an older template than its StatefulSet has now.
func outdated(s *appsv1.StatefulSet, p *corev1.Pod) bool {
	return p.Labels[appsv1.StatefulSetRevisionLabel] != s.Status.UpdateRevision
}

func isCoordinator(p *corev1.Pod) bool { return p.Labels[LabelComponent] == ComponentCoordinator }

// groupPart returns which part with groups a pod runs a member of; false: none.
func groupPart(p *corev1.Pod) (topology.Part, bool) {
	switch p.Labels[LabelComponent] {
	case ComponentCoordinator:
		return topology.Coordinator, true
	case ComponentShard:
		return topology.Middleman, true
	}
	return 0, false
}

// isReady reports whether the pod of that name exists and serves.
func isReady(all []corev1.Pod, name string) bool {
	return slices.ContainsFunc(all, func(p corev1.Pod) bool { return p.Name == name && Ready(&p) })
}

// checkPodCounts denies while a StatefulSet does not have all of its pods.
func checkPodCounts(in Observed) Decision {
	for i := range in.StatefulSets {
		s, have := &in.StatefulSets[i], int32(0)
		for j := range in.Pods {
			if owningStatefulSet(in.StatefulSets, &in.Pods[j]) == s {
				have++
			}
		}
		if s.Spec.Replicas != nil && have < *s.Spec.Replicas {
			return deny(ReasonPodMissing, "StatefulSet %s has %d of %d pods", s.Name, have, *s.Spec.Replicas)
		}
	}
	return allow()
}

func owningStatefulSet(all []appsv1.StatefulSet, p *corev1.Pod) *appsv1.StatefulSet {
	for _, o := range p.OwnerReferences {
		if o.Kind == "StatefulSet" && o.Controller != nil && *o.Controller {
			return findStatefulSet(all, o.Name)
		}
	}
	return nil
}

func findStatefulSet(all []appsv1.StatefulSet, name string) *appsv1.StatefulSet {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// memberPod returns the name of the pod of a member of a coordinator or middleman.
func memberPod(store, dc string, part topology.Part, i, member int) string {
	if part == topology.Middleman {
		return shardName(store, dc, i, member) + "-0"
	}
	return fmt.Sprintf("%s-%d", coordinatorsName(store, dc, member), i)
}

// MiddlemanName returns the name of the pod of a shard's first member.
func MiddlemanName(store, dc string, i int) string {
	return memberPod(store, dc, topology.Middleman, i, 1)
}
