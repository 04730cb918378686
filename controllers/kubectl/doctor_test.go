package kubectl

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// healthy returns the evidence on a store without a problem.
func healthy(t *testing.T) *evidence {
	w := newFixture(t)
	s := w.store
	s.Status.ObservedGeneration, s.Status.HeartbeatTime = s.Generation, &metav1.Time{Time: testTime.Add(-40 * time.Second)}
	s.Status.Summary.Rings = "1/1"
	n := func(ready int32) v1alpha1.Count {
		return v1alpha1.Count{Ready: ready, Desired: ready, Updated: ready}
	}
	for i := range s.Status.DataCenters {
		switch dc := &s.Status.DataCenters[i]; dc.Name {
		case "virginia":
			dc.Coordinators, dc.Caches, dc.Shards = n(2), n(1), n(2)
		case "oregon":
			dc.Coordinators, dc.Caches, dc.Shards = n(1), n(1), n(1)
		}
	}
	setCondition(s, v1alpha1.ConditionTopologyValid, metav1.ConditionTrue, v1alpha1.ReasonTopologyAccepted, "topology epoch 1")
	setCondition(s, v1alpha1.ConditionPeersConnected, metav1.ConditionTrue, v1alpha1.ReasonPeersAcknowledge, "every ring acknowledges the writes of this region")
	setCondition(s, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonUpToDate, "the store is as the spec says")
	setCondition(s, v1alpha1.ConditionPaused, metav1.ConditionFalse, v1alpha1.ReasonNotPaused, "the operator applies changes")
	e := &evidence{store: s, parts: w.parts, nodes: map[string]*corev1.Node{}, claims: map[string]*corev1.PersistentVolumeClaim{}, now: testTime}
	for name := range w.zoneOf {
		e.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	}
	e.operator = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system", Name: "causalstore-1"}, Status: corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}
	return e
}

func setCondition(s *v1alpha1.CausalStore, name string, is metav1.ConditionStatus, reason, message string) {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == name {
			s.Status.Conditions[i].Status, s.Status.Conditions[i].Reason, s.Status.Conditions[i].Message = is, reason, message
			return
		}
	}
	s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: name, Status: is, Reason: reason, Message: message})
}

