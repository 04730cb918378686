package kubectl

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// healthy returns the evidence on a store without a problem.
func healthy(t *testing.T) *evidence {
	w := newFixture(t)
	s := w.store
	s.Status.ObservedGeneration, s.Status.HeartbeatTime = s.Generation,
		&metav1.Time{Time: testTime.Add(-40 * time.Second)}
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
	for _, name := range v1alpha1.ConditionTypes() {
		setCondition(s, name, v1alpha1.HealthyStatus(name), "AsItShouldBe", "all is well")
	}
	setCondition(s, v1alpha1.ConditionTopologyValid, metav1.ConditionTrue, v1alpha1.ReasonTopologyAccepted,
		"topology epoch 1")
	e := &evidence{store: s, parts: w.parts, nodes: map[string]*corev1.Node{},
		claims: map[string]*corev1.PersistentVolumeClaim{}, now: testTime}
	for name := range w.zoneOf {
		e.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	}
	e.operator = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system", Name: "causalstore-1"},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}
	e.leases = map[string]*coordinationv1.Lease{"us": leaseOf("us", testTime.Add(-5*time.Second))}
	for i := range e.parts {
		if p := &e.parts[i]; p.Labels[plan.LabelComponent] != plan.ComponentCache {
			e.claims["data-"+
				p.Name] = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace,
				Name: "data-" + p.Name, Labels: p.Labels},
				Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + p.Name},
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
		}
	}
	return e
}

// leaseOf returns the lease that the operator of a region has renewed.
func leaseOf(region string, renewed time.Time) *coordinationv1.Lease {
	holder, seconds, at := "causalstore-1", int32(15), metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "causalstore-system",
		Name: plan.LeaseName(region)},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

