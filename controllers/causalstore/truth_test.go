package causalstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// awaitEvent waits for an event of the namespace with a reason and words.
func (k *cluster) awaitEvent(reason, says string) {
	k.t.Helper()
	k.await("event "+reason, func() (bool, string) {
		var all eventsv1.EventList
		if err := k.client.List(k.t.Context(), &all, client.InNamespace(k.namespace)); err != nil {
			k.t.Fatal(err)
		}
		var texts []string
		for _, e := range all.Items {
			if e.Reason == reason && strings.Contains(e.Note, says) {
				return true, ""
			}
			texts = append(texts, e.Reason+": "+e.Note)
		}
		return false, strings.Join(texts, "\n")
	})
}

func TestABadImageIsDegradedAtOnceAndNamedInAnEvent(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.workloads.failWaiting("causalstore:bad", "ImagePullBackOff", "no such manifest")
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:bad" })
	c := k.awaitCondition("try", v1alpha1.ConditionDegraded, yes, v1alpha1.ReasonDataMissing)
	const says = "try-here-shard-0-0: ImageUnavailable: container middleman: ImagePullBackOff of image " +
		"causalstore:bad: no such manifest"
	if !strings.Contains(c.Message, says) {
		t.Errorf("Degraded says %q, want %q", c.Message, says)
	}
	if r := k.awaitCondition("try", v1alpha1.ConditionReady, no,
		v1alpha1.ReasonPartsNotReady); !strings.Contains(r.Message, says) {
		t.Errorf("Ready says %q", r.Message)
	}
	k.awaitEvent("ImageUnavailable", "pod try-here-shard-0-0: container middleman: ImagePullBackOff")
	if p := k.store("try").Status.Problems; len(p) != 1 || p[0].Pod != "try-here-shard-0-0" ||
		p[0].Reason != "ImageUnavailable" {
		t.Errorf("the problems are %+v", p)
	}
}

func TestAPausedStoreSaysWhatWouldChange(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", nil)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Paused = true })
	if c := k.awaitCondition("try", v1alpha1.ConditionPaused, yes, v1alpha1.ReasonPaused); !strings.Contains(c.Message,
		"nothing to change") {
		t.Errorf("Paused says %q", c.Message)
	}
	before := k.uids()
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Image = "causalstore:v2" })
	c := k.awaitCondition("try", v1alpha1.ConditionPaused, yes, v1alpha1.ReasonChangesPending)
	for _, want := range []string{"spec.image",
		"StatefulSets to change: try-here-cc, try-here-cache, try-here-shard-0, try-here-shard-1"} {
		if !strings.Contains(c.Message, want) {
			t.Errorf("Paused says %q, without %q", c.Message, want)
		}
	}
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonChangesPending)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "try-here-cache"}}
	if err := k.client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	k.await("the deleted StatefulSet among the changes", func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionPaused, yes, v1alpha1.ReasonChangesPending)
		return strings.Contains(c.Message, "StatefulSets to create: try-here-cache"), c.Message
	})
	for name, uid := range k.uids() {
		if before[name] != uid {
			t.Errorf("pod %s was restarted while the store was paused", name)
		}
	}
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.Paused = false })
	k.awaitCondition("try", v1alpha1.ConditionPaused, no, v1alpha1.ReasonNotPaused)
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
}

// silentProber is a prober that reaches no coordinator.
type silentProber struct{ *parts }

func (silentProber) Measure(context.Context, *corev1.Pod) (plan.Measure, error) {
	return plan.Measure{}, errors.New("no route to host")
}

func TestUnreachableCoordinatorsAreNamed(t *testing.T) {
	k := newCluster(t)
	k.prober = silentProber{k.parts}
	k.operator("local", "causalstore:v1")
	k.sample("three-rings.yaml", nil)
	k.awaitCondition("rings", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.await("all coordinators to be named", func() (bool, string) {
		c := k.awaitCondition("rings", v1alpha1.ConditionPeersConnected, metav1.ConditionUnknown,
			v1alpha1.ReasonPeersUnasked)
		ok := true
		for _, dc := range k.store("rings").Spec.DataCenters {
			ok = ok && strings.Contains(c.Message, fmt.Sprintf("rings-%s-cc-0 (it does not answer)", dc.Name))
		}
		return ok, c.Message
	})
	if at := k.store("rings").Status.HeartbeatTime; at == nil || time.Since(at.Time) > time.Hour {
		t.Errorf("the heartbeat is %v", at)
	}
}