func TestTheDoctorNamesProblemsNextStepsAndWhatIsSafe(t *testing.T) {
	for name, change := range map[string]func(*evidence){
		"doctor-healthy": func(*evidence) {},
		"doctor-pods": func(e *evidence) {
			pod := func(name string) *corev1.Pod {
				for i := range e.parts {
					if e.parts[i].Name == name {
						e.parts[i].Status.Conditions[0].Status = corev1.ConditionFalse
						return &e.parts[i]
					}
				}
				t.Fatalf("there is no pod %s", name)
				return nil
			}
			pod("orders-virginia-shard-1-0").Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "middleman", Image: "causalstore:v9",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}}
			pod("orders-virginia-cc-1").Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "coordinator", RestartCount: 7,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}
			pod("orders-oregon-shard-0-0")
			pod("orders-oregon-cache-0")
			for _, node := range []string{"node-us-c", "node-us-d"} {
				e.nodes[node].Status.Conditions[0].Status = corev1.ConditionUnknown
				e.nodes[node].Status.Conditions[0].Message = "Kubelet stopped posting node status."
			}
			pending := pod("orders-oregon-cc-0")
			pending.Spec.NodeName = ""
			pending.Status.Conditions = append(pending.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Message: "0/4 nodes are available: 4 node(s) didn't match PersistentVolume's node affinity."})
			e.claims["data-orders-oregon-cc-0"] = &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost}}
			e.store.Status.HeartbeatTime = &metav1.Time{Time: testTime}
			e.store.Status.Rings[0].Availability, e.store.Status.Rings[0].Message = v1alpha1.RingUnavailable, "ready: oregon has 0 of 1 shards"
			setCondition(e.store, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPartsNotReady, "parts are missing")
			setCondition(e.store, v1alpha1.ConditionPeersConnected, metav1.ConditionUnknown, v1alpha1.ReasonPeersUnasked, "coordinators whose lag is unknown: orders-oregon-cc-0")
		},
		"doctor-operator-away": func(e *evidence) {
			e.store.Status.HeartbeatTime, e.operator = &metav1.Time{Time: testTime.Add(-time.Hour)}, nil
			e.parts = e.parts[1:]
		},
		"doctor-paused": func(e *evidence) {
			setCondition(e.store, v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonChangesPending, "what it would change: spec.image")
			e.sidecars = []sidecarProblem{{namespace: "web", pod: "app-1", text: "no sidecar: the webhook did not answer when the pod was created"}}
			e.unread = []string{"nodes"}
		},
		"doctor-single-zone": func(e *evidence) {
			e.store.Spec.Placement = v1alpha1.PlacementSingleZone
			setCondition(e.store, v1alpha1.ConditionTopologyValid, metav1.ConditionTrue, v1alpha1.ReasonSingleZone, "topology epoch 1; nothing protects from the loss of the zone")
		},
		"doctor-edges": func(e *evidence) {
			e.store.Status.DataCenters[0].Edge = &v1alpha1.EdgeStatus{Pods: v1alpha1.Count{Ready: 1, Desired: 2, Updated: 2}}
			setCondition(e.store, v1alpha1.ConditionEdgesReady, metav1.ConditionFalse, v1alpha1.ReasonEdgesMissing, "edge pods that serve: virginia has 1 of 2")
			pod := e.parts[0].DeepCopy()
			pod.Name, pod.Labels[plan.LabelComponent] = "orders-virginia-edge-7d9c-x2x4f", plan.ComponentEdge
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "envoy", Image: "envoy:v9",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}}}
			ending := pod.DeepCopy()
			ending.Name, ending.DeletionTimestamp = "orders-virginia-edge-5c6f-9k2lm", &metav1.Time{Time: testTime}
			e.parts = append(e.parts, *pod, *ending)
		},
		"doctor-groups": func(e *evidence) {
			for i := range e.store.Status.DataCenters {
				if d := &e.store.Status.DataCenters[i]; d.Name == "virginia" {
					d.Groups = append(groupsOfVirginia(), v1alpha1.GroupStatus{Part: "shard", Index: 0, Wanted: 2, Problem: "lost: no volume of it is left"})
				}
			}
			setCondition(e.store, v1alpha1.ConditionUnderReplicated, metav1.ConditionTrue, v1alpha1.ReasonGroupFrozen, "coordinator 1 of virginia is frozen")
		},
		"doctor-region-away": func(e *evidence) {
			setCondition(e.store, v1alpha1.ConditionPeersConnected, metav1.ConditionFalse, v1alpha1.ReasonPeersUnreachable,
				"data centers whose shards do not answer: paris (ring europe); check them and the network to them")
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := healthy(t)
			change(e)
			var out bytes.Buffer
			if err := writeFindings(&out, e.store, e.findings()); err != nil {
				t.Fatal(err)
			}
			golden(t, name, out.String())
		})
	}
}

// TestNobodyIsAdvisedToForceAPodThatHasAVolume: two processes would write to one volume.
func TestNobodyIsAdvisedToForceAPodThatHasAVolume(t *testing.T) {
	e := healthy(t)
	for i := range e.parts {
		e.nodes[e.parts[i].Spec.NodeName].Status.Conditions[0].Status = corev1.ConditionUnknown
	}
	seen := 0
	for _, f := range e.findings() {
		for _, step := range f.next {
			if bytes.Contains([]byte(step), []byte("--force")) {
				seen++
				if !bytes.Contains([]byte(f.subject), []byte("-"+plan.ComponentCache+"-")) {
					t.Errorf("%s: %s", f.subject, step)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no advice to force a cache")
	}
}
