package status_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/causalstore/status"
)

// withEdge is the store of one, with an edge that serves.
func withEdge() status.Observed {
	in := one()
	in.EdgeImage, in.Trust.Domains = "envoy:v1", map[string]string{"r": "r.1", "q": "q.1"}
	in.Store.Spec.DataCenters[0].Edge = &v1alpha1.Edge{Address: "edge.example.com:443", Replicas: 2,
		Service: v1alpha1.EdgeService{Type: corev1.ServiceTypeLoadBalancer}}
	in.Deployments = []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "s-here-edge"},
		Status: appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}}}
	in.Services = []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "s-here-ingress"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}}},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}},
		}}}
	return in
}

// served gives the store the status of one whose edge has served.
func served(in *status.Observed) { in.Store.Status = status.Of(withEdge()) }

// waitForImage adds a pod of the edge whose image cannot be had.
func waitForImage(in *status.Observed) {
	in.EdgePods = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "s-here-edge-1"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "envoy", Image: "envoy:bad",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
				Message: "no such image"}}}}}}}
}

func TestTheConditionsOfEdgesReportTheirState(t *testing.T) {
	serving := func(n int32) func(*status.Observed) {
		return func(in *status.Observed) { in.Deployments[0].Status.ReadyReplicas = n }
	}
	with := func(all ...func(*status.Observed)) func(*status.Observed) {
		return func(in *status.Observed) {
			for _, f := range all {
				f(in)
			}
		}
	}
	for _, c := range []struct {
		when              string
		given             func(*status.Observed)
		condition, reason string
		is                metav1.ConditionStatus
		says              string
	}{
		{"all serve", with(), v1alpha1.ConditionEdgesReady, v1alpha1.ReasonEdgesServe, "True", "here"},
		{"the other data center is in this cluster", func(in *status.Observed) {
			in.Neighbors = map[string]bool{"there": true}
		},
			v1alpha1.ConditionEdgesReady, v1alpha1.ReasonNoEdges, "True", "all others are in this cluster"},
		{"the operator has no image", func(in *status.Observed) { in.EdgeImage, in.Deployments = "", nil },
			v1alpha1.ConditionEdgesReady, v1alpha1.ReasonEdgeImageMissing, "False",
			"here; set edge.image.repository and edge.image.tag of the chart"},
		{"the operator has no image", func(in *status.Observed) { in.EdgeImage, in.Deployments = "", nil },
			v1alpha1.ConditionReady, v1alpha1.ReasonAllPartsReady, "True", ""},
		{"the operator has no image any more", func(in *status.Observed) {
			in.EdgeImage = ""
		}, v1alpha1.ConditionEdgesReady, v1alpha1.ReasonEdgesServe, "True", ""},
		{"it is new", func(in *status.Observed) {
			in.Deployments = nil
		}, v1alpha1.ConditionEdgesReady, v1alpha1.ReasonEdgesStarting, "False", "here has 0 of 2"},
		{"it is new", serving(1), v1alpha1.ConditionDegraded, v1alpha1.ReasonNotDegraded, "False", ""},
		{"it is new and its image is missing", with(serving(0), waitForImage), v1alpha1.ConditionEdgesReady,
			v1alpha1.ReasonEdgesStarting, "False",
			"here has 0 of 2; s-here-edge-1: ImageUnavailable"},
		{"it is new and its image is missing", with(serving(0), waitForImage), v1alpha1.ConditionDegraded,
			v1alpha1.ReasonImageMissing, "True", "edge.image of the chart"},
		{"a pod was lost", with(served, serving(1)), v1alpha1.ConditionEdgesReady, v1alpha1.ReasonEdgesMissing, "False",
			"here has 1 of 2"},
		{"a pod was lost", with(served, serving(1)), v1alpha1.ConditionDegraded, v1alpha1.ReasonEdgesMissing, "True",
			"here has 1 of 2"},
		{"all pods were lost", with(served, serving(0)), v1alpha1.ConditionReady, v1alpha1.ReasonAllPartsReady,
			"True", ""},
		{"a pod and a part were lost", with(served, serving(1), func(in *status.Observed) {
			fail(in, "cache")
		}), v1alpha1.ConditionDegraded,
			v1alpha1.ReasonPartsMissing, "True", "0 of 1 caches"},
		{"a part waits and a pod as well", with(served, serving(1), waitForImage, func(in *status.Observed) {
			fail(in, "cache")
		}), v1alpha1.ConditionReady,
			v1alpha1.ReasonPartsNotReady, "False", "0 of 1 caches"},
		{"the Service has no address", with(served, func(in *status.Observed) {
			in.Services[0].Status = corev1.ServiceStatus{}
		}), v1alpha1.ConditionEdgesReady,
			v1alpha1.ReasonEdgeWithoutAddress, "False", "s-here-ingress (type LoadBalancer)"},
		{"the Service is refused", with(served, func(in *status.Observed) {
			in.Services, in.Failed = nil,
				errors.New("node port 31443 is taken")
		}),
			v1alpha1.ConditionEdgesReady, v1alpha1.ReasonEdgeWithoutAddress, "False",
			"could not be made, so that other regions do not reach this one: s-here-ingress: node port 31443 is taken"},
		{"the Service has no address", with(served, func(in *status.Observed) {
			in.Services[0].Status = corev1.ServiceStatus{}
		}), v1alpha1.ConditionDegraded,
			v1alpha1.ReasonNotDegraded, "False", ""},
		{"the other region is not trusted", func(in *status.Observed) {
			delete(in.Trust.Domains, "q")
		}, v1alpha1.ConditionEdgesReady,
			v1alpha1.ReasonEdgePeersUntrusted, "False", "not trusted: there; see PeersTrusted"},
		{"its pods are replaced", with(served, func(in *status.Observed) {
			in.Deployments[0].Status.UpdatedReplicas = 1
		}), v1alpha1.ConditionProgressing,
			v1alpha1.ReasonEdgesRolling, "True", "here (1 of 2 replaced)"},
		{"the last old pod stops", with(served, func(in *status.Observed) {
			in.Deployments[0].Status.Replicas = 3
		}), v1alpha1.ConditionProgressing,
			v1alpha1.ReasonEdgesRolling, "True", ""},
		{"nobody has seen a change of it", with(served, func(in *status.Observed) {
			in.Deployments[0].Generation = 2
		}), v1alpha1.ConditionProgressing,
			v1alpha1.ReasonEdgesRolling, "True", "here (0 of 2 replaced)"},
		{"its pods are replaced", with(served, func(in *status.Observed) {
			in.Deployments[0].Status.UpdatedReplicas = 1
		}), v1alpha1.ConditionEdgesReady,
			v1alpha1.ReasonEdgesServe, "True", ""},
	} {
		in := withEdge()
		in.Store.Status = status.Of(one()) // a store that was ready before it had an edge
		c.given(&in)
		got := meta.FindStatusCondition(status.Of(in).Conditions, c.condition)
		if got == nil || got.Status != c.is || got.Reason != c.reason || !strings.Contains(got.Message, c.says) {
			t.Errorf("%s: %s is %+v, want %s %s with %q", c.when, c.condition, got, c.is, c.reason, c.says)
		}
	}
}

