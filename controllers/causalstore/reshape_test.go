package causalstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
	"github.com/causalstore/causalstore/sidecar/process"
)

// parts play the processes in the pods as far as they are asked: the logs of coordinators, which have drained if they are not
// set, and what they do for a change of shards or coordinators.
type parts struct {
	mu   sync.Mutex
	logs map[string]plan.Measure
	says map[string]plan.Move
}

// Coordinator implements causalstore.Prober.
func (p *parts) Coordinator(_ context.Context, pod *corev1.Pod) (plan.Measure, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs[pod.Name], nil
}

func (p *parts) log(pod string, m plan.Measure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs == nil {
		p.logs = map[string]plan.Measure{}
	}
	p.logs[pod] = m
}

// Move implements causalstore.Prober.
func (p *parts) Move(_ context.Context, pod *corev1.Pod) (plan.Move, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.says[pod.Name]
	if !ok {
		return m, errors.New("it does not answer")
	}
	return m, nil
}

func (p *parts) say(epoch int64, state string, pods ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.says == nil {
		p.says = map[string]plan.Move{}
	}
	for _, pod := range pods {
		p.says[pod] = plan.Move{Epoch: epoch, State: state}
	}
}

// silence lets a part not answer any more.
func (p *parts) silence(pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.says, pod)
}

// configuration is what the parts of the data centre "here" are told.
func (k *cluster) configuration() process.Config {
	k.t.Helper()
	m := &corev1.ConfigMap{}
	k.get("try-here", m)
	var c process.Config
	if err := yaml.Unmarshal([]byte(m.Data["causalstore.yaml"]), &c); err != nil {
		k.t.Fatal(err)
	}
	return c
}

// told is what they are told of shards: epoch, how many there are and were before, addresses of middlemen.
func (k *cluster) told() string {
	c := k.configuration()
	dc, before := c.Topology.DataCenters[0], 0
	if dc.ShardsBefore != nil {
		before = *dc.ShardsBefore
	}
	return fmt.Sprintf("epoch %d: %d shards, before %d, %d addresses", c.Topology.Epoch, *dc.Shards, before, len(c.Addresses["here"].Middlemen))
}

func (k *cluster) awaitTold(want string) {
	k.t.Helper()
	k.await(want, func() (bool, string) { is := k.told(); return is == want, is })
}

// awaitMoving waits until slots move, and the message about it says something.
func (k *cluster) awaitMoving(says ...string) {
	k.t.Helper()
	k.awaitProgress(v1alpha1.ReasonMovingSlots, says...)
}

// awaitProgress waits until the store progresses for a reason, and the message about it says something.
func (k *cluster) awaitProgress(reason string, says ...string) {
	k.t.Helper()
	k.await(fmt.Sprint(says), func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionProgressing, yes, reason)
		for _, s := range says {
			if !strings.Contains(c.Message, s) {
				return false, c.Message
			}
		}
		return true, ""
	})
}

func TestShardsChangeWhileNothingRestartsAndTheOneThatLeavesGoesLast(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitTold("epoch 1: 2 shards, before 0, 2 addresses")
	before := k.uids()
	shard := func(i int) string { return fmt.Sprintf("try-here-shard-%d-0", i) }

	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Shards = 3 })
	k.awaitTold("epoch 2: 3 shards, before 2, 3 addresses")
	k.awaitMoving("here from 2 to 3", shard(0)+" cannot be asked: it does not answer")
	k.await("pods to hear of it", func() (bool, string) {
		p := &corev1.Pod{}
		k.get(shard(0), p)
		return p.Annotations[plan.AnnotationEpoch] == "2", fmt.Sprint(p.Annotations)
	})
	app := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: k.namespace, Labels: map[string]string{inject.LabelStore: "try"},
		Annotations: map[string]string{inject.AnnotationInjected: "try/here"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "app", Image: "app", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}}
	if err := k.client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	k.await("pods of apps to hear of it", func() (bool, string) {
		p := &corev1.Pod{}
		k.get("app", p)
		return p.Annotations[plan.AnnotationEpoch] == "2", fmt.Sprint(p.Annotations)
	})
	if err := k.client.Delete(t.Context(), app, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	k.parts.say(2, "copying", shard(0), shard(1), shard(2))
	k.awaitMoving(shard(2) + " is copying")

	// A change of mind comes after what is under way, and so does another image; another operator goes on with both.
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Shards, s.Spec.Image = 2, "causalstore:v2" })
	k.awaitMoving("comes after that: here to 2", "5 pods are to be restarted after that")
	stop()
	k.operator("local", "causalstore:v1")
	k.parts.say(2, "done", shard(0), shard(1))
	k.awaitMoving(shard(2) + " is copying")
	k.awaitTold("epoch 2: 3 shards, before 2, 3 addresses")
	now := k.uids()
	delete(now, shard(2))
	if d := cmp.Diff(before, now); d != "" {
		t.Errorf("pods restarted while slots moved (-before +after):\n%s", d)
	}

	k.parts.say(2, "done", shard(2))
	k.awaitTold("epoch 4: 2 shards, before 3, 3 addresses")
	for name, uid := range k.uids() {
		if before[name] == uid {
			t.Errorf("slots move again, and %s does not have the new image yet", name)
		}
	}
	k.parts.say(4, "done", shard(0), shard(1), shard(2))
	k.awaitMoving(shard(2) + " is done")
	if !k.exists("try-here-shard-2", &appsv1.StatefulSet{}) {
		t.Error("a shard is taken away before its slots have gone")
	}
	k.parts.say(4, "gone", shard(2))
	k.awaitTold("epoch 5: 2 shards, before 0, 2 addresses")
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.await("the shard to have gone", func() (bool, string) {
		claim := &corev1.PersistentVolumeClaim{}
		claimed := k.exists("data-"+shard(2), claim) && claim.DeletionTimestamp == nil
		set, pod := k.exists("try-here-shard-2", &appsv1.StatefulSet{}), k.exists(shard(2), &corev1.Pod{})
		return !claimed && !set && !pod, fmt.Sprintf("StatefulSet %t, pod %t, claim %t", set, pod, claimed)
	})
	kept := &corev1.PersistentVolumeClaim{}
	if k.get("data-"+shard(1), kept); kept.DeletionTimestamp != nil {
		t.Error("the volume of a shard that stays is deleted")
	}
	if s := k.store("try").Status.DataCenters[0].Shards; s != (v1alpha1.Count{Ready: 2, Desired: 2, Updated: 2}) {
		t.Errorf("shards: %+v", s)
	}
}
