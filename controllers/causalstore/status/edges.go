package status

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// edgesView is what was observed of the edges of this region, by the names of their data centers.
type edgesView struct {
	all, withoutImage, withoutService, withoutAddress []string
	// those of whose pods some do not serve, with the numbers
	short   []string
	rolling []string // those whose pods are being replaced
}

// addEdge returns the state of the edge of a data center, or nil if it needs none.
func (v *view) addEdge(dc *v1alpha1.DataCenter) *v1alpha1.EdgeStatus {
	if !v.HasEdge(dc) {
		return nil
	}
	s := &v1alpha1.EdgeStatus{Pods: v1alpha1.Count{Desired: dc.Edge.Replicas}}
	name := plan.EdgeName(v.Store.Name, dc.Name)
	v.edges.all = append(v.edges.all, dc.Name)
	if i := slices.IndexFunc(v.Deployments, func(d appsv1.Deployment) bool { return d.Name == name }); i >= 0 {
		d := &v.Deployments[i]
		s.Pods.Ready = d.Status.ReadyReplicas
		if d.Status.ObservedGeneration == d.Generation { // or else it is unknown
			s.Pods.Updated = d.Status.UpdatedReplicas
		}
		if s.Pods.Updated < s.Pods.Desired || d.Status.Replicas > s.Pods.Updated {
			v.edges.rolling = append(v.edges.rolling,
				fmt.Sprintf("%s (%d of %d replaced)", dc.Name, s.Pods.Updated, s.Pods.Desired))
		}
	} else if v.EdgeImage == "" {
		v.edges.withoutImage = append(v.edges.withoutImage, dc.Name)
	}
	if s.Pods.Ready < s.Pods.Desired {
		v.edges.short = append(v.edges.short, fmt.Sprintf("%s has %d of %d", dc.Name, s.Pods.Ready, s.Pods.Desired))
	}
	ingress := plan.IngressName(v.Store.Name, dc.Name)
	i := slices.IndexFunc(v.Services, func(s corev1.Service) bool { return s.Name == ingress })
	if i < 0 {
		v.edges.withoutService = append(v.edges.withoutService, ingress)
		return s
	}
	if s.Address = plan.EdgeAddress(&v.Services[i]); s.Address == "" {
		v.edges.withoutAddress = append(v.edges.withoutAddress,
			fmt.Sprintf("%s (type %s)", ingress, dc.Edge.Service.Type))
	}
	return s
}

// edgesReady holds if all pods of the edges of this region serve and can be found, and no other region is left out.
func edgesReady(v *view) verdict {
	untrusted := v.UntrustedPeers()
	switch {
	case len(v.edges.all) == 0:
		return yes(v1alpha1.ReasonNoEdges, "no data center here needs an edge: all others are in this cluster")
	case len(v.edges.withoutImage) > 0:
		return no(v1alpha1.ReasonEdgeImageMissing,
			"the operator has no image for the edges of these data centers, so that other regions are not reached: "+
				"%s; set edge.image.repository and edge.image.tag of the chart (the operator's flag --edge-image)",
			strings.Join(v.edges.withoutImage, ", "))
	case len(v.edges.withoutService) > 0 && v.Failed != nil: // for example because of a node port that is taken
		return no(v1alpha1.ReasonEdgeWithoutAddress,
			"Services that could not be made, so that other regions do not reach this one: %s: %v",
			strings.Join(v.edges.withoutService, ", "), v.Failed)
	case len(v.edges.short) > 0 && v.edgesServed():
		return no(v1alpha1.ReasonEdgesMissing, "edge pods that serve: %s; without any, other regions are not reached%s",
			strings.Join(v.edges.short, "; "), causes(v.edgeProblems))
	case len(v.edges.short) > 0:
		return no(v1alpha1.ReasonEdgesStarting, "edge pods that serve: %s%s", strings.Join(v.edges.short, "; "),
			causes(v.edgeProblems))
	case len(v.edges.withoutService)+len(v.edges.withoutAddress) > 0:
		return no(v1alpha1.ReasonEdgeWithoutAddress,
			"Services that have been given no address, so that other regions do not reach this one: %s; see their "+
				"events, or choose another edge.service.type",
			strings.Join(slices.Concat(v.edges.withoutService, v.edges.withoutAddress), ", "))
	case len(untrusted) > 0:
		return no(v1alpha1.ReasonEdgePeersUntrusted,
			"the edges neither admit nor connect to those of these data centers, whose regions are not trusted: %s; "+
				"see PeersTrusted",
			strings.Join(untrusted, ", "))
	}
	return yes(v1alpha1.ReasonEdgesServe, "all edge pods serve: those of %s", strings.Join(v.edges.all, ", "))
}

// edgesServed reports whether all edges have served once, by the condition of before.
func (v *view) edgesServed() bool {
	c := meta.FindStatusCondition(v.Store.Status.Conditions, v1alpha1.ConditionEdgesReady)
	return c != nil && !slices.Contains([]string{v1alpha1.ReasonNoEdges, v1alpha1.ReasonEdgeImageMissing,
		v1alpha1.ReasonEdgesStarting}, c.Reason)
}