// TestAnEdgeThatHasServedIsMissedUntilItServes: the operator restarts, or something else is wrong in between.
func TestAnEdgeThatHasServedIsMissedUntilItServes(t *testing.T) {
	in := withEdge()
	reason := func() string {
		in.Store.Status = status.Of(in)
		return meta.FindStatusCondition(in.Store.Status.Conditions, v1alpha1.ConditionEdgesReady).Reason
	}
	in.Deployments[0].Status.ReadyReplicas = 0
	if got := reason(); got != v1alpha1.ReasonEdgesStarting {
		t.Errorf("before it has served: %s", got)
	}
	in.Deployments[0].Status.ReadyReplicas = 2
	delete(in.Trust.Domains, "q")
	if got := reason(); got != v1alpha1.ReasonEdgePeersUntrusted {
		t.Errorf("while it serves: %s", got)
	}
	for n, want := range []string{v1alpha1.ReasonEdgesMissing, v1alpha1.ReasonEdgesMissing,
		v1alpha1.ReasonEdgePeersUntrusted} {
		in.Deployments[0].Status.ReadyReplicas = int32(n)
		if got := reason(); got != want {
			t.Errorf("with %d pods: %s, want %s", n, got, want)
		}
	}
}

func TestTheStatusHasThePodsAndTheAddressOfAnEdge(t *testing.T) {
	in := withEdge()
	in.Deployments[0].Status.UpdatedReplicas = 1
	waitForImage(&in)
	s := status.Of(in)
	want := &v1alpha1.EdgeStatus{Pods: v1alpha1.Count{Ready: 2, Desired: 2, Updated: 1}, Address: "203.0.113.7:443"}
	if d := cmp.Diff(want, s.DataCenters[0].Edge); d != "" {
		t.Error(d)
	}
	if len(s.Problems) != 1 || s.Problems[0].Pod != "s-here-edge-1" {
		t.Errorf("problems: %v", s.Problems)
	}
	if got := status.Of(one()).DataCenters[0].Edge; got != nil {
		t.Errorf("without an edge: %+v", got)
	}
	if plan.EdgeName("s", "here") != in.Deployments[0].Name || plan.IngressName("s", "here") != in.Services[0].Name {
		t.Error("these are not the names of the plan")
	}
}