func setCondition(s *v1alpha1.CausalStore, name string, is metav1.ConditionStatus, reason, message string) {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == name {
			s.Status.Conditions[i].Status, s.Status.Conditions[i].Reason, s.Status.Conditions[i].Message = is,
				reason, message
			return
		}
	}
	s.Status.Conditions = append(s.Status.Conditions,
		metav1.Condition{Type: name, Status: is, Reason: reason, Message: message})
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
			pod("orders-virginia-shard-1-0").Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "middleman",
				Image: "causalstore:v9",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
					Message: "not found"}}}}
			pod("orders-virginia-cc-1").Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "coordinator",
				RestartCount: 7,
				State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"},
				},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137,
					Reason: "OOMKilled"}}}}
			pod("orders-oregon-shard-0-0")
			pod("orders-oregon-cache-0")
			for _, node := range []string{"node-us-c", "node-us-d"} {
				e.nodes[node].Status.Conditions[0].Status = corev1.ConditionUnknown
				e.nodes[node].Status.Conditions[0].Message = "Kubelet stopped posting node status."
			}
			pending := pod("orders-oregon-cc-0")
			pending.Spec.NodeName = ""
			pending.Status.Conditions = append(pending.Status.Conditions,
				corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
					Message: "0/4 nodes are available: 4 node(s) didn't match PersistentVolume's node affinity."})
			e.claims["data-orders-oregon-cc-0"] = &corev1.PersistentVolumeClaim{
				Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost},
			}
			e.store.Status.HeartbeatTime = &metav1.Time{Time: testTime}
			e.store.Status.Rings[0].Availability, e.store.Status.Rings[0].Message = v1alpha1.RingUnavailable,
				"ready: oregon has 0 of 1 shards"
			setCondition(e.store, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPartsNotReady,
				"parts are missing")
			setCondition(e.store, v1alpha1.ConditionPeersConnected, metav1.ConditionUnknown,
				v1alpha1.ReasonPeersUnasked, "coordinators whose lag is unknown: orders-oregon-cc-0")
		},
		"doctor-operator-away": func(e *evidence) {
			e.store.Status.HeartbeatTime, e.operator = &metav1.Time{Time: testTime.Add(-time.Hour)}, nil
			e.parts = e.parts[1:]
		},
		"doctor-claim-deleted": func(e *evidence) {
			deleteClaim(e, "data-orders-virginia-shard-0-0")
			setCondition(e.store, v1alpha1.ConditionVolumesKept, metav1.ConditionFalse, v1alpha1.ReasonClaimTerminating,
				"claims that were deleted while a pod uses them: data-orders-virginia-shard-0-0")
		},
		"doctor-deletion-hangs": func(e *evidence) {
			e.operator, e.leases["us"] = nil, nil
			e.store.DeletionTimestamp, e.store.Finalizers = &metav1.Time{Time: testTime.Add(-10 * time.Minute)},
				[]string{v1alpha1.Finalizer}
		},
		"doctor-paused": func(e *evidence) {
			setCondition(e.store, v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonChangesPending,
				"what it would change: spec.image")
			e.sidecars = []sidecarProblem{{namespace: "web", pod: "app-1",
				text: "no sidecar: the webhook did not answer when the pod was created"}}
			e.unread = []string{"nodes"}
		},
		"doctor-single-zone": func(e *evidence) {
			e.store.Spec.Placement = v1alpha1.PlacementSingleZone
			setCondition(e.store, v1alpha1.ConditionTopologyValid, metav1.ConditionTrue, v1alpha1.ReasonSingleZone,
				"topology epoch 1; nothing protects from the loss of the zone")
		},
		"doctor-edges": func(e *evidence) {
			e.store.Status.DataCenters[0].Edge = &v1alpha1.EdgeStatus{Pods: v1alpha1.Count{Ready: 1, Desired: 2,
				Updated: 2}}
			setCondition(e.store, v1alpha1.ConditionEdgesReady, metav1.ConditionFalse, v1alpha1.ReasonEdgesMissing,
				"edge pods that serve: virginia has 1 of 2")
			pod := e.parts[0].DeepCopy()
			pod.Name, pod.Labels[plan.LabelComponent] = "orders-virginia-edge-7d9c-x2x4f", plan.ComponentEdge
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "envoy", Image: "envoy:v9",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
					Message: "not found"}}}}
			ending := pod.DeepCopy()
			ending.Name, ending.DeletionTimestamp = "orders-virginia-edge-5c6f-9k2lm", &metav1.Time{Time: testTime}
			e.parts = append(e.parts, *pod, *ending)
		},
		"doctor-groups": func(e *evidence) {
			for i := range e.store.Status.DataCenters {
				if d := &e.store.Status.DataCenters[i]; d.Name == "virginia" {
					d.Groups = append(groupsOfVirginia(),
						v1alpha1.GroupStatus{Part: "shard", Index: 0, Wanted: 2,
							Problem: "lost: no volume of it is left"})
				}
			}
			setCondition(e.store, v1alpha1.ConditionUnderReplicated, metav1.ConditionTrue, v1alpha1.ReasonGroupFrozen,
				"coordinator 1 of virginia is frozen")
		},
		"doctor-region-away": func(e *evidence) {
			setCondition(e.store, v1alpha1.ConditionPeersConnected, metav1.ConditionFalse,
				v1alpha1.ReasonPeersUnreachable,
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

// deleteClaim marks a claim as deleted, as Kubernetes keeps it while its pod is there.
func deleteClaim(e *evidence, name string) {
	e.claims[name].DeletionTimestamp = &metav1.Time{Time: testTime.Add(-time.Minute)}
}

// text returns what the doctor says.
func text(t *testing.T, e *evidence) string {
	t.Helper()
	var out bytes.Buffer
	if err := writeFindings(&out, e.store, e.findings()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestEachConditionThatIsNotAsItShouldBeIsAFinding: with the level that its status asks for, the message, and never
// together with "no problem found" if it is one.
func TestEachConditionThatIsNotAsItShouldBeIsAFinding(t *testing.T) {
	for _, name := range v1alpha1.ConditionTypes() {
		opposite := metav1.ConditionFalse
		if v1alpha1.HealthyStatus(name) == metav1.ConditionFalse {
			opposite = metav1.ConditionTrue
		}
		for is, want := range map[metav1.ConditionStatus]level{opposite: levelProblem,
			metav1.ConditionUnknown: levelNote} {
			if name == v1alpha1.ConditionProgressing {
				want = levelNote
			}
			t.Run(name+" "+string(is), func(t *testing.T) {
				e := healthy(t)
				setCondition(e.store, name, is, "SomeReason", "because of a test")
				found := false
				for _, f := range e.findings() {
					if f.subject == "condition "+name {
						found = true
						if f.level != want || f.text != string(is)+", SomeReason: because of a test" {
							t.Errorf("%+v", f)
						}
						if f.level == levelProblem && len(f.next) == 0 {
							t.Errorf("nothing is said to do about it: %+v", f)
						}
					}
				}
				if said := strings.Contains(text(t, e), "no problem found"); !found || said != (want == levelNote) {
					t.Errorf("a finding: %t; no problem found: %t", found, said)
				}
			})
		}
		t.Run(name+" missing", func(t *testing.T) {
			e := healthy(t)
			meta.RemoveStatusCondition(&e.store.Status.Conditions, name)
			want := "condition " + name + ": not known"
			if said := strings.Contains(text(t, e), want); said != (name != v1alpha1.ConditionDrillPassed) {
				t.Errorf("%q: %t", want, said)
			}
		})
	}
}

// TestTheDoctorDoesNotTakeAnOldStatusForThePresent: an operator that is gone leaves a heartbeat that is young for
// minutes.
func TestTheDoctorDoesNotTakeAnOldStatusForThePresent(t *testing.T) {
	for name, change := range map[string]func(*evidence){
		"scaled to 0": func(e *evidence) { e.operator = nil },
		"not ready": func(e *evidence) {
			e.operator[0].Status.Conditions[0].Status = corev1.ConditionFalse
		},
		"another one is there":   func(e *evidence) { e.leases["us"] = nil },
		"it has given its lease": func(e *evidence) { e.leases["us"].Spec.HolderIdentity = nil },
		"it does not renew":      func(e *evidence) { e.leases["us"] = leaseOf("us", testTime.Add(-time.Minute)) },
		"an old heartbeat": func(e *evidence) {
			e.store.Status.HeartbeatTime = &metav1.Time{Time: testTime.Add(-time.Hour)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := healthy(t)
			change(e)
			says := text(t, e)
			for _, want := range []string{"PROBLEM  operator: ", "what they are now is not known", "Not known: ",
				"do not take down further pods or nodes: no operator watches the store"} {
				if !strings.Contains(says, want) {
					t.Errorf("it does not say %q:\n%s", want, says)
				}
			}
		})
	}
	e := healthy(t)
	e.operator, e.leases, e.unread = nil, nil, []string{unreadOperator, unreadLeases}
	if says := text(t, e); !strings.Contains(says, "whether it runs now is not known") {
		t.Errorf("without rights it claims to know that the operator runs:\n%s", says)
	}
}

// TestNothingIsCalledSafeThatTakesAVolume: of a pod whose claim is being deleted, or of which nobody may see the
// claims.
func TestNothingIsCalledSafeThatTakesAVolume(t *testing.T) {
	const pod = "orders-virginia-shard-0-0"
	for _, serves := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		e := healthy(t)
		deleteClaim(e, "data-"+pod)
		for i := range e.parts {
			if e.parts[i].Name == pod {
				e.parts[i].Status.Conditions[0].Status = serves
			}
		}
		for _, f := range e.findings() {
			if f.safe != "" && strings.HasPrefix(f.safe, "deleting") && f.subject != "sidecars" &&
				!strings.Contains(f.subject, "cache") {
				t.Errorf("%s: safe: %s", f.subject, f.safe)
			}
		}
		if says := text(t, e); !strings.Contains(says, "do not take down further pods or nodes") ||
			!strings.Contains(says, "persistentVolumeReclaimPolicy") {
			t.Errorf("%s", says)
		}
	}
	e := healthy(t)
	e.unread, e.claims = []string{unreadClaims}, nil
	for i := range e.parts {
		if e.parts[i].Name == pod {
			e.parts[i].Status.Conditions[0].Status = corev1.ConditionFalse
		}
	}
	if says := text(t, e); strings.Contains(says, "its volume stays") {
		t.Errorf("it has not seen the claims:\n%s", says)
	}
}

// TestWhatIsSafeFollowsFromTheLayout: TestWhatIsSaidToBeSafeIs of e2e/processes does it to real processes.
func TestWhatIsSafeFollowsFromTheLayout(t *testing.T) {
	const safe = "safe: deleting one pod, or draining one node at a time"
	for name, c := range map[string]struct {
		change func(*evidence)
		says   []string
		isSafe bool
	}{
		"one data center with one ring": {func(e *evidence) {
			e.store.Spec.DataCenters = e.store.Spec.DataCenters[:1]
			e.store.Spec.Rings = []v1alpha1.Ring{{Name: "america", DataCenters: []string{"virginia"}}}
			e.parts = slices.DeleteFunc(e.parts, func(p corev1.Pod) bool {
				return p.Labels[plan.LabelDataCenter] != "virginia"
			})
			e.store.Status.DataCenters = e.store.Status.DataCenters[:1]
		},
			[]string{
				"draining node node-us-b, until its 2 pods serve elsewhere or it is back: READS OF KEYS of shard 0 " +
					"of virginia, shard 1 of virginia HAVE NO ANSWER",
				"deleting one pod, by its part: READS OF KEYS",
				"evicts its 2 shards of virginia one after the other, and waits if one cannot start elsewhere"}, false},
		// the only coordinator of oregon has its front
		"two rings": {func(*evidence) {},
			[]string{"keys of shard 0 of virginia, shard 1 of virginia are read in other rings"}, false},
		"groups of two": {func(e *evidence) {
			e.store.Spec.Storage.Replicas = 2
			for i := range e.store.Spec.DataCenters {
				e.store.Spec.DataCenters[i].Coordinators.Members = 2
			}
			second := e.parts
			for _, p := range second {
				if l := p.Labels[plan.LabelComponent]; l == plan.ComponentCache {
					continue
				}
				q := *p.DeepCopy()
				q.Name, q.Labels[plan.LabelMember], q.Spec.NodeName = q.Name+"-m2", "2", "node-of-seconds"
				e.parts = append(e.parts, q)
			}
			e.nodes["node-of-seconds"] = e.nodes["node-us-a"]
			for i := range e.store.Status.DataCenters {
				e.store.Status.DataCenters[i].Coordinators, e.store.Status.DataCenters[i].Shards = v1alpha1.Count{},
					v1alpha1.Count{}
			}
		},
			[]string{
				"draining node node-us-b, until its 2 pods serve elsewhere or it is back: another member of shard " +
					"0 of virginia, shard 1 of virginia serves within two seconds",
			}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := healthy(t)
			c.change(e)
			f := e.checkDisruption()
			says := strings.Join(append(f.costs, f.text, "safe: "+f.safe), "\n")
			for _, want := range c.says {
				if !strings.Contains(says, want) {
					t.Errorf("it does not say %q:\n%s", want, says)
				}
			}
			if is := strings.Contains(says, safe); is != c.isSafe {
				t.Errorf("called safe: %t, want %t:\n%s", is, c.isSafe, says)
			}
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
