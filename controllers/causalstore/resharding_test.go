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
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
	"github.com/causalstore/causalstore/controllers/inject"
)

// parts answer for the processes in the pods: with the measures of coordinators, whose logs have drained if nothing was
// set, and with readiness reports.
type parts struct {
	mu       sync.Mutex
	measures map[string]plan.Measure
	reports  map[string]contract.Readiness
	// others is what parts without a report of their own say, unless it is nil.
	others *contract.Readiness
}

func newParts() *parts {
	return &parts{measures: map[string]plan.Measure{}, reports: map[string]contract.Readiness{}}
}

// Measure implements causalstore.Prober.
func (p *parts) Measure(_ context.Context, pod *corev1.Pod) (plan.Measure, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.measures[pod.Name], nil
}

func (p *parts) setMeasure(pod string, m plan.Measure) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measures[pod] = m
}

// Readiness implements causalstore.Prober.
func (p *parts) Readiness(_ context.Context, pod *corev1.Pod) (contract.Readiness, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.reports[pod.Name]
	switch {
	case ok:
	case p.others != nil:
		r = *p.others
	default:
		return r, errors.New("it does not answer")
	}
	return r, nil
}

// setShards sets the state of a change of shards that middlemen report.
func (p *parts) setShards(epoch uint64, state contract.ReshardingState, pods ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		p.reports[pod] = contract.Readiness{Epoch: epoch, Shards: state}
	}
}

// silence makes a part unreachable.
func (p *parts) silence(pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reports, pod)
}

// configuration returns the configuration of the parts of the data center "here".
func (k *cluster) configuration() contract.Config {
	k.t.Helper()
	m := &corev1.ConfigMap{}
	k.get("try-here", m)
	var c contract.Config
	if err := yaml.Unmarshal([]byte(m.Data["causalstore.yaml"]), &c); err != nil {
		k.t.Fatal(err)
	}
	return c
}

// shards describes the configured shards: the epoch, their number now and before, and the number of addresses of
// middlemen.
func (k *cluster) shards() string {
	c := k.configuration()
	dc, before := c.Topology.DataCenters[0], 0
	if dc.ShardsBefore != nil {
		before = *dc.ShardsBefore
	}
	return fmt.Sprintf("epoch %d: %d shards, before %d, %d addresses", c.Topology.Epoch, *dc.Shards, before,
		len(c.Addresses["here"].Middlemen))
}

func (k *cluster) awaitShards(want string) {
	k.t.Helper()
	k.await(want, func() (bool, string) { is := k.shards(); return is == want, is })
}

// awaitResharding waits until slots move, and the message contains some texts.
func (k *cluster) awaitResharding(texts ...string) {
	k.t.Helper()
	k.awaitProgress(v1alpha1.ReasonMovingSlots, texts...)
}

// awaitProgress waits until the store progresses for a reason, and the message contains some texts.
func (k *cluster) awaitProgress(reason string, texts ...string) {
	k.t.Helper()
	k.await(fmt.Sprint(texts), func() (bool, string) {
		c := k.awaitCondition("try", v1alpha1.ConditionProgressing, yes, reason)
		for _, text := range texts {
			if !strings.Contains(c.Message, text) {
				return false, c.Message
			}
		}
		return true, ""
	})
}

func TestReshardingRestartsNothingAndRemovesAShardLast(t *testing.T) {
	k := newCluster(t)
	k.prober = k.parts
	stop := k.operator("local", "causalstore:v1")
	k.sample("one-data-center.yaml", func(s *v1alpha1.CausalStore) { s.Spec.DeletionPolicy = v1alpha1.DeletionDelete })
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.awaitShards("epoch 1: 2 shards, before 0, 2 addresses")
	before := k.uids()
	shard := func(i int) string { return fmt.Sprintf("try-here-shard-%d-0", i) }

	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Shards = 3 })
	k.awaitShards("epoch 2: 3 shards, before 2, 3 addresses")
	k.awaitResharding("here from 2 to 3", shard(0)+" is unreachable: it does not answer")
	k.await("pods to be notified", func() (bool, string) {
		p := &corev1.Pod{}
		k.get(shard(0), p)
		return p.Annotations[plan.AnnotationEpoch] == "2", fmt.Sprint(p.Annotations)
	})
	app := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: k.namespace,
		Labels:      map[string]string{inject.LabelStore: "try"},
		Annotations: map[string]string{inject.AnnotationInjected: "try/here"}},
		Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "app", Image: "app", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr(false),
				Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}}
	if err := k.client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	k.await("pods of apps to be notified", func() (bool, string) {
		p := &corev1.Pod{}
		k.get("app", p)
		return p.Annotations[plan.AnnotationEpoch] == "2", fmt.Sprint(p.Annotations)
	})
	if err := k.client.Delete(t.Context(), app, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	k.parts.setShards(2, contract.ReshardingCopying, shard(0), shard(1), shard(2))
	k.awaitResharding(shard(2) + " is copying")

	// Another change waits for the one in progress, and so does another image; another operator continues with both.
	k.update("try", func(s *v1alpha1.CausalStore) { s.Spec.DataCenters[0].Shards, s.Spec.Image = 2, "causalstore:v2" })
	k.awaitResharding("requested next: here to 2", "5 pods have to restart after that")
	stop()
	k.operator("local", "causalstore:v1")
	k.parts.setShards(2, contract.ReshardingDone, shard(0), shard(1))
	k.awaitResharding(shard(2) + " is copying")
	k.awaitShards("epoch 2: 3 shards, before 2, 3 addresses")
	now := k.uids()
	delete(now, shard(2))
	if d := cmp.Diff(before, now); d != "" {
		t.Errorf("pods restarted while slots moved (-before +after):\n%s", d)
	}

	k.parts.setShards(2, contract.ReshardingDone, shard(2))
	k.awaitShards("epoch 4: 2 shards, before 3, 3 addresses")
	for name, uid := range k.uids() {
		if before[name] == uid {
			t.Errorf("slots move again before %s has the new image", name)
		}
	}
	k.parts.setShards(4, contract.ReshardingDone, shard(0), shard(1), shard(2))
	k.awaitResharding(shard(2) + " is done")
	if !k.exists("try-here-shard-2", &appsv1.StatefulSet{}) {
		t.Error("a shard is removed before its slots have moved")
	}
	k.parts.setShards(4, contract.ReshardingGone, shard(2))
	k.awaitShards("epoch 5: 2 shards, before 0, 2 addresses")
	k.awaitCondition("try", v1alpha1.ConditionProgressing, no, v1alpha1.ReasonUpToDate)
	k.awaitCondition("try", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	k.await("the shard to be deleted", func() (bool, string) {
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
